//! What the documents name exists: paths, links with their headings, constants, functions, types and settings.
//!
//! A path counts wherever it stands, a name in backticks only. Names of other programs are in [`FOREIGN`].

#![allow(clippy::unwrap_used, reason = "these are tests")]

use crate::source;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use source::{Source, Token, closing};

#[test]
fn every_path_in_a_document_exists() {
    demand_none(|document| document.dead_paths(&CODE));
}

#[test]
fn every_link_in_a_document_leads_to_a_file_and_a_heading() {
    demand_none(Document::dead_links);
}

/// The pages of the site, which `mdbook` makes of `docs`.
#[test]
fn every_page_is_in_the_summary_of_the_site() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let pages = files(Path::new("docs")).into_iter().filter(|path| has_extension(path, &["md"]));
    let pages = pages.map(|path| path.strip_prefix("docs").unwrap().display().to_string());
    let missing: Vec<String> =
        pages.filter(|page| page != "SUMMARY.md" && !summary.contains(&format!("]({page})"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_name_in_a_document_exists() {
    demand_none(|document| match document.path.to_str() {
        // It names what was there in its time.
        Some("CHANGELOG.md") => Vec::new(),
        _ => document.dead_names(&CODE),
    });
}

#[test]
fn a_name_that_does_not_exist_is_found() {
    let dead = [
        "src/proxy/missing.rs",
        "proxy/missing.rs",
        "missing.rs",
        "docs/missing.md",
        "scripts/missing",
        "proxy/missing",
        "cargo test --test missing",
        "[text](docs/missing.md)",
        "[text](README.md#missing)",
        "`NO_SUCH_BOUND`",
        "`NoSuchType`",
        "`no_such_function`",
        "`no_such()`",
        "`engine.no_such(spot)`",
        "`Engine::missing`",
        "`Missing::decide`",
        "`bucket::missing`",
        "`proxy.missing`",
        "`tollgate_missing_total{route}`",
        "`BACKLOG` in `net/eviction.rs`",
        "`KeyPart` (`crates/policy/src/count.rs`)",
        "`engine.rs`, `refuse` and `no_such`",
        "`net/eviction.rs`: `BACKLOG`",
    ];
    for text in dead {
        let document = Document { path: "README.md".into(), text: text.into() };
        let found = [document.dead_paths(&CODE), document.dead_links(), document.dead_names(&CODE)].concat();
        assert!(!found.is_empty(), "{text}");
    }
}

/// One Markdown file.
struct Document {
    /// From the root of the repository.
    path: PathBuf,
    text: String,
}

impl Document {
    fn all() -> Vec<Self> {
        let of_crates = entries(Path::new("crates")).into_iter().map(|folder| folder.join("README.md"));
        let own = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"];
        let own = own.map(PathBuf::from);
        let folders = ["docs", "benches", "examples"].into_iter().flat_map(|folder| files(Path::new(folder)));
        let documents = folders.filter(|path| has_extension(path, &["md"]));
        let paths = own.into_iter().chain(documents).chain(of_crates);
        paths.map(|path| Self { text: fs::read_to_string(root().join(&path)).unwrap(), path }).collect()
    }

    /// Words that look like a path of the tree, and targets that Cargo is told to run.
    fn dead_paths(&self, code: &Code) -> Vec<String> {
        let mut dead = Vec::new();
        for (at, line) in self.text.lines().enumerate() {
            let words: Vec<&str> =
                line.split(|c: char| c.is_whitespace() || "`()[],;\"'|<>=".contains(c)).collect();
            for (at_word, word) in words.iter().enumerate() {
                let word = word.trim_end_matches(['.', ':']);
                let before = at_word.checked_sub(1).map_or("", |before| words[before]);
                if (is_path(word) && !self.has_path(word, code)) || !has_target(before, word) {
                    dead.push(format!("{}:{} {word}", self.path.display(), at + 1));
                }
            }
        }
        dead
    }

    fn has_path(&self, path: &str, code: &Code) -> bool {
        // `presets/NAME.toml` stands for any file of that folder; a heading behind `#` is for `has_link`.
        let path = path.split('#').next().unwrap().split("NAME").next().unwrap();
        if !path.contains('/') {
            return code.files.iter().any(|file| file.ends_with(path));
        }
        source_folders().chain(["".into(), self.folder().to_owned()]).any(|folder| {
            let path = root().join(folder).join(path);
            path.exists() || path.with_extension("rs").exists()
        })
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap()
    }

    fn dead_links(&self) -> Vec<String> {
        let links = self.text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        let own = links.filter(|link| !link.contains("://"));
        own.filter(|link| !self.has_link(link))
            .map(|link| format!("{} -> {link}", self.path.display()))
            .collect()
    }

    fn has_link(&self, link: &str) -> bool {
        let (file, heading) = link.split_once('#').unwrap_or((link, ""));
        let path = if file.is_empty() { self.path.clone() } else { self.folder().join(file) };
        if heading.is_empty() {
            return root().join(path).exists();
        }
        let text = fs::read_to_string(root().join(path)).unwrap_or_default();
        let mut headings = text.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
        headings.any(|title| anchor(title) == heading)
    }

    fn dead_names(&self, code: &Code) -> Vec<String> {
        let text = without_blocks(&self.text);
        let pieces: Vec<&str> = text.split('`').collect();
        let mut dead = Vec::new();
        let mut line = 1;
        let mut file = None;
        for (at, piece) in pieces.iter().enumerate() {
            let is_quoted = at % 2 == 1;
            if is_quoted {
                let place = named_place(&pieces[at..]).or(file);
                let exists = place.map_or_else(|| code.has(piece), |place| code.has_in(piece, place));
                if !exists {
                    dead.push(format!("{}:{line} `{piece}`", self.path.display()));
                }
            }
            file = match *piece {
                path if is_quoted && path.ends_with(".rs") => Some(path),
                ", " | " and " | ": " => file,
                _ if is_quoted => file,
                _ => None,
            };
            line += piece.matches('\n').count();
        }
        dead
    }
}

/// The file in `NAME` in `FILE` or `NAME` (`FILE`).
fn named_place<'t>(pieces: &[&'t str]) -> Option<&'t str> {
    match pieces {
        [_, " in " | " (", place, ..] if place.ends_with(".rs") => Some(place),
        _ => None,
    }
}

