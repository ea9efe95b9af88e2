//! One request to the admin API.
//!
//! It reads any JSON response. A problem becomes an error in the gate's own words, which name no file or line of the
//! command.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;

/// A request to the admin API.
pub(in super::super) struct ApiRequest {
    pub(in super::super) method: &'static str,
    pub(in super::super) path: String,
    pub(in super::super) body: Option<Value>,
}

/// A response of the admin API.
pub(in super::super) struct ApiResponse {
    pub(in super::super) status: StatusCode,
    pub(in super::super) value: Value,
}

impl ApiResponse {
    /// The value of a successful response.
    ///
    /// # Errors
    /// If it is a problem: its detail, in the gate's own words.
    pub(in super::super) fn success(self) -> anyhow::Result<Value> {
        if self.status.is_success() {
            return Ok(self.value);
        }
        match self.value["detail"].as_str() {
            Some(detail) => bail!("{detail}"),
            None => bail!("the gate answered {}", self.status),
        }
    }
}

impl ApiRequest {
    /// Sends the request to the gate behind this socket.
    ///
    /// # Errors
    /// If no gate listens, or its response cannot be read.
    pub(in super::super) fn call(self, socket: &Path) -> anyhow::Result<ApiResponse> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let response = tokio::time::timeout(RESPONSE_TIMEOUT, self.send(socket));
            response.await.with_context(|| format!("no answer from {} in time", socket.display()))?
        })
    }

    async fn send(self, socket: &Path) -> anyhow::Result<ApiResponse> {
        let stream = UnixStream::connect(socket).await.map_err(|error| connect_error(socket, &error))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let exchange = async {
            let response = sender.send_request(self.request()?).await;
            // Without a sender the connection ends.
            drop(sender);
            read(response.context("the gate did not answer")?).await
        };
        let (_, response) = tokio::join!(connection, exchange);
        response
    }

    fn request(self) -> anyhow::Result<Request<Full<Bytes>>> {
        let body = self.body.map(|body| body.to_string()).unwrap_or_default();
        let request = Request::builder().method(self.method).uri(self.path).header(header::HOST, "localhost");
        Ok(request.header(header::CONTENT_TYPE, "application/json").body(Full::from(body))?)
    }
}

async fn read(response: Response<Incoming>) -> anyhow::Result<ApiResponse> {
    let (head, body) = response.into_parts();
    let body = Limited::new(body, MAX_RESPONSE).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("the answer was cut short: {error}"))?.to_bytes();
    let value: Value = serde_json::from_slice(&body)
        .with_context(|| format!("an answer that is not JSON, with status {}", head.status))?;
    Ok(ApiResponse { status: head.status, value })
}

fn connect_error(socket: &Path, error: &std::io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        ErrorKind::NotFound => ": is the gate running, and is this its admin socket?",
        ErrorKind::ConnectionRefused => ": the gate that made it is gone",
        ErrorKind::PermissionDenied => ": it is open to the gate's own user alone",
        _ => "",
    };
    anyhow::anyhow!("cannot connect to {}: {error}{hint}", socket.display())
}

const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a response.
const MAX_RESPONSE: usize = 1024 * 1024;
