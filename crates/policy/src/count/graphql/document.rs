//! What a server resolves of one GraphQL document (specification of October 2021, sections 2 and 6).
//!
//! It takes every document that a server may take, and more: what matters are names, brackets, texts and comments. The
//! dearest operation counts, with each fragment as often as it is spread, whatever `@skip` and `@include` say.

use std::collections::HashMap;

/// The number of these fields that the dearest operation resolves; `None` if this is not a document.
pub(super) fn count(text: &[u8], fields: &[String]) -> Option<u32> {
    let read = |has_blocks| DocumentReader::read(Lexer { rest: text, has_blocks }, fields)?.dearest();
    // Servers before 2018 take a block for an empty text and the begin of another.
    let has_blocks = memchr::memmem::find(text, BLOCK).is_some();
    let (one, other) = (read(true), if has_blocks { read(false) } else { None });
    one.max(other)
}

/// A token, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Token<'t> {
    Name(&'t [u8]),
    Text,
    Spread,
    Byte(u8),
}

/// Splits a text into tokens. An error is a text without an end.
struct Lexer<'t> {
    rest: &'t [u8],
    /// Whether three quotes begin a block.
    has_blocks: bool,
}

impl<'t> Iterator for Lexer<'t> {
    type Item = Result<Token<'t>, UnendedText>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (&first, after) = self.rest.split_first()?;
            match first {
                b'#' => {
                    let end = after.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
                    self.rest = &after[end.unwrap_or(after.len())..];
                }
                b'"' => return Some(self.skip_text().ok_or(UnendedText)),
                b'.' if after.starts_with(b"..") => {
                    self.rest = &after[2..];
                    return Some(Ok(Token::Spread));
                }
                b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                    let is_letter = |byte: &u8| *byte == b'_' || byte.is_ascii_alphanumeric();
                    let end = self.rest.iter().position(|byte| !is_letter(byte)).unwrap_or(self.rest.len());
                    let (name, rest) = self.rest.split_at(end);
                    self.rest = rest;
                    return Some(Ok(Token::Name(name)));
                }
                b':' | b'@' | b'(' | b')' | b'[' | b']' | b'{' | b'}' => {
                    self.rest = after;
                    return Some(Ok(Token::Byte(first)));
                }
                // Blanks, commas, digits, and what no field needs.
                _ => self.rest = after,
            }
        }
    }
}

/// A text that does not end.
struct UnendedText;

impl<'t> Lexer<'t> {
    fn skip_text(&mut self) -> Option<Token<'t>> {
        let is_block = self.has_blocks && self.rest.starts_with(BLOCK);
        let quote = if is_block { BLOCK } else { &BLOCK[..1] };
        let mut rest = &self.rest[quote.len()..];
        while !rest.starts_with(quote) {
            let escaped = match rest {
                [b'\\', b'"', b'"', b'"', ..] if is_block => 4,
                [b'\\', ..] if !is_block => 2,
                _ => 1,
            };
            rest = rest.get(escaped..)?;
        }
        self.rest = &rest[quote.len()..];
        Some(Token::Text)
    }
}

/// An operation or a fragment.
#[derive(Default)]
struct Definition<'t> {
    /// The fields that it names itself.
    fields: u32,
    spreads: Vec<&'t [u8]>,
}

/// The definitions of a document.
#[derive(Default)]
struct Definitions<'t> {
    all: Vec<Definition<'t>>,
    /// The position of each fragment.
    fragments: HashMap<&'t [u8], usize>,
}

/// What came before the next token.
#[derive(Clone, Copy)]
enum Before {
    Nothing,
    /// A name that is a field, unless a colon makes an alias of it.
    Field {
        is_ours: bool,
    },
    Spread,
    /// A directive's `@`, or `on` before a type.
    NoField,
    /// `fragment`.
    Fragment,
}

struct DocumentReader<'t, 'f> {
    ours: &'f [String],
    found: Definitions<'t>,
    current: Definition<'t>,
    /// The fragment that is defined.
    fragment: Option<&'t [u8]>,
    /// All spreads so far.
    spreads: usize,
    /// Open selection sets.
    depth: usize,
    /// Open brackets of arguments and variables.
    values: Vec<u8>,
    before: Before,
}

