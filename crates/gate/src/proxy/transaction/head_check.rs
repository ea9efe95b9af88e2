//! What the head of a request decides.

use std::rc::Rc;

use http::{HeaderValue, Request};

use crate::engine::{Decision, DecisionState, PendingDecision};
use crate::policy::attempt::Client;
use crate::policy::{BodyRequirement, MatchedRoutes};
use crate::proxy::body::ClientBody;
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::error::Error;
use crate::proxy::request::validation::ValidationAnswer;
use crate::proxy::request::voucher;
use crate::proxy::runtime_config::{RuntimeConfig, WorkerConfig};

/// A decision, the configuration it was made by, and the number of the upstream group.
pub(super) struct RoutedDecision {
    pub(super) config: Rc<WorkerConfig>,
    pub(super) decision: Decision,
    pub(super) group: usize,
}

/// A head that was checked, and the configuration it was checked by.
pub(super) struct CheckedHead {
    pub(super) config: Rc<WorkerConfig>,
    pub(super) client: Client,
    pub(super) decision: HeadDecision,
}

/// The result of checking the head of a request. Each decision comes with the number of the upstream group.
pub(super) enum HeadDecision {
    Decided(Decision, usize),
    /// The client is redirected to `https://` with this `Location`.
    Redirected(HeaderValue),
    /// An authority checks a name.
    Validation(ValidationAnswer),
    /// A refused client answers an offer.
    Voucher,
    /// The decision needs the store.
    AwaitsStore(Box<PendingDecision>, usize),
    /// The decision needs the body.
    NeedsBody(UnreadAttempt),
}

/// An attempt whose body has to be read before the decision.
pub(super) struct UnreadAttempt {
    pub(super) requirement: BodyRequirement,
    /// The routes as far as they are known, and the generation of their rules.
    pub(super) routes: MatchedRoutes,
    pub(super) generation: u64,
}

impl HeadDecision {
    /// What the gate answers itself, whatever the routes are. A proxy that asks is told no such thing.
    pub(super) fn before_routes(
        config: &RuntimeConfig,
        connection: &DownstreamConnection,
        request: &Request<ClientBody>,
        host: &str,
    ) -> Option<Result<Self, Error>> {
        let hosts = config.validation_hosts.as_ref().filter(|_| connection.callers.are_clients());
        if let Some(answer) = hosts.and_then(|hosts| hosts.answer(host, request.uri().path())) {
            return Some(Ok(Self::Validation(answer)));
        }
        if config.redirect.is_some() && config.needs_redirect(connection, request) {
            let location = config.redirect_location(connection, request);
            return Some(location.map(Self::Redirected).map_err(Error::from));
        }
        let may_be_voucher = config.rules.policy.pardon.is_some() && connection.callers.are_clients();
        (may_be_voucher && voucher::in_query(request.uri().query()).is_some()).then_some(Ok(Self::Voucher))
    }

    /// By the state of a decision, and the number of the upstream group if a route names it.
    #[inline]
    pub(super) fn by(state: DecisionState, group: Option<usize>) -> Self {
        let group = group.unwrap_or(0);
        match state {
            DecisionState::Ready(decision) => Self::Decided(decision, group),
            DecisionState::Pending(pending) => Self::AwaitsStore(pending, group),
        }
    }
}
