//! `/api/v1/status`, `/api/v1/limits`, `/api/v1/reload` and `/api/v1/drain`: the gate as a whole, as JSON.
//!
//! It passes commands on and returns their outcome; the layer above carries them out. The response to a drain comes
//! when it begins: a caller that waited for its end would be one of the connections that it waits for.

use std::fmt;
use std::sync::Arc;

use http::{Method, Request, StatusCode};
use tokio::sync::{Notify, mpsc, oneshot};
use tollgate_grammar::diagnostic::DiagnosticRecord;

use super::pages::{DrainPage, LimitsPage, ReloadPage, StatusPage};
use super::response::{AdminResponse, json_response, not_allowed, problem, problem_with};
use crate::engine::{OverrideChange, OverrideError};
use crate::event::{Event, Events, Operator, OperatorCommand};

/// The handles of the commands.
pub struct ControlApi {
    /// Takes what is done one after the other, each with the sender of its reply.
    pub commands: mpsc::Sender<GateCommand>,
    /// Notified when the gate has to drain.
    pub drain: Arc<Notify>,
    /// The content of `/api/v1/status`.
    pub status: Box<dyn Fn() -> StatusPage + Send + Sync>,
    /// The content of `/api/v1/limits`.
    pub limits: Box<dyn Fn() -> LimitsPage + Send + Sync>,
    /// Receives an event for each command.
    pub events: Events,
}

/// What changes the rules: one command at a time.
#[derive(Debug)]
pub enum GateCommand {
    /// Read the configuration again.
    Reload(oneshot::Sender<Reloaded>),
    /// Change the rules for a while.
    Override {
        /// The change.
        change: OverrideChange,
        /// Whether it is in force.
        reply: oneshot::Sender<Result<(), OverrideError>>,
    },
}

/// The outcome of a reload.
#[derive(Debug)]
pub struct Reloaded {
    /// What has changed, or why the old configuration stays.
    pub changes: Result<String, ReloadError>,
    /// Mistakes and warnings, each with its `text` for people.
    pub diagnostics: Vec<DiagnosticRecord>,
}

/// Why the old configuration stays, in words for operators.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReloadError(pub String);

/// The pages by path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ControlPath {
    Status,
    Limits,
    Reload,
    Drain,
}

impl ControlPath {
    pub(super) fn parse(path: &str) -> Option<Self> {
        match path {
            "/api/v1/status" => Some(Self::Status),
            "/api/v1/limits" => Some(Self::Limits),
            "/api/v1/reload" => Some(Self::Reload),
            "/api/v1/drain" => Some(Self::Drain),
            _ => None,
        }
    }

    fn methods(self) -> &'static str {
        match self {
            Self::Status | Self::Limits => "GET, HEAD",
            Self::Reload | Self::Drain => "POST",
        }
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
            return problem(StatusCode::BAD_REQUEST, "this page takes no query");
        }
        match page {
            ControlPath::Status => json_response(StatusCode::OK, &(self.status)()),
            ControlPath::Limits => json_response(StatusCode::OK, &(self.limits)()),
            ControlPath::Reload => self.reload(by).await,
            ControlPath::Drain => {
                self.events.emit(&Event::CommandReceived { command: OperatorCommand::Drain, by });
                self.drain.notify_one();
                json_response(StatusCode::ACCEPTED, &DrainPage { draining: true })
            }
        }
    }

    async fn reload(&self, by: Operator) -> AdminResponse {
        self.events.emit(&Event::CommandReceived { command: OperatorCommand::Reload, by });
        let (reply, answer) = oneshot::channel();
        // Fails once the gate drains: nothing reloads any more.
        let _ = self.commands.send(GateCommand::Reload(reply)).await;
        match answer.await {
            Ok(Reloaded { changes: Ok(changes), diagnostics }) => {
                json_response(StatusCode::OK, &ReloadPage { changes, diagnostics })
            }
            Ok(Reloaded { changes: Err(ReloadError(why)), diagnostics }) => {
                problem_with(StatusCode::UNPROCESSABLE_ENTITY, &why, Some(diagnostics))
            }
            Err(_) => problem(StatusCode::SERVICE_UNAVAILABLE, "the gate drains and reads no configuration"),
        }
    }
}

impl fmt::Debug for ControlApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControlApi")
    }
}
