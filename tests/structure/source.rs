//! The sources as flat lists of tokens, tests left out.
//!
//! For the tests that hold the tree to its own rules. It knows no names and expands no macros. A `#[cfg(test)] mod
//! samples;` removes the whole file `samples.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};

/// Crates whose modules are layers of the program, which names them as its own.
const OF_LAYERS: [&str; 2] = ["gate", "operate"];

/// One file.
pub(crate) struct Source {
    /// Its path without `.rs` and the folder `src` of the program or of one of [`OF_LAYERS`]; that of another crate begins with
    /// the crate's name, as in `bucket/rolling`.
    pub(crate) module: String,
    /// What `crate::` means in it: nothing, or the name of another crate.
    pub(crate) root: Option<String>,
    /// How it begins.
    pub(crate) opens_with_its_purpose: bool,
    /// Lines that are not tests.
    pub(crate) lines: usize,
    /// Tokens that are not tests; brackets of all kinds are tokens of their own, literals are `""` unless they are
    /// numbers.
    pub(crate) tokens: Vec<Token>,
}

/// A word, a mark or a bracket, and the line where it stands.
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
}

impl Source {
    /// Every file of the library and the binary, without those that only tests use.
    pub(crate) fn all() -> &'static [Self] {
        static ALL: LazyLock<Vec<Source>> = LazyLock::new(Source::read_all);
        &ALL
    }

    fn read_all() -> Vec<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut sources = Self::of_crate(&root.join("src"), None);
        for folder in fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path()) {
            let name = folder.file_name().unwrap().to_str().unwrap();
            let root = Some(name).filter(|name| !OF_LAYERS.contains(name));
            sources.extend(Self::of_crate(&folder.join("src"), root));
        }
        sources
    }

    fn of_crate(folder: &Path, name: Option<&str>) -> Vec<Self> {
        let mut test_only = BTreeSet::new();
        let sources: Vec<Self> =
            files(folder).iter().map(|path| Self::read(path, folder, name, &mut test_only)).collect();
        sources.into_iter().filter(|source| !test_only.contains(&source.module)).collect()
    }

    fn read(path: &Path, folder: &Path, root: Option<&str>, test_only: &mut BTreeSet<String>) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let path = path.strip_prefix(folder).unwrap().with_extension("").to_str().unwrap().to_owned();
        let module = match root {
            None => path,
            Some(root) if path == "lib" => root.to_owned(),
            Some(root) => format!("{root}/{path}"),
        };
        let mut tokens = Vec::new();
        flatten(text.parse().unwrap(), &mut tokens);

        let mut tests = 0;
        while let Some(at) = find(&tokens, &["#", "[", "cfg", "(", "test", ")", "]"]) {
            let end =
                at + 1 + tokens[at..].iter().position(|token| matches!(&token.text[..], "{" | ";")).unwrap();
            if let ["mod", name, ";"] = words(&tokens[end - 3..end])[..] {
                test_only.insert(format!("{module}/{name}"));
            }
            let end = if tokens[end - 1].text == "{" { closing(&tokens, end - 1) + 1 } else { end };
            tests += tokens[end - 1].line - tokens[at].line + 1;
            tokens.drain(at..end);
        }
        let opens_with_its_purpose = text.starts_with("//! ");
        let lines = text.lines().count() - tests;
        Self { module, root: root.map(str::to_owned), opens_with_its_purpose, lines, tokens }
    }

    /// What `crate::`, `self::` and `super::` lead to, from the root of the crate; lists in braces one by one.
    pub(crate) fn paths(&self) -> Vec<Vec<String>> {
        let mut paths = Vec::new();
        for at in 0..self.tokens.len() {
            let is_head = matches!(&self.tokens[at].text[..], "crate" | "self" | "super")
                && !(at > 0 && matches!(&self.tokens[at - 1].text[..], ":" | "("));
            if is_head && fits(&self.tokens[at + 1..], &[":", ":"]) {
                expand(&self.tokens, at, (&self.own_path(), self.root.as_deref()), &mut paths);
            }
        }
        paths
    }

    /// Its path, from `src` of the program or of one of [`OF_LAYERS`], or for another crate from the root of the repository.
    pub(crate) fn path(&self) -> String {
        match &self.root {
            None => format!("{}.rs", self.module),
            Some(root) if self.module == *root => format!("crates/{root}/src/lib.rs"),
            Some(root) => format!("crates/{root}/src/{}.rs", &self.module[root.len() + 1..]),
        }
    }

    fn own_path(&self) -> Vec<String> {
        self.module.split('/').map(str::to_owned).collect()
    }

    /// Where these words stand one after the other.
    pub(crate) fn positions(&self, pattern: &[&str]) -> Vec<usize> {
        (0..self.tokens.len()).filter(|&at| fits(&self.tokens[at..], pattern)).collect()
    }

    /// For a failure: where a token stands.
    pub(crate) fn place(&self, at: usize) -> String {
        format!("{}.rs:{}", self.module, self.tokens[at].line)
    }
}

/// The bracket that closes the one at `open`.
pub(crate) fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match &token.text[..] {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    unreachable!("the tokenizer takes no unbalanced brackets")
}

/// Adds the paths that begin there, and returns where the last of them ends.
fn expand(
    tokens: &[Token],
    mut at: usize,
    (so_far, root): (&[String], Option<&str>),
    paths: &mut Vec<Vec<String>>,
) -> usize {
    let mut path = so_far.to_vec();
    loop {
        match &tokens[at].text[..] {
            "crate" => path = root.into_iter().map(str::to_owned).collect(),
            "self" => {}
            "super" => drop(path.pop()),
            "{" => {
                let end = closing(tokens, at);
                at += 1;
                while at < end {
                    at = expand(tokens, at, (&path, root), paths);
                    at = (at..end).find(|&at| tokens[at].text == ",").unwrap_or(end) + 1;
                }
                return end;
            }
            name => path.push(name.to_owned()),
        }
        if !fits(&tokens[at + 1..], &[":", ":"]) || tokens[at + 3].text == "<" {
            paths.push(path);
            return at + 1;
        }
        at += 3;
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let of_entry = |path: PathBuf| match path.extension() {
        _ if path.is_dir() => files(&path),
        Some(extension) if extension == "rs" => vec![path],
        _ => Vec::new(),
    };
    entries.into_iter().flat_map(of_entry).collect()
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let token = |text: &str, span: Span| Token { text: text.to_owned(), line: span.start().line };
    for tree in stream {
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                tokens.push(token(open, group.span_open()));
                flatten(group.stream(), tokens);
                tokens.push(token(close, group.span_close()));
            }
            TokenTree::Ident(ident) => tokens.push(token(&ident.to_string(), ident.span())),
            TokenTree::Punct(mark) => tokens.push(token(&mark.to_string(), mark.span())),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                let is_number = text.starts_with(|c: char| c.is_ascii_digit());
                tokens.push(token(if is_number { &text } else { "\"\"" }, literal.span()));
            }
        }
    }
}

fn find(tokens: &[Token], pattern: &[&str]) -> Option<usize> {
    (0..tokens.len()).find(|&at| fits(&tokens[at..], pattern))
}

fn fits(tokens: &[Token], pattern: &[&str]) -> bool {
    tokens.len() >= pattern.len() && tokens.iter().zip(pattern).all(|(token, word)| token.text == **word)
}

fn words(tokens: &[Token]) -> Vec<&str> {
    tokens.iter().map(|token| &token.text[..]).collect()
}