static CODE: LazyLock<Code> = LazyLock::new(Code::read);

/// What the code defines.
struct Code {
    sources: &'static [Source],
    files: Vec<PathBuf>,
    /// Words of code, scripts and sample files, comments left out.
    words: BTreeSet<String>,
    /// The keys of `config.toml`, each with its section.
    settings: BTreeSet<(String, String)>,
}

impl Code {
    fn read() -> Self {
        let folders = [
            "src",
            "crates",
            "tests",
            "benches",
            "examples",
            "presets",
            "scripts",
            "fuzz/fuzz_targets",
            "models",
        ];
        let mut files: Vec<PathBuf> = folders.iter().flat_map(|folder| files(Path::new(folder))).collect();
        files.extend(["config.toml".into(), "Cargo.toml".into()]);
        files.retain(|path| {
            let is_code =
                has_extension(path, &["rs", "toml", "py", "php", "sql"]) || path.starts_with("scripts");
            is_code && !path.ends_with("structure/documents.rs")
        });
        let words = files.iter().flat_map(|path| words_of(&fs::read(root().join(path)).unwrap())).collect();
        Self { sources: Source::all(), files, words, settings: settings() }
    }

    /// Whether this, from between two backticks, exists, or is no name of ours.
    fn has(&self, quoted: &str) -> bool {
        if is_foreign(quoted) {
            return true;
        }
        if let Some((path, _)) = quoted.split_once('(') {
            let name = path.rsplit(['.', ':']).next().unwrap();
            return !path.chars().all(|c| is_word(c) || ".:".contains(c))
                || name.is_empty()
                || self.has_function(name);
        }
        if let Some((owner, member)) = quoted.rsplit_once("::") {
            let owner = owner.rsplit("::").next().unwrap();
            return ![owner, member].iter().all(|name| is_identifier(name)) || self.has_member(owner, member);
        }
        if let Some((section, key)) = quoted.split_once('.') {
            let is_section = self.settings.iter().any(|(known, _)| !known.is_empty() && known == section);
            let is_setting = is_section && is_identifier(key);
            return !is_setting || self.settings.contains(&(section.to_owned(), key.to_owned()));
        }
        if let Some(metric) = quoted.strip_prefix("tollgate_") {
            let metric = metric.split('{').next().unwrap();
            let name = format!("tollgate_{}", metric.strip_suffix("_total").unwrap_or(metric));
            return !is_identifier(&name)
                || [&name[..], quoted].iter().any(|name| self.words.contains(*name));
        }
        match quoted {
            _ if !is_identifier(quoted) || quoted.len() == 1 => true,
            constant if !constant.contains(char::is_lowercase) => {
                self.has_item(&["const", "static"], constant)
            }
            name if name.starts_with(char::is_uppercase) => {
                self.has_item(&["struct", "enum", "trait", "type"], name) || self.has_variant(name)
            }
            name => !name.contains('_') || self.words.contains(name),
        }
    }

