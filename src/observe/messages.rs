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

use self::queue::Queue;
use super::clients::Clients;
use super::gate::Gate;
use super::settings::{Format, Level};
use crate::event::{Event, Failure, Listener, Reason};
use crate::policy::attempt::Client;
use crate::time::{Clock, Span};

/// Writes waiting messages when it is dropped, for at most a second.
#[derive(Debug)]
#[must_use = "messages that still wait are lost without it"]
pub struct Flush(Queue);

/// Sends the messages of the whole process to standard error from now on. The thread that writes them does `first` before
/// anything else.
///
/// # Errors
/// It was done before.
pub fn start(
    level: Level,
    format: Format,
    first: impl FnOnce() + Send + 'static,
) -> Result<Flush, SetGlobalDefaultError> {
    let json = match format {
        Format::Auto => !std::io::stderr().is_terminal(),
        Format::Text => false,
        Format::Json => true,
    };
    let queue = Queue::start(std::io::stderr(), first);
    let flush = Flush(queue.clone());
    let (subscriber, chosen) = subscriber(level, json, move || queue.clone());
    tracing::subscriber::set_global_default(subscriber)?;
    // The first one is the only one.
    let _ = CHOSEN.set(chosen);
    Ok(flush)
}

/// The level of the one subscriber that a process has.
static CHOSEN: OnceLock<Chosen> = OnceLock::new();

type Chosen = reload::Handle<LevelFilter, Registry>;

impl Drop for Flush {
    fn drop(&mut self) {
        self.0.flush_within(Span::from_secs(1));
    }
}

/// What is written from now on, by severity. Changes nothing before [`start`].
pub fn set_level(level: Level) {
    if let Some(chosen) = CHOSEN.get() {
        // Fails only where the subscriber is gone, and with it whatever it could write.
        let _ = chosen.reload(filter(level));
    }
}

/// Turns rare events into messages.
#[derive(Debug)]
pub struct Messages {
    clock: Clock,
    clients: Clients,
    upstream_up: Gate,
    upstream_failed: [Gate; 8],
    turned_away: [Gate; 8],
    accept_failed: Gate,
    gave_way: Gate,
    body_refused: Gate,
    panicked: Gate,
}

impl Messages {
    /// `clients` writes addresses as the access log does.
    #[must_use]
    pub fn new(clients: Clients, clock: Clock) -> Self {
        let gate = || Gate::every(Span::from_secs(1));
        Self {
            clock,
            clients,
            // Several upstreams may go away at once, and each should be named.
            upstream_up: gate().with_burst(20),
            upstream_failed: std::array::from_fn(|_| gate()),
            turned_away: std::array::from_fn(|_| gate()),
            accept_failed: gate(),
            gave_way: gate(),
            body_refused: gate(),
            panicked: gate(),
        }
    }

    /// How many messages of this kind were left out, if one may be written now; nothing to tell is `None`.
    fn pass(&self, gate: &Gate) -> Option<Option<u64>> {
        gate.pass(self.clock.now()).map(|left_out| (left_out > 0).then_some(left_out))
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
        if let Some(left_out) = self.pass(&self.upstream_failed[gate]) {
            warn!(upstream, reason, left_out, "an upstream failed a request");
        }
    }

    fn turned_away(&self, client: Client, reason: Reason) {
        let (gate, reason) = match reason {
            Reason::ClientMax => (0, "proxy.client_max"),
            Reason::ClientRate => (1, "proxy.client_rate"),
            Reason::Handshake => (2, "no TLS handshake"),
            Reason::Untrusted => (3, "proxy.proxy_protocol, and it is not in client.trust"),
            Reason::Introduction => (4, "no header as proxy.proxy_protocol says"),
            Reason::Memory => (5, "memory is short"),
            Reason::Descriptors => (6, "descriptors are short"),
            Reason::Connections => (7, "proxy.connections"),
        };
        if let Some(left_out) = self.pass(&self.turned_away[gate]) {
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

impl Listener for Messages {
    fn hear(&self, event: &Event<'_>) {
        match *event {
            Event::Reloaded { taken: true, changes } => info!("the configuration was read again: {changes}"),
            Event::Reloaded { taken: false, .. } => {
                error!("the new configuration is refused, the old one stays");
            }
            Event::UpstreamUp { upstream, up } => {
                let Some(left_out) = self.pass(&self.upstream_up) else { return };
                if up {
                    info!(upstream, left_out, "an upstream is used again");
                } else {
                    warn!(upstream, left_out, "an upstream is skipped until it answers again");
                }
            }
            Event::UpstreamFailed { upstream, reason } => self.upstream_failed(upstream, reason),
            Event::TurnedAway { peer, reason } => {
                self.turned_away(peer.map_or(Client::Local, Client::from_ip), reason);
            }
            Event::AcceptFailed(error) => {
                if let Some(left_out) = self.pass(&self.accept_failed) {
                    warn!(%error, left_out, "a connection could not be accepted");
                }
            }
            Event::GaveWay => {
                if let Some(left_out) = self.pass(&self.gave_way) {
                    warn!(left_out, "an idle connection was closed to make room for another client");
                }
            }
            Event::BodyRefused => {
                if let Some(left_out) = self.pass(&self.body_refused) {
                    warn!(left_out, "a body was not read to its end: proxy.body_memory is used up");
                }
            }
            Event::Ordered { order, by } => operators::ordered(order, by),
            Event::BucketsChanged(done) => operators::write(&done, &self.clients),
            Event::Panicked => {
                if let Some(left_out) = self.pass(&self.panicked) {
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
            Event::StoreNoticed(what) => warn!("store: {what}"),
            Event::Rules { .. }
            | Event::Mirrored { .. }
            | Event::FellBack(_)
            | Event::StoreAsked { .. }
            | Event::Decided { .. }
            | Event::Settled { .. }
            | Event::Answered(_)
            | Event::Connected
            | Event::Disconnected => {}
        }
    }
}

fn subscriber<W>(level: Level, json: bool, writer: W) -> (Box<dyn Subscriber + Send + Sync>, Chosen)
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

fn filter(level: Level) -> LevelFilter {
    match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    }
}

#[cfg(test)]
mod tests;
