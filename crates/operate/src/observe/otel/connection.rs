//! Sends one export to the collector, on its own connection.
//!
//! Which exports there are, and what becomes of those that fail, is left to the loop that calls it.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use http_body_util::Full;
use tokio::runtime::Runtime;
use tollgate_base::http_client::{HttpClientError, exchange};

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
    /// It cannot be reached, or does not answer by HTTP.
    #[error(transparent)]
    Http(#[from] HttpClientError),
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

    pub(super) fn post(&self, path: &str, body: Vec<u8>) -> Result<(), ExportError> {
        let request = Request::post(format!("http://{}{path}", self.authority()))
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(Full::new(Bytes::from(body)))?;
        let sent = self.runtime.block_on(async {
            tokio::time::timeout(EXPORT_TIMEOUT, exchange(request, None, MAX_ANSWER)).await
        });
        match sent.map_err(|_| ExportError::Timeout)??.status() {
            status if status.is_success() => Ok(()),
            status => Err(ExportError::Status(status)),
        }
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
/// It says nothing that a gate could act on.
const MAX_ANSWER: usize = 64 * 1024;
