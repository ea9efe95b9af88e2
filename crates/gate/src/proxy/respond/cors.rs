//! CORS for the gate's answers: a page of another origin can read the wait instead of getting a network error.
//!
//! The rules are those of the Fetch standard (<https://fetch.spec.whatwg.org/#http-cors-protocol>). The application answers pre-flights,
//! and adds CORS to its answers itself.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ORIGIN,
    VARY,
};
use http::{HeaderMap, HeaderValue};

use crate::policy::AllowedOrigins;

/// The permission for one page to read an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CorsPermission {
    /// For this origin, credentials included.
    Origin(HeaderValue),
    /// For every origin, without credentials.
    Any,
}

impl CorsPermission {
    /// The permission for the page that sent this request; `None` without an origin, or for one that is not allowed.
    #[must_use]
    pub fn of(allowed: &AllowedOrigins, request: &HeaderMap) -> Option<Self> {
        let mut origins = match allowed {
            AllowedOrigins::None => return None,
            AllowedOrigins::Any | AllowedOrigins::Listed(_) => request.get_all(ORIGIN).iter(),
        };
        let (Some(origin), None) = (origins.next(), origins.next()) else { return None };
        match allowed {
            AllowedOrigins::Listed(listed) => listed.contains(origin).then(|| Self::Origin(origin.clone())),
            AllowedOrigins::Any | AllowedOrigins::None => Some(Self::Any),
        }
    }

    /// Adds the headers that tell it to the browser.
    pub fn append_to(&self, headers: &mut HeaderMap) {
        let origin = match self {
            Self::Any => HeaderValue::from_static("*"),
            Self::Origin(origin) => {
                headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
                headers.append(VARY, HeaderValue::from_static("Origin"));
                origin.clone()
            }
        };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    }
}

/// What programs need to wait and to report. A list, because `*` means nothing where credentials are sent.
const EXPOSED: &str = "Retry-After, RateLimit, RateLimit-Policy, X-Request-Id";

#[cfg(test)]
mod tests {
    use super::*;

    fn request(origins: &[&'static str]) -> HeaderMap {
        origins.iter().map(|origin| (ORIGIN, HeaderValue::from_static(origin))).collect()
    }

    #[test]
    fn a_listed_origin_is_repeated_with_credentials_and_no_other() {
        let listed = AllowedOrigins::Listed(vec![HeaderValue::from_static("https://app.example")]);
        let of = |origins: &[&'static str]| CorsPermission::of(&listed, &request(origins));
        let permission = of(&["https://app.example"]).unwrap();
        for others in [
            &[][..],
            &["null"],
            &["http://app.example"],
            &["https://app.example.evil.example"],
            &["https://APP.example"],
            &["https://app.example", "https://app.example"],
        ] {
            assert_eq!(of(others), None, "{others:?}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(VARY, HeaderValue::from_static("Accept"));
        permission.append_to(&mut headers);
        assert_eq!(headers["access-control-allow-origin"], "https://app.example");
        assert_eq!(headers["access-control-allow-credentials"], "true");
        assert_eq!(headers["access-control-expose-headers"], EXPOSED);
        assert_eq!(headers.get_all(VARY).iter().collect::<Vec<_>>(), ["Accept", "Origin"]);
    }

    #[test]
    fn every_origin_is_allowed_without_credentials() {
        let permission = CorsPermission::of(&AllowedOrigins::Any, &request(&["null"])).unwrap();
        let mut headers = HeaderMap::new();
        permission.append_to(&mut headers);
        assert_eq!(headers["access-control-allow-origin"], "*");
        assert!(!headers.contains_key("access-control-allow-credentials") && !headers.contains_key(VARY));
        assert_eq!(CorsPermission::of(&AllowedOrigins::Any, &HeaderMap::new()), None);
        assert_eq!(CorsPermission::of(&AllowedOrigins::None, &request(&["null"])), None);
    }
}
