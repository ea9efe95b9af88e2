//! Makes text of a client harmless: one event stays one line of printable ASCII.
//!
//! Control bytes, quotes, backslashes and everything outside ASCII (also bidirectional marks) are written as escapes.
//! Text is cut at 8 KiB, which bounds the memory of waiting lines.

/// Appends text for the combined format: `\xNN` for every byte that is not harmless.
pub(super) fn combined(text: &[u8], line: &mut Vec<u8>) {
    escape(text, line, |text, line| text.iter().for_each(|&byte| hex(byte, line)));
}

/// Appends text for the inside of a JSON string. Bytes that are not UTF-8 become a literal `\xNN`.
pub(super) fn json(text: &[u8], line: &mut Vec<u8>) {
    escape(text, line, json_slow);
}

fn escape(text: &[u8], line: &mut Vec<u8>, slow: impl Fn(&[u8], &mut Vec<u8>)) {
    let cut = &text[..text.len().min(MAX_TEXT)];
    if all_harmless(cut) {
        line.extend_from_slice(cut);
    } else {
        for run in cut.chunk_by(|&a, &b| is_harmless(a) == is_harmless(b)) {
            if run.first().copied().is_some_and(is_harmless) {
                line.extend_from_slice(run);
            } else {
                slow(run, line);
            }
        }
    }
    if cut.len() < text.len() {
        line.extend_from_slice(b"...");
    }
}

fn json_slow(run: &[u8], line: &mut Vec<u8>) {
    for chunk in run.utf8_chunks() {
        let mut units = [0; 2];
        for char in chunk.valid().chars() {
            match char {
                '"' | '\\' => line.extend_from_slice(&[b'\\', u8::try_from(char).unwrap_or(b'?')]),
                _ => char.encode_utf16(&mut units).iter().for_each(|unit| {
                    line.extend_from_slice(b"\\u");
                    unit.to_be_bytes().iter().for_each(|&byte| digits(byte, line));
                }),
            }
        }
        for &byte in chunk.invalid() {
            line.push(b'\\');
            hex(byte, line);
        }
    }
}

/// Works in blocks without an early exit, which the compiler turns into a few vector instructions. The last block
/// overlaps the one before, so no tail is left.
fn all_harmless(text: &[u8]) -> bool {
    let block = |block: &[u8; 16]| block.iter().fold(true, |harmless, &byte| harmless & is_harmless(byte));
    match text.last_chunk() {
        Some(last) => block(last) && text.as_chunks().0.iter().all(block),
        None => text.iter().all(|&byte| is_harmless(byte)),
    }
}

fn is_harmless(byte: u8) -> bool {
    (0x20..0x7f).contains(&byte) & (byte != b'"') & (byte != b'\\')
}

fn hex(byte: u8, line: &mut Vec<u8>) {
    line.extend_from_slice(b"\\x");
    digits(byte, line);
}

fn digits(byte: u8, line: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    line.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

const MAX_TEXT: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(escape: fn(&[u8], &mut Vec<u8>), text: &[u8]) -> String {
        let mut line = Vec::new();
        escape(text, &mut line);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn what_could_end_a_line_or_a_field_is_spelled_out() {
        assert_eq!(escaped(combined, b"a\r\nb\0\x1b[31m\"\\\x7f"), r"a\x0D\x0Ab\x00\x1B[31m\x22\x5C\x7F");
        assert_eq!(escaped(combined, "\u{202e}ü".as_bytes()), r"\xE2\x80\xAE\xC3\xBC");
        assert_eq!(escaped(combined, b"curl/8.0 (x)"), "curl/8.0 (x)");
    }

    #[test]
    fn json_says_the_same_to_every_parser() {
        let text = "a\r\n\0\u{1b}\"\\\u{202e}ü😀 z";
        let written = escaped(json, text.as_bytes());
        assert!(written.is_ascii());
        assert_eq!(serde_json::from_str::<String>(&format!("\"{written}\"")).unwrap(), text);
        assert_eq!(escaped(json, b"a\xff\xc3"), r"a\\xFF\\xC3");
    }

    #[test]
    fn endless_text_is_cut() {
        let text = vec![b'a'; MAX_TEXT + 1];
        assert_eq!(escaped(combined, &text).len(), MAX_TEXT + 3);
        assert!(escaped(json, &text).ends_with("aaa..."));
        assert_eq!(escaped(combined, &text[..MAX_TEXT]).len(), MAX_TEXT);
    }

    #[test]
    fn a_single_bad_byte_is_found_wherever_it_stands() {
        for length in 1..70 {
            assert!(all_harmless(&vec![b'a'; length]));
            for position in 0..length {
                let mut text = vec![b'a'; length];
                text[position] = b'\n';
                assert!(!all_harmless(&text), "{position} of {length}");
            }
        }
    }
}
