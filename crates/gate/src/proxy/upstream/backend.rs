//! One worker's connections to one upstream: which of them carries a request, and whether it is sent once more.

use std::cell::OnceCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use http::Response;
use http::header::HOST;
use tokio::time::Instant;

use super::bound;
use super::connect;
use super::fair_queue::{FairQueue, FairQueuePermit};
use super::http1::{PendingResponse, ResponseHead};
use super::pool::{ConnectionPool, DemandGuard, IdleCloser};
use super::reuse::ReuseLimit;
use super::{
    ConnectionLease, Health, OutgoingRequest, RequestSource, UpstreamBody, UpstreamConnection,
    UpstreamRequest,
};
use crate::event::Failure;
use crate::net::connection_limit::ClientLoad;
use crate::net::connection_slots::ConnectionSlot;
use crate::proxy::body::{UploadProgress, UploadState};
use crate::proxy::error::Error;
use crate::proxy::headers::received_head::ReceivedHead;
use crate::proxy::settings::ProxySettings;
use crate::time::Span;

/// One worker's connections to one upstream.
pub struct Backend {
    pub(super) health: Arc<Health>,
    pub(super) pool: Rc<ConnectionPool>,
    reuse_limit: ReuseLimit,
    fair_queue: Rc<FairQueue>,
    /// Set at the first connection.
    idle_closer: OnceCell<IdleCloser>,
}

/// A connection that carries a request.
struct LeasedConnection {
    connection: Box<UpstreamConnection>,
    /// How long it had rested; `None` if it is fresh.
    rested: Option<Duration>,
}

/// A request that an upstream may have got, and whose head can be sent again. It has no body.
pub(super) struct SentRequest {
    pending: PendingResponse,
    terms: RequestTerms,
}

/// What a request asks of its connection.
#[derive(Clone, Copy)]
struct RequestTerms {
    is_repeatable: bool,
    authenticates: bool,
    reply_timeout: Duration,
}

impl SentRequest {
    /// For one more upstream: a request that ends applications should not end all of them.
    fn once_more(mut pending: PendingResponse, terms: RequestTerms) -> Box<Self> {
        pending.rewind();
        Box::new(Self { pending, terms: RequestTerms { is_repeatable: false, ..terms } })
    }
}

impl RequestTerms {
    fn of(outgoing: &OutgoingRequest<'_>) -> Option<Self> {
        if let Some(sent) = &outgoing.again {
            return Some(sent.terms);
        }
        let &UpstreamRequest { is_repeatable, authenticates, reply_timeout, .. } =
            outgoing.unsent.as_ref()?;
        Some(Self { is_repeatable, authenticates, reply_timeout })
    }
}

impl Backend {
    /// A backend without connections.
    #[must_use]
    pub fn new(health: &Arc<Health>) -> Rc<Self> {
        Rc::new(Self {
            health: Arc::clone(health),
            pool: Rc::default(),
            reuse_limit: ReuseLimit::default(),
            fair_queue: FairQueue::new(health),
            idle_closer: OnceCell::new(),
        })
    }

    /// Whether this is the upstream with this health.
    #[must_use]
    pub fn is(&self, health: &Arc<Health>) -> bool {
        Arc::ptr_eq(&self.health, health)
    }

    /// Closes connections that were idle for `proxy.upstream_idle`. To be called [`SWEEPS`](super::SWEEPS) times within that.
    pub fn expire(&self, settings: &ProxySettings) {
        self.pool.expire(settings.upstream_idle.to_std(), &self.reuse_limit);
    }

    /// Whether an idle connection is left, so that [`expire`](Self::expire) has to be called.
    pub fn has_idle(&self) -> bool {
        !self.pool.is_empty()
    }