impl<'t, 'f> DocumentReader<'t, 'f> {
    fn read(tokens: Lexer<'t>, ours: &'f [String]) -> Option<Definitions<'t>> {
        let mut reader = Self {
            ours,
            found: Definitions::default(),
            current: Definition::default(),
            fragment: None,
            spreads: 0,
            depth: 0,
            values: Vec::new(),
            before: Before::Nothing,
        };
        for token in tokens {
            reader.token(token.ok()?)?;
            if reader.found.all.len() > MAX_DEFINITIONS || reader.spreads > MAX_SPREADS {
                return None;
            }
        }
        let is_whole = reader.depth == 0 && reader.values.is_empty() && !reader.found.all.is_empty();
        is_whole.then_some(reader.found)
    }

    /// `None` if this is not a document.
    fn token(&mut self, token: Token<'t>) -> Option<()> {
        if !self.values.is_empty() {
            return self.value(token);
        }
        self.before = match token {
            Token::Byte(open @ (b'(' | b'[')) => {
                self.values.push(open);
                Before::Nothing
            }
            Token::Byte(b'{') => {
                self.depth += 1;
                Before::Nothing
            }
            Token::Byte(b'}') => {
                self.depth = self.depth.checked_sub(1)?;
                if self.depth == 0 {
                    self.found.add(self.fragment.take(), std::mem::take(&mut self.current));
                }
                Before::Nothing
            }
            Token::Byte(b':') => {
                if let Before::Field { is_ours: true } = self.before {
                    self.current.fields = self.current.fields.saturating_sub(1);
                }
                Before::Nothing
            }
            Token::Byte(b'@') => Before::NoField,
            Token::Byte(_) => return None,
            Token::Spread => Before::Spread,
            Token::Name(name) if self.depth > 0 => self.selected(name),
            Token::Name(name) => self.header(name),
            // A description comes before a definition.
            Token::Text if self.depth == 0 => Before::Nothing,
            Token::Text => return None,
        };
        Some(())
    }

    /// Within arguments or variables only their end matters.
    fn value(&mut self, token: Token<'t>) -> Option<()> {
        match token {
            Token::Byte(open @ (b'(' | b'[' | b'{')) => self.values.push(open),
            Token::Byte(close @ (b')' | b']' | b'}')) => {
                let is_pair =
                    matches!((self.values.pop()?, close), (b'(', b')') | (b'[', b']') | (b'{', b'}'));
                return is_pair.then_some(());
            }
            _ => {}
        }
        Some(())
    }

    /// A name outside of selection sets: only that of a fragment matters.
    fn header(&mut self, name: &'t [u8]) -> Before {
        match self.before {
            Before::NoField => return Before::Nothing,
            Before::Fragment => self.fragment = Some(name),
            _ if name == b"fragment" => return Before::Fragment,
            _ => {}
        }
        Before::Nothing
    }

    fn selected(&mut self, name: &'t [u8]) -> Before {
        match self.before {
            Before::NoField => Before::Nothing,
            Before::Spread if name == b"on" => Before::NoField,
            Before::Spread => {
                self.spreads += 1;
                self.current.spreads.push(name);
                Before::Nothing
            }
            _ => {
                let is_ours = self.ours.iter().any(|field| field.as_bytes() == name);
                self.current.fields = self.current.fields.saturating_add(u32::from(is_ours));
                Before::Field { is_ours }
            }
        }
    }
}

impl<'t> Definitions<'t> {
    /// Adds an operation, or a fragment of this name: several of one name count together.
    fn add(&mut self, fragment: Option<&'t [u8]>, definition: Definition<'t>) {
        let known = fragment.and_then(|name| self.fragments.get(name)).and_then(|&at| self.all.get_mut(at));
        if let Some(known) = known {
            known.fields = known.fields.saturating_add(definition.fields);
            known.spreads.extend(definition.spreads);
            return;
        }
        if let Some(name) = fragment {
            self.fragments.insert(name, self.all.len());
        }
        self.all.push(definition);
    }

    /// The fields of the dearest operation; `None` if fragments contain each other, which no server resolves.
    fn dearest(self) -> Option<u32> {
        let mut fields: Vec<u32> = self.all.iter().map(|definition| definition.fields).collect();
        let mut spread_in: Vec<Vec<usize>> = vec![Vec::new(); fields.len()];
        let mut open = vec![0_usize; fields.len()];
        for (at, definition) in self.all.iter().enumerate() {
            for fragment in definition.spreads.iter().filter_map(|name| self.fragments.get(name)) {
                spread_in[*fragment].push(at);
                open[at] += 1;
            }
        }
        // Fragments first that spread none, then those that spread these: each spread is followed once.
        let mut done = Vec::with_capacity(fields.len());
        done.extend((0..fields.len()).filter(|&at| open[at] == 0));
        let mut next = 0;
        while let Some(&at) = done.get(next) {
            next += 1;
            for &user in &spread_in[at] {
                fields[user] = fields[user].saturating_add(fields[at]);
                open[user] -= 1;
                if open[user] == 0 {
                    done.push(user);
                }
            }
        }
        let dearest = fields.iter().copied().max();
        if done.len() == fields.len() { dearest } else { None }
    }
}

/// A text with more of them is not taken for a document: programs send some dozens.
const MAX_DEFINITIONS: usize = 1_000;
const MAX_SPREADS: usize = 10_000;
const BLOCK: &[u8] = b"\"\"\"";
