//! One question to a running gate, over its admin socket.
//!
//! It reads whatever the gate answers as JSON. The surprising thing: an answer that is a problem is an error with the gate's
//! own words, which name neither a file nor a line here.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::net::UnixStream;

/// What is asked about a bucket.
pub(super) struct Question {
    pub(super) method: &'static str,
    /// What follows the bucket in the path.
    pub(super) below: &'static str,
    pub(super) body: Option<Value>,
}

impl Question {
    /// Asks the gate behind this socket.
    ///
    /// # Errors
    /// If there is no gate, or it says no.
    pub(super) fn ask(self, socket: &Path, key: &str) -> anyhow::Result<Value> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let answer = tokio::time::timeout(PATIENCE, self.send(socket, key));
            answer.await.with_context(|| format!("no answer from {} in time", socket.display()))?
        })
    }

    async fn send(self, socket: &Path, key: &str) -> anyhow::Result<Value> {
        let stream = UnixStream::connect(socket).await.map_err(|error| no_gate(socket, &error))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let answered = async {
            let answer = sender.send_request(self.request(key)?).await;
            // The connection ends when nobody can ask anything more.
            drop(sender);
            read(answer.context("the gate did not answer")?).await
        };
        let (_, answer) = tokio::join!(connection, answered);
        answer
    }

    fn request(self, key: &str) -> anyhow::Result<Request<Full<Bytes>>> {
        let path = format!("/api/v1/buckets/{}{}", utf8_percent_encode(key, NON_ALPHANUMERIC), self.below);
        let body = self.body.map(|body| body.to_string()).unwrap_or_default();
        let request = Request::builder().method(self.method).uri(path).header(header::HOST, "localhost");
        Ok(request.header(header::CONTENT_TYPE, "application/json").body(Full::from(body))?)
    }
}

async fn read(answer: Response<Incoming>) -> anyhow::Result<Value> {
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, LONGEST).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("the answer broke off: {error}"))?.to_bytes();
    let value: Value = serde_json::from_slice(&body)
        .with_context(|| format!("an answer that is not JSON, with status {}", head.status))?;
    if head.status.is_success() {
        return Ok(value);
    }
    match value["detail"].as_str() {
        Some(detail) => bail!("{detail}"),
        None => bail!("the gate answered {}", head.status),
    }
}

fn no_gate(socket: &Path, error: &std::io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        ErrorKind::NotFound => ": is the gate running, and is this its admin socket?",
        ErrorKind::ConnectionRefused => ": the gate that made it is gone",
        ErrorKind::PermissionDenied => ": it is open to the gate's own user alone",
        _ => "",
    };
    anyhow::anyhow!("cannot connect to {}: {error}{hint}", socket.display())
}

const PATIENCE: Duration = Duration::from_secs(30);
/// Of an answer.
const LONGEST: usize = 1024 * 1024;