    pub(super) async fn forward(
        self: &Rc<Self>,
        outgoing: &mut OutgoingRequest<'_>,
        progress: &UploadProgress,
        client: Option<ClientLoad>,
        settings: &ProxySettings,
        source: &RequestSource<'_>,
    ) -> Result<Response<UpstreamBody>, Error> {
        let terms = RequestTerms::of(outgoing).ok_or(Error::Upstream(Failure::Connect))?;
        let RequestTerms { is_repeatable, authenticates, reply_timeout: timeout } = terms;
        // Boxed, as all that is rarely awaited: it would enlarge every request's future.
        let turn = match client.filter(|client| self.fair_queue.has_to_wait(client)) {
            None => self.fair_queue.pass(),
            Some(client) => Box::pin(self.wait_for_turn(client)).await?,
        };
        let bound = self.bound(settings, source);
        let was_bound = bound.is_some();
        let idle = || self.pop_idle(settings, turn.reserved_for_others(), is_repeatable);
        let mut connection = match bound.or_else(idle) {
            Some(connection) => connection,
            None => Box::pin(self.acquire_or_fail(settings, is_repeatable)).await?,
        };
        let mut pending = self.pending(outgoing).ok_or(Error::Upstream(Failure::Connect))?;
        let mut received =
            self.receive(&mut connection, &mut pending, progress, timeout, source.pass_on).await;
        if matches!(received, Err(None)) && is_repeatable {
            pending.rewind();
            // Its slot is free for the fresh one.
            drop(connection);
            connection = match Box::pin(self.connect_anew(settings)).await {
                Ok(connection) => connection,
                Err(failure) => {
                    outgoing.again = Some(Box::new(SentRequest { pending, terms }));
                    return Err(self.failed(failure));
                }
            };
            received = self.receive(&mut connection, &mut pending, progress, timeout, source.pass_on).await;
        }
        let head = match received.map_err(|error| error.unwrap_or_else(|| self.closed())) {
            Ok(head) => head,
            Err(error) => {
                let is_left = is_repeatable && is_unanswered(&error, &pending, &connection);
                outgoing.again = is_left.then(|| SentRequest::once_more(pending, terms));
                return Err(error);
            }
        };
        let is_bound = was_bound
            || head.has_challenge && bound::is_authenticated(head.response.headers(), authenticates);
        let lease = ConnectionLease {
            backend: Rc::clone(self),
            connection: Some(connection.connection),
            may_be_reused: progress.state() == UploadState::Complete
                && (is_bound || settings.upstream_idle > Span::ZERO),
            // Where nobody said what became of the credentials, nobody gets the connection.
            owner: (is_bound || authenticates).then(|| source.bound.filter(|_| is_bound).cloned()),
            _turn: turn,
        };
        Ok(UpstreamBody::behind(head, pending.into_upload(), lease))
    }

    async fn wait_for_turn(&self, client: ClientLoad) -> Result<FairQueuePermit, Error> {
        self.fair_queue.wait(client).await.ok_or_else(|| self.failed(Failure::Busy))
    }

    /// The connection that belongs to the source, if it is still open.
    fn bound(
        self: &Rc<Self>,
        settings: &ProxySettings,
        source: &RequestSource<'_>,
    ) -> Option<LeasedConnection> {
        let mut connection = source.bound?.take(&self.pool.key)?;
        connection
            .is_usable(settings)
            .then_some(LeasedConnection { connection, rested: Some(Duration::ZERO) })
    }

    fn pending(&self, outgoing: &mut OutgoingRequest<'_>) -> Option<PendingResponse> {
        // Upstreams of one group go by the same name, so its head fits.
        if let Some(sent) = outgoing.again.take() {
            return Some(sent.pending);
        }
        let mut request = outgoing.unsent.take()?;
        if self.health.target.host.is_some() || !request.headers.contains(&HOST) {
            request.headers.set(HOST, self.health.host.clone());
        }
        Some(PendingResponse::new(request))
    }

    /// Sends a request, and waits for the head of its response. The error is `None` if a reused connection had been closed
    /// before.
    async fn receive(
        &self,
        connection: &mut LeasedConnection,
        pending: &mut PendingResponse,
        progress: &UploadProgress,
        timeout: Duration,
        pass_on: &dyn Fn(Response<()>, ReceivedHead),
    ) -> Result<ResponseHead, Option<Error>> {
        let UpstreamConnection { socket, timer, .. } = &mut *connection.connection;
        timer.as_mut().reset(Instant::now() + timeout);
        let received = poll_fn(|cx| {
            loop {
                if let Poll::Ready(received) = pending.poll_head(socket, |head| head.pass_on(pass_on), cx) {
                    return Poll::Ready(Some(received));
                }
                ready!(timer.as_mut().poll(cx));
                // The time for a response starts when the request has been sent: an upload may take as long as it
                // makes progress. Once it is complete, this extends the time once at most.
                match progress.last_progress().map(|last| last + timeout) {
                    Some(later) if later > timer.deadline() => timer.as_mut().reset(later),
                    _ => return Poll::Ready(None),
                }
            }
        });
        match (received.await, connection.rested) {
            (None, _) => Err(Some(self.failed(Failure::Timeout))),
            (Some(Ok(head)), rested) => {
                rested.iter().for_each(|rested| self.reuse_limit.was_open(*rested));
                Ok(head)
            }
            (Some(Err(error)), Some(rested)) if error.is_close() && pending.is_unanswered(socket) => {
                self.reuse_limit.was_closed(rested);
                Err(None)
            }
            (Some(Err(error)), _) => Err(Some(match progress.state() {
                UploadState::Stalled => Error::ClientStalled,
                UploadState::Aborted => Error::ClientDisconnected,
                UploadState::Partial | UploadState::Complete => self.failed(Failure::Broken(error.cause())),
            })),
        }
    }

