//! `/api/v1/status`, `/api/v1/limits`, `/api/v1/reload` and `/api/v1/drain`: the gate as a whole, as JSON.
//!
//! It passes commands on and returns their outcome; the layer above carries them out. The response to a drain comes
//! when it begins: a caller that waited for its end would be one of the connections that it waits for.

use std::fmt;
use std::sync::Arc;

use http::{Method, Request, StatusCode};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Mutex, Notify, mpsc, oneshot};
use tollgate_grammar::diagnostic::DiagnosticRecord;

use super::audit_trail::{PageContext, audited};
use super::pages::{DrainPage, LimitsPage, ReloadPage, StatusPage};
use super::response::{AdminResponse, json_response, not_allowed, problem, problem_with};
use crate::engine::{OverrideChange, OverrideError};
use crate::event::{Event, Events, OperatorCommand};

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
    /// Held by a reload from the look at what is in force until it is done, so that the next one finds what it made.
    pub turn: Mutex<()>,
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

/// A configuration in force, as the audit has it.
#[derive(Serialize)]
struct AuditedConfig {
    /// The hash of its texts.
    config: String,
    /// The version of the policy of the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<u64>,
}

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
        cx: &PageContext<'_>,
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
            ControlPath::Limits => {
                let mut page = (self.limits)();
                cx.seen.narrow_limits(&mut page);
                json_response(StatusCode::OK, &page)
            }
            ControlPath::Reload => self.reload(cx).await,
            ControlPath::Drain => self.drain(cx).await,
        }
    }

    async fn drain(&self, cx: &PageContext<'_>) -> AdminResponse {
        let state = |draining| audited(&DrainPage { draining });
        if let Err(refusal) = cx.record("drain", state(false), state(true)).await {
            return refusal.into();
        }
        self.events.emit(&Event::CommandReceived { command: OperatorCommand::Drain, by: cx.asker.by });
        self.drain.notify_one();
        json_response(StatusCode::ACCEPTED, &DrainPage { draining: true })
    }

    async fn reload(&self, cx: &PageContext<'_>) -> AdminResponse {
        let _turn = if cx.audit.is_on() { Some(self.turn.lock().await) } else { None };
        let change = match cx.record("reload", self.configuration(cx), Value::Null).await {
            Ok(change) => change,
            Err(refusal) => return refusal.into(),
        };
        self.events.emit(&Event::CommandReceived { command: OperatorCommand::Reload, by: cx.asker.by });
        let (reply, answer) = oneshot::channel();
        // Fails once the gate drains: nothing reloads any more.
        let _ = self.commands.send(GateCommand::Reload(reply)).await;
        let answer = answer.await;
        let outcome = match &answer {
            Ok(Reloaded { changes: Ok(_), .. }) => Ok(self.configuration(cx)),
            Ok(Reloaded { changes: Err(ReloadError(why)), .. }) => Err(why.clone()),
            Err(_) => Err(DRAINS.to_owned()),
        };
        cx.audit.tell(change, outcome).await;
        match answer {
            Ok(Reloaded { changes: Ok(changes), diagnostics }) => {
                json_response(StatusCode::OK, &ReloadPage { changes, diagnostics })
            }
            Ok(Reloaded { changes: Err(ReloadError(why)), diagnostics }) => {
                problem_with(StatusCode::UNPROCESSABLE_ENTITY, &why, Some(diagnostics))
            }
            Err(_) => problem(StatusCode::SERVICE_UNAVAILABLE, DRAINS),
        }
    }

    /// Which configuration is in force; nothing where nobody asks.
    fn configuration(&self, cx: &PageContext<'_>) -> Value {
        if !cx.audit.is_on() {
            return Value::Null;
        }
        let StatusPage { config, policy, .. } = (self.status)();
        audited(&AuditedConfig { config: config.hash, policy: policy.map(|policy| policy.version) })
    }
}

impl fmt::Debug for ControlApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControlApi")
    }
}

const DRAINS: &str = "the gate drains and reads no configuration";
