//! The small grammars of the file: durations, sizes, rates, prefixes, addresses, keys.
//!
//! Each is a type that only a valid text can make (`FromStr`), and an error names the part of the text that the caret
//! points at. Nothing here knows the key that a text belongs to.

mod address;
mod cookie;
mod count;
mod duration;
mod field;
mod key;
mod prefix;
mod rate;
mod size;
mod syslog;

pub use address::{CollectorUrl, ListenUrl, UpstreamHostValue, UpstreamUrl};
pub use cookie::{CookieName, SessionCookieName};
pub use count::CountValue;
pub use duration::{Duration, in_words};
pub use field::FieldValue;
pub use key::LimitKey;
pub use prefix::Prefix;
pub use rate::RateValue;
pub use size::Size;
pub use syslog::SyslogTarget;

use std::ops::Range;

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
    pub(super) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into(), part: None }
    }
}

/// Leading ASCII digits as a number, and what follows; `None` without digits or beyond 64 bits.
fn leading_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}
