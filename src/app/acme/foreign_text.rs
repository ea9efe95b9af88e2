//! What others say, as it may appear in one line of a log.

/// The text without control characters, cut to a bound.
pub(super) fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_TEXT).collect()
}

const MAX_TEXT: usize = 500;
