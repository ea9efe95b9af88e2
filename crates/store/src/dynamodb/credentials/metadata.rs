//! Keys of a role, from a container's endpoint or an instance's metadata service (IMDSv2).
//!
//! Both speak plain HTTP at an address that leads nowhere else. An endpoint without TLS is accepted only at loopback
//! addresses and at those that Amazon gave to such endpoints, so a variable set by an attacker cannot send requests
//! elsewhere. HTTP is left to [`connection`](super::super::connection).

use std::path::PathBuf;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use jiff::Timestamp;
use serde_json::Value;

use super::super::address::HttpServer;
use super::super::connection::{self, CONNECT_TIMEOUT, HttpPeer};
use super::super::sign::AwsKeys;
use super::FoundKeys;
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

impl ContainerService {
    /// The endpoint that the environment names; `None` if it names none.
    pub(super) fn new(environment: &impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let relative = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
        let full = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI");
        let Some(url) = relative.map(|path| format!("http://169.254.170.2{path}")).or(full) else {
            return Ok(None);
        };
        let wrong = |why: String| format!("AWS_CONTAINER_CREDENTIALS_FULL_URI: {why}");
        let (server, path) = HttpServer::parse_with_path(&url).map_err(wrong)?;
        if !server.is_https && !is_trusted_without_tls(&server.host) {
            return Err(wrong(
                "http:// is for addresses of this machine and of Amazon's endpoints".to_owned(),
            ));
        }
        let trust = match server.is_https {
            true => Some(Trust::from_roots(None).map_err(|error| error.to_string())?),
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
    pub(super) async fn find(&self, clock: &Clock) -> Result<FoundKeys, String> {
        let wrong = |why: String| format!("the container's endpoint of credentials: {why}");
        let token = match &self.token {
            ContainerToken::None => None,
            ContainerToken::Text(text) => Some(text.clone()),
            ContainerToken::File(path) => {
                let text = tokio::fs::read_to_string(path).await;
                Some(
                    text.map_err(|error| wrong(format!("the file of its token: {error}")))?.trim().to_owned(),
                )
            }
        };
        let header = token.as_deref().map(|token| ("authorization", token));
        let body = fetch(&self.peer, "GET", &self.path, header).await.map_err(wrong)?;
        found(&body, clock.now()).map_err(wrong)
    }
}

impl InstanceMetadata {
    /// The service at its usual address, or at this one.
    pub(super) fn new(endpoint: Option<&str>) -> Result<Self, String> {
        let url = endpoint.unwrap_or("http://169.254.169.254");
        let server =
            HttpServer::parse(url).map_err(|why| format!("AWS_EC2_METADATA_SERVICE_ENDPOINT: {why}"))?;
        Ok(Self { peer: HttpPeer { server, trust: None } })
    }

    /// Keys of the instance's role.
    pub(super) async fn find(&self, clock: &Clock) -> Result<FoundKeys, String> {
        let wrong = |why: String| {
            format!("there are no credentials elsewhere, and the machine's metadata service: {why}")
        };
        self.try_find(clock).await.map_err(wrong)
    }

    async fn try_find(&self, clock: &Clock) -> Result<FoundKeys, String> {
        let lasts = Some(("x-aws-ec2-metadata-token-ttl-seconds", "300"));
        let token = self.text("PUT", "/latest/api/token", lasts).await?;
        let header = Some(("x-aws-ec2-metadata-token", token.trim()));
        let roles = self.text("GET", ROLES, header).await?;
        let role = roles.lines().next().unwrap_or_default().trim();
        let body = fetch(&self.peer, "GET", &format!("{ROLES}{role}"), header).await?;
        found(&body, clock.now())
    }

    async fn text(&self, method: &str, path: &str, header: Option<(&str, &str)>) -> Result<String, String> {
        let body = fetch(&self.peer, method, path, header).await?;
        String::from_utf8(body.to_vec()).map_err(|_| format!("{path} is not in UTF-8"))
    }
}

/// Sends one request on a connection of its own.
async fn fetch(
    peer: &HttpPeer,
    method: &str,
    path: &str,
    header: Option<(&str, &str)>,
) -> Result<Bytes, String> {
    let mut request = Request::builder().method(method).uri(path).header("host", &peer.server.authority);
    if let Some((name, value)) = header {
        request = request.header(name, value);
    }
    let request = request.body(Full::default()).map_err(|error| error.to_string())?;
    let mut connection = peer.connect().await?;
    let mut unsent = Some(request);
    let call = tokio::time::timeout(CONNECT_TIMEOUT, connection::call(&mut connection, &mut unsent));
    let reply = call.await.map_err(|_| "no answer within a second".to_owned())?;
    let reply = reply.map_err(|error| error.to_string())?;
    if reply.status == StatusCode::OK {
        Ok(reply.body)
    } else {
        Err(format!("{method} was answered with {}", reply.status))
    }
}

/// Reads a response of either service. Errors repeat nothing of it, because it may hold half of a secret.
fn found(body: &[u8], now: Time) -> Result<FoundKeys, String> {
    let value: Value = serde_json::from_slice(body).map_err(|_| "its response is not JSON".to_owned())?;
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let keys = text("AccessKeyId").zip(text("SecretAccessKey"));
    let keys = keys.and_then(|(access, secret)| AwsKeys::new(access, secret, text("Token")));
    let keys = keys.ok_or_else(|| "its response holds no keys".to_owned())?;
    let Some(until) = text("Expiration") else { return Ok(FoundKeys::lasting(keys)) };
    let until: Timestamp = until.parse().map_err(|_| "the end of its keys is not a date".to_owned())?;
    let nanos = u64::try_from(until.as_nanosecond()).unwrap_or(0);
    Ok(FoundKeys::ending(keys, now, Time::from_nanos(nanos)))
}

fn is_trusted_without_tls(host: &str) -> bool {
    let amazons = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];
    is_loopback(host) || amazons.contains(&host)
}

const ROLES: &str = "/latest/meta-data/iam/security-credentials/";
