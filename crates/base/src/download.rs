//! Fetches a text by HTTPS, within bounds of time and size.
//!
//! A redirection must stay at its host: another one may publish anything. Plain HTTP is only for this machine.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::Empty;
use tokio::time::timeout;

use crate::http_client::{HttpClientError, exchange};
use crate::tls::Trust;

/// Why there is no text.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The server did not answer in time.
    #[error("no answer within {} s", TIMEOUT.as_secs())]
    Timeout,
    /// There was no answer of HTTP.
    #[error(transparent)]
    Http(#[from] HttpClientError),
    /// The address cannot be asked for.
    #[error("no request: {0}")]
    Request(#[from] http::Error),
    /// Another status than 200.
    #[error("the answer is {0}")]
    Status(StatusCode),
    /// The answer is no text.
    #[error("the answer is not UTF-8")]
    NotText,
    /// A redirection without an address, or to one that is not taken.
    #[error("it is redirected to `{0}`")]
    Redirect(String),
    /// A redirection to another host, or from HTTPS to HTTP.
    #[error("it is redirected to another host: {0}")]
    OtherHost(String),
    /// More redirections than are followed.
    #[error("it is redirected more than {MAX_REDIRECTS} times")]
    TooManyRedirects,
}

/// Whether a text can be fetched from this address: by `https://`, or by `http://` from this machine.
#[must_use]
pub fn is_allowed(address: &Uri) -> bool {
    let host = address.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    match address.scheme_str() {
        Some("https") => true,
        Some("http") => is_here,
        _ => false,
    }
}

/// The text behind an address and its redirections; `key` is a header that proves who asks. `trust` is for `https`.
///
/// # Errors
/// See [`DownloadError`].
pub async fn text_at(
    mut address: Uri,
    key: Option<(HeaderName, HeaderValue)>,
    trust: Option<&Trust>,
) -> Result<String, DownloadError> {
    for _ in 0..=MAX_REDIRECTS {
        let mut request = Request::get(&address)
            .header(header::ACCEPT, "application/json, text/plain, */*;q=0.1")
            .header(header::USER_AGENT, concat!("tollgate/", env!("CARGO_PKG_VERSION")))
            .body(Empty::<Bytes>::new())?;
        request.headers_mut().extend(key.clone());
        let exchanged = timeout(TIMEOUT, exchange(request, trust, MAX_DOWNLOAD)).await;
        let answer = exchanged.map_err(|_| DownloadError::Timeout)??;
        if answer.status().is_redirection() {
            address = redirected(&address, &answer)?;
            continue;
        }
        if answer.status() != StatusCode::OK {
            return Err(DownloadError::Status(answer.status()));
        }
        return String::from_utf8(answer.into_body().into()).map_err(|_| DownloadError::NotText);
    }
    Err(DownloadError::TooManyRedirects)
}

/// Where a redirection leads.
fn redirected(from: &Uri, answer: &Response<Bytes>) -> Result<Uri, DownloadError> {
    let location = answer.headers().get(header::LOCATION).map(HeaderValue::as_bytes).unwrap_or_default();
    let location = String::from_utf8_lossy(location);
    let wrong = || DownloadError::Redirect(location.to_string());
    let to: Uri = location.parse().map_err(|_| wrong())?;
    let is_path = location.starts_with('/') && !location.starts_with("//");
    let mut parts = from.clone().into_parts();
    if to.authority().is_some() {
        let origin = |uri: &Uri| (uri.scheme().cloned(), uri.authority().cloned());
        if origin(&to) != origin(from) {
            return Err(DownloadError::OtherHost(location.to_string()));
        }
    }
    if !location.contains("://") && !is_path {
        return Err(wrong());
    }
    parts.path_and_query = to.path_and_query().cloned().or(Some(PathAndQuery::from_static("/")));
    Uri::from_parts(parts).map_err(|error| DownloadError::Request(error.into()))
}

/// Whether an address is that of HTTPS, whose server has to prove its name.
#[must_use]
pub fn is_https(address: &Uri) -> bool {
    address.scheme() == Some(&Scheme::HTTPS)
}

/// Bytes; Azure's file of networks has 4.3 MB.
pub const MAX_DOWNLOAD: usize = 16 << 20;
const TIMEOUT: Duration = Duration::from_secs(30);
const MAX_REDIRECTS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn redirect(from: &str, location: &str) -> Result<String, String> {
        let answer = Response::builder().header("location", location).body(Bytes::new()).unwrap();
        let to = redirected(&from.parse().unwrap(), &answer);
        to.map(|to| to.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_redirection_stays_at_its_host() {
        let from = "https://proxy.test/ips-v4?x=1";
        for (location, to) in [
            ("/ips-v4/", "https://proxy.test/ips-v4/"),
            ("https://proxy.test/ips-v4/", "https://proxy.test/ips-v4/"),
            ("https://PROXY.test/a?b", "https://proxy.test/a?b"),
        ] {
            assert_eq!(redirect(from, location).as_deref(), Ok(to), "{location}");
        }
        for location in [
            "https://other.test/ips-v4",
            "http://proxy.test/ips-v4",
            "https://proxy.test:8443/ips-v4",
            "https://proxy.test@other.test/",
            "//other.test/ips-v4",
            "ips-v4/",
            "",
        ] {
            assert!(redirect(from, location).is_err(), "{location}: {:?}", redirect(from, location));
        }
    }

    #[test]
    fn addresses_are_of_https_or_of_this_machine() {
        for text in
            ["https://mirror.test/list", "http://127.0.0.1:8080/", "http://[::1]/", "http://localhost/"]
        {
            assert!(is_allowed(&text.parse().unwrap()), "{text}");
        }
        for text in ["http://mirror.test/list", "ftp://127.0.0.1/", "/list", "mirror.test"] {
            assert!(!is_allowed(&text.parse().unwrap()), "{text}");
        }
    }
}
