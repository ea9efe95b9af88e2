//! Escapes text from requests for HTML, JSON and plain text.
//!
//! Unprintable bytes are replaced, not dropped, so that two different request ids rarely look the same.

use http::HeaderValue;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use super::accept::ResponseFormat;

/// Appends `text`, escaped for the format: HTML text and attribute values, the content of a JSON string, plain lines.
pub(super) fn push(out: &mut String, format: ResponseFormat, text: &str) {
    if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_. ".contains(&byte)) {
        return out.push_str(text);
    }
    for letter in text.chars() {
        match (format, letter) {
            (ResponseFormat::Html, '&') => out.push_str("&amp;"),
            (ResponseFormat::Html, '<') => out.push_str("&lt;"),
            (ResponseFormat::Html, '>') => out.push_str("&gt;"),
            (ResponseFormat::Html, '"') => out.push_str("&quot;"),
            (ResponseFormat::Html, '\'') => out.push_str("&#39;"),
            (ResponseFormat::Json, '"' | '\\') => out.extend(['\\', letter]),
            (_, letter) if letter.is_control() => out.push('?'),
            (_, letter) => out.push(letter),
        }
    }
}

/// Appends a header's value, escaped for the format; bytes beyond ASCII become `?`.
pub(super) fn push_value(out: &mut String, format: ResponseFormat, value: &HeaderValue) {
    if let Ok(text) = value.to_str() {
        return push(out, format, text);
    }
    for &byte in value.as_bytes() {
        push(out, format, char::from(if byte.is_ascii() { byte } else { b'?' }).encode_utf8(&mut [0; 4]));
    }
}

/// Appends a header's value as the last part of a URN (RFC 8141), percent-encoded where necessary.
pub(super) fn push_urn(out: &mut String, value: &HeaderValue) {
    out.extend(percent_encode(value.as_bytes(), NOT_IN_URN));
}

/// Appends a number in decimal digits; cheaper than `format!`.
pub(super) fn push_number(out: &mut String, number: u64) {
    out.push_str(itoa::Buffer::new().format(number));
}

const NOT_IN_URN: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(format: ResponseFormat, text: &str) -> String {
        let mut out = String::new();
        push(&mut out, format, text);
        out
    }

    #[test]
    fn markup_stays_text_in_every_form() {
        let hostile = "<b a=\"1\" c='2'>&\\\n\u{1b}";
        assert_eq!(pushed(ResponseFormat::Html, hostile), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;\\??");
        assert_eq!(pushed(ResponseFormat::Json, hostile), "<b a=\\\"1\\\" c='2'>&\\\\??");
        assert_eq!(pushed(ResponseFormat::Text, hostile), "<b a=\"1\" c='2'>&\\??");
    }

    #[test]
    fn bytes_beyond_ascii_are_replaced_and_still_escaped() {
        let mut out = String::new();
        push_value(&mut out, ResponseFormat::Html, &HeaderValue::from_bytes(b"a\xe9<\x80\t").unwrap());
        assert_eq!(out, "a?&lt;??");
    }

    #[test]
    fn an_identity_in_a_urn_is_percent_encoded() {
        let mut out = String::new();
        push_urn(&mut out, &HeaderValue::from_bytes(b"01-ab_C.~:\"}% \xff").unwrap());
        assert_eq!(out, "01-ab_C.~:%22%7D%25%20%FF");
    }

    #[test]
    fn numbers_have_the_digits_that_the_standard_library_gives_them() {
        for number in [0, 7, 10, 21, 999, 1_000, 86_400, u64::MAX] {
            let mut out = String::new();
            push_number(&mut out, number);
            assert_eq!(out, number.to_string());
        }
    }
}
