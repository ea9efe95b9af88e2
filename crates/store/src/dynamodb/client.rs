//! Signs one request to DynamoDB and reads its response.
//!
//! The protocol is JSON 1.0 over HTTP, as in "DynamoDB low-level API" of the Developer Guide. No request is repeated,
//! whatever the response: more requests do not help a throttled table, and each of them costs money. Requests are
//! stamped with the server's time and not with this machine's, so a wrong clock here costs one refused request.
//! Connections are left to [`pool`](super::pool).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use serde_json::Value;

use super::address::DynamoDbAddress;
use super::connection::{HttpPeer, HttpReply};
use super::credentials::{AwsKeyCache, KeySourceChain};
use super::pool::HttpPool;
use super::sign::{AwsKeys, Signed, SigningScope, authorization, stamp};
use crate::clock_offset::{ClockOffset, TimeBounds};
use crate::{Clocked, StoreClock, StoreError};
use tollgate_base::time::Clock;
use tollgate_base::tls::Trust;
use tollgate_bucket::Span;

/// Sends requests about one table.
pub(super) struct DynamoDbClient {
    pub(super) address: DynamoDbAddress,
    clock: Clock,
    offset: ClockOffset,
    key_cache: Arc<AwsKeyCache>,
    pool: Arc<HttpPool>,
}

/// A response, successful or not.
pub(super) struct DynamoDbReply {
    pub(super) value: Result<Value, DynamoDbError>,
    pub(super) clock: Option<StoreClock>,
}

/// An error that the server returned.
#[derive(Debug)]
pub(super) struct DynamoDbError {
    status: StatusCode,
    /// Without the name of the service in front: `ResourceNotFoundException`.
    pub(super) kind: String,
    message: String,
    /// The present item, where a condition was not met.
    pub(super) item: Option<Value>,
}

impl DynamoDbClient {
    /// A client that has sent nothing yet.
    pub(super) fn new(
        address: DynamoDbAddress,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, StoreError> {
        let clock = Clock::system();
        let trust = match address.server.is_https {
            true => Some(Trust::from_roots(address.ca.as_deref())?),
            false => None,
        };
        let pool = HttpPool::new(HttpPeer { server: address.server.clone(), trust });
        let key_cache =
            AwsKeyCache::new(KeySourceChain::new(address.keys.clone(), environment), clock.clone());
        Ok(Self { address, clock, offset: ClockOffset::default(), key_cache, pool })
    }

    /// Sends one request; waits for the response at most this long.
    pub(super) async fn call(
        &self,
        operation: &str,
        body: &Value,
        timeout: Duration,
    ) -> Result<DynamoDbReply, StoreError> {
        let keys = self.key_cache.get().await?;
        let request = self.request(operation, Bytes::from(body.to_string()), &keys)?;
        let sent = self.clock.now();
        let reply = self.pool.call(Some(request), timeout).await?;
        let clock = reply.date.map(StoreClock::Seconds);
        if let Some(clock) = clock {
            // Large corrections are told by the caller, who records the clock as well.
            let _ = self.offset.record(clock, sent, self.clock.now());
        }
        let value = read(&reply)?;
        if let Err(error) = &value
            && error.is_about_keys()
        {
            self.key_cache.invalidate();
        }
        Ok(DynamoDbReply { value, clock })
    }

    /// The bounds of the server's time now. A writer counts from the latest and a reader from the earliest, so no item
    /// expires early, however wrong the gates' own clocks are.
    pub(super) fn server_now(&self) -> TimeBounds {
        let now = self.clock.now();
        let signable = TimeBounds { earliest: now.before(TOLERATED), latest: now.after(TOLERATED) };
        self.offset.bounds(now).unwrap_or(signable)
    }

    fn request(
        &self,
        operation: &str,
        body: Bytes,
        keys: &AwsKeys,
    ) -> Result<Request<Full<Bytes>>, StoreError> {
        let stamp = stamp(self.server_now().likely());
        let target = format!("DynamoDB_20120810.{operation}");
        let mut headers =
            vec![("content-type", TYPE), ("host", &self.address.server.authority), ("x-amz-date", &stamp)];
        headers.extend(keys.token.as_deref().map(|token| ("x-amz-security-token", token)));
        headers.push(("x-amz-target", &target));
        let scope = SigningScope { region: &self.address.region, service: "dynamodb", stamp: &stamp };
        let signed = Signed { method: "POST", path: "/", headers: &headers, body: &body };
        let authorization = authorization(keys, &scope, &signed);
        let builder =
            headers.iter().fold(Request::post("/"), |builder, (name, value)| builder.header(*name, *value));
        let request = builder.header("authorization", authorization).body(Full::new(body));
        // The keys are the only text in it from outside.
        request.map_err(|_| {
            StoreError::Refused("the credentials contain characters that no header may have".to_owned())
        })
    }
}

impl DynamoDbReply {
    /// The value of a successful response.
    pub(super) fn into_result(self, table: &str) -> Result<Clocked<Value>, StoreError> {
        let value = self.value.map_err(|error| error.into_error(table))?;
        Ok(Clocked { value, clock: self.clock })
    }
}

impl DynamoDbError {
    pub(super) fn is(&self, kind: &str) -> bool {
        self.kind == kind
    }

