//! Keys of a role, from a container's endpoint or an instance's metadata service (IMDSv2).
//!
//! Both speak plain HTTP at an address that leads nowhere else. An endpoint without TLS is accepted only at loopback
//! addresses and at those that Amazon gave to such endpoints, so a variable set by an attacker cannot send requests
//! elsewhere. HTTP is left to [`connection`](super::super::connection).

use std::io;
use std::path::PathBuf;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use jiff::Timestamp;
use serde_json::Value;

use super::super::address::HttpServer;
use super::super::connection::{self, CONNECT_TIMEOUT, HttpConnectError, HttpPeer};
use super::super::sign::AwsKeys;
use super::{FoundKeys, WrongKeySource};
use crate::StoreError;
use crate::address::is_loopback;
use tollgate_base::time::Clock;
use tollgate_base::tls::Trust;
use tollgate_bucket::Time;

/// The endpoint of ECS and of EKS Pod Identity.
pub(super) struct ContainerService {
    peer: HttpPeer,
    path: String,
    token: ContainerToken,
}

/// The authorization that the endpoint wants.
enum ContainerToken {
    None,
    Text(String),
    /// Read each time, because it is changed from outside.
    File(PathBuf),
}

/// The metadata service of EC2, version 2.
pub(super) struct InstanceMetadata {
    peer: HttpPeer,
}

/// Why a service gives no keys. It repeats nothing of a response, because that may hold half of a secret.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyServiceError {
    #[error("the file of its token: {0}")]
    Token(io::Error),
    #[error(transparent)]
    Request(#[from] http::Error),
    #[error(transparent)]
    Connect(#[from] HttpConnectError),
    #[error("no answer within a second")]
    Late,
    #[error(transparent)]
    Call(#[from] StoreError),
    #[error("{0} was answered with {1}")]
    Status(String, StatusCode),
    #[error("{0} is not in UTF-8")]
    NotUtf8(String),
    #[error("its response is not JSON")]
    NotJson,
    #[error("its response holds no keys")]
    NoKeys,
    #[error("the end of its keys is not a date")]
    NoDate,
}

impl ContainerService {
    /// The endpoint that the environment names; `None` if it names none.
    pub(super) fn new(environment: &impl Fn(&str) -> Option<String>) -> Result<Option<Self>, WrongKeySource> {
        let relative = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
        let full = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI");
        let Some(url) = relative.map(|path| format!("http://169.254.170.2{path}")).or(full) else {
            return Ok(None);
        };
        let (server, path) = HttpServer::parse_with_path(&url).map_err(WrongKeySource::Container)?;
        if !server.is_https && !is_trusted_without_tls(&server.host) {
            return Err(WrongKeySource::ContainerWithoutTls);
        }
        let trust = match server.is_https {
            true => Some(Trust::from_roots(None).map_err(|error| WrongKeySource::Roots(error.to_string()))?),
            false => None,
        };
        let file = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
            .map(|path| ContainerToken::File(path.into()));
        let text = || environment("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(ContainerToken::Text);
        Ok(Some(Self {
            peer: HttpPeer { server, trust },
            path,
            token: file.or_else(text).unwrap_or(ContainerToken::None),
        }))
    }

    /// Keys of the container's role.
    pub(super) async fn find(&self, clock: &Clock) -> Result<FoundKeys, KeyServiceError> {
        let token = match &self.token {
            ContainerToken::None => None,
            ContainerToken::Text(text) => Some(text.clone()),
            ContainerToken::File(path) => {
                let text = tokio::fs::read_to_string(path).await;
                Some(text.map_err(KeyServiceError::Token)?.trim().to_owned())
            }
        };
        let header = token.as_deref().map(|token| ("authorization", token));
        let body = fetch(&self.peer, "GET", &self.path, header).await?;
        found(&body, clock.now())
    }
}

impl InstanceMetadata {
    /// The service at its usual address, or at this one.
    pub(super) fn new(endpoint: Option<&str>) -> Result<Self, WrongKeySource> {
        let url = endpoint.unwrap_or("http://169.254.169.254");
        let server = HttpServer::parse(url).map_err(WrongKeySource::Instance)?;
        Ok(Self { peer: HttpPeer { server, trust: None } })
    }

    /// Keys of the instance's role.
    pub(super) async fn find(&self, clock: &Clock) -> Result<FoundKeys, KeyServiceError> {
        let lasts = Some(("x-aws-ec2-metadata-token-ttl-seconds", "300"));
        let token = self.text("PUT", "/latest/api/token", lasts).await?;
        let header = Some(("x-aws-ec2-metadata-token", token.trim()));
        let roles = self.text("GET", ROLES, header).await?;
        let role = roles.lines().next().unwrap_or_default().trim();
        let body = fetch(&self.peer, "GET", &format!("{ROLES}{role}"), header).await?;
        found(&body, clock.now())
    }

    async fn text(
        &self,
        method: &str,
        path: &str,
        header: Option<(&str, &str)>,
    ) -> Result<String, KeyServiceError> {
        let body = fetch(&self.peer, method, path, header).await?;
        String::from_utf8(body.to_vec()).map_err(|_| KeyServiceError::NotUtf8(path.to_owned()))
    }
}

/// Sends one request on its own connection.
async fn fetch(
    peer: &HttpPeer,
    method: &str,
    path: &str,
    header: Option<(&str, &str)>,
) -> Result<Bytes, KeyServiceError> {
    let mut request = Request::builder().method(method).uri(path).header("host", &peer.server.authority);
    if let Some((name, value)) = header {
        request = request.header(name, value);
    }
    let request = request.body(Full::default())?;
    let mut connection = peer.connect().await?;
    let mut unsent = Some(request);
    let call = tokio::time::timeout(CONNECT_TIMEOUT, connection::call(&mut connection, &mut unsent));
    let reply = call.await.map_err(|_| KeyServiceError::Late)??;
    if reply.status == StatusCode::OK {
        Ok(reply.body)
    } else {
        Err(KeyServiceError::Status(method.to_owned(), reply.status))
    }
}

/// Reads a response of either service.
fn found(body: &[u8], now: Time) -> Result<FoundKeys, KeyServiceError> {
    let value: Value = serde_json::from_slice(body).map_err(|_| KeyServiceError::NotJson)?;
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let keys = text("AccessKeyId").zip(text("SecretAccessKey"));
    let keys = keys.and_then(|(access, secret)| AwsKeys::new(access, secret, text("Token")));
    let keys = keys.ok_or(KeyServiceError::NoKeys)?;
    let Some(until) = text("Expiration") else { return Ok(FoundKeys::lasting(keys)) };
    let until: Timestamp = until.parse().map_err(|_| KeyServiceError::NoDate)?;
    let nanos = u64::try_from(until.as_nanosecond()).unwrap_or(0);
    Ok(FoundKeys::ending(keys, now, Time::from_nanos(nanos)))
}

fn is_trusted_without_tls(host: &str) -> bool {
    let amazons = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];
    is_loopback(host) || amazons.contains(&host)
}

const ROLES: &str = "/latest/meta-data/iam/security-credentials/";