    /// Whether the file of this path defines or uses the name.
    fn has_in(&self, quoted: &str, place: &str) -> bool {
        if !is_identifier(quoted) {
            return self.has(quoted);
        }
        // Those of crates may leave out `crates/NAME/src/`.
        let below = format!("/src/{place}");
        let is_place = |source: &&Source| source.path() == place || source.path().ends_with(&below);
        let Some(source) = self.sources.iter().find(is_place) else { return false };
        if is_foreign(quoted) {
            return !source.positions(&[quoted]).is_empty();
        }
        let definitions = ["const", "static", "struct", "enum", "trait", "type", "fn"];
        let is_defined = definitions.iter().any(|kind| !source.positions(&[kind, quoted]).is_empty());
        is_defined || !source.positions(&[quoted, ":"]).is_empty()
    }

    fn has_item(&self, kinds: &[&str], name: &str) -> bool {
        let mut sources = self.sources.iter();
        sources.any(|source| kinds.iter().any(|kind| !source.positions(&[kind, name]).is_empty()))
    }

    fn has_function(&self, name: &str) -> bool {
        self.has_item(&["fn"], name)
    }

    fn has_variant(&self, name: &str) -> bool {
        self.sources.iter().any(|source| {
            bodies(source, &["enum"], None).iter().any(|body| body.iter().any(|token| token.text == name))
        })
    }

    /// A field, variant, function or constant of a type, or an item of a module.
    fn has_member(&self, owner: &str, member: &str) -> bool {
        let kinds = ["fn", "const", "static", "struct", "enum", "trait", "type"];
        if owner.starts_with(char::is_lowercase) {
            let modules =
                || self.sources.iter().filter(|source| source.module.split('/').any(|part| part == owner));
            return modules()
                .any(|source| kinds.iter().any(|kind| !source.positions(&[kind, member]).is_empty()));
        }
        self.sources.iter().any(|source| {
            let fields = bodies(source, &["struct", "enum"], Some(owner));
            let items = bodies(source, &["impl", "trait"], Some(owner));
            let is_item = |pair: &[Token]| kinds.contains(&&pair[0].text[..]) && pair[1].text == member;
            fields.iter().any(|body| body.iter().any(|token| token.text == member))
                || items.iter().any(|body| body.windows(2).any(is_item))
        })
    }
}

/// What stands between the braces behind one of these words, where the head names the owner.
fn bodies<'s>(source: &'s Source, kinds: &[&str], owner: Option<&str>) -> Vec<&'s [Token]> {
    let tokens = &source.tokens;
    let heads = (0..tokens.len()).filter(|&at| kinds.contains(&&tokens[at].text[..]));
    let body_of = |head: usize| {
        let open = (head..tokens.len()).find(|&at| matches!(&tokens[at].text[..], "{" | ";"))?;
        let is_owner = owner.is_none_or(|owner| tokens[head..open].iter().any(|token| token.text == owner));
        (is_owner && tokens[open].text == "{").then(|| &tokens[open..closing(tokens, open)])
    };
    heads.filter_map(body_of).collect()
}

