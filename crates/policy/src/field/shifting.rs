//! Text that shifts between character sets by escape sequences: ISO 2022 (RFC 1468, 1557, 1922) and HZ (RFC 1843).
//!
//! ASCII stands in it as it is, but a shift to ASCII within a word hides the word. Of two-byte characters only the wide
//! letters are read, which are equal in the sets of Japan, China and Korea.

/// The text in UTF-8; two-byte characters but wide letters are no UTF-8. `by_tilde` for HZ.
pub(super) fn decode(text: &[u8], by_tilde: bool) -> Vec<u8> {
    let (mut decoded, mut rest, mut is_double) = (Vec::with_capacity(text.len()), text, false);
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (ESCAPE, _) => {
                let length = after.iter().take_while(|byte| matches!(byte, 0x20..=0x2f)).count();
                // `ESC $ ) F` only names the set that follows a shift.
                is_double = matches!(after, [b'$', next, ..] if !matches!(next, b')'..=b'+'));
                rest = after.get(length + 1..).unwrap_or_default();
            }
            (SHIFT_OUT, _) => is_double = true,
            (SHIFT_IN, _) => is_double = false,
            (b'~', [b'{' | b'}' | b'\n', after @ ..]) if by_tilde => {
                is_double = rest[0] == b'{' || (is_double && rest[0] == b'\n');
                rest = after;
            }
            (b'~', [b'~', after @ ..]) if by_tilde && !is_double => {
                decoded.push(b'~');
                rest = after;
            }
            (0x21..=0x7e, [cell, after @ ..]) if is_double => {
                decoded.push(if byte == WIDE_LETTERS { *cell } else { NO_CHARACTER });
                rest = after;
            }
            _ => decoded.push(byte),
        }
    }
    decoded
}

/// Whether a byte begins a shift.
pub(super) fn shifts(byte: u8, by_tilde: bool) -> bool {
    matches!(byte, ESCAPE | SHIFT_OUT | SHIFT_IN) || (by_tilde && byte == b'~')
}

const ESCAPE: u8 = 0x1b;
const SHIFT_OUT: u8 = 0x0e;
const SHIFT_IN: u8 = 0x0f;
/// The row of JIS X 0208, GB 2312 and KS X 1001 whose columns are the bytes of ASCII.
const WIDE_LETTERS: u8 = 0x23;
/// Stands for another character: no byte of UTF-8.
const NO_CHARACTER: u8 = 0xff;

#[cfg(test)]
mod tests {
    use super::decode;

    /// The left side is what Python's codec of this name reads as the right side.
    #[test]
    fn a_shift_within_a_word_hides_nothing() {
        for sent in [&b"lo\x1b(Bg"[..], b"\x1b(Jl\x1b(Bog\x1b(B", b"\x1b$)Clog", b"\x1b$B#l#o\x1b(Bg", b"\x0e#l\x0fog"] {
            assert_eq!(decode(sent, false), b"log", "{}", sent.escape_ascii());
        }
        for sent in [&b"lo~\ng"[..], b"~{~}log", b"l~{#o~}g"] {
            assert_eq!(decode(sent, true), b"log", "{}", sent.escape_ascii());
        }
        assert_eq!(decode(b"a~~b~", true), b"a~b~");
        assert_eq!(decode(b"a~~b\x1b", false), b"a~~b");
    }

    #[test]
    fn other_characters_are_no_text() {
        assert_eq!(decode(b"a\x1b$B$\"\x1b(Bb", false), b"a\xffb");
        assert_eq!(decode(b"\x1b$B$", false), b"$");
    }
}
