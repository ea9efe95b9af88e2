//! One request to the admin API.
//!
//! It reads whatever the gate answers as JSON. The surprising thing: an answer that is a problem is an error with the gate's
//! own words, which name neither a file nor a line here.

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

/// What is asked.
pub(in super::super) struct ApiRequest {
    pub(in super::super) method: &'static str,
    pub(in super::super) path: String,
    pub(in super::super) body: Option<Value>,
}

/// What was answered.
pub(in super::super) struct ApiResponse {
    pub(in super::super) status: StatusCode,
    pub(in super::super) value: Value,
}

impl ApiResponse {
    /// What it says.
    ///
    /// # Errors
    /// If it is a problem, in the gate's own words.
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
    /// Asks the gate behind this socket.
    ///
    /// # Errors
    /// If there is no gate, or its answer cannot be read.
    pub(super) fn call(self, socket: &Path) -> anyhow::Result<ApiResponse> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let answer = tokio::time::timeout(RESPONSE_TIMEOUT, self.send(socket));
            answer.await.with_context(|| format!("no answer from {} in time", socket.display()))?
        })
    }

    async fn send(self, socket: &Path) -> anyhow::Result<ApiResponse> {
        let stream = UnixStream::connect(socket).await.map_err(|error| connect_error(socket, &error))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let answered = async {
            let answer = sender.send_request(self.request()?).await;
            // The connection ends when nobody can ask anything more.
            drop(sender);
            read(answer.context("the gate did not answer")?).await
        };
        let (_, answer) = tokio::join!(connection, answered);
        answer
    }

    fn request(self) -> anyhow::Result<Request<Full<Bytes>>> {
        let body = self.body.map(|body| body.to_string()).unwrap_or_default();
        let request = Request::builder().method(self.method).uri(self.path).header(header::HOST, "localhost");
        Ok(request.header(header::CONTENT_TYPE, "application/json").body(Full::from(body))?)
    }
}

async fn read(answer: Response<Incoming>) -> anyhow::Result<ApiResponse> {
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, MAX_RESPONSE).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("the answer broke off: {error}"))?.to_bytes();
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
/// Of an answer.
const MAX_RESPONSE: usize = 1024 * 1024;