    /// The youngest usable idle connection; `reserved` idle ones are left in the pool.
    fn pop_idle(
        &self,
        settings: &ProxySettings,
        reserved: usize,
        is_repeatable: bool,
    ) -> Option<LeasedConnection> {
        loop {
            let is_safe = |rested| is_repeatable || self.reuse_limit.allows(rested);
            let (mut connection, rested) = self.pool.pop(reserved, is_safe)?;
            if connection.is_usable(settings) {
                return Some(LeasedConnection { connection, rested: Some(rested) });
            }
            if connection.is_current(settings) {
                self.reuse_limit.was_closed(rested);
            }
        }
    }

    async fn acquire_or_fail(
        &self,
        settings: &ProxySettings,
        is_repeatable: bool,
    ) -> Result<LeasedConnection, Error> {
        self.acquire(settings, is_repeatable).await.map_err(|failure| self.failed(failure))
    }

    /// A fresh connection; or without a free slot, one that another request releases.
    async fn acquire(
        &self,
        settings: &ProxySettings,
        is_repeatable: bool,
    ) -> Result<LeasedConnection, Failure> {
        self.idle_closer.get_or_init(|| IdleCloser::begin(&self.pool, &self.health));
        let free = || self.health.connection_limit.try_take();
        let slot = match free().or_else(|| self.pool.close_bound().then(free).flatten()) {
            Some(slot) => slot,
            None => {
                let next = self.next_free(settings, is_repeatable);
                let next = tokio::time::timeout(settings.connect_timeout.to_std(), next);
                match next.await.map_err(|_| Failure::Busy)? {
                    Acquired::Reused(connection) => {
                        return Ok(LeasedConnection { connection, rested: Some(Duration::ZERO) });
                    }
                    Acquired::New(slot) => slot,
                }
            }
        };
        let connection = connect::connect(&self.health, slot, settings).await?;
        Ok(LeasedConnection { connection, rested: None })
    }

    /// A fresh connection, whatever others wait for.
    async fn connect_anew(&self, settings: &ProxySettings) -> Result<LeasedConnection, Failure> {
        let _demand = DemandGuard::begin(&self.health.demand, &self.pool);
        let slot = self.health.connection_limit.take();
        let slot = tokio::time::timeout(settings.connect_timeout.to_std(), slot).await;
        let slot = slot.map_err(|_| Failure::Busy)?;
        let connection = connect::connect(&self.health, slot, settings).await?;
        Ok(LeasedConnection { connection, rested: None })
    }

    /// Waits for a released connection or a free slot, whichever comes first.
    async fn next_free(&self, settings: &ProxySettings, is_repeatable: bool) -> Acquired {
        let _demand = DemandGuard::begin(&self.health.demand, &self.pool);
        let is_safe = is_repeatable || self.reuse_limit.allows(Duration::ZERO);
        loop {
            tokio::select! {
                biased;
                Ok(mut connection) = self.pool.wait() => if is_safe && connection.is_usable(settings) {
                    return Acquired::Reused(connection);
                },
                slot = self.health.connection_limit.take() => return Acquired::New(slot),
            }
        }
    }

    /// The upstream closed the connection instead of answering.
    fn closed(&self) -> Error {
        self.failed(Failure::Broken(CLOSED.into()))
    }

    fn failed(&self, failure: Failure) -> Error {
        self.health.failed(failure);
        Error::Upstream(failure)
    }
}

/// Whether the connection ended before any byte of an answer came.
fn is_unanswered(error: &Error, pending: &PendingResponse, connection: &LeasedConnection) -> bool {
    matches!(error, Error::Upstream(Failure::Broken(_)))
        && pending.is_unanswered(&connection.connection.socket)
}

/// The result of waiting for a connection.
enum Acquired {
    Reused(Box<UpstreamConnection>),
    New(ConnectionSlot),
}

const CLOSED: &str = "it closed the connection instead of answering";
