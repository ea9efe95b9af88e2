//! Text from the gate that a terminal can show.
//!
//! Names come from the configuration and addresses from clients; an escape sequence in either would command the
//! terminal of the person who looks.

use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::super::super::admin_api::plain;

/// One line without control characters and without marks that turn the direction of writing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct PlainText(String);

impl PlainText {
    pub(in super::super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&Value> for PlainText {
    fn from(value: &Value) -> Self {
        let mut text = plain(value);
        text.retain(|letter| !turns_direction(letter));
        Self(text)
    }
}

impl From<&str> for PlainText {
    fn from(text: &str) -> Self {
        Self::from(&Value::from(text))
    }
}

impl<'de> Deserialize<'de> for PlainText {
    /// Any value: what is no text is shown as JSON.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Self::from(&value))
    }
}

impl fmt::Display for PlainText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// `Bidi_Control` of Unicode (UAX 9).
fn turns_direction(letter: char) -> bool {
    matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// J1.
    #[test]
    fn no_text_of_the_gate_commands_the_terminal() {
        let hostile = json!("a\u{1b}[31mb\r\n\u{9b}2Jc\u{7f}\u{202e}d\u{2066}\0");
        assert_eq!(PlainText::from(&hostile).as_str(), "a[31mb2Jcd");
        assert_eq!(PlainText::deserialize(json!({"a": 1})).unwrap().as_str(), "{\"a\":1}");
    }
}
