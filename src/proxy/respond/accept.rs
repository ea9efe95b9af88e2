//! Which form of an answer a client wants: `Accept` (RFC 9110, section 12.5.1), cheaply.
//!
//! Only what a client names counts: `*/*` says that anything will do, and then text is the smallest and the one that
//! a terminal shows as it is. Equal weights are decided in the order HTML, JSON, text.

use http::HeaderValue;

/// The forms in which the gate speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// For people with browsers.
    Html,
    /// `application/problem+json` (RFC 9457), for programs.
    Json,
    /// For the rest.
    Text,
}

impl Form {
    /// The form that an `Accept` header asks for.
    pub(super) fn preferred(accept: Option<&HeaderValue>) -> Self {
        match accept.map(HeaderValue::as_bytes) {
            None | Some(b"*/*") => Self::Text,
            // What every browser opens with; nothing outweighs a first choice without a weight.
            Some(accept) if accept.starts_with(b"text/html,") => Self::Html,
            Some(accept) => Self::weighed(accept),
        }
    }

    fn weighed(accept: &[u8]) -> Self {
        let mut weights = [0_u16; 3];
        for range in accept.split(|&byte| byte == b',').take(MOST_RANGES) {
            let mut parts = range.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
            if let Some(form) = parts.next().and_then(Self::named) {
                let slot = &mut weights[form as usize];
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

    /// The form that a media range names outright.
    fn named(range: &[u8]) -> Option<Self> {
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
fn weight(parameter: &[u8]) -> Option<u16> {
    let [b'q' | b'Q', b'=', value @ ..] = parameter else { return None };
    let [b'0', fraction @ ..] = value else { return Some(1000) };
    let digits = fraction.strip_prefix(b".").unwrap_or_default().iter().take(3);
    let scale = [100, 10, 1];
    Some(digits.zip(scale).map(|(digit, unit)| u16::from(digit.wrapping_sub(b'0').min(9)) * unit).sum())
}

fn ends_with(range: &[u8], suffix: &[u8]) -> bool {
    range.len() >= suffix.len() && range[range.len() - suffix.len()..].eq_ignore_ascii_case(suffix)
}

/// Beyond this many a header is read no further: nobody has so many tastes.
const MOST_RANGES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_what_the_client_names() {
        let table = [
            ("*/*", Form::Text),
            ("", Form::Text),
            ("text/html", Form::Html),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Form::Html),
            ("TEXT/HTML; charset=utf-8", Form::Html),
            ("application/xhtml+xml", Form::Html),
            ("application/json", Form::Json),
            ("application/json, text/plain, */*", Form::Json),
            ("application/problem+json", Form::Json),
            ("application/vnd.api+json", Form::Json),
            ("*/json", Form::Json),
            ("application/*", Form::Json),
            ("text/plain", Form::Text),
            ("text/*", Form::Text),
            ("image/png", Form::Text),
            ("application/json;q=0.9, text/html;q=0.3", Form::Json),
            ("application/json;q=0.3, text/html;q=0.9", Form::Html),
            ("application/json;q=0.5;v=1, text/html;level=1;q=0.5", Form::Html),
            ("text/html;q=0, application/json;q=0.001", Form::Json),
            ("text/html;q=0, application/json;q=0.000", Form::Text),
            ("text/plain, text/html;q=0.5", Form::Text),
            ("text/html;q=1.000, application/json;q=0.999", Form::Html),
            ("text/html;q=soon", Form::Html),
            (";;;,,,q=1", Form::Text),
            ("json", Form::Text),
        ];
        for (accept, form) in table {
            assert_eq!(Form::preferred(Some(&HeaderValue::from_static(accept))), form, "{accept}");
        }
        assert_eq!(Form::preferred(None), Form::Text);
    }

    #[test]
    fn bytes_that_are_no_text_ask_for_nothing() {
        let accept = HeaderValue::from_bytes(b"\xff\xfe/json\x80, text/htm\xe9;q=\xff").unwrap();
        assert_eq!(Form::preferred(Some(&accept)), Form::Text);
    }
}
