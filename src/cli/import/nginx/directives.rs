//! The syntax of nginx: words, `;` and blocks. It knows no directive by name.
//!
//! Directives are a flat list in which each knows its parent, so that no depth of a file is a depth of calls.

/// One directive, with or without a block.
#[derive(Debug)]
pub(in crate::cli::import) struct Directive {
    /// From 1.
    pub(in crate::cli::import) line: usize,
    pub(in crate::cli::import) name: String,
    pub(in crate::cli::import) words: Vec<String>,
    pub(in crate::cli::import) parent: Option<usize>,
}

impl Directive {
    /// Its text in the file, shortened.
    pub(in crate::cli::import) fn text(&self) -> String {
        let mut text = self.name.clone();
        for word in &self.words {
            if text.len() > LONGEST_SHOWN {
                return text + " ...";
            }
            let word: String = word.chars().take(LONGEST_SHOWN).collect();
            text.push(' ');
            text.push_str(if word.is_empty() { "\"\"" } else { &word });
        }
        text
    }
}

/// A file.
#[derive(Debug, Default)]
pub(in crate::cli::import) struct Directives {
    pub(in crate::cli::import) all: Vec<Directive>,
    /// Those of each block, and those at the top as the last.
    children: Vec<Vec<usize>>,
}

impl Directives {
    pub(in crate::cli::import) fn parse(text: &str) -> Self {
        let mut file = Self::default();
        let (mut blocks, mut ignored, mut words) = (Vec::new(), 0_usize, Vec::new());
        let mut lexer =
            NginxLexer { letters: text.trim_start_matches('\u{feff}').chars().collect(), at: 0, line: 1 };
        while let Some((line, lexeme)) = lexer.next_lexeme() {
            match lexeme {
                Lexeme::Word(word) => words.push((line, word)),
                Lexeme::End => drop(file.add(&mut words, blocks.last().copied())),
                Lexeme::Open => match file.add(&mut words, blocks.last().copied()) {
                    Some(at) if blocks.len() < DEEPEST_BLOCK => blocks.push(at),
                    _ => ignored += 1,
                },
                Lexeme::Close => {
                    file.add(&mut words, blocks.last().copied());
                    match ignored {
                        0 => drop(blocks.pop()),
                        _ => ignored -= 1,
                    }
                }
            }
        }
        file.add(&mut words, blocks.last().copied());
        file.index();
        file
    }

    fn add(&mut self, words: &mut Vec<(usize, String)>, parent: Option<usize>) -> Option<usize> {
        let mut words = std::mem::take(words).into_iter();
        let (line, name) = words.next()?;
        self.all.push(Directive { line, name, words: words.map(|(_, word)| word).collect(), parent });
        Some(self.all.len() - 1)
    }

    fn index(&mut self) {
        self.children = vec![Vec::new(); self.all.len() + 1];
        for (at, directive) in self.all.iter().enumerate() {
            self.children[directive.parent.unwrap_or(self.all.len())].push(at);
        }
    }

    /// The directives of a block, or of the top of the file.
    pub(in crate::cli::import) fn children(&self, block: Option<usize>) -> &[usize] {
        self.children.get(block.unwrap_or(self.all.len())).map_or(&[], Vec::as_slice)
    }

    /// Those of a block with this name.
    pub(in crate::cli::import) fn named<'f>(
        &'f self,
        block: Option<usize>,
        name: &'f str,
    ) -> impl Iterator<Item = usize> + 'f {
        self.children(block).iter().copied().filter(move |&at| self.all[at].name == name)
    }

    /// The directives of this name that are in force in a block: those of the nearest block around it that has any.
    pub(in crate::cli::import) fn in_force(&self, block: Option<usize>, name: &str) -> Vec<usize> {
        let mut block = block;
        loop {
            let found: Vec<usize> = self.named(block, name).collect();
            match block {
                Some(at) if found.is_empty() => block = self.all[at].parent,
                _ => return found,
            }
        }
    }

    /// Whether a block is within another, at any depth.
    pub(in crate::cli::import) fn is_within(&self, block: usize, outer: Option<usize>) -> bool {
        let mut around = self.all[block].parent;
        while around != outer {
            match around {
                Some(at) => around = self.all[at].parent,
                None => return false,
            }
        }
        true
    }
}

