//! `"PHPSESSID"`: the name of a cookie.

use std::str::FromStr;

use tollgate_grammar::{Mistake, Syntax};

use crate::policy::cookies;

/// The name of an application's session cookie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionCookieName(pub String);

impl FromStr for SessionCookieName {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        if cookies::is_name(text) && text.len() <= MAX_NAME_LEN {
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

/// Letters of a name at most.
const MAX_NAME_LEN: usize = 64;
