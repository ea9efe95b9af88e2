//! Redacts account names and passwords in logged queries.
//!
//! Only records are veiled; what is forwarded stays as it was sent. The surprising thing: a `Referer` is veiled too, since a
//! browser that was sent on from such an address names it there.

use http::{HeaderValue, Uri};

use crate::policy::{Policy, query};

/// The target as it may be told.
pub(super) fn redact_target(uri: &Uri, policy: &Policy) -> Uri {
    let Some(veiled) = uri.query().and_then(|query| redact_query(query, policy)) else { return uri.clone() };
    let whole = format!("{}?{veiled}", uri.path());
    whole.parse().unwrap_or_else(|_| Uri::from_static("/"))
}

/// A `Referer` as it may be told.
pub(super) fn redact_referer(value: &HeaderValue, policy: &Policy) -> HeaderValue {
    let text = String::from_utf8_lossy(value.as_bytes());
    let Some((address, query)) = text.split_once('?') else { return value.clone() };
    match redact_query(query, policy) {
        Some(veiled) => HeaderValue::from_str(&format!("{address}?{veiled}")).unwrap_or(REDACTED),
        None => value.clone(),
    }
}

/// The query with a veil over each value that is nobody's business; `None` if there is none. Where `;` separates for some
/// readers only, all that any of them takes for the value is under it. One with more parameters than are read is hidden.
fn redact_query(query: &str, policy: &Policy) -> Option<String> {
    if query::is_beyond_read(query) {
        return Some("***".to_owned());
    }
    let private = policy.private_names();
    let is_private = |part: &str| private.contain(part.split_once('=').map_or(part, |(name, _)| name));
    let veiled = |part: &str| match part.split_once('=') {
        Some((name, _)) if is_private(part) => Some(format!("{name}=***")),
        _ => None,
    };
    let parts = query.split('&').map(|part| {
        veiled(part).unwrap_or_else(|| {
            let pieces = part.split(';').map(|piece| veiled(piece).unwrap_or_else(|| piece.to_owned()));
            pieces.collect::<Vec<_>>().join(";")
        })
    });
    let told = parts.collect::<Vec<_>>().join("&");
    (told != query).then_some(told)
}

const REDACTED: HeaderValue = HeaderValue::from_static("***");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Route;
    use crate::policy::field::Field;

    fn policy() -> Policy {
        let route = Route { user: vec![Field::Query("log".into())], ..Route::new("login", Vec::new()) };
        Policy::new(vec![route], Vec::new())
    }

    #[test]
    fn the_values_of_fields_and_of_what_sounds_like_a_password_are_veiled() {
        let veiled = |text: &str| redact_target(&text.parse().unwrap(), &policy()).to_string();
        assert_eq!(veiled("/a?log=x&next=/b"), "/a?log=***&next=/b");
        assert_eq!(veiled("/a?next=/b;l%6fg[]=x;User_PWD=y"), "/a?next=/b;l%6fg[]=***;User_PWD=***");
        assert_eq!(veiled("/a?log=x;y&z=1"), "/a?log=***&z=1");
        assert_eq!(veiled("/a?%6cog=x"), "/a?%6cog=***");
        assert_eq!(veiled("/a?log&x=log=1"), "/a?log&x=log=1");
        assert_eq!(veiled("/a"), "/a");
        assert_eq!(veiled(&format!("/a?{}log=x", "a&".repeat(200))), "/a?***");
    }

    #[test]
    fn whatever_would_be_read_as_an_account_is_veiled() {
        let fields = vec![Field::form("user[name]").unwrap()];
        let route = Route { user: fields, ..Route::new("login", Vec::new()) };
        let policy = Policy::new(vec![route], Vec::new());
        for name in ["user[name]", "user%5Bname%5D", "user.name", "USER[name][]", "%u0075ser[name]"] {
            let told = redact_query(&format!("{name}=x&a=b"), &policy);
            assert_eq!(told, Some(format!("{name}=***&a=b")));
        }
    }

    #[test]
    fn a_referer_is_veiled_as_a_target_is() {
        let veiled = |text| redact_referer(&HeaderValue::from_static(text), &policy());
        assert_eq!(veiled("http://a/?log=x"), "http://a/?log=***");
        assert_eq!(veiled("http://a/?q=x"), "http://a/?q=x");
    }
}
