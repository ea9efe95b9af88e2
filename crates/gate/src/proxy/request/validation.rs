//! Requests by which an authority checks a name (http-01, RFC 8555, section 8.3). The gate answers them itself.
//!
//! For the names of `tls.acme` no request below this path is forwarded, so an application cannot prove a name that it
//! does not own. Which answers there are is left to `net`.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};

use crate::net::tls::Validations;
use crate::proxy::body::ResponseBody;

/// The names that are proved by requests, and the answers.
#[derive(Debug, Clone)]
pub struct ValidationHosts {
    /// In lower case.
    pub names: Arc<[String]>,
    /// The answers of open orders.
    pub validations: Arc<Validations>,
}

/// The answer to the authority: the key authorization, or none for an unknown token.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::proxy) struct ValidationAnswer(Option<String>);

impl ValidationHosts {
    /// The answer, if a request for this path of this host is one of an authority. `host` is in lower case.
    pub(in crate::proxy) fn answer(&self, host: &str, path: &str) -> Option<ValidationAnswer> {
        let token = path.strip_prefix(PATH)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let answer = self.validations.key_authorization(host, token);
        // One that is ordered on demand is ours while its order is open.
        let is_ours = answer.is_some() || self.names.iter().any(|name| name == host);
        is_ours.then_some(ValidationAnswer(answer))
    }
}

impl ValidationAnswer {
    pub(in crate::proxy) fn into_response(self) -> Response<ResponseBody> {
        let (status, text) = match self.0 {
            Some(text) => (StatusCode::OK, text),
            None => (StatusCode::NOT_FOUND, String::new()),
        };
        let mut response = Response::new(ResponseBody::generated(Bytes::from(text)));
        *response.status_mut() = status;
        let kind = HeaderValue::from_static("application/octet-stream");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }
}

const PATH: &str = "/.well-known/acme-challenge/";

#[cfg(test)]
#[cfg(feature = "tls")]
mod tests {
    use super::*;

    #[test]
    fn only_the_open_token_of_its_own_name_is_answered_and_other_hosts_keep_the_path() {
        let validations = Arc::new(Validations::default());
        let _open = validations.open("app.test", "token", "token.key").unwrap();
        let hosts = ValidationHosts { names: ["app.test".to_owned()].into(), validations };
        let answer = |host: &str, path: &str| hosts.answer(host, path).map(|answer| answer.0);
        let known = answer("app.test", "/.well-known/acme-challenge/token");
        assert_eq!(known, Some(Some("token.key".to_owned())));
        for path in ["", "tokens", "token/", "../token"] {
            assert_eq!(answer("app.test", &format!("{PATH}{path}")), Some(None), "{path}");
        }
        assert_eq!(
            answer("[app.test]", "/.well-known/acme-challenge/token"),
            known,
            "brackets are for addresses"
        );
        assert_eq!(answer("other.test", "/.well-known/acme-challenge/token"), None);
        assert_eq!(answer("app.test", "/.well-known/acme-challengetoken"), None);
    }
}
