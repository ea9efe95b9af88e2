//! `Authorization` and `Proxy-Authorization` (RFC 9110, 11.6.2 and 11.7.2): which of their lines are guesses, and the
//! accounts in them. The second tells a server behind a proxy that asks it the same.
//!
//! It knows the schemes; what they carry is read by [`basic`] and [`ntlm`](super::ntlm). A server may read any scheme, so
//! a guess in one that a route does not read is one without a readable account. Schemes whose credentials are tokens that
//! no one guesses are not guesses.

use http::HeaderMap;
use http::header::{AUTHORIZATION, PROXY_AUTHORIZATION};

use super::ntlm::Ntlm;
use super::{Field, Half, TooManyValues, Values, basic, ntlm};

/// Whether there are credentials that may be a guess, readable or not.
pub(super) fn is_there(headers: &HeaderMap) -> bool {
    lines(headers).any(|line| line.is_guess())
}

/// Adds one half of the credentials of every line that these fields read. Others make the values unreadable.
pub(super) fn find(
    fields: &[Field],
    headers: &HeaderMap,
    half: Half,
    found: &mut Values,
) -> Result<(), TooManyValues> {
    if !fields.iter().any(Field::is_in_authorization) {
        return Ok(());
    }
    for line in lines(headers) {
        match line.read_by(fields) {
            Some(Field::Basic) => basic::find(line.credentials, half, found)?,
            Some(_) => match ntlm::read(line.credentials) {
                Ntlm::Opening => {}
                Ntlm::User(user) if half == Half::User => found.add(user.as_bytes())?,
                Ntlm::User(_) | Ntlm::Unreadable => found.is_unreadable = true,
            },
            None => found.is_unreadable |= line.is_guess(),
        }
    }
    Ok(())
}

/// A line of one of the two.
#[derive(Clone, Copy)]
struct AuthorizationLine<'h> {
    scheme: &'h [u8],
    credentials: &'h [u8],
}

fn lines(headers: &HeaderMap) -> impl Iterator<Item = AuthorizationLine<'_>> {
    let values = [AUTHORIZATION, PROXY_AUTHORIZATION].into_iter().flat_map(|name| headers.get_all(name));
    values.filter_map(|line| AuthorizationLine::of(line.as_bytes()))
}

impl<'h> AuthorizationLine<'h> {
    /// `None` for a scheme alone.
    fn of(line: &'h [u8]) -> Option<Self> {
        let line = line.trim_ascii();
        let end = line.iter().position(u8::is_ascii_whitespace)?;
        let (scheme, credentials) = line.split_at(end);
        Some(Self { scheme, credentials: credentials.trim_ascii_start() })
    }

    fn is(self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme.as_bytes())
    }

    fn is_guess(self) -> bool {
        let is_token = || TOKENS.iter().any(|scheme| self.is(scheme));
        let is_opening =
            || (self.is(NTLM) || self.is(NEGOTIATE)) && ntlm::read(self.credentials) == Ntlm::Opening;
        !is_token() && !is_opening()
    }

    /// The field that reads it.
    fn read_by(self, fields: &[Field]) -> Option<&Field> {
        let reads = |field: &&Field| match field {
            Field::Basic => self.is(BASIC),
            Field::Ntlm => self.is(NTLM),
            Field::Negotiate => self.is(NEGOTIATE),
            _ => false,
        };
        fields.iter().find(reads)
    }
}

const BASIC: &str = "basic";
const NTLM: &str = "ntlm";
const NEGOTIATE: &str = "negotiate";
/// Schemes of tokens: RFC 6750, RFC 9449, and that of Gitea, GitHub and Django.
const TOKENS: [&str; 3] = ["bearer", "dpop", "token"];

#[cfg(test)]
mod tests {
    use super::super::ntlm::tests::message;
    use super::*;

    fn headers(lines: &[&str]) -> HeaderMap {
        lines.iter().map(|line| (AUTHORIZATION, line.parse().unwrap())).fold(
            HeaderMap::new(),
            |mut headers, (name, value)| {
                headers.append(name, value);
                headers
            },
        )
    }

    fn users(fields: &[Field], lines: &[&str]) -> (Vec<String>, bool) {
        let mut found = Values::default();
        find(fields, &headers(lines), Half::User, &mut found).unwrap();
        let users = found.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect();
        (users, found.is_unreadable())
    }

    #[test]
    fn a_scheme_that_is_not_read_is_a_guess_without_an_account() {
        for scheme in ["Digest username=\"a\"", "NTLM TlRMTVNTUAADAAAA", "Negotiate YII=", "Foo x", "NTLM !"]
        {
            assert_eq!(users(&[Field::Basic], &[scheme]), (Vec::new(), true), "{scheme}");
            assert!(is_there(&headers(&[scheme])), "{scheme}");
        }
        let both = ["Basic YTpi", "Digest username=\"a\""];
        assert_eq!(users(&[Field::Basic], &both), (vec!["a".to_owned()], true));
    }

    #[test]
    fn tokens_and_openings_are_no_guesses() {
        let opening = format!("NTLM {}", message(1, "", ""));
        for line in ["Bearer eyJ", "token 0123", "DPoP x", "Basic", "Negotiate ", "", &opening] {
            assert!(!is_there(&headers(&[line])), "{line}");
            assert_eq!(users(&[Field::Basic, Field::Ntlm], &[line]), (Vec::new(), false), "{line}");
        }
    }

    #[test]
    fn the_account_of_ntlm_is_read_by_the_field_of_its_scheme() {
        let last = message(3, "CORP", "anna");
        let (ntlm, negotiate) = (format!("NTLM {last}"), format!("negotiate {last}"));
        assert_eq!(users(&[Field::Ntlm], &[&ntlm]), (vec!["anna".to_owned()], false));
        assert_eq!(users(&[Field::Negotiate], &[&negotiate]), (vec!["anna".to_owned()], false));
        assert_eq!(users(&[Field::Ntlm], &[&negotiate]), (Vec::new(), true));
        assert_eq!(users(&[Field::Negotiate, Field::Basic], &["Negotiate YIIB"]), (Vec::new(), true));
        assert_eq!(users(&[Field::Form("a".into())], &[&ntlm]), (Vec::new(), false));
    }
}