fn demand_none(dead: impl Fn(&Document) -> Vec<String>) {
    let found: Vec<String> = Document::all().iter().flat_map(dead).collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// The text with as many lines, and none of those between two fences.
fn without_blocks(text: &str) -> String {
    let mut is_block = false;
    let lines = text.lines().map(|line| {
        let is_fence = line.starts_with("```");
        is_block ^= is_fence;
        if is_block || is_fence { "" } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn is_path(word: &str) -> bool {
    // A pattern of the shell, or a directory of the reader's that a container gets.
    if word.contains(['*', ':']) {
        return false;
    }
    let Some((first, _)) = word.split_once('/') else {
        return word.ends_with(".rs");
    };
    let mut folders = source_folders().chain(["".into()]);
    let is_of_ours = folders.any(|folder| root().join(folder).join(first).is_dir());
    !first.is_empty() && first != "target" && (is_of_ours || word.ends_with(".rs"))
}

/// Where the sources of the program and of each crate begin.
fn source_folders() -> impl Iterator<Item = PathBuf> {
    let crates = entries(Path::new("crates")).into_iter().map(|folder| folder.join("src"));
    crates.chain(["src".into()])
}

/// Whether Cargo finds what such an option names.
fn has_target(option: &str, name: &str) -> bool {
    let folders = match option {
        "--test" => vec!["tests".into()],
        "--bench" => vec!["benches".into()],
        "--example" => {
            entries(Path::new("crates")).into_iter().map(|folder| folder.join("examples")).collect()
        }
        _ => return true,
    };
    folders.iter().any(|folder| {
        let path = root().join(folder).join(name);
        path.is_dir() || path.with_extension("rs").exists()
    })
}

/// The link to a heading, as GitHub makes it.
fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|&c| c.is_alphanumeric() || " -_".contains(c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn words_of(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split(|c| !is_word(c))).map(str::to_owned).collect()
}

fn is_foreign(quoted: &str) -> bool {
    FOREIGN.iter().any(|(_, names)| names.split_whitespace().any(|name| name == quoted))
}

/// Also those that stand there as a comment.
fn settings() -> BTreeSet<(String, String)> {
    let mut section = String::new();
    let mut settings = BTreeSet::new();
    for line in fs::read_to_string(root().join("config.toml")).unwrap().lines() {
        if let Some(name) = line.strip_prefix('[') {
            name.split(['.', ']']).next().unwrap().clone_into(&mut section);
        } else if let Some((key, _)) = line.trim_start_matches('#').split_once(" =") {
            settings.insert((section.clone(), key.trim().to_owned()));
        }
    }
    settings
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(is_word)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let of_entry = |path: PathBuf| match root().join(&path).is_dir() {
        true if path.ends_with("target") => Vec::new(),
        true => files(&path),
        false => vec![path],
    };
    entries(folder).into_iter().flat_map(of_entry).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    entries.map(|entry| folder.join(entry.unwrap().file_name())).collect()
}

fn has_extension(path: &Path, wanted: &[&str]) -> bool {
    path.extension().is_some_and(|extension| wanted.iter().any(|wanted| extension == *wanted))
}

/// Names in backticks that look like ours, and whose they are.
const FOREIGN: &[(&str, &str)] = &[
    ("HTTP", "CONNECT CREATE GET GOAWAY POST PUT"),
    ("headers", "Accept Authorization Expect Location Origin Proxy Range RateLimit Referer X_Forwarded_For"),
    ("words of headers", "HttpOnly Negotiate Secure SOAPAction TE Upgrade"),
    ("the PROXY protocol", "UNKNOWN UNSPEC"),
    ("the kernel", "CAP_NET_BIND_SERVICE SO_REUSEPORT TCP_NOTSENT_LOWAT io_uring perf_event_open"),
    (
        "the environment",
        "LD_PRELOAD LISTEN_FDS NO_COLOR RUST_LOG SEED TMPDIR TOLLGATE_ACME_DOMAIN TOLLGATE_BINARY",
    ),
    ("CGI and single sign-on", "REMOTE_USER SCRIPT_NAME SMUSER"),
    ("crates", "ArcSwap"),
    ("AWS", "AWS_ACCESS_KEY_ID AWS_DEFAULT_REGION AWS_REGION"),
    ("DynamoDB", "CreateTable DescribeTable DescribeTimeToLive PutItem UpdateTimeToLive"),
    ("Redis", "ASKING EXPIRE INCRBY TIME used_memory"),
    ("Envoy", "OK OVER_LIMIT enable_x_ratelimit_headers ext_authz shadow_mode status_on_error"),
    ("other proxies", "FallbackResource http_req_rate ignore_invalid_headers underscores_in_headers"),
    ("testssl.sh", "HSTS cipher_order"),
    ("applications", "back() redirect_back user_pw"),
];
