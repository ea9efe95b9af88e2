//! One signed question to DynamoDB, and what its answer means.
//!
//! JSON 1.0 over HTTP, as in "DynamoDB low-level API" of the Developer Guide. Nothing is asked a second time, whatever the
//! answer: a throttled table is not helped by more questions, and each of them costs money. The surprising thing: requests
//! are stamped with the server's time, not with this machine's, so a wrong clock here costs one refused question.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use serde_json::Value;

use super::connection::{Peer, Reply};
use super::credentials::{Chain, Keyring, Keys};
use super::place::Place;
use super::pool::Pool;
use super::reckoning::Reckoning;
use super::sign::{Scope, Signed, authorization, stamp};
use crate::store::tls;
use crate::store::{Answer, StoreClock, StoreError};
use crate::time::Clock;

/// Asks questions about one table.
pub(super) struct Client {
    pub(super) place: Place,
    pub(super) reckoning: Reckoning,
    keyring: Arc<Keyring>,
    pool: Arc<Pool>,
}

/// What was said, well or ill.
pub(super) struct Said {
    pub(super) value: Result<Value, Fault>,
    pub(super) clock: Option<StoreClock>,
}

/// The server's reason not to do something.
#[derive(Debug)]
pub(super) struct Fault {
    status: StatusCode,
    /// Without the name of the service in front: `ResourceNotFoundException`.
    pub(super) kind: String,
    message: String,
    /// What stands there, where a condition was not met.
    pub(super) item: Option<Value>,
}

impl Client {
    /// Without having asked anything.
    pub(super) fn new(
        place: Place,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, StoreError> {
        let clock = Clock::system();
        let tls = match place.server.is_https {
            true => Some(Arc::new(tls::client(place.ca.as_deref())?)),
            false => None,
        };
        let pool = Pool::new(Peer { server: place.server.clone(), tls }, clock.clone());
        let keyring = Keyring::new(Chain::new(place.keys.clone(), environment), clock.clone());
        Ok(Self { place, reckoning: Reckoning::new(clock), keyring, pool })
    }

    /// Asks once; waits for the answer at most this long.
    pub(super) async fn ask(
        &self,
        operation: &str,
        question: &Value,
        patience: Duration,
    ) -> Result<Said, StoreError> {
        let keys = self.keyring.get().await?;
        let request = self.request(operation, Bytes::from(question.to_string()), &keys)?;
        let asked = self.reckoning.here();
        let reply = self.pool.ask(Some(request), patience).await?;
        if let Some(date) = reply.date {
            self.reckoning.learn(date, asked);
        }
        let clock = reply.date.map(StoreClock::Seconds);
        let value = read(&reply)?;
        if let Err(fault) = &value
            && fault.is_about_keys()
        {
            self.keyring.doubt();
        }
        Ok(Said { value, clock })
    }

    fn request(&self, operation: &str, body: Bytes, keys: &Keys) -> Result<Request<Full<Bytes>>, StoreError> {
        let stamp = stamp(self.reckoning.there().likely());
        let target = format!("DynamoDB_20120810.{operation}");
        let mut headers =
            vec![("content-type", TYPE), ("host", &self.place.server.authority), ("x-amz-date", &stamp)];
        headers.extend(keys.token.as_deref().map(|token| ("x-amz-security-token", token)));
        headers.push(("x-amz-target", &target));
        let scope = Scope { region: &self.place.region, service: "dynamodb", stamp: &stamp };
        let signed = Signed { method: "POST", path: "/", headers: &headers, body: &body };
        let authorization = authorization(keys, &scope, &signed);
        let builder =
            headers.iter().fold(Request::post("/"), |builder, (name, value)| builder.header(*name, *value));
        let request = builder.header("authorization", authorization).body(Full::new(body));
        // The only text of others in it is of the keys.
        request.map_err(|_| StoreError::Refused("the credentials hold what no header can".to_owned()))
    }
}

impl Said {
    /// The answer, if it was a good one.
    pub(super) fn good(self, table: &str) -> Result<Answer<Value>, StoreError> {
        let value = self.value.map_err(|fault| fault.into_error(table))?;
        Ok(Answer { value, clock: self.clock })
    }
}

impl Fault {
    pub(super) fn is(&self, kind: &str) -> bool {
        self.kind == kind
    }