enum Lexeme {
    Word(String),
    /// `;`
    End,
    /// `{`
    Open,
    /// `}`
    Close,
}

struct NginxLexer {
    letters: Vec<char>,
    at: usize,
    line: usize,
}

impl NginxLexer {
    fn take(&mut self) -> Option<char> {
        let letter = self.letters.get(self.at).copied()?;
        self.at += 1;
        self.line += usize::from(letter == '\n');
        Some(letter)
    }

    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    fn next_lexeme(&mut self) -> Option<(usize, Lexeme)> {
        loop {
            let line = self.line;
            let lexeme = match self.take()? {
                '#' => {
                    while self.peek().is_some_and(|letter| letter != '\n') {
                        self.take();
                    }
                    continue;
                }
                letter if letter.is_whitespace() => continue,
                ';' => Lexeme::End,
                '{' => Lexeme::Open,
                '}' => Lexeme::Close,
                quote @ ('"' | '\'') => Lexeme::Word(self.quoted(quote)),
                letter => Lexeme::Word(self.word(letter)),
            };
            return Some((line, lexeme));
        }
    }

    /// Up to the same quote; a backslash stays before all letters but quotes, for regular expressions.
    fn quoted(&mut self, quote: char) -> String {
        let mut word = String::new();
        while let Some(letter) = self.take() {
            match letter {
                _ if letter == quote => break,
                '\\' => match self.take() {
                    Some(escaped) if escaped == quote => word.push(escaped),
                    Some(escaped) => word.extend(['\\', escaped]),
                    None => {}
                },
                _ => word.push(letter),
            }
        }
        word
    }

    fn word(&mut self, first: char) -> String {
        let mut word = String::from(first);
        if first == '\\' {
            word.extend(self.take());
        }
        while let Some(letter) = self.peek() {
            let is_variable = letter == '{' && word.ends_with('$');
            if letter.is_whitespace() || letter == ';' || (letter == '{' && !is_variable) {
                break;
            }
            // A brace ends a word, unless it ends a variable's name.
            if letter == '}' && word.rsplit_once("${").is_none_or(|(_, name)| name.contains('}')) {
                break;
            }
            word.extend(self.take());
            if letter == '\\' {
                word.extend(self.take());
            }
        }
        word
    }
}

/// Blocks within blocks; nginx itself knows four or five.
const DEEPEST_BLOCK: usize = 32;
/// Letters of a directive, or of one of its words, that a comment shows.
const LONGEST_SHOWN: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_quotes_comments_and_variables_are_read() {
        let file = Directives::parse(
            "http {\n  # nothing; {\n  map $a \"b c\" { '' ${x}y; }\n  location ~ \\.php$ { a \"it's\\\"\"; }\n}\nlast",
        );
        let texts: Vec<String> = file.all.iter().map(|one| format!("{} {}", one.line, one.text())).collect();
        let expected = ["1 http", "3 map $a b c", "3  ${x}y", "4 location ~ \\.php$", "4 a it's\"", "6 last"];
        assert_eq!(texts, expected);
        assert_eq!(
            file.all.iter().map(|one| one.parent).collect::<Vec<_>>(),
            [None, Some(0), Some(1), Some(0), Some(3), None]
        );
    }

    #[test]
    fn a_block_without_an_end_and_an_end_without_a_block_are_taken_as_they_are() {
        assert_eq!(Directives::parse("} } a { b").all.len(), 2);
        let deep = "a {".repeat(100_000) + "b;" + &"}".repeat(100_000) + "c;";
        let file = Directives::parse(&deep);
        assert_eq!(file.all.last().unwrap().parent, None);
    }
}
