//! Sends one request on a connection of its own, by HTTP/1.1, and reads the whole answer.
//!
//! For the few requests that a gate makes by itself. Time-outs, repetition and the meaning of the answer are left to the
//! caller.

use std::convert::Infallible;
use std::io;

use bytes::Bytes;
use http::header::HOST;
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Body;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::net::stream::NetStream;
use crate::net::tls::{self, Trust};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpClientError {
    /// The server cannot be reached, or cannot prove its name.
    #[error("cannot connect: {0}")]
    Connect(#[from] io::Error),
    /// The server broke the protocol, or the connection broke.
    #[error("it does not speak HTTP: {0}")]
    Http(#[from] hyper::Error),
    /// The server is to prove its name, and there are no trusted roots to check it by.
    #[error("there are no roots to check its certificate")]
    NoRoots,
    /// The answer is longer than the caller takes, or ends too early.
    #[error("its answer is incomplete or too long")]
    Answer,
    /// The address is none of HTTP.
    #[error("`{0}` is no address of HTTP")]
    Address(Uri),
}

/// The answer to a request whose target is the whole address. `trust` is for `https`; `max_answer` is in bytes.
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
    let target = head.uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
    head.uri = target.into();
    let (mut sender, connection) = http1::Builder::new().handshake(TokioIo::new(stream)).await?;
    let exchange = async {
        let response = sender.send_request(Request::from_parts(head, Full::new(body.to_bytes()))).await?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, max_answer).collect().await.map_err(|_| HttpClientError::Answer)?;
        Ok(Response::from_parts(head, body.to_bytes()))
    };
    // The exchange hears of a broken connection, and outlives one that ends with the answer.
    let driver = async {
        drop(connection.await);
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        done = exchange => done,
        never = driver => match never {},
    }
}

async fn connect(address: &Uri, trust: Option<&Trust>) -> Result<NetStream, HttpClientError> {
    let is_secure = address.scheme() == Some(&Scheme::HTTPS);
    let host = address.host().unwrap_or_default();
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = address.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
    let stream = TcpStream::connect((host, port)).await?;
    if !is_secure {
        return Ok(NetStream::Tcp(stream));
    }
    Ok(tls::connect(stream, host, trust.ok_or(HttpClientError::NoRoots)?).await?)
}
