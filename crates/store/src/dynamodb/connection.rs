//! A server of DynamoDB or of credentials: connections to it, and what its responses are to a store.
//!
//! The choice of a connection and retries are left to [`pool`](super::pool).

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::DATE;
use tollgate_base::http_client::{HttpClientError, HttpConnection, Unsent};
use tollgate_base::stream;
use tollgate_base::tls::Trust;

use super::address::HttpServer;
use crate::StoreError;
use tollgate_bucket::{Span, Time};

/// The server to connect to, and how.
#[derive(Clone)]
pub(super) struct HttpPeer {
    pub(super) server: HttpServer,
    /// Set if the server wants TLS.
    pub(super) trust: Option<Trust>,
}

/// A complete response.
pub(super) struct HttpReply {
    pub(super) status: StatusCode,
    pub(super) date: Option<Time>,
    pub(super) body: Bytes,
}

/// Why there is no connection to this authority.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpConnectError {
    #[error("no connection to {0} within a second")]
    Late(String),
    #[error("{0}: {1}")]
    Failed(String, HttpClientError),
}

impl HttpPeer {
    /// A new connection, within a second. The name is looked up each time.
    pub(super) async fn connect(&self) -> Result<HttpConnection, HttpConnectError> {
        let authority = || self.server.authority.clone();
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.try_connect()).await;
        let connected = connected.map_err(|_| HttpConnectError::Late(authority()))?;
        connected.map_err(|error| HttpConnectError::Failed(authority(), error))
    }

    async fn try_connect(&self) -> Result<HttpConnection, HttpClientError> {
        let HttpServer { host, port, .. } = &self.server;
        HttpConnection::over(stream::open(host, *port, self.trust.as_ref(), CONNECT_TIMEOUT).await?).await
    }
}

/// Sends a request and reads the whole response. The request is put back if it certainly has not been sent.
pub(super) async fn call(
    connection: &mut HttpConnection,
    unsent: &mut Unsent,
) -> Result<HttpReply, StoreError> {
    let response = connection.call(unsent, MAX_BYTES).await.map_err(blame)?;
    let date = response.headers().get(DATE).and_then(|date| parse_date(date.to_str().ok()?));
    Ok(HttpReply { status: response.status(), date, body: response.into_body() })
}

fn blame(error: HttpClientError) -> StoreError {
    match error {
        HttpClientError::NotHttp(_) => StoreError::UnexpectedResponse("not HTTP".to_owned()),
        HttpClientError::TooLong => StoreError::UnexpectedResponse("a body of more than 96 KiB".to_owned()),
        error => StoreError::unreachable(error),
    }
}

/// Parses `Sat, 21 Nov 2026 09:11:26 GMT` (RFC 9110, section 5.6.7); `None` for an impossible date.
fn parse_date(text: &str) -> Option<Time> {
    let parsed = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    let seconds = u64::try_from(parsed.as_second()).ok()?;
    Some(Time::default().after(Span::from_secs(seconds)))
}

/// For one connection, and for a response from nearby.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest text that gates share takes 80 KiB in base64.
const MAX_BYTES: usize = 96 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_and_what_is_none_is_none() {
        let time = |seconds| Some(Time::default().after(Span::from_secs(seconds)));
        for (text, date) in [
            ("Thu, 01 Jan 1970 00:00:01 GMT", time(1)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", time(784_111_777)),
            ("Wed, 29 Dec 9999 23:59:59 GMT", Some(Time::from_nanos(u64::MAX))),
            ("Wed, 31 Dec 1969 23:59:59 GMT", None),
            ("Sun, 32 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 99999999999999999999 08:49:37 GMT", None),
            ("now", None),
            ("", None),
        ] {
            assert_eq!(parse_date(text), date, "{text}");
        }
    }
}
