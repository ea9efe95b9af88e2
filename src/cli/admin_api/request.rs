//! One request to the admin API.
//!
//! It reads any JSON response. A problem becomes an error in the gate's own words, which name no file or line of the
//! command.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::uri::Scheme;
use http::{HeaderValue, Request, Response, StatusCode, header, request};
use http_body_util::Full;
use serde_json::Value;
use tokio::net::UnixStream;
use tollgate_base::http_client::{self, HttpConnection};
use tollgate_base::tls::{self, Trust};

use super::AdminGate;
use super::server::AdminServer;

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
    /// Sends the request to this gate.
    ///
    /// # Errors
    /// If no gate listens, or its response cannot be read.
    pub(in super::super) fn call(self, gate: &AdminGate) -> anyhow::Result<ApiResponse> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let response = tokio::time::timeout(RESPONSE_TIMEOUT, self.send(gate));
            response.await.with_context(|| format!("no answer from {} in time", gate.server))?
        })
    }

    async fn send(self, gate: &AdminGate) -> anyhow::Result<ApiResponse> {
        let response = match &gate.server {
            AdminServer::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(|error| connect_error(path, &error))?;
                let request = self.request("", gate)?.header(header::HOST, "localhost");
                let mut request = Some(request.body(Full::from(self.body()))?);
                HttpConnection::over(stream).await?.call(&mut request, MAX_RESPONSE).await
            }
            AdminServer::Http(url) => {
                let trust = match url.scheme() == Some(&Scheme::HTTPS) {
                    true => Some(Trust::new(tls::system()?)?.for_http1()),
                    false => None,
                };
                let origin = gate.server.to_string();
                let request = self.request(&origin, gate)?.body(Full::from(self.body()))?;
                http_client::exchange(request, trust.as_ref(), MAX_RESPONSE).await
            }
        };
        // Its text has its cause already.
        read(
            response
                .map_err(|error| anyhow::anyhow!("the gate at {} did not answer: {error}", gate.server))?,
        )
    }

    fn body(&self) -> Bytes {
        self.body.as_ref().map(Value::to_string).unwrap_or_default().into()
    }

    fn request(&self, origin: &str, gate: &AdminGate) -> anyhow::Result<request::Builder> {
        let request = Request::builder().method(self.method).uri(format!("{origin}{}", self.path));
        let request = request.header(header::CONTENT_TYPE, "application/json").header(REQUEST_HEADER, "1");
        let request = match &gate.why {
            Some(why) => {
                let why = HeaderValue::from_bytes(why.as_bytes());
                request.header(REASON_HEADER, why.context("--why: a reason is one line of text")?)
            }
            None => request,
        };
        Ok(match &gate.token {
            Some(token) => request.header(header::AUTHORIZATION, format!("Bearer {token}")),
            None => request,
        })
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
        ErrorKind::PermissionDenied => ": this user may not connect to it",
        _ => "",
    };
    anyhow::anyhow!("cannot connect to {}: {error}{hint}", socket.display())
}

const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// What a form in a browser cannot send.
const REQUEST_HEADER: &str = "x-tollgate-request";
const REASON_HEADER: &str = "x-tollgate-reason";
/// Bytes of a response.
const MAX_RESPONSE: usize = 1024 * 1024;
