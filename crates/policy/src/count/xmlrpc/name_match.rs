//! Compares a text that comes in pieces with a name.
//!
//! It keeps no text; [`counter`](super::counter) decides what a match means.

/// The state of the comparison.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NameMatch {
    /// The number of visible characters so far that match the name.
    matched: usize,
    /// Whether an invisible byte came after the first visible one.
    blank: bool,
    /// Whether the text differs from the name.
    other: bool,
}

impl NameMatch {
    /// Takes the next byte. Case does not matter, nor do bytes before and after the name that are not visible ASCII.
    pub(super) fn push(&mut self, byte: u8, name: &[u8]) {
        if self.other {
            return;
        }
        if !byte.is_ascii_graphic() {
            self.blank = self.matched > 0;
            return;
        }
        let expected = name.get(self.matched).is_some_and(|letter| letter.eq_ignore_ascii_case(&byte));
        self.other = self.blank || !expected;
        self.matched += 1;
    }

    /// Whether the text is the name.
    pub(super) fn is(&self, name: &[u8]) -> bool {
        !self.other && self.matched == name.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_around_and_letter_case_do_not_count() {
        let is = |text: &str| {
            let mut seen = NameMatch::default();
            text.bytes().for_each(|byte| seen.push(byte, b"methodName"));
            seen.is(b"methodName")
        };
        for text in ["methodName", " \n\tMETHODNAME\u{a0}", "\u{feff}methodname\u{b}"] {
            assert!(is(text), "{text:?}");
        }
        for text in ["", "methodNam", "methodName2", "method Name", "xmethodName", "methodName x"] {
            assert!(!is(text), "{text:?}");
        }
    }
}
