//! A client that keeps to the rules, as far as its test lets it.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use http::{Request, Response};
use tokio::net::TcpStream;
use tokio::runtime::Builder as Runtime;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::authority::{Authority, BOTH};

/// A connection that agreed on HTTP/2.
pub struct Polite {
    pub send: SendRequest<Bytes>,
}

/// Runs this to its end, for at most half a minute.
pub fn run<T>(story: impl Future<Output = T>) -> T {
    let runtime = Runtime::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(30), story).await.expect("it ends") })
}

/// TLS on which HTTP/2 was agreed on.
pub async fn tls(authority: &Authority, address: SocketAddr) -> TlsStream<TcpStream> {
    let mut config = authority.client_config(BOTH);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect("app.test".try_into().unwrap(), stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    stream
}

impl Polite {
    pub async fn connect(authority: &Authority, address: SocketAddr) -> Self {
        Self::connect_by(authority, address, &Builder::new()).await
    }

    pub async fn connect_by(authority: &Authority, address: SocketAddr, builder: &Builder) -> Self {
        let stream = tls(authority, address).await;
        let (send, connection) = builder.handshake(stream).await.unwrap();
        tokio::spawn(async move {
            // How it ends is seen on its streams.
            let _ = connection.await;
        });
        Self { send }
    }

    /// Sends a request with this body; an empty one is none.
    pub async fn ask(&mut self, request: Request<()>, body: &str) -> Result<Response<String>, h2::Error> {
        let response = self.begin(request, body).await?.await?;
        let (head, mut incoming) = response.into_parts();
        let mut text = Vec::new();
        while let Some(piece) = incoming.data().await {
            let piece = piece?;
            incoming.flow_control().release_capacity(piece.len())?;
            text.extend_from_slice(&piece);
        }
        Ok(Response::from_parts(head, String::from_utf8_lossy(&text).into_owned()))
    }

    /// The same without waiting for the answer.
    pub async fn begin(&mut self, request: Request<()>, body: &str) -> Result<ResponseFuture, h2::Error> {
        let mut ready = self.send.clone().ready().await?;
        let (response, mut out) = ready.send_request(request, body.is_empty())?;
        if !body.is_empty() {
            out.send_data(Bytes::copy_from_slice(body.as_bytes()), true)?;
        }
        Ok(response)
    }

    /// The status of the answer to a POST of this form.
    pub async fn post(&mut self, path: &str, body: &str) -> u16 {
        let answer = self.ask(post(path), body).await.unwrap();
        answer.status().as_u16()
    }
}

pub fn post(path: &str) -> Request<()> {
    request("POST", path)
}

pub fn request(method: &str, path: &str) -> Request<()> {
    Request::builder().method(method).uri(format!("https://app.test{path}")).body(()).unwrap()
}
