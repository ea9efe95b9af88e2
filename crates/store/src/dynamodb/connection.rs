//! One HTTP/1.1 connection with one request at a time.
//!
//! The choice of a connection and retries are left to [`pool`](super::pool). Dropping a connection ends the task that
//! drives it, so a request that is given up takes its connection along, and no response is ever read for another
//! request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::DATE;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::task::AbortHandle;

use super::address::HttpEndpoint;
use crate::StoreError;
use crate::stream;
use tollgate_bucket::{Span, Time};

/// The server to connect to, and how.
#[derive(Clone)]
pub(super) struct HttpPeer {
    pub(super) endpoint: HttpEndpoint,
    /// Set if the server wants TLS.
    pub(super) tls: Option<Arc<ClientConfig>>,
}

/// A connection on which no response is awaited.
pub(super) struct HttpConnection {
    sender: SendRequest<Full<Bytes>>,
    driver: HttpDriver,
}

/// Ends the task that drives a connection.
struct HttpDriver(AbortHandle);

/// A request, as long as it certainly has not been sent.
pub(super) type Unsent = Option<Request<Full<Bytes>>>;

/// A complete response.
pub(super) struct HttpReply {
    pub(super) status: StatusCode,
    pub(super) date: Option<Time>,
    pub(super) body: Bytes,
}

impl HttpConnection {
    /// A new connection, within a second. The name is looked up each time.
    pub(super) async fn open(peer: &HttpPeer) -> Result<Self, String> {
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, Self::try_open(peer)).await;
        opened.map_err(|_| format!("no connection to {} within a second", peer.endpoint.authority))?
    }

    async fn try_open(peer: &HttpPeer) -> Result<Self, String> {
        let HttpEndpoint { host, port, authority, .. } = &peer.endpoint;
        let failed = |error: &dyn std::fmt::Display| format!("{authority}: {error}");
        let stream = stream::open(host, *port, peer.tls.as_ref(), CONNECT_TIMEOUT).await;
        let stream = stream.map_err(|error| failed(&error))?;
        let builder = http1::Builder::new().max_headers(MAX_HEADERS).max_buf_size(MAX_BYTES).clone();
        let (sender, driver) =
            builder.handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
        // A request in flight learns how the task ends; otherwise it does not matter.
        let task = tokio::spawn(async move { drop(driver.await) });
        Ok(Self { sender, driver: HttpDriver(task.abort_handle()) })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed() || self.driver.0.is_finished()
    }

    /// Whether a request can be sent now: the task may still have to notice that the last response has ended.
    pub(super) async fn is_ready(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }

    /// Sends a request and reads the whole response. The request is put back if it certainly has not been sent.
    pub(super) async fn call(&mut self, unsent: &mut Unsent) -> Result<HttpReply, StoreError> {
        let Some(request) = unsent.take() else { return Err(StoreError::unreachable("there is no request")) };
        let response = match self.sender.try_send_request(request).await {
            Ok(response) => response,
            Err(mut error) => {
                *unsent = error.take_message();
                return Err(blame(error.error()));
            }
        };
        let status = response.status();
        let date = response.headers().get(DATE).and_then(|date| parse_date(date.to_str().ok()?));
        let body = read(response.into_body()).await?;
        Ok(HttpReply { status, date, body })
    }
}

impl Drop for HttpDriver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn read(body: Incoming) -> Result<Bytes, StoreError> {
    match Limited::new(body, MAX_BYTES).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(StoreError::UnexpectedResponse("a body of more than 64 KiB".to_owned()))
        }
        Err(error) => {
            Err(error.downcast::<hyper::Error>().map_or_else(StoreError::unreachable, |error| blame(&error)))
        }
    }
}

fn blame(error: &hyper::Error) -> StoreError {
    if error.is_parse() {
        StoreError::UnexpectedResponse("not HTTP".to_owned())
    } else {
        StoreError::unreachable(error)
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
const MAX_HEADERS: usize = 64;
const MAX_BYTES: usize = 64 * 1024;

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
