//! The redirect from `http://` to `https://`: same host, same target, status 308.
//!
//! 308 keeps the method and the body. The port is a guess by `Host`: a client that names our `http://` port reaches us
//! directly and is sent to our own `https://` port; one that names another port comes through a port mapping, which has
//! to map 443. `runtime_config` decides which requests are redirected.

use bytes::Bytes;
use http::header::{CONNECTION, HOST, LOCATION};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};

use crate::proxy::body::ResponseBody;

/// The redirect of `http://` clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redirect {
    /// The port of our own `https://` listener; `None` if TLS is spoken in front of us.
    pub port: Option<u16>,
}

impl Redirect {
    /// The `Location`; `None` if the request has no host or no path. `port` is the port of the listener.
    #[must_use]
    pub fn location<B>(&self, port: u16, request: &Request<B>) -> Option<HeaderValue> {
        let target = request.uri().path_and_query()?.as_str();
        let host = host(request)?;
        let (name, named) = split_port(host);
        let https_port = self.port.filter(|own| named.unwrap_or(HTTP) == port && *own != HTTPS);
        let suffix = https_port.map(|port| format!(":{port}")).unwrap_or_default();
        if !target.starts_with('/') {
            return None;
        }
        HeaderValue::try_from(format!("https://{name}{suffix}{target}")).ok()
    }
}

/// The redirect with this `Location`. It closes the connection: the client has to connect again anyway.
pub(in crate::proxy) fn redirect_response(location: HeaderValue) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::generated(Bytes::new()));
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(LOCATION, location);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn host<B>(request: &Request<B>) -> Option<&str> {
    let authority = || request.uri().authority().map(http::uri::Authority::as_str);
    match request.headers().get(HOST) {
        Some(host) => host.to_str().ok(),
        None => authority(),
    }
}

/// The name with its brackets, and the port if one is named.
fn split_port(host: &str) -> (&str, Option<u16>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port.parse().ok()),
        _ => (host, None),
    }
}

const HTTP: u16 = 80;
const HTTPS: u16 = 443;

#[cfg(test)]
mod tests {
    use super::*;

    fn location(https_port: Option<u16>, port: u16, host: &str, target: &str) -> Option<String> {
        let request = Request::builder().uri(target).header(HOST, host).body(()).unwrap();
        let location = Redirect { port: https_port }.location(port, &request)?;
        Some(location.to_str().unwrap().to_owned())
    }

    #[test]
    fn the_host_and_the_target_stay_as_they_were_sent() {
        let to = |host, target| location(Some(443), 80, host, target).unwrap();
        assert_eq!(to("App.test", "/a%2fb?x=1&y"), "https://App.test/a%2fb?x=1&y");
        assert_eq!(to("app.test:80", "/"), "https://app.test/");
        assert_eq!(to("[::1]:80", "//x"), "https://[::1]//x");
        assert_eq!(to("[::1]", "http://[::1]/x"), "https://[::1]/x");
    }

    #[test]
    fn the_port_is_ours_where_the_client_reaches_us_directly() {
        assert_eq!(location(Some(8443), 8080, "a:8080", "/"), Some("https://a:8443/".into()));
        assert_eq!(location(Some(8443), 80, "a", "/"), Some("https://a:8443/".into()));
        assert_eq!(location(Some(8443), 8080, "a", "/"), Some("https://a/".into()), "80 is mapped to 8080");
        assert_eq!(location(None, 80, "a", "/"), Some("https://a/".into()));
    }

    #[test]
    fn what_has_no_address_is_sent_nowhere() {
        assert_eq!(location(None, 80, "a", "*"), None);
    }
}
