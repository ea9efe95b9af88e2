//! The program's own messages on standard error, and the rare events that become messages.
//!
//! Requests are left to the access log. The file sets the level; `RUST_LOG` has no effect. Messages go through a
//! bounded queue, because the reader of standard error may stop reading and no worker may wait for it. Repeated
//! messages are left out and counted.

mod operators;
mod queue;

use std::io::IsTerminal;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use tracing::level_filters::LevelFilter;
use tracing::subscriber::SetGlobalDefaultError;
use tracing::{Subscriber, debug, error, info, warn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Registry, fmt, reload};

use self::queue::MessageQueue;
use super::client_format::ClientFormatter;
use super::log_throttle::LogThrottle;
use super::reports::WaitingReports;
use super::settings::{LogFormat, LogLevel};
use crate::event::{
    AlarmChange, BrokenAnswer, ConnectionEvent, Event, EventListener, Failure, GuessWorked, KernelDrops,
    RejectReason, StoreChange, StoreEvent, Trouble, TroubleKind,
};
use crate::policy::AlarmFigures;
use crate::policy::attempt::Client;
use crate::time::{Clock, Span};

/// Writes queued messages when it is dropped, for at most a second.
#[derive(Debug)]
#[must_use = "queued messages are lost without it"]
pub struct FlushOnDrop(MessageQueue);

