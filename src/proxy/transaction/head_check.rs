//! The results of checking the head of a request: before the configuration in force is known, and with it.

use std::rc::Rc;

use http::{HeaderValue, Request};

use crate::engine::{Decision, DecisionState, PendingDecision};
use crate::policy::{BodyRequirement, MatchedRoutes};
use crate::proxy::body::ClientBody;
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::error::MalformedRequest;
use crate::proxy::request::challenge::ChallengeAnswer;
use crate::proxy::request::proof;
use crate::proxy::runtime_config::{RuntimeConfig, WorkerConfig};

/// A decision, the configuration it was made by, and the number of the upstream group.
pub(super) struct RoutedDecision {
    pub(super) config: Rc<WorkerConfig>,
    /// Boxed, because it is moved several times.
    pub(super) decision: Box<Decision>,
    pub(super) group: usize,
}

/// The result of checking the head of a request.
pub(super) enum HeadDecision {
    Decided(RoutedDecision),
    /// The client is redirected to `https://` with this `Location`.
    Redirected(HeaderValue),
    /// An authority checks a name.
    Challenge(ChallengeAnswer),
    /// A browser sends a proof of work.
    Proof(Rc<WorkerConfig>),
    /// The decision needs the store.
    AwaitsStore(Rc<WorkerConfig>, Box<PendingDecision>, usize),
    /// The decision needs the body.
    NeedsBody(Rc<WorkerConfig>, UnreadAttempt),
}

/// An attempt whose body has to be read before the decision.
pub(super) struct UnreadAttempt {
    pub(super) requirement: BodyRequirement,
    /// The routes as far as they are known, and the generation of their rules.
    pub(super) routes: MatchedRoutes,
    pub(super) generation: u64,
}

/// The same, before the configuration in force is known. Decisions are boxed, because they are moved several times.
pub(super) enum HeadCheck {
    Malformed(MalformedRequest),
    BodyTooLong,
    Redirected,
    Challenge(ChallengeAnswer),
    Proof,
    Decided(Box<Decision>, usize),
    AwaitsStore(Box<PendingDecision>, usize),
    NeedsBody(UnreadAttempt),
}

impl HeadCheck {
    /// What the gate answers itself, whatever the routes are. A proxy that asks is told no such thing.
    pub(super) fn before_routes(
        config: &RuntimeConfig,
        connection: &DownstreamConnection,
        request: &Request<ClientBody>,
        host: &str,
    ) -> Option<Self> {
        let hosts = config.challenge_hosts.as_ref().filter(|_| connection.endpoint.is_none());
        if let Some(answer) = hosts.and_then(|hosts| hosts.answer(host, request.uri().path())) {
            return Some(Self::Challenge(answer));
        }
        if config.redirect.is_some() && config.needs_redirect(connection, request) {
            return Some(Self::Redirected);
        }
        let may_be_proof = config.rules.policy.challenge.is_some() && connection.endpoint.is_none();
        (may_be_proof && proof::in_query(request.uri().query()).is_some()).then_some(Self::Proof)
    }

    /// By the state of a decision, and the number of the upstream group if a route names it.
    pub(super) fn by(state: DecisionState, group: Option<usize>) -> Self {
        let group = group.unwrap_or(0);
        match state {
            DecisionState::Ready(decision) => Self::Decided(Box::new(decision), group),
            DecisionState::Pending(pending) => Self::AwaitsStore(Box::new(pending), group),
        }
    }
}
