//! The program's own messages on standard error, and the rare events that become some.
//!
//! Requests are the access log's business. `RUST_LOG` is not consulted: the file says what is written. The surprising
//! thing: messages go through a bounded queue, since whoever reads standard error may stop reading, and no worker may
//! wait for it; and repeated ones are left out and counted.

mod operators;
mod queue;

use std::io::IsTerminal;
use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;
use tracing::subscriber::SetGlobalDefaultError;
use tracing::{Subscriber, debug, error, info, warn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Registry, fmt, reload};

use self::queue::MessageQueue;
use super::client_format::ClientFormatter;
use super::log_throttle::LogThrottle;
use super::settings::{LogFormat, LogLevel};
use crate::event::{Event, EventListener, Failure, RejectReason};
use crate::policy::attempt::Client;
use crate::time::{Clock, Span};

/// Writes waiting messages when it is dropped, for at most a second.
#[derive(Debug)]
#[must_use = "messages that still wait are lost without it"]
pub struct FlushOnDrop(MessageQueue);

/// Sends the messages of the whole process to standard error from now on. The thread that writes them does `first` before
/// anything else.
///
/// # Errors
/// It was done before.
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
    let (subscriber, chosen) = subscriber(level, json, move || queue.clone());
    tracing::subscriber::set_global_default(subscriber)?;
    // The first one is the only one.
    let _ = LEVEL.set(chosen);
    Ok(flush)
}

/// The level of the one subscriber that a process has.
static LEVEL: OnceLock<LevelHandle> = OnceLock::new();

type LevelHandle = reload::Handle<LevelFilter, Registry>;

impl Drop for FlushOnDrop {
    fn drop(&mut self) {
        self.0.flush_within(Span::from_secs(1));
    }
}

/// What is written from now on, by severity. Changes nothing before [`start`].
pub fn set_level(level: LogLevel) {
    if let Some(chosen) = LEVEL.get() {
        // Fails only where the subscriber is gone, and with it whatever it could write.
        let _ = chosen.reload(filter(level));
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
}

impl Messages {
    /// `clients` writes addresses as the access log does.
    #[must_use]
    pub fn new(clients: ClientFormatter, clock: Clock) -> Self {
        let gate = || LogThrottle::every(Span::from_secs(1));
        Self {
            clock,
            clients,
            // Several upstreams may go away at once, and each should be named.
            upstream_up: gate().with_burst(20),
            upstream_failed: std::array::from_fn(|_| gate()),
            rejected: std::array::from_fn(|_| gate()),
            accept_failed: gate(),
            evicted: gate(),
            body_refused: gate(),
            panicked: gate(),
        }
    }

    /// How many messages of this kind were left out, if one may be written now; nothing to tell is `None`.
    fn allow(&self, gate: &LogThrottle) -> Option<Option<u64>> {
        gate.allow(self.clock.now()).map(|left_out| (left_out > 0).then_some(left_out))
    }

    fn upstream_failed(&self, upstream: &str, failure: Failure) {
        let (gate, reason) = match failure {
            Failure::Connect => (0, "cannot connect"),
            Failure::Timeout => (1, "no answer in time"),
            Failure::Broken => (2, "the answer is not HTTP or broke off"),
            Failure::Busy => (3, "all connections are busy"),
            Failure::ConnectTimeout => (4, "no connection in time"),
            Failure::Certificate => (5, "its certificate is not trusted, or not for its name"),
            Failure::Tls => (6, "it does not speak TLS with us"),
            Failure::Exhausted => (7, "no descriptor, port or memory is left here"),
        };
        if let Some(left_out) = self.allow(&self.upstream_failed[gate]) {
            warn!(upstream, reason, left_out, "an upstream failed a request");
        }
    }

    fn rejected(&self, client: Client, reason: RejectReason) {
        let (gate, reason) = match reason {
            RejectReason::ClientMax => (0, "proxy.client_max"),
            RejectReason::ClientRate => (1, "proxy.client_rate"),
            RejectReason::Handshake => (2, "no TLS handshake"),
            RejectReason::UntrustedProxy => (3, "proxy.proxy_protocol, and it is not in client.trust"),
            RejectReason::ProxyHeader => (4, "no header as proxy.proxy_protocol says"),
            RejectReason::Memory => (5, "memory is short"),
            RejectReason::Descriptors => (6, "descriptors are short"),
            RejectReason::Connections => (7, "proxy.connections"),
        };
        if let Some(left_out) = self.allow(&self.rejected[gate]) {
            let client = self.clients.show(client);
            if gate == 2 {
                // Scanners do nothing else all day.
                debug!(client, reason, left_out, "a connection was not let in");
                return;
            }
            warn!(client, reason, left_out, "a connection was not let in");
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
            Event::UpstreamUp { upstream, up } => {
                let Some(left_out) = self.allow(&self.upstream_up) else { return };
                if up {
                    info!(upstream, left_out, "an upstream is used again");
                } else {
                    warn!(upstream, left_out, "an upstream is skipped until it answers again");
                }
            }
            Event::UpstreamFailed { upstream, reason } => self.upstream_failed(upstream, reason),
            Event::ConnectionRejected { peer, reason } => {
                self.rejected(peer.map_or(Client::UnixSocket, Client::from_ip), reason);
            }
            Event::AcceptFailed(error) => {
                if let Some(left_out) = self.allow(&self.accept_failed) {
                    warn!(%error, left_out, "a connection could not be accepted");
                }
            }
            Event::ConnectionEvicted => {
                if let Some(left_out) = self.allow(&self.evicted) {
                    warn!(left_out, "an idle connection was closed to make room for another client");
                }
            }
            Event::BodyRefused => {
                if let Some(left_out) = self.allow(&self.body_refused) {
                    warn!(left_out, "a body was not read to its end: proxy.body_memory is used up");
                }
            }
            Event::CommandReceived { command: order, by } => operators::ordered(order, by),
            Event::BucketsChanged(done) => operators::write(&done, &self.clients),
            Event::Panicked => {
                if let Some(left_out) = self.allow(&self.panicked) {
                    error!(left_out, "a task panicked, its connection is gone: please report this");
                }
            }
            Event::StoreUp { up: true, why } => info!(why, "the store is asked again"),
            Event::StoreUp { up: false, why } => {
                error!(
                    why,
                    "the store is away: attempts are decided as store.on_error says until it answers"
                );
            }
            Event::StoreWarning(what) => warn!("store: {what}"),
            Event::Rules { .. }
            | Event::Mirrored { .. }
            | Event::FellBack(_)
            | Event::StoreCalled { .. }
            | Event::Decided { .. }
            | Event::Settled { .. }
            | Event::RequestCompleted(_)
            | Event::Connected
            | Event::Disconnected => {}
        }
    }
}

fn subscriber<W>(level: LogLevel, json: bool, writer: W) -> (Box<dyn Subscriber + Send + Sync>, LevelHandle)
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let (level, chosen) = reload::Layer::new(filter(level));
    let layer = fmt::layer()
        .with_target(false)
        .with_ansi(false)
        // Otherwise a failed write is told on standard error, which panics when that is what failed.
        .log_internal_errors(false)
        .with_writer(writer);
    let registry = tracing_subscriber::registry().with(level);
    let subscriber: Box<dyn Subscriber + Send + Sync> = match json {
        true => Box::new(registry.with(layer.json().flatten_event(true))),
        false => Box::new(registry.with(layer)),
    };
    (subscriber, chosen)
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

#[cfg(test)]
mod tests;
