//! Whether a text that comes in pieces is a certain name, compared as it comes.

/// A text as far as it has come.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NameMatch {
    /// Visible letters so far, all of them those of the name.
    matched: usize,
    /// Something invisible came after the first visible letter.
    blank: bool,
    /// It is another text.
    other: bool,
}

impl NameMatch {
    /// Takes the next byte. Letter case does not count, nor does anything before and after that is not visible ASCII.
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

    /// Whether it is the name.
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
