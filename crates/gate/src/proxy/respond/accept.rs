//! Content negotiation: picks HTML, JSON or text by `Accept` (RFC 9110, 12.5.1).
//!
//! Only named formats count. `*/*` gets text, which is the smallest format and readable on a terminal. Between equal weights the order
//! is HTML, JSON, text. `builder` renders the format.

use http::HeaderValue;

/// The format of a generated response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseFormat {
    /// For browsers.
    Html,
    /// `application/problem+json` (RFC 9457), for programs.
    Json,
    /// For all other clients.
    Text,
}

impl ResponseFormat {
    /// The format that an `Accept` header asks for.
    pub(super) fn preferred(accept: Option<&HeaderValue>) -> Self {
        match accept.map(HeaderValue::as_bytes) {
            None | Some(b"*/*") => Self::Text,
            // The beginning of every browser's header; nothing outweighs a first choice without a weight.
            Some(accept) if accept.starts_with(b"text/html,") => Self::Html,
            Some(accept) => Self::by_weight(accept),
        }
    }

    fn by_weight(accept: &[u8]) -> Self {
        let mut weights = [0_u16; 3];
        for range in accept.split(|&byte| byte == b',').take(MAX_RANGES) {
            let mut parts = range.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
            if let Some(format) = parts.next().and_then(Self::from_media_range) {
                let slot = &mut weights[format as usize];
                *slot = parts.find_map(weight).unwrap_or(1000).max(*slot);
            }
        }
        let [html, json, text] = weights;
        if html > 0 && html >= json.max(text) {
            Self::Html
        } else if json > 0 && json >= text {
            Self::Json
        } else {
            Self::Text
        }
    }

    /// The format that a media range names.
    fn from_media_range(range: &[u8]) -> Option<Self> {
        let is = |name: &str| range.eq_ignore_ascii_case(name.as_bytes());
        if is("text/html") || is("application/xhtml+xml") {
            return Some(Self::Html);
        }
        if ends_with(range, b"/json") || ends_with(range, b"+json") || is("application/*") {
            return Some(Self::Json);
        }
        (is("text/plain") || is("text/*")).then_some(Self::Text)
    }

    pub(super) fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Html => "text/html; charset=utf-8",
            // JSON is UTF-8 by definition (RFC 8259); the parameter is for clients that fall back to Latin-1.
            Self::Json => "application/problem+json; charset=utf-8",
            Self::Text => "text/plain; charset=utf-8",
        })
    }
}

/// The weight in thousandths, if the parameter is one; an unreadable one counts as 1.
pub(super) fn weight(parameter: &[u8]) -> Option<u16> {
    let [b'q' | b'Q', b'=', value @ ..] = parameter else { return None };
    let [b'0', fraction @ ..] = value else { return Some(1000) };
    let digits = fraction.strip_prefix(b".").unwrap_or_default().iter().take(3);
    let scale = [100, 10, 1];
    Some(digits.zip(scale).map(|(digit, unit)| u16::from(digit.wrapping_sub(b'0').min(9)) * unit).sum())
}

fn ends_with(range: &[u8], suffix: &[u8]) -> bool {
    range.len() >= suffix.len() && range[range.len() - suffix.len()..].eq_ignore_ascii_case(suffix)
}

/// Media ranges that are read; further ones are ignored. Real headers have fewer.
const MAX_RANGES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_what_the_client_names() {
        let table = [
            ("*/*", ResponseFormat::Text),
            ("", ResponseFormat::Text),
            ("text/html", ResponseFormat::Html),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", ResponseFormat::Html),
            ("TEXT/HTML; charset=utf-8", ResponseFormat::Html),
            ("application/xhtml+xml", ResponseFormat::Html),
            ("application/json", ResponseFormat::Json),
            ("application/json, text/plain, */*", ResponseFormat::Json),
            ("application/problem+json", ResponseFormat::Json),
            ("application/vnd.api+json", ResponseFormat::Json),
            ("*/json", ResponseFormat::Json),
            ("application/*", ResponseFormat::Json),
            ("text/plain", ResponseFormat::Text),
            ("text/*", ResponseFormat::Text),
            ("image/png", ResponseFormat::Text),
            ("application/json;q=0.9, text/html;q=0.3", ResponseFormat::Json),
            ("application/json;q=0.3, text/html;q=0.9", ResponseFormat::Html),
            ("application/json;q=0.5;v=1, text/html;level=1;q=0.5", ResponseFormat::Html),
            ("text/html;q=0, application/json;q=0.001", ResponseFormat::Json),
            ("text/html;q=0, application/json;q=0.000", ResponseFormat::Text),
            ("text/plain, text/html;q=0.5", ResponseFormat::Text),
            ("text/html;q=1.000, application/json;q=0.999", ResponseFormat::Html),
            ("text/html;q=soon", ResponseFormat::Html),
            (";;;,,,q=1", ResponseFormat::Text),
            ("json", ResponseFormat::Text),
        ];
        for (accept, format) in table {
            let accept = HeaderValue::from_static(accept);
            assert_eq!(ResponseFormat::preferred(Some(&accept)), format, "{accept:?}");
        }
        assert_eq!(ResponseFormat::preferred(None), ResponseFormat::Text);
    }

    #[test]
    fn bytes_that_are_no_text_ask_for_nothing() {
        let accept = HeaderValue::from_bytes(b"\xff\xfe/json\x80, text/htm\xe9;q=\xff").unwrap();
        assert_eq!(ResponseFormat::preferred(Some(&accept)), ResponseFormat::Text);
    }
}
