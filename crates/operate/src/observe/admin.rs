//! The pages for operators, on their own sockets: health and metrics for all, everything else for callers on a Unix
//! socket and for those over TCP who have a token.
//!
//! They share no listener, runtime or path with clients. A caller over TCP may be a page in the operator's own browser:
//! `access` decides about those before anything else. Then `roles` says what the caller's token is for, and `audit_trail`
//! records what a caller changes.

mod access;
mod asker;
mod audit_trail;
mod buckets;
mod caller_permits;
mod clients;
mod control;
mod dashboard;
mod dry_run;
mod events;
mod forget;
pub mod openapi;
mod overrides;
mod page_path;
pub mod pages;
mod request;
mod response;
mod roles;
mod router;
mod token;
mod unlock;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use http_body_util::Either;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;

pub use self::access::AdminSettings;
pub use self::buckets::{
    AddressesPart, BucketPart, BucketsPage, FailuresPart, FilledPart, Grammar, OwnRatePart, WaitsPart,
};
pub use self::control::{ControlApi, GateCommand, ReloadError, Reloaded};
pub use self::dry_run::{DEFAULT_PEER, DryRun, DryRunApi, DryRunError, ExplainRequest};
pub use self::forget::{ForgetFiles, ForgottenFiles};
pub use self::request::AdminProblem;
pub use self::token::{AdminToken, AdminTokens, NamedToken, OperatorRole};

use self::access::{AdminAccess, TcpCaller};
use self::audit_trail::AuditTrail;
use self::buckets::BucketsApi;
use self::caller_permits::{CallerPermit, CallerPermits};
use self::clients::ClientsApi;
use self::dashboard::DashboardApi;
use self::events::EventsApi;
use self::forget::ForgetApi;
use self::overrides::OverridesApi;
use self::pages::ForgetPage;
use self::router::{Caller, handle};
use super::audit::AuditLog;
use super::client_format::ClientFormatter;
use super::event_feed::EventFeed;
use super::heavy_hitters::HeavyHitters;
use super::history::AttemptHistory;
use super::metrics::Metrics;
use super::readiness::Readiness;
use super::wiring::Wiring;
use crate::engine::Engine;
use crate::event::{Events, Operator};
use crate::net::tls;
use crate::time::{Clock, Span};

/// The handlers of all admin pages.
#[derive(Debug)]
pub struct Admin {
    metrics: Arc<Metrics>,
    draining: Arc<AtomicBool>,
    readiness: Arc<Readiness>,
    access: AdminAccess,
    operator_api: Option<OperatorApi>,
}

/// What the pages for operators show and change.
pub struct AdminSources {
    /// May change at any time.
    pub settings: Arc<ArcSwap<AdminSettings>>,
    /// The buckets.
    pub engine: Arc<Engine>,
    /// Parses values as the file does.
    pub grammar: Grammar,
    /// The gate as a whole.
    pub control: ControlApi,
    /// Checks and explanations.
    pub dry_run: DryRunApi,
    /// Events for viewers.
    pub feed: Arc<EventFeed>,
    /// Attempts over time.
    pub history: Arc<AttemptHistory>,
    /// Who is there.
    pub hitters: Arc<HeavyHitters>,
    /// What may be wired wrongly.
    pub wiring: Arc<Wiring>,
    /// Takes a person out of files.
    pub forget: ForgetFiles,
    /// Writes clients as `log.clients` says.
    pub clients: ClientFormatter,
    /// Where changes are recorded.
    pub audit: Option<Arc<AuditLog>>,
}

/// The handlers of all pages but health and metrics.
#[derive(Debug)]
struct OperatorApi {
    buckets: BucketsApi,
    clients: ClientsApi,
    control: ControlApi,
    overrides: OverridesApi,
    dry_run: DryRunApi,
    events: EventsApi,
    forget: ForgetApi,
    dashboard: DashboardApi,
    audit: AuditTrail,
}

/// A bound socket for operators.
#[derive(Debug)]
pub enum AdminSocket {
    /// Callers may be any browser.
    Tcp(TcpListener),
    /// The same over TLS.
    Tls(TcpListener),
    /// The permissions of the file decide who may call.
    Unix(UnixListener),
}