    fn is_about_keys(&self) -> bool {
        ABOUT_KEYS.contains(&&self.kind[..])
    }

    /// What is said of it where nothing better is known.
    pub(super) fn into_error(self, table: &str) -> StoreError {
        match &self.kind[..] {
            "TransactionConflictException" => StoreError::Contended,
            NO_TABLE => StoreError::Refused(format!("there is no table `{table}`: run `tollgate migrate`")),
            _ if self.status.is_server_error() => StoreError::Unreachable(self.words()),
            _ => StoreError::Refused(self.words()),
        }
    }

    fn words(&self) -> String {
        let Self { kind, message, .. } = self;
        if message.is_empty() { kind.clone() } else { format!("{kind}: {message}") }
    }
}

fn read(reply: &Reply) -> Result<Result<Value, Fault>, StoreError> {
    let status = reply.status;
    let value = serde_json::from_slice::<Value>(&reply.body).ok().filter(Value::is_object);
    match value {
        Some(value) if status == StatusCode::OK => Ok(Ok(value)),
        Some(value) if value.get("__type").is_some_and(Value::is_string) => Ok(Err(fault(status, &value))),
        _ if status.is_server_error() => Err(StoreError::Unreachable(format!("it answered {status}"))),
        _ => Err(StoreError::Garbled(format!("{status} with what is no JSON of its kind"))),
    }
}

fn fault(status: StatusCode, value: &Value) -> Fault {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let kind = printable(text("__type").rsplit('#').next().unwrap_or_default());
    let message = if text("message").is_empty() { text("Message") } else { text("message") };
    // What follows the first line repeats the request, and with it the token of a session.
    let message = printable(message.lines().next().unwrap_or_default());
    let item = value.get("Item").filter(|item| item.is_object()).cloned();
    Fault { status, kind, message, item }
}

/// What may stand in a line of a log.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(LONGEST_MESSAGE).collect()
}

/// The table does not exist.
pub(super) const NO_TABLE: &str = "ResourceNotFoundException";

const TYPE: &str = "application/x-amz-json-1.0";
const LONGEST_MESSAGE: usize = 300;
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

    fn said(status: u16, body: &'static str) -> Result<Result<Value, Fault>, StoreError> {
        let status = StatusCode::from_u16(status).unwrap();
        read(&Reply { status, date: None, body: Bytes::from_static(body.as_bytes()) })
    }

    fn error(status: u16, body: &'static str) -> String {
        match said(status, body) {
            Ok(Ok(value)) => panic!("{value}"),
            Ok(Err(fault)) => fault.into_error("buckets").to_string(),
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
                "refused: ProvisionedThroughputExceededException: Slow down.",
            ),
            (
                400,
                r#"{"__type":"com.amazon.coral.availability#ThrottlingException","Message":"Rate exceeded"}"#,
                "refused: ThrottlingException: Rate exceeded",
            ),
            (400, r#"{"__type":"TransactionConflictException"}"#, "somebody else was writing"),
            (500, r#"{"__type":"x#InternalServerError"}"#, "cannot be reached: InternalServerError"),
            (503, "<html>", "cannot be reached: it answered 503 Service Unavailable"),
            (200, "[]", "answered what nobody understands: 200 OK with what is no JSON of its kind"),
            (200, "", "answered what nobody understands: 200 OK with what is no JSON of its kind"),
            (403, "{}", "answered what nobody understands: 403 Forbidden with what is no JSON of its kind"),
            (302, "{}", "answered what nobody understands: 302 Found with what is no JSON of its kind"),
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
