//! What must not be told of a request: names and passwords in its query.
//!
//! Only records are veiled; what is forwarded stays as it was sent. The surprising thing: a `Referer` is veiled too, since a
//! browser that was sent on from such an address names it there.

use http::{HeaderValue, Uri};

use crate::policy::Policy;
use crate::policy::query;

/// The target as it may be told.
pub(super) fn target(uri: &Uri, policy: &Policy) -> Uri {
    let Some(veiled) = uri.query().and_then(|query| veil(query, policy)) else { return uri.clone() };
    let whole = format!("{}?{veiled}", uri.path());
    whole.parse().unwrap_or_else(|_| Uri::from_static("/"))
}

/// A `Referer` as it may be told.
pub(super) fn referer(value: &HeaderValue, policy: &Policy) -> HeaderValue {
    let text = String::from_utf8_lossy(value.as_bytes());
    let Some((address, query)) = text.split_once('?') else { return value.clone() };
    match veil(query, policy) {
        Some(veiled) => HeaderValue::from_str(&format!("{address}?{veiled}")).unwrap_or(HIDDEN),
        None => value.clone(),
    }
}

/// The query with a veil over each value that is nobody's business; `None` if there is none.
fn veil(query: &str, policy: &Policy) -> Option<String> {
    let is_private = |part: &str| {
        let name = part.split_once('=').map_or(part, |(name, _)| name);
        policy.is_private(&query::decode(name))
    };
    if !query.split(['&', ';']).any(is_private) {
        return None;
    }
    let mut veiled = String::with_capacity(query.len());
    for part in query.split_inclusive(['&', ';']) {
        match part.split_once('=') {
            Some((name, value)) if is_private(part) => {
                veiled.push_str(name);
                veiled.push_str("=***");
                veiled.extend(value.chars().last().filter(|end| matches!(end, '&' | ';')));
            }
            _ => veiled.push_str(part),
        }
    }
    Some(veiled)
}

const HIDDEN: HeaderValue = HeaderValue::from_static("***");

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
        let veiled = |text: &str| target(&text.parse().unwrap(), &policy()).to_string();
        assert_eq!(veiled("/a?log=x&next=/b"), "/a?log=***&next=/b");
        assert_eq!(veiled("/a?next=/b;l%6fg[]=x;User_PWD=y"), "/a?next=/b;l%6fg[]=***;User_PWD=***");
        assert_eq!(veiled("/a?log&x=log=1"), "/a?log&x=log=1");
        assert_eq!(veiled("/a"), "/a");
    }

    #[test]
    fn a_referer_is_veiled_as_a_target_is() {
        let veiled = |text| referer(&HeaderValue::from_static(text), &policy());
        assert_eq!(veiled("http://a/?log=x"), "http://a/?log=***");
        assert_eq!(veiled("http://a/?q=x"), "http://a/?q=x");
    }
}
