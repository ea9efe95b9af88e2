//! How deep a document nests. No program sends fields of a sign-in deeper than a few levels; a client that nests deeper
//! tries to make the gate work.

use memchr::memchr2;

/// Whether arrays and objects of a JSON text nest deeper than [`MAX_DEPTH`]. It knows texts and brackets only: whether
/// it is JSON at all is left to its reader.
pub(crate) fn is_too_deep(text: &[u8]) -> bool {
    let (mut rest, mut depth) = (text, 0_usize);
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => rest = behind_text(rest),
            _ => {}
        }
    }
    false
}

/// What follows a text, from behind its first quote.
fn behind_text(mut rest: &[u8]) -> &[u8] {
    loop {
        let Some(end) = memchr2(b'"', b'\\', rest) else { return &[] };
        let is_end = rest.get(end) == Some(&b'"');
        rest = rest.get(end + if is_end { 1 } else { 2 }..).unwrap_or_default();
        if is_end {
            return rest;
        }
    }
}

/// Levels of arrays and objects that are read.
pub(crate) const MAX_DEPTH: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_in_texts_do_not_nest() {
        let nested = |depth: usize| format!("{}1{}", "{\"a\":[".repeat(depth), "]}".repeat(depth));
        assert!(!is_too_deep(nested(MAX_DEPTH / 2).as_bytes()));
        assert!(is_too_deep(nested(MAX_DEPTH / 2 + 1).as_bytes()));
        assert!(!is_too_deep(format!("[\"{}\\\"{}\"]", "[".repeat(100), "[".repeat(100)).as_bytes()));
        assert!(!is_too_deep("[]".repeat(1000).as_bytes()));
        assert!(is_too_deep(format!("[\"\\\\\"{}", "[".repeat(100)).as_bytes()));
        assert!(!is_too_deep(b"\"\\"));
    }
}