impl Admin {
    /// Health and metrics alone. `draining` makes `/readyz` answer 503.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>, draining: Arc<AtomicBool>) -> Self {
        let access = AdminAccess::new(Arc::default(), &Clock::system(), Events::default());
        Self { metrics, draining, readiness: Arc::default(), access, operator_api: None }
    }

    /// Adds the reasons for which `/readyz` answers 503 as well.
    #[must_use]
    pub fn with_readiness(self, readiness: Arc<Readiness>) -> Self {
        Self { readiness, ..self }
    }

    /// Adds all other pages.
    #[must_use]
    pub fn with_operators(self, sources: AdminSources) -> Self {
        let AdminSources { settings, engine, grammar, control, dry_run, .. } = sources;
        let access = AdminAccess::new(settings, engine.clock(), control.events.clone());
        let overrides = OverridesApi {
            engine: Arc::clone(&engine),
            grammar,
            commands: control.commands.clone(),
            events: control.events.clone(),
            turn: tokio::sync::Mutex::default(),
        };
        let audit = AuditTrail::new(sources.audit, sources.clients.clone(), engine.clock().clone());
        let forget = ForgetApi {
            engine: Arc::clone(&engine),
            hitters: Arc::clone(&sources.hitters),
            wiring: sources.wiring,
            clients: sources.clients.clone(),
            events: control.events.clone(),
            files: Arc::new(sources.forget),
            page: Arc::new(Mutex::new(ForgetPage { done: true, ..ForgetPage::default() })),
        };
        let operator_api = OperatorApi {
            audit,
            forget,
            buckets: BucketsApi::new(Arc::clone(&engine), grammar),
            clients: ClientsApi::new(sources.hitters, engine, sources.clients),
            control,
            overrides,
            dry_run,
            events: EventsApi::new(sources.feed),
            dashboard: DashboardApi { history: sources.history, metrics: Arc::clone(&self.metrics) },
        };
        Self { access, operator_api: Some(operator_api), ..self }
    }

    /// Answers callers until `shutdown` resolves. Needs a tokio runtime with time and I/O, not one of a worker.
    pub async fn serve(self: Arc<Self>, socket: AdminSocket, shutdown: impl Future<Output = ()>) {
        let permits = CallerPermits::default();
        let mut shutdown = pin!(shutdown);
        loop {
            let accepted = async {
                // The permit moves into the task, so a slow caller costs a permit and nothing else.
                let permit = permits.acquire().await;
                (permit, socket.accept().await)
            };
            let (permit, stream) = tokio::select! {
                () = &mut shutdown => return,
                accepted = accepted => accepted,
            };
            match stream {
                Ok(stream) => self.spawn_connection(stream, permit),
                // Most likely out of descriptors; an immediate retry would fail too.
                Err(_) => sleep(AFTER_FAILURE.to_std()).await,
            }
        }
    }

    fn spawn_connection(self: &Arc<Self>, stream: AdminStream, permit: CallerPermit) {
        let admin = Arc::clone(self);
        match stream {
            AdminStream::Unix(stream) => {
                let peer = stream.peer_cred().ok();
                let (uid, pid) = (peer.map(|peer| peer.uid()), peer.and_then(|peer| peer.pid()));
                let caller = Caller::Unix(Operator { uid, pid, ..Operator::default() });
                tokio::spawn(admin.serve_connection(stream, caller, permit));
            }
            AdminStream::Tcp { stream, peer, is_encrypted } => {
                let Ok(to) = stream.local_addr().as_ref().map(SocketAddr::ip) else { return };
                // A caller with too many connections is closed at once.
                let Some(permit) = permit.of(peer) else { return };
                let caller = Caller::Tcp(TcpCaller { peer, to, is_encrypted });
                match is_encrypted {
                    true => tokio::spawn(admin.serve_encrypted(stream, caller, permit)),
                    false => tokio::spawn(admin.serve_connection(stream, caller, permit)),
                };
            }
        }
    }

    async fn serve_encrypted(self: Arc<Self>, stream: TcpStream, caller: Caller, permit: CallerPermit) {
        let Some(acceptor) = self.access.tls() else { return };
        if let Ok(Ok(stream)) = timeout(HEADER_TIMEOUT.to_std(), tls::accept(stream, &acceptor)).await {
            self.serve_connection(stream, caller, permit).await;
        }
    }

    async fn serve_connection(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite,
        caller: Caller,
        permit: CallerPermit,
    ) {
        let (is_viewer, permit) = (AtomicBool::new(false), Mutex::new(Some(permit)));
        let service = service_fn(|request| async {
            let response = handle(&self, caller, request).await;
            if matches!(response.body(), Either::Right(_)) {
                // From now on it has the permit of a viewer.
                is_viewer.store(true, Ordering::Relaxed);
                drop(permit.lock().unwrap_or_else(PoisonError::into_inner).take());
            }
            Ok::<_, Infallible>(response)
        });
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(WRITE_TIMEOUT.to_std()));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT.to_std())
            .max_buf_size(MAX_HEAD_LEN)
            // One request a connection: an idle caller holds no permit that others wait for.
            .keep_alive(false)
            .serve_connection(TokioIo::new(Box::pin(stream)), service);
        let whole_timeout = async {
            sleep(WHOLE_TIMEOUT.to_std()).await;
            if is_viewer.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            _ = connection => {}
            () = whole_timeout => {}
        }
    }
}

enum AdminStream {
    Tcp { stream: TcpStream, peer: IpAddr, is_encrypted: bool },
    Unix(UnixStream),
}

impl AdminSocket {
    async fn accept(&self) -> io::Result<AdminStream> {
        let (listener, is_encrypted) = match self {
            Self::Tcp(listener) => (listener, false),
            Self::Tls(listener) => (listener, true),
            Self::Unix(listener) => return Ok(AdminStream::Unix(listener.accept().await?.0)),
        };
        let (stream, peer) = listener.accept().await?;
        // Events are small, and a viewer waits for them.
        stream.set_nodelay(true)?;
        Ok(AdminStream::Tcp { stream, peer: peer.ip().to_canonical(), is_encrypted })
    }
}

impl From<TcpListener> for AdminSocket {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<UnixListener> for AdminSocket {
    fn from(listener: UnixListener) -> Self {
        Self::Unix(listener)
    }
}

const HEADER_TIMEOUT: Span = Span::from_secs(5);
const WHOLE_TIMEOUT: Span = Span::from_secs(30);
/// A viewer that reads nothing for this long is dropped.
const WRITE_TIMEOUT: Span = Span::from_secs(10);
/// Bytes of a request's head, and of an answer that is buffered.
const MAX_HEAD_LEN: usize = 64 * 1024;
const AFTER_FAILURE: Span = Span::from_millis(100);

#[cfg(test)]
mod tests;
