//! `/api/v1/check` and `/api/v1/explain`: what a file would mean and what a request would meet. Both change nothing.
//!
//! It parses requests; the layer above answers them, because it knows the configuration. A file is checked by its text
//! alone, so that a caller cannot read files or variables of the gate through its diagnostics.

use std::error::Error;
use std::net::IpAddr;
use std::pin::Pin;

use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use hyper::body::Body;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::task::JoinError;

use super::pages::{CheckPage, ExplainPage};
use super::request::{AdminProblem, body_of, fields_of, has_only, optional_text, parse_fields, text, wrong};
use super::response::{AdminResponse, json_response, not_allowed};
use crate::store::shared::Unavailable;

/// The handles of both pages.
pub struct DryRunApi {
    /// Checks the text of a configuration.
    pub check: Box<dyn Fn(String) -> DryRun<CheckPage> + Send + Sync>,
    /// Explains a request by the rules and buckets in force.
    pub explain: Box<dyn Fn(ExplainRequest) -> DryRun<ExplainPage> + Send + Sync>,
    /// One check at a time: each may take a core for a while.
    checking: Semaphore,
}

/// An answer, or why there is none.
pub type DryRun<P> = Pin<Box<dyn Future<Output = Result<P, DryRunError>> + Send>>;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum DryRunError {
    /// The check has ended early.
    #[error(transparent)]
    Check(#[from] JoinError),
    /// The store does not say how full the buckets are.
    #[error(transparent)]
    Store(#[from] Unavailable),
}

/// A request to explain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainRequest {
    /// The method.
    pub method: Method,
    /// The address asked for, or only its path.
    pub url: Uri,
    /// The client's address, whatever the headers say.
    pub from: Option<IpAddr>,
    /// The address that connects.
    pub peer: IpAddr,
    /// Header lines other than `Host`, which is that of the address.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body; `None` if it was not given.
    pub data: Option<String>,
}

/// The pages by path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DryRunPath {
    Check,
    Explain,
}

impl DryRunPath {
    pub(super) fn parse(path: &str) -> Option<Self> {
        match path {
            "/api/v1/check" => Some(Self::Check),
            "/api/v1/explain" => Some(Self::Explain),
            _ => None,
        }
    }
}

impl DryRunApi {
    /// With these two functions.
    pub fn new(
        check: impl Fn(String) -> DryRun<CheckPage> + Send + Sync + 'static,
        explain: impl Fn(ExplainRequest) -> DryRun<ExplainPage> + Send + Sync + 'static,
    ) -> Self {
        Self { check: Box::new(check), explain: Box::new(explain), checking: Semaphore::new(1) }
    }

    pub(super) async fn handle<B>(&self, page: DryRunPath, request: Request<B>) -> AdminResponse
    where
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let (head, body) = request.into_parts();
        if head.method != Method::POST {
            return not_allowed("POST");
        }
        let done = async {
            if head.uri.query().is_some() {
                return Err(wrong("this page takes no query"));
            }
            Ok(match page {
                DryRunPath::Check => json_response(StatusCode::OK, &self.check(body).await?),
                DryRunPath::Explain => {
                    let asked = explain_request(&fields_of(body).await?)?;
                    json_response(StatusCode::OK, &(self.explain)(asked).await?)
                }
            })
        };
        done.await.unwrap_or_else(AdminResponse::from)
    }

    async fn check<B>(&self, body: B) -> Result<CheckPage, AdminProblem>
    where
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let body = body_of(body, MAX_FILE_LEN).await?;
        let text = String::from_utf8(body.into()).map_err(|_| wrong("the file is not UTF-8"))?;
        // Never closed, so a permit always comes.
        let _permit = self.checking.acquire().await;
        Ok((self.check)(text).await?)
    }
}

impl From<DryRunError> for AdminProblem {
    fn from(error: DryRunError) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

impl std::fmt::Debug for DryRunApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DryRunApi")
    }
}

impl ExplainRequest {
    /// Parses the body of a request to explain.
    ///
    /// # Errors
    /// What is wrong with it, in words for operators.
    pub fn parse(body: &[u8]) -> Result<Self, AdminProblem> {
        explain_request(&parse_fields(body)?)
    }
}

fn explain_request(fields: &Map<String, Value>) -> Result<ExplainRequest, AdminProblem> {
    has_only(fields, &["method", "url", "from", "peer", "headers", "data"])?;
    let method = text(fields, "method", "a method, as in \"POST\"")?;
    let method = method.parse().map_err(|_| wrong("`method` is not a method of HTTP"))?;
    let url = text(fields, "url", "an address or a path, as in \"/login\"")?;
    let url = url.parse().map_err(|_| wrong("`url` is neither an address nor a path"))?;
    let address = |name| {
        let text = optional_text(fields, name, "an IP address")?;
        let parsed = text.map(str::parse::<IpAddr>).transpose();
        parsed.map_err(|_| wrong(format!("`{name}` is not an IP address")))
    };
    Ok(ExplainRequest {
        method,
        url,
        from: address("from")?,
        peer: address("peer")?.unwrap_or(DEFAULT_PEER),
        headers: headers(fields)?,
        data: optional_text(fields, "data", "the text of the body")?.map(str::to_owned),
    })
}

fn headers(fields: &Map<String, Value>) -> Result<Vec<(HeaderName, HeaderValue)>, AdminProblem> {
    let Some(headers) = fields.get("headers") else { return Ok(Vec::new()) };
    let form = || wrong("`headers` has to be an object, as in {\"Accept\": \"text/html\"}");
    let header = |(name, value): (&String, &Value)| {
        let parsed = (name.parse().ok(), value.as_str().ok_or_else(form)?.parse().ok());
        match parsed {
            (Some(name), Some(value)) => Ok((name, value)),
            _ => Err(wrong(format!("`{}` is not a header, or its value is none", name.escape_debug()))),
        }
    };
    headers.as_object().ok_or_else(form)?.iter().map(header).collect()
}

/// The peer of a request that names none: of a network for documentation (RFC 5737).
pub const DEFAULT_PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
/// Bytes of a file to check.
const MAX_FILE_LEN: usize = 1024 * 1024;
