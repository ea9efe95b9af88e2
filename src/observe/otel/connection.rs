//! Sends one export to the collector, on a connection of its own.
//!
//! Which exports there are, and what becomes of those that fail, is left to the loop that calls it.

use std::io;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::observe::settings::OtelSettings;

/// The collector, as the thread that sends sees it.
#[derive(Debug)]
pub(super) struct Collector {
    host: String,
    port: u16,
    runtime: Runtime,
}

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExportError {
    /// It did not answer in time.
    #[error("no answer within five seconds")]
    Timeout,
    /// It cannot be reached.
    #[error("cannot connect: {0}")]
    Connect(#[from] io::Error),
    /// The connection broke.
    #[error("{0}")]
    Http(#[from] hyper::Error),
    /// The request cannot be built.
    #[error("{0}")]
    Request(#[from] http::Error),
    /// It refused the export.
    #[error("it answered {0}")]
    Status(StatusCode),
}

impl Collector {
    pub(super) fn new(settings: &OtelSettings) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { host: settings.host.clone(), port: settings.port, runtime })
    }

    /// Waits for the head of the answer; its body says nothing that a gate could act on.
    pub(super) fn post(&self, path: &str, body: Vec<u8>) -> Result<(), ExportError> {
        self.runtime.block_on(async {
            let sent = tokio::time::timeout(EXPORT_TIMEOUT, self.send(path, body)).await;
            match sent.map_err(|_| ExportError::Timeout)?? {
                status if status.is_success() => Ok(()),
                status => Err(ExportError::Status(status)),
            }
        })
    }

    async fn send(&self, path: &str, body: Vec<u8>) -> Result<StatusCode, ExportError> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(HOST, self.authority())
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(Full::new(Bytes::from(body)))?;
        let (mut response, mut connection) = (pin!(sender.send_request(request)), pin!(connection));
        let response = tokio::select! {
            biased;
            response = &mut response => response?,
            ended = &mut connection => {
                ended?;
                response.await?
            }
        };
        Ok(response.status())
    }

    /// Brackets tell an IPv6 address from its port.
    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);
