//! One request to the admin API.
//!
//! It reads any JSON response. A problem becomes an error in the gate's own words, which name no file or line of the
//! command.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use serde_json::Value;
use tokio::net::UnixStream;
use tollgate_base::http_client::HttpConnection;

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
        let mut connection = HttpConnection::over(stream).await?;
        let response = connection.call(&mut Some(self.request()?), MAX_RESPONSE).await;
        read(response.context("the gate did not answer")?)
    }

    fn request(self) -> anyhow::Result<Request<Full<Bytes>>> {
        let body = self.body.map(|body| body.to_string()).unwrap_or_default();
        let request = Request::builder().method(self.method).uri(self.path).header(header::HOST, "localhost");
        Ok(request.header(header::CONTENT_TYPE, "application/json").body(Full::from(body))?)
    }
}

fn read(response: Response<Bytes>) -> anyhow::Result<ApiResponse> {
    let status = response.status();
    let value: Value = serde_json::from_slice(response.body())
        .with_context(|| format!("an answer that is not JSON, with status {status}"))?;
    Ok(ApiResponse { status, value })
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
