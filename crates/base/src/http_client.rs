//! The client of HTTP/1.1 for requests that a gate makes by itself: to a store, a collector, an authority or a webhook;
//! the command line asks the admin API by it.
//!
//! One request at a time on a connection. Pools, time-outs, repetition and the meaning of an answer are left to the
//! callers. Requests of clients go another way: see `proxy::upstream` of the gate.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;

use crate::stream::{self, Duplex};
use crate::tls::Trust;

/// A connection on which no response is awaited. Dropping it ends the task that drives it: a request that is given up
/// takes its connection along, and no response is ever read for another request.
pub struct HttpConnection {
    sender: SendRequest<Full<Bytes>>,
    driver: Driver,
}

/// A request, as long as it certainly has not been sent. Its target is a path, and it names its host.
pub type Unsent = Option<Request<Full<Bytes>>>;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpClientError {
    /// The server cannot be reached, or cannot prove its name.
    #[error("cannot connect: {0}")]
    Connect(#[from] io::Error),
    /// The server broke the protocol.
    #[error("it does not speak HTTP: {0}")]
    NotHttp(hyper::Error),
    /// The connection broke.
    #[error("{0}")]
    Broken(hyper::Error),
    /// The server is to prove its name, and there are no trusted roots to check it by.
    #[error("there are no roots to check its certificate")]
    NoRoots,
    /// The answer is longer than the caller takes.
    #[error("its answer is too long")]
    TooLong,
    /// The address is none of HTTP.
    #[error("`{0}` is not an address of HTTP")]
    Address(Uri),
    /// The request was sent already.
    #[error("there is no request")]
    NoRequest,
}

/// Ends the task that drives a connection.
struct Driver(AbortHandle);

impl HttpConnection {
    /// A connection over this stream. Needs a tokio runtime.
    ///
    /// # Errors
    /// The stream has ended.
    pub async fn over<S>(stream: S) -> Result<Self, HttpClientError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let builder = http1::Builder::new().max_headers(MAX_HEADERS).max_buf_size(MAX_HEAD).clone();
        let (sender, driver) = builder.handshake(TokioIo::new(stream)).await?;
        // A request in flight learns how the task ends; otherwise it does not matter.
        let task = tokio::spawn(async move { drop(driver.await) });
        Ok(Self { sender, driver: Driver(task.abort_handle()) })
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed() || self.driver.0.is_finished()
    }

    /// Whether a request can be sent now: the task may still have to notice that the last response has ended.
    pub async fn is_ready(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }

    /// Sends a request when the last response has ended, and reads the whole response, of `max_answer` bytes at most.
    /// The request is put back if it certainly has not been sent.
    ///
    /// # Errors
    /// See [`HttpClientError`].
    pub async fn call(
        &mut self,
        unsent: &mut Unsent,
        max_answer: usize,
    ) -> Result<Response<Bytes>, HttpClientError> {
        let (head, body) = self.send(unsent).await?.into_parts();
        match Limited::new(body, max_answer).collect().await {
            Ok(collected) => Ok(Response::from_parts(head, collected.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => Err(HttpClientError::TooLong),
            Err(error) => Err(error
                .downcast::<hyper::Error>()
                .map_or_else(|error| io::Error::other(error).into(), |error| (*error).into())),
        }
    }

    /// Sends a request as [`call`](Self::call) does, and waits for the head of its response: the body is still to be read.
    ///
    /// # Errors
    /// See [`HttpClientError`].
    pub async fn send(&mut self, unsent: &mut Unsent) -> Result<Response<Incoming>, HttpClientError> {
        self.sender.ready().await?;
        let request = unsent.take().ok_or(HttpClientError::NoRequest)?;
        self.sender.try_send_request(request).await.map_err(|mut error| {
            *unsent = error.take_message();
            error.into_error().into()
        })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl From<hyper::Error> for HttpClientError {
    fn from(error: hyper::Error) -> Self {
        if error.is_parse() { Self::NotHttp(error) } else { Self::Broken(error) }
    }
}

/// The answer to a request whose target is a whole address, on its own connection. `trust` is for `https`;
/// `max_answer` is in bytes.
///
/// # Errors
/// See [`HttpClientError`].
pub async fn exchange<B>(
    request: Request<B>,
    trust: Option<&Trust>,
    max_answer: usize,
) -> Result<Response<Bytes>, HttpClientError>
where
    B: Body<Data = Bytes, Error = Infallible>,
{
    let (mut head, body) = request.into_parts();
    let Ok(body) = body.collect().await;
    let stream = connect(&head.uri, trust).await?;
    let host = head.uri.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok());
    head.headers.insert(HOST, host.ok_or_else(|| HttpClientError::Address(head.uri.clone()))?);
    head.uri = head.uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/")).into();
    let mut request = Some(Request::from_parts(head, Full::new(body.to_bytes())));
    HttpConnection::over(stream).await?.call(&mut request, max_answer).await
}

async fn connect(address: &Uri, trust: Option<&Trust>) -> Result<Box<dyn Duplex>, HttpClientError> {
    let is_secure = address.scheme() == Some(&Scheme::HTTPS);
    let host = address.host().unwrap_or_default();
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = address.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
    let trust = match (is_secure, trust) {
        (true, None) => return Err(HttpClientError::NoRoots),
        (true, trust) => trust,
        (false, _) => None,
    };
    Ok(stream::open(host, port, trust, CONNECT_TIMEOUT).await?)
}

/// For all addresses of a name together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_HEADERS: usize = 64;
/// Bytes.
const MAX_HEAD: usize = 64 * 1024;
