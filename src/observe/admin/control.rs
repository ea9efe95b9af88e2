//! `/api/v1/status`, `/api/v1/reload` and `/api/v1/drain`: the gate as a whole, as JSON.
//!
//! It passes words on and says what came of them; what they do lies above. The surprising thing: a drain is answered when
//! it begins, because whoever waits for its end would be one of those it waits for.

use std::fmt;
use std::sync::Arc;

use http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, oneshot};

use super::response::{AdminResponse, not_allowed, problem, problem_with, respond};
use crate::event::{Event, Events, Operator, OperatorCommand};

/// The ends at which a gate is told something.
pub struct ControlApi {
    /// Who wants the configuration read again.
    pub reloads: mpsc::Sender<oneshot::Sender<Reloaded>>,
    /// Told when the gate is to drain.
    pub drain: Arc<Notify>,
    /// What `/api/v1/status` shows.
    pub status: Box<dyn Fn() -> Value + Send + Sync>,
    /// Who hears of it.
    pub events: Events,
}

/// What came of reading the configuration again.
#[derive(Debug)]
pub struct Reloaded {
    /// What is another by that; or why the old configuration stays.
    pub changes: Result<String, String>,
    /// Mistakes and warnings, each as JSON with the `text` that people read.
    pub diagnostics: Vec<Value>,
}

/// A path of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ControlPath {
    Status,
    Reload,
    Drain,
}

impl ControlPath {
    pub(super) fn parse(path: &str) -> Option<Self> {
        match path {
            "/api/v1/status" => Some(Self::Status),
            "/api/v1/reload" => Some(Self::Reload),
            "/api/v1/drain" => Some(Self::Drain),
            _ => None,
        }
    }

    fn methods(self) -> &'static str {
        if self == Self::Status { "GET, HEAD" } else { "POST" }
    }
}

impl ControlApi {
    pub(super) async fn handle<B>(
        &self,
        by: Operator,
        page: ControlPath,
        request: &Request<B>,
    ) -> AdminResponse {
        let allowed = page.methods();
        if !allowed.split(", ").any(|method| method == request.method().as_str()) {
            return not_allowed(allowed);
        }
        if *request.method() == Method::POST && request.uri().query().is_some() {
            return problem(StatusCode::BAD_REQUEST, "nothing can be said in the query here");
        }
        match page {
            ControlPath::Status => json(StatusCode::OK, &(self.status)()),
            ControlPath::Reload => self.reload(by).await,
            ControlPath::Drain => {
                self.events.emit(&Event::CommandReceived { command: OperatorCommand::Drain, by });
                self.drain.notify_one();
                json(StatusCode::ACCEPTED, &json!({"draining": true}))
            }
        }
    }

    async fn reload(&self, by: Operator) -> AdminResponse {
        self.events.emit(&Event::CommandReceived { command: OperatorCommand::Reload, by });
        let (tell, told) = oneshot::channel();
        // Whoever reads files is gone once the gate drains.
        let _ = self.reloads.send(tell).await;
        match told.await {
            Ok(Reloaded { changes: Ok(changes), diagnostics }) => {
                json(StatusCode::OK, &json!({"changes": changes, "diagnostics": diagnostics}))
            }
            Ok(Reloaded { changes: Err(why), diagnostics }) => {
                let more = json!({"diagnostics": diagnostics});
                problem_with(StatusCode::UNPROCESSABLE_ENTITY, &why, more)
            }
            Err(_) => problem(StatusCode::SERVICE_UNAVAILABLE, "the gate drains and reads no configuration"),
        }
    }
}

fn json(status: StatusCode, value: &Value) -> AdminResponse {
    respond(status, "application/json", value.to_string())
}

impl fmt::Debug for ControlApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Control")
    }
}
