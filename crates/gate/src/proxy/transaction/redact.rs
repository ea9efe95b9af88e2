//! Redacts account names and passwords in logged queries.
//!
//! Only records are redacted; the forwarded request stays as it was sent. A `Referer` is redacted, too, because browsers put the
//! previous address there. `policy` knows the private names.

use http::{HeaderValue, Uri};

use crate::policy::{Policy, query};

/// The target for the log.
pub(super) fn redact_target(uri: &Uri, policy: &Policy) -> Uri {
    let Some(query) = uri.query().and_then(|query| redact_query(query, policy)) else { return uri.clone() };
    let target = format!("{}?{query}", uri.path());
    target.parse().unwrap_or_else(|_| Uri::from_static("/"))
}

/// A `Referer` for the log.
pub(super) fn redact_referer(value: &HeaderValue, policy: &Policy) -> HeaderValue {
    let text = String::from_utf8_lossy(value.as_bytes());
    let Some((address, query)) = text.split_once('?') else { return value.clone() };
    match redact_query(query, policy) {
        Some(redacted) => HeaderValue::from_str(&format!("{address}?{redacted}")).unwrap_or(REDACTED),
        None => value.clone(),
    }
}

/// The query with `***` for each private value; `None` if it has none. Some parsers split at `;`: everything that any
/// of them takes for the value is redacted. A query with more parameters than are read is redacted as a whole.
fn redact_query(query: &str, policy: &Policy) -> Option<String> {
    if query::is_beyond_read(query) {
        return Some("***".to_owned());
    }
    let private = policy.private_names();
    let is_private = |part: &str| private.contain(part.split_once('=').map_or(part, |(name, _)| name));
    let redacted = |part: &str| match part.split_once('=') {
        Some((name, _)) if is_private(part) => Some(format!("{name}=***")),
        _ => None,
    };
    let parts = query.split('&').map(|part| {
        redacted(part).unwrap_or_else(|| {
            let pieces = part.split(';').map(|piece| redacted(piece).unwrap_or_else(|| piece.to_owned()));
            pieces.collect::<Vec<_>>().join(";")
        })
    });
    let result = parts.collect::<Vec<_>>().join("&");
    (result != query).then_some(result)
}

const REDACTED: HeaderValue = HeaderValue::from_static("***");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::field::Field;
    use crate::policy::{Route, RouteReading};

    fn policy() -> Policy {
        let route = Route {
            reading: RouteReading { user: vec![Field::Query("log".into())], ..RouteReading::default() },
            ..Route::new("login", Vec::new())
        };
        Policy::new(vec![route], Vec::new())
    }

    #[test]
    fn the_values_of_fields_and_of_what_sounds_like_a_password_are_veiled() {
        let redacted = |text: &str| redact_target(&text.parse().unwrap(), &policy()).to_string();
        assert_eq!(redacted("/a?log=x&next=/b"), "/a?log=***&next=/b");
        assert_eq!(redacted("/a?next=/b;l%6fg[]=x;User_PWD=y"), "/a?next=/b;l%6fg[]=***;User_PWD=***");
        assert_eq!(redacted("/a?log=x;y&z=1"), "/a?log=***&z=1");
        assert_eq!(redacted("/a?%6cog=x"), "/a?%6cog=***");
        assert_eq!(redacted("/a?log&x=log=1"), "/a?log&x=log=1");
        assert_eq!(redacted("/a"), "/a");
        assert_eq!(redacted(&format!("/a?{}log=x", "a&".repeat(200))), "/a?***");
    }

    #[test]
    fn whatever_would_be_read_as_an_account_is_veiled() {
        let fields = vec![Field::form("user[name]").unwrap()];
        let route = Route {
            reading: RouteReading { user: fields, ..RouteReading::default() },
            ..Route::new("login", Vec::new())
        };
        let policy = Policy::new(vec![route], Vec::new());
        for name in ["user[name]", "user%5Bname%5D", "user.name", "USER[name][]", "%u0075ser[name]"] {
            let redacted = redact_query(&format!("{name}=x&a=b"), &policy);
            assert_eq!(redacted, Some(format!("{name}=***&a=b")));
        }
    }

    #[test]
    fn a_referer_is_veiled_as_a_target_is() {
        let redacted = |text| redact_referer(&HeaderValue::from_static(text), &policy());
        assert_eq!(redacted("http://a/?log=x"), "http://a/?log=***");
        assert_eq!(redacted("http://a/?q=x"), "http://a/?q=x");
    }
}