/// Sends the messages of the whole process to standard error from now on. The thread that writes them calls `first`
/// before anything else.
///
/// # Errors
/// If it was called before.
pub fn start(
    level: LogLevel,
    format: LogFormat,
    first: impl FnOnce() + Send + 'static,
) -> Result<FlushOnDrop, SetGlobalDefaultError> {
    let json = match format {
        LogFormat::Auto => !std::io::stderr().is_terminal(),
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let queue = MessageQueue::start(std::io::stderr(), first);
    let flush = FlushOnDrop(queue.clone());
    let (subscriber, handle) = subscriber(level, json, move || queue.clone());
    tracing::subscriber::set_global_default(subscriber)?;
    // The global subscriber was just set for the first time, so the handle is, too.
    let _ = LEVEL.set(handle);
    Ok(flush)
}

/// The level of the process's one subscriber.
static LEVEL: OnceLock<LevelHandle> = OnceLock::new();

type LevelHandle = reload::Handle<LevelFilter, Registry>;

impl Drop for FlushOnDrop {
    fn drop(&mut self) {
        self.0.flush_within(FLUSH_TIMEOUT);
    }
}

/// Sets the level from now on. Changes nothing before [`start`].
pub fn set_level(level: LogLevel) {
    if let Some(handle) = LEVEL.get() {
        // Fails only if the subscriber is gone.
        let _ = handle.reload(filter(level));
    }
}

/// Turns rare events into messages.
#[derive(Debug)]
pub struct Messages {
    clock: Clock,
    clients: ClientFormatter,
    upstream_up: LogThrottle,
    upstream_failed: [LogThrottle; 8],
    rejected: [LogThrottle; 8],
    accept_failed: LogThrottle,
    evicted: LogThrottle,
    body_refused: LogThrottle,
    panicked: LogThrottle,
    kernel_drops: LogThrottle,
    token_rejected: LogThrottle,
    guess_worked: LogThrottle,
    /// Operators are told of each.
    reports: Arc<WaitingReports>,
}

impl Messages {
    /// `clients` writes addresses as the access log does.
    #[must_use]
    pub fn new(clients: ClientFormatter, clock: Clock, reports: Arc<WaitingReports>) -> Self {
        let throttle = || LogThrottle::every(MESSAGE_INTERVAL);
        Self {
            clock,
            clients,
            // Several upstreams may fail at once, and each should be named.
            upstream_up: throttle().with_burst(20),
            upstream_failed: std::array::from_fn(|_| throttle()),
            rejected: std::array::from_fn(|_| throttle()),
            accept_failed: throttle(),
            evicted: throttle(),
            body_refused: throttle(),
            panicked: throttle(),
            kernel_drops: throttle(),
            token_rejected: throttle(),
            guess_worked: throttle().with_burst(20),
            reports,
        }
    }

    /// If a message of this kind may be written now, how many were left out; the inner `None` means none.
    fn allow(&self, throttle: &LogThrottle) -> Option<Option<u64>> {
        throttle.allow(self.clock.now()).map(|left_out| (left_out > 0).then_some(left_out))
    }

    fn upstream_up(&self, upstream: &str, up: bool) {
        let Some(left_out) = self.allow(&self.upstream_up) else { return };
        if up {
            info!(upstream, left_out, "an upstream is used again");
        } else {
            warn!(upstream, left_out, "an upstream is skipped until it answers again");
        }
    }

    fn upstream_failed(&self, upstream: &str, failure: Failure) {
        let told;
        let (index, reason) = match failure {
            Failure::Connect => (0, "cannot connect"),
            Failure::Timeout => (1, "no answer in time"),
            Failure::Broken(BrokenAnswer { why, line: Some(line) }) => {
                told = format!("{why}: line {line} of its head");
                (2, told.as_str())
            }
            Failure::Broken(BrokenAnswer { why, line: None }) => (2, why),
            Failure::Busy => (3, "all connections are busy"),
            Failure::ConnectTimeout => (4, "no connection in time"),
            Failure::Certificate => (5, "its certificate is not trusted, or not for its name"),
            Failure::Tls => (6, "it does not speak TLS with us"),
            Failure::Exhausted => (7, "no descriptor, port or memory is left here"),
        };
        if let Some(left_out) = self.allow(&self.upstream_failed[index]) {
            warn!(upstream, reason, left_out, "an upstream failed a request");
        }
    }

    fn alarm(&self, change: &AlarmChange<'_>) {
        self.reports.add_alarm(change);
        let AlarmChange { route, words, begins, figures: AlarmFigures { failures, share }, .. } = *change;
        match begins {
            true => warn!(route, failures, share, "{}", words.begins),
            false => info!(route, failures, share, "{}", words.ends),
        }
    }

    fn guess_worked(&self, guess: &GuessWorked<'_>) {
        self.reports.add_guess(guess);
        let GuessWorked { route, account, failures, .. } = *guess;
        if let Some(left_out) = self.allow(&self.guess_worked) {
            let (route, account) = (&*route.name, format!("{account:012x}"));
            warn!(
                route,
                account,
                failures,
                left_out,
                "a guess may have worked: a stranger signed in after many failures"
            );
        }
    }

    fn store_report(&self, change: StoreChange<'_>) {
        log_store_report(change);
        let StoreChange { server: subject, up, why, .. } = change;
        let kind = if up { TroubleKind::StoreUp } else { TroubleKind::StoreDown };
        self.reports.add_trouble(&Trouble { kind, subject, why, at: self.clock.now() });
    }

    fn token_rejected(&self, peer: IpAddr) {
        if let Some(left_out) = self.allow(&self.token_rejected) {
            let from = self.clients.show(Client::from_ip(peer));
            warn!(from, left_out, "a caller of the admin API sent a wrong token");
        }
    }

    fn panicked(&self) {
        if let Some(left_out) = self.allow(&self.panicked) {
            error!(left_out, "a task panicked, its connection is gone: please report this");
        }
    }

    fn kernel_drops(&self, KernelDrops { elements, added, removed }: KernelDrops) {
        if added + removed == 0 {
            return;
        }
        if let Some(left_out) = self.allow(&self.kernel_drops) {
            info!(elements, added, removed, left_out, "the kernel drops other clients than before");
        }
    }

    fn rejected(&self, client: Client, reason: RejectReason) {
        let (index, reason) = match reason {
            RejectReason::ClientMax => (0, "proxy.client_max"),
            RejectReason::ClientRate => (1, "proxy.client_rate"),
            RejectReason::Handshake => (2, "no TLS handshake"),
            RejectReason::UntrustedProxy => (3, "proxy.proxy_protocol, and it is not in client.trust"),
            RejectReason::ProxyHeader => (4, "no header as proxy.proxy_protocol says"),
            RejectReason::Memory => (5, "memory is short"),
            RejectReason::Descriptors => (6, "descriptors are short"),
            RejectReason::Connections => (7, "proxy.connections"),
        };
        if let Some(left_out) = self.allow(&self.rejected[index]) {
            let client = self.clients.show(client);
            if index == 2 {
                // Scanners send these all day.
                debug!(client, reason, left_out, "a connection was rejected");
                return;
            }
            warn!(client, reason, left_out, "a connection was rejected");
        }
    }
}

impl EventListener for Messages {
    fn on_event(&self, event: &Event<'_>) {
        match *event {
            Event::Reloaded { taken: true, changes } => info!("the configuration was read again: {changes}"),
            Event::Reloaded { taken: false, .. } => {
                error!("the new configuration is refused, the old one stays");
            }
            Event::UpstreamUp { upstream, up } => self.upstream_up(upstream, up),
            Event::UpstreamFailed { upstream, reason } => self.upstream_failed(upstream, reason),
            Event::Connection(ConnectionEvent::Rejected { peer, reason }) => {
                self.rejected(peer.map_or(Client::UnixSocket, Client::from_ip), reason);
            }
            Event::Connection(ConnectionEvent::AcceptFailed(error)) => {
                if let Some(left_out) = self.allow(&self.accept_failed) {
                    warn!(%error, left_out, "a connection could not be accepted");
                }
            }
            Event::Connection(ConnectionEvent::Evicted) => {
                if let Some(left_out) = self.allow(&self.evicted) {
                    warn!(left_out, "an idle connection was closed to make room for another client");
                }
            }
            Event::BodyRefused => {
                if let Some(left_out) = self.allow(&self.body_refused) {
                    warn!(left_out, "a body was not read to its end: proxy.body_memory is used up");
                }
            }
            Event::CommandReceived { command, by } => operators::command(command, by, &self.clients),
            Event::BucketsChanged(done) => operators::write(&done, &self.clients),
            Event::AdminTokenRejected { peer } => self.token_rejected(peer),
            Event::KernelDrops(drops) => self.kernel_drops(drops),
            Event::KernelRefused { why } => kernel_refused(why),
            Event::Panicked => self.panicked(),
            Event::Store(StoreEvent::Report(change)) => self.store_report(change),
            Event::Store(StoreEvent::Failed(state)) => store_failed(state),
            Event::Alarm(change) => self.alarm(&change),
            Event::GuessWorked(guess) => self.guess_worked(&guess),
            Event::Trouble(trouble) => self.reports.add_trouble(&trouble),
            Event::Miswired { warning } => warn!("{warning}"),
            Event::Store(StoreEvent::Warning(what)) => warn!("store: {what}"),
            Event::Rules { policy, .. } => self.reports.set_webhooks(policy),
            Event::Store(StoreEvent::Mirrored { .. })
            | Event::Store(StoreEvent::Leased(_))
            | Event::Store(StoreEvent::RaceLost(_))
            | Event::Store(StoreEvent::FellBack(_))
            | Event::Store(StoreEvent::Called { .. })
            | Event::Store(StoreEvent::Up(_))
            | Event::Store(StoreEvent::ServerLeft { .. })
            | Event::Decided { .. }
            | Event::Pardon(_)
            | Event::Settled(_)
            | Event::UpstreamChecked { .. }
            | Event::BadSignature
            | Event::Noted { .. }
            | Event::RequestCompleted(_)
            | Event::Connection(ConnectionEvent::Opened)
            | Event::Connection(ConnectionEvent::Closed) => {}
        }
    }
}

fn log_store_report(StoreChange { server, up, why, .. }: StoreChange<'_>) {
    let server = (!server.is_empty()).then_some(server);
    if up {
        info!(server, why, "store available again");
    } else {
        error!(server, why, "store unavailable: store.on_error decides attempts until it answers");
    }
}

fn store_failed(StoreChange { server, up, why, .. }: StoreChange<'_>) {
    let server = (!server.is_empty()).then_some(server);
    if up {
        error!(server, why, "the store refuses some attempts: store.on_error decides them");
    } else {
        error!(server, why, "store still unavailable");
    }
}

fn kernel_refused(why: &str) {
    error!(why, "the kernel drops no new clients: the gate refuses them, and tries again");
}

fn subscriber<W>(level: LogLevel, json: bool, writer: W) -> (Box<dyn Subscriber + Send + Sync>, LevelHandle)
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let (level, handle) = reload::Layer::new(filter(level));
    let layer = fmt::layer()
        .with_target(false)
        .with_ansi(false)
        // A report of a failed write would go to standard error, and panic when that is what failed.
        .log_internal_errors(false)
        .with_writer(writer);
    let registry = tracing_subscriber::registry().with(level);
    let subscriber: Box<dyn Subscriber + Send + Sync> = match json {
        true => Box::new(registry.with(layer.json().flatten_event(true))),
        false => Box::new(registry.with(layer)),
    };
    (subscriber, handle)
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// The wait for unwritten messages at the end.
const FLUSH_TIMEOUT: Span = Span::from_secs(1);
/// At most one message of a kind in this time.
const MESSAGE_INTERVAL: Span = Span::from_secs(1);

#[cfg(test)]
pub(super) mod tests;
