//! Whether a response sets a cookie (RFC 6265, section 5.2).
//!
//! It keeps no values. The same header deletes cookies, and applications do so when a sign-in fails: a deleted cookie
//! is not set.

use http::HeaderMap;
use http::header::{DATE, SET_COOKIE};
use smallvec::SmallVec;

use super::date::{self, Date};
use super::glob::Glob;

/// Whether any cookie with a matching name is set. If several lines set one cookie (name, domain and path), the
/// last counts, as in a browser.
pub(crate) fn is_set(headers: &HeaderMap, name: &Glob) -> bool {
    let now = headers.get(DATE).and_then(|value| date::parse(value.as_bytes())).unwrap_or(LONG_AGO);
    let mut found: SmallVec<[Cookie<'_>; 4]> = SmallVec::new();
    for value in headers.get_all(SET_COOKIE).iter().take(MAX_COOKIES) {
        let Some(cookie) = Cookie::parse(value.as_bytes(), &now) else { continue };
        if name.matches(cookie.name) {
            found.retain(|earlier| earlier.identity() != cookie.identity());
            found.push(cookie);
        }
    }
    found.iter().any(|cookie| !cookie.is_deleted)
}

struct Cookie<'a> {
    name: &'a [u8],
    domain: &'a [u8],
    path: &'a [u8],
    is_deleted: bool,
}

impl<'a> Cookie<'a> {
    fn parse(line: &'a [u8], now: &Date) -> Option<Self> {
        let mut parts = line.split(|&byte| byte == b';').map(pair);
        let (name, value) = parts.next()?;
        let value = value?;
        let (mut domain, mut path) = (&b""[..], &b""[..]);
        let (mut is_spent, mut is_past) = (None, None);
        for (attribute, value) in parts {
            let value = value.unwrap_or_default();
            match attribute {
                _ if attribute.eq_ignore_ascii_case(b"max-age") => {
                    is_spent = ends_at_once(value).or(is_spent)
                }
                _ if attribute.eq_ignore_ascii_case(b"expires") => {
                    is_past = date::parse(value).map(|end| end <= *now).or(is_past);
                }
                _ if attribute.eq_ignore_ascii_case(b"domain") => domain = value,
                _ if attribute.eq_ignore_ascii_case(b"path") => path = value,
                _ => {}
            }
        }
        // Max-Age has precedence over Expires. A cookie without a value carries no session.
        let is_over = is_spent.or(is_past).unwrap_or(false);
        let is_deleted = is_over || value.is_empty() || value == b"\"\"";
        (!name.is_empty()).then_some(Self { name, domain, path, is_deleted })
    }

    fn identity(&self) -> [&'a [u8]; 3] {
        [self.name, self.domain, self.path]
    }
}

/// Name and value, without the blanks around them.
fn pair(part: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut halves = part.splitn(2, |&byte| byte == b'=').map(<[u8]>::trim_ascii);
    (halves.next().unwrap_or_default(), halves.next())
}

/// Whether a Max-Age is zero or negative; `None` if it is not a whole number.
fn ends_at_once(age: &[u8]) -> Option<bool> {
    let digits = age.strip_prefix(b"-").unwrap_or(age);
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| age.starts_with(b"-") || digits.iter().all(|&digit| digit == b'0'))
}

/// The current date for a response without a `Date`: applications delete cookies by a date in 1970 or 1999.
const LONG_AGO: Date = [2000, 1, 1, 0, 0, 0];

/// Cookies that are read at most, more than browsers keep for a site: the work is quadratic.
const MAX_COOKIES: usize = 256;

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn sets(name: &str, lines: &[&'static str]) -> bool {
        let mut headers: HeaderMap =
            HeaderMap::from_iter([(DATE, HeaderValue::from_static("Sat, 21 Nov 2026 06:00:00 GMT"))]);
        for line in lines {
            headers.append(SET_COOKIE, HeaderValue::from_static(line));
        }
        is_set(&headers, &Glob::new(name))
    }

    #[test]
    fn a_cookie_is_set_by_its_exact_name() {
        for line in [
            "SID=1",
            " SID = 1 ; Path=/",
            "SID=a=b; HttpOnly",
            "SID=0; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
        ] {
            assert!(sets("SID", &[line]), "{line}");
        }
        for line in ["sid=1", "SIDX=1", "SID", "=SID", "X=SID=1", "X=1; SID=1", ""] {
            assert!(!sets("SID", &[line]), "{line}");
        }
        assert!(sets("wordpress_logged_in_*", &["a=b", "wordpress_logged_in_0a1b=admin%7C1"]));
    }

    #[test]
    fn a_cookie_that_is_deleted_is_not_set() {
        for line in [
            // PHP (phpMyAdmin, Joomla, MediaWiki), Django, Express, Tomcat, ASP.NET, WordPress.
            "SID=deleted; expires=Thu, 01-Jan-1970 00:00:01 GMT; Max-Age=0; path=/",
            "SID=\"\"; expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=0; Path=/",
            "SID=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
            "SID=x; Max-Age=0; Expires=Thu, 01-Jan-1970 00:00:10 GMT",
            "SID=x; expires=Tue, 12-Oct-1999 00:00:00 GMT; path=/",
            "SID=%20; expires=Fri, 20 Nov 2026 06:00:00 GMT; path=/",
            "SID=x; max-age=-1",
            "SID=x; Max-Age=000",
            "SID=",
        ] {
            assert!(!sets("SID", &[line]), "{line}");
        }
        assert!(sets("SID", &["SID=x; Max-Age=soon; Expires=never"]), "invalid attributes delete nothing");
        assert!(sets("SID", &["SID=x; Expires=Sun, 22 Nov 2026 06:00:00 GMT"]));
    }

    #[test]
    fn without_a_date_only_what_is_long_ago_is_past() {
        let one = |line| {
            is_set(&HeaderMap::from_iter([(SET_COOKIE, HeaderValue::from_static(line))]), &Glob::new("SID"))
        };
        assert!(one("SID=x; Expires=Fri, 20 Nov 2026 06:00:00 GMT"));
        assert!(!one("SID=x; Expires=Thu, 01 Jan 1970 00:00:00 GMT"));
    }

    #[test]
    fn of_several_lines_about_one_cookie_the_last_counts() {
        assert!(sets("SID", &["SID=deleted; Max-Age=0; path=/", "SID=1; path=/"]));
        assert!(!sets("SID", &["SID=1; path=/", "SID=; path=/"]));
        assert!(sets("SID", &["SID=1; path=/app", "SID=; path=/"]), "another path is another cookie");
        assert!(sets("*", &["A=; path=/", "B=1"]), "and another name too");
    }
}
