//! `"tollgate_device"`: the name of a cookie.

use std::str::FromStr;

use tollgate_grammar::{Mistake, Syntax};

/// The name of a cookie that the gate sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieName(pub String);

impl FromStr for CookieName {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        if !is_token(text) || text.len() > MAX_NAME_LEN {
            let message = format!("`{text}` is not a cookie name");
            return Err(Mistake::new(
                message,
                "1 to 64 letters, digits, `-` or `_`, as in \"tollgate_device\"",
            ));
        }
        let lower = text.to_ascii_lowercase();
        if PREFIXES.iter().any(|prefix| lower.starts_with(prefix)) {
            let message = format!("`{text}` begins with a prefix that has a special meaning");
            return Err(Mistake::new(
                message,
                "leave it out: `__Host-` is put in front wherever TLS is spoken",
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

impl Syntax for CookieName {
    fn pattern() -> Option<String> {
        None
    }
}

/// The name of an application's session cookie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionCookieName(pub String);

impl FromStr for SessionCookieName {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        if is_token(text) && text.len() <= MAX_NAME_LEN {
            return Ok(Self(text.to_owned()));
        }
        let hint = "the name that the application sets, up to 64 letters, as in \"PHPSESSID\"";
        Err(Mistake::new(format!("`{text}` is not a cookie name"), hint))
    }
}

impl Syntax for SessionCookieName {
    fn pattern() -> Option<String> {
        None
    }
}

/// A token (RFC 9110, 5.6.2), as cookie names are (RFC 6265, 4.1.1).
pub(super) fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*-.^_`|~".contains(&b))
}

const MAX_NAME_LEN: usize = 64;
/// The first two have a meaning in browsers, in any case; `$` had one in servers (RFC 2965).
const PREFIXES: [&str; 3] = ["__host-", "__secure-", "$"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_a_browser_keeps_and_gives_back() {
        for name in ["tollgate_device", "d", "a.b-c", &"x".repeat(64)] {
            assert_eq!(name.parse(), Ok(CookieName(name.to_owned())));
        }
        for text in
            ["", "a b", "a=b", "a;b", "\u{e4}", "__Host-a", "__secure-a", "__HOST-", "$Path", &"x".repeat(65)]
        {
            assert!(text.parse::<CookieName>().is_err(), "{text:?}");
        }
    }
}
