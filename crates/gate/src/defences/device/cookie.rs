//! The cookie with the device tokens: names, finds, removes and sets it (RFC 6265).
//!
//! It does not verify tokens. A cookie is ours by its exact name, `NAME` or `__Host-NAME`. An application may read
//! other names as ours (PHP reads `a.b` as `a_b`); such cookies hold no tokens and stay. Quotes have no meaning here,
//! because they have none for browsers: else an attacker who plants `x="` before our cookie and `"` behind it could
//! have a page echo our cookie.

use std::str::FromStr;

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use tollgate_grammar::{Mistake, Syntax};

use super::token::DeviceToken;
use crate::policy::cookies;
use crate::time::Span;

/// The name of the cookie in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieName(pub(super) String);

impl FromStr for CookieName {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        if !cookies::is_name(text) || text.len() > MAX_NAME_LEN {
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

/// The unverified texts of tokens in our cookies: at most five of each of at most five cookies. The `__Host-` cookie
/// comes first, because a sibling domain cannot plant it.
pub(super) fn tokens<'h>(headers: &'h HeaderMap, name: &'h str) -> impl Iterator<Item = &'h [u8]> {
    let of = move |kind: DeviceCookieName| {
        cookies::pieces(headers).filter_map(move |pair| {
            let (found, value) = our_cookie(pair, name)?;
            (found == kind).then_some(value)
        })
    };
    let values = of(DeviceCookieName::Host).chain(of(DeviceCookieName::Plain)).take(MAX_COOKIES);
    values.flat_map(|value| value.split(|&byte| byte == SEPARATOR).take(MAX_TOKENS))
}

/// The lines without our cookies; `None` if they have none. All other bytes stay, except blanks before the pair that
/// becomes the first.
pub(super) fn others(headers: &HeaderMap, name: &str) -> Option<Vec<HeaderValue>> {
    let has_ours = cookies::pieces(headers).any(|pair| our_cookie(pair, name).is_some());
    has_ours.then(|| headers.get_all(COOKIE).iter().filter_map(|line| without_ours(line, name)).collect())
}

/// The `Set-Cookie` with these tokens; it expires with them.
pub(super) fn set(
    name: &str,
    tokens: impl Iterator<Item = DeviceToken>,
    ttl: Span,
    is_secure: bool,
) -> Option<HeaderValue> {
    let (prefix, secure) = if is_secure { (HOST, " Secure;") } else { ("", "") };
    let texts: Vec<String> = tokens.map(|token| token.text()).collect();
    let (value, age) = (texts.join(SEPARATOR_TEXT), ttl.as_nanos() / 1_000_000_000);
    let text = format!("{prefix}{name}={value}; Max-Age={age}; Path=/;{secure} HttpOnly; SameSite=Lax");
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DeviceCookieName {
    Plain,
    Host,
}

/// The kind and value of a pair, if it is our cookie.
fn our_cookie<'p>(pair: &'p [u8], name: &str) -> Option<(DeviceCookieName, &'p [u8])> {
    let at = pair.iter().position(|&byte| byte == b'=')?;
    let (found, value) = (pair.get(..at)?.trim_ascii(), pair.get(at + 1..)?.trim_ascii());
    match found.strip_prefix(HOST.as_bytes()) {
        Some(rest) if rest == name.as_bytes() => Some((DeviceCookieName::Host, value)),
        _ => (found == name.as_bytes()).then_some((DeviceCookieName::Plain, value)),
    }
}

/// The line without our cookies; `None` if nothing is left.
fn without_ours(line: &HeaderValue, name: &str) -> Option<HeaderValue> {
    let (mut others, mut had_ours, mut behind_ours, mut begins_later) = (Vec::new(), false, false, false);
    for pair in line.as_bytes().split(|&byte| byte == b';') {
        behind_ours = our_cookie(pair, name).is_some() || behind_ours && is_attribute(pair);
        had_ours |= behind_ours;
        match behind_ours {
            true => begins_later |= others.is_empty(),
            false => others.push(pair),
        }
    }
    if had_ours && others.iter().all(|pair| pair.trim_ascii().is_empty()) {
        return None;
    }
    let left = others.join(&b';');
    // The bytes come from a header value, so they make one again.
    HeaderValue::from_bytes(if begins_later { left.trim_ascii_start() } else { &left }).ok()
}

/// Whether a pair is an attribute of the cookie before it (RFC 2965).
fn is_attribute(pair: &[u8]) -> bool {
    let name = pair.split(|&byte| byte == b'=').next().unwrap_or_default().trim_ascii();
    [&b"$path"[..], b"$domain", b"$port"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Tokens in a cookie at most, set or read.
pub(super) const MAX_TOKENS: usize = 5;
/// Cookies that are read at most. A browser has two of ours, one for each name, unless a sibling domain plants more.
const MAX_COOKIES: usize = 5;
const HOST: &str = "__Host-";
/// Letters of a name at most.
const MAX_NAME_LEN: usize = 64;
/// The first two have a meaning in browsers, in any case; `$` had one in servers (RFC 2965).
const PREFIXES: [&str; 3] = ["__host-", "__secure-", "$"];
/// A character that base64url does not use and a cookie may contain.
const SEPARATOR: u8 = b'.';
const SEPARATOR_TEXT: &str = ".";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    fn map(lines: &[&str]) -> HeaderMap {
        lines.iter().map(|line| (COOKIE, line.parse().unwrap())).collect()
    }

    fn stripped(lines: &[&str]) -> Vec<String> {
        let headers = map(lines);
        let left = others(&headers, "dev");
        let left = left.unwrap_or_else(|| headers.get_all(COOKIE).iter().cloned().collect());
        left.iter().map(|line| String::from_utf8_lossy(line.as_bytes()).into()).collect()
    }

    #[test]
    fn ours_is_taken_out_and_the_rest_stays_as_it_was() {
        for (line, left) in [
            ("a=1; dev=x; b=2", "a=1; b=2"),
            ("dev=x; b=2", "b=2"),
            ("a=1; dev=x", "a=1"),
            ("a=1; __Host-dev=x; b=2", "a=1; b=2"),
            ("dev=x; __Host-dev=y;b=2;", "b=2;"),
            ("a=1;dev=x;b=2", "a=1;b=2"),
            ("a=1 ;\t dev = x ;  b = 2 ", "a=1 ;  b = 2 "),
            ("a=\"1; dev=x; b=2\"", "a=\"1; b=2\""),
            ("a=1; dev=; dev==; dev=y=z", "a=1"),
            (
                "$Version=\"1\"; dev=\"x\"; $Path=\"/\"; $domain=a; b=2; $Path=\"/b\"",
                "$Version=\"1\"; b=2; $Path=\"/b\"",
            ),
            (";; dev=x;; b=\u{e4}", ";;; b=\u{e4}"),
        ] {
            assert_eq!(stripped(&[line]), [left], "{line}");
        }
    }

    #[test]
    fn what_is_not_ours_is_not_touched() {
        for line in [
            "",
            " ",
            ";",
            "dev",
            "device=1; dev2=2; xdev=3; DEV=4; Dev=5",
            "__host-dev=1; __Host-dev2=2; __Secure-dev=3; __Host-__Host-dev=4",
            "d.ev=1; dev[x]=2; d ev=3; %64ev=4; \u{a0}dev=5",
            "a=dev=x; $Path=\"/\"; =dev; =dev=1",
            "a=1, dev=2",
        ] {
            assert_eq!(stripped(&[line]), [line], "{line}");
        }
    }

    #[test]
    fn a_line_of_which_nothing_is_left_is_gone_and_the_others_stay_in_order() {
        assert_eq!(stripped(&["dev=x"]), [""; 0]);
        assert_eq!(stripped(&["dev=x ; __Host-dev=y;"]), [""; 0]);
        assert_eq!(stripped(&["a=1", "dev=x", "", "b=2; dev=y", "c=3"]), ["a=1", "", "b=2", "c=3"]);
    }

    #[test]
    fn as_many_are_looked_at_as_a_browser_could_have() {
        let read = |lines: &[&str]| {
            let headers = map(lines);
            let found = tokens(&headers, "dev").map(|text| String::from_utf8_lossy(text).into_owned());
            found.collect::<Vec<_>>()
        };
        assert_eq!(read(&["dev=1.2.3.4.5.6; b=7", "dev = 8 ;c=9"]), ["1", "2", "3", "4", "5", "8"]);
        let many = "dev=1; dev=2; dev=3; dev=4; dev=5; dev=6; __Host-dev=7";
        assert_eq!(
            read(&[many]),
            ["7", "1", "2", "3", "4"],
            "the cookie that a sibling domain cannot plant comes first"
        );
    }

    proptest! {
        #[test]
        fn nothing_of_ours_is_left_and_nothing_is_made_up(
            lines in prop::collection::vec("([;= ]|dev|__Host-|\\$Path|[a-c\"])*", 0..4),
        ) {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let left = stripped(&lines);
            prop_assert_eq!(tokens(&map(&left.iter().map(String::as_str).collect::<Vec<_>>()), "dev").count(), 0);
            let before = lines.concat();
            let mut rest = before.chars();
            prop_assert!(left.concat().chars().all(|letter| rest.any(|other| other == letter)));
        }
    }
}
