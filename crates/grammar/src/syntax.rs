//! Texts of a grammar: a type that only a valid text can make, and why another one does not fit.

use std::ops::Range;
use std::str::FromStr;

use super::diagnostic::{Findings, Spot};
use super::document::Located;
use super::schema::Schema;

/// Why a text does not fit its grammar.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}{hint}", if hint.is_empty() { "" } else { ": " })]
pub struct Mistake {
    /// What is wrong.
    pub message: String,
    /// What would be right; empty if the message says it.
    pub hint: String,
    /// The bytes of the text that are wrong; `None` means all of it.
    pub part: Option<Range<usize>>,
}

impl Mistake {
    /// A mistake of the whole text.
    #[must_use]
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into(), part: None }
    }
}

/// A text of a grammar.
pub trait Syntax: FromStr<Err = Mistake> {
    /// The grammar as far as a regular expression says it; `None` for one that says next to nothing.
    fn pattern() -> Option<String>;

    /// What a schema says of such a text.
    #[must_use]
    fn schema() -> Schema {
        Self::pattern().map_or_else(Schema::text, Schema::pattern)
    }

    /// Reads a text; `None` after its mistake was reported.
    fn read(text: &Located<String>, f: &mut Findings) -> Option<Self> {
        match text.value.parse() {
            Ok(value) => Some(value),
            Err(mistake) => {
                refuse(&text.spot, &text.value, mistake, f);
                None
            }
        }
    }
}

/// Reports a text that does not fit its grammar.
pub fn refuse(spot: &Spot, text: &str, mistake: Mistake, f: &mut Findings) {
    let spot = mistake.part.map_or_else(|| spot.clone(), |part| spot.part(text, part));
    f.error(&spot, mistake.message, mistake.hint);
}

/// Leading ASCII digits as a number, and what follows; `None` without digits or beyond 64 bits.
#[must_use]
pub fn leading_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}