    fn is_about_keys(&self) -> bool {
        ABOUT_KEYS.contains(&&self.kind[..])
    }

    /// The error for a caller that has no better one.
    pub(super) fn into_error(self, table: &str) -> StoreError {
        match &self.kind[..] {
            "TransactionConflictException" => StoreError::WriteConflict,
            NO_TABLE => StoreError::Refused(format!("there is no table `{table}`: run `tollgate migrate`")),
            kind if THROTTLED.contains(&kind) => StoreError::Throttled(self.words()),
            _ if self.status.is_server_error() => StoreError::Unreachable(self.words()),
            _ => StoreError::Refused(self.words()),
        }
    }

    fn words(&self) -> String {
        let Self { kind, message, .. } = self;
        if message.is_empty() { kind.clone() } else { format!("{kind}: {message}") }
    }
}

fn read(reply: &HttpReply) -> Result<Result<Value, DynamoDbError>, StoreError> {
    let status = reply.status;
    let value = serde_json::from_slice::<Value>(&reply.body).ok().filter(Value::is_object);
    match value {
        Some(value) if status == StatusCode::OK => Ok(Ok(value)),
        Some(value) if value.get("__type").is_some_and(Value::is_string) => Ok(Err(error_of(status, &value))),
        _ if status.is_server_error() => Err(StoreError::Unreachable(format!("it answered {status}"))),
        _ => Err(StoreError::UnexpectedResponse(format!("{status} without a JSON document of DynamoDB"))),
    }
}

fn error_of(status: StatusCode, value: &Value) -> DynamoDbError {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let kind = printable(text("__type").rsplit('#').next().unwrap_or_default());
    let message = if text("message").is_empty() { text("Message") } else { text("message") };
    // The lines after the first repeat the request, and with it the token of a session.
    let message = printable(message.lines().next().unwrap_or_default());
    let item = value.get("Item").filter(|item| item.is_object()).cloned();
    DynamoDbError { status, kind, message, item }
}

/// A text as it may appear in a log line.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(MAX_MESSAGE_LEN).collect()
}

/// The table does not exist.
pub(super) const NO_TABLE: &str = "ResourceNotFoundException";

/// Before the first response: Amazon accepts no signature of a gate whose clock is further off.
const TOLERATED: Span = Span::from_secs(15 * 60);
const TYPE: &str = "application/x-amz-json-1.0";
const MAX_MESSAGE_LEN: usize = 300;
/// A hot partition, a table or an account has used up its capacity: other items may go on.
const THROTTLED: [&str; 3] =
    ["ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"];
const ABOUT_KEYS: [&str; 6] = [
    "ExpiredTokenException",
    "ExpiredToken",
    "UnrecognizedClientException",
    "InvalidSignatureException",
    "IncompleteSignatureException",
    "MissingAuthenticationTokenException",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, body: &'static str) -> Result<Result<Value, DynamoDbError>, StoreError> {
        let status = StatusCode::from_u16(status).unwrap();
        read(&HttpReply { status, date: None, body: Bytes::from_static(body.as_bytes()) })
    }

    fn error(status: u16, body: &'static str) -> String {
        match response(status, body) {
            Ok(Ok(value)) => panic!("{value}"),
            Ok(Err(error)) => error.into_error("buckets").to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn every_fault_is_said_in_words_for_an_operator() {
        for (status, body, words) in [
            (
                400,
                r#"{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException","message":"x"}"#,
                "refused: there is no table `buckets`: run `tollgate migrate`",
            ),
            (
                400,
                r#"{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"Slow down."}"#,
                "throttled: ProvisionedThroughputExceededException: Slow down.",
            ),
            (
                400,
                r#"{"__type":"com.amazon.coral.availability#ThrottlingException","Message":"Rate exceeded"}"#,
                "throttled: ThrottlingException: Rate exceeded",
            ),
            (400, r#"{"__type":"TransactionConflictException"}"#, "write conflict"),
            (500, r#"{"__type":"x#InternalServerError"}"#, "cannot be reached: InternalServerError"),
            (503, "<html>", "cannot be reached: it answered 503 Service Unavailable"),
            (200, "[]", "unexpected response: 200 OK without a JSON document of DynamoDB"),
            (200, "", "unexpected response: 200 OK without a JSON document of DynamoDB"),
            (403, "{}", "unexpected response: 403 Forbidden without a JSON document of DynamoDB"),
            (302, "{}", "unexpected response: 302 Found without a JSON document of DynamoDB"),
        ] {
            assert_eq!(error(status, body), words, "{body}");
        }
    }

    #[test]
    fn what_repeats_the_request_is_not_repeated() {
        let body = r#"{"__type":"x#InvalidSignatureException","message":"It does not match.\n\nThe Canonical String was\n'POST\nx-amz-security-token:SECRET"}"#;
        assert_eq!(error(400, body), "refused: InvalidSignatureException: It does not match.");
    }
}
