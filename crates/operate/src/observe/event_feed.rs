//! What happens in the gate, for viewers who watch it live: as messages of server-sent events (WHATWG HTML, 9.2).
//!
//! Without viewers an event costs one relaxed load. With viewers a bounded ring holds the newest messages; a viewer that
//! falls behind it is dropped, never waited for. Decisions are bounded for each second, and the rest is counted, so that
//! a flood costs the request path little. Connections and permits of viewers are left to `admin/events.rs`.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use hyper::body::Bytes;
use serde::Serialize;
use tokio::sync::broadcast;

use super::client_format::ClientFormatter;
use super::decision_line;
use super::timestamp::rfc3339;
use crate::event::{
    AccessLogEntry, AlarmChange, AttemptRecord, Event, EventListener, GuessWorked, StoreChange, StoreEvent,
    Trouble,
};
use crate::policy::AlarmFigures;
use crate::time::Clock;

/// Passes events to all viewers.
pub struct EventFeed {
    clients: ClientFormatter,
    clock: Clock,
    viewers: AtomicUsize,
    ring: broadcast::Sender<Bytes>,
    /// The second in which decisions are counted, since 1970.
    second: AtomicU64,
    /// Decisions of that second so far.
    decisions: AtomicU32,
    /// Decisions that were not sent and not reported yet.
    skipped: AtomicU64,
}

impl EventFeed {
    /// A feed without viewers. `clients` writes addresses as the access log does.
    #[must_use]
    pub fn new(clients: ClientFormatter, clock: Clock) -> Self {
        let (viewers, second, decisions, skipped) = Default::default();
        Self { clients, clock, viewers, ring: broadcast::Sender::new(RING), second, decisions, skipped }
    }

    /// The messages from now on, for one viewer. The caller also calls [`leave`](Self::leave).
    pub(super) fn join(&self) -> broadcast::Receiver<Bytes> {
        self.viewers.fetch_add(1, Relaxed);
        self.ring.subscribe()
    }

    /// A viewer has gone.
    pub(super) fn leave(&self) {
        self.viewers.fetch_sub(1, Relaxed);
    }

    /// Tells the viewers how many decisions were left out since the last time.
    pub(super) fn report_skipped(&self) {
        let skipped = self.skipped.swap(0, Relaxed);
        if skipped > 0 {
            self.send("skipped", &Skipped { decisions: skipped });
        }
    }

    fn send(&self, name: &str, data: &impl Serialize) {
        let data = serde_json::to_string(data).unwrap_or_default();
        self.send_bytes(format!("event: {name}\ndata: {data}\n\n").into_bytes());
    }

    fn send_bytes(&self, message: Vec<u8>) {
        // Fails if the last viewer has just gone.
        let _ = self.ring.send(message.into());
    }

    fn attempt(&self, entry: &AccessLogEntry, attempt: &AttemptRecord) {
        let second = entry.at.as_nanos() / 1_000_000_000;
        let mut text = None;
        for record in &attempt.limits {
            if !self.may_send_decision() {
                continue;
            }
            let text =
                text.get_or_insert_with(|| rfc3339(crate::time::Time::from_nanos(second * 1_000_000_000)));
            let mut message = Vec::with_capacity(320);
            message.extend_from_slice(b"event: decision\ndata: ");
            // Without its milliseconds and its zone.
            let text = text.get(..SECOND_LEN).unwrap_or_default();
            decision_line::write(&mut message, text, &self.clients, entry, attempt, record);
            message.extend_from_slice(b"\n\n");
            self.send_bytes(message);
        }
    }

    /// Counts a decision. Threads may let one more through at the border of two seconds.
    fn may_send_decision(&self) -> bool {
        let second = self.clock.now().as_nanos() / 1_000_000_000;
        if self.second.load(Relaxed) != second && self.second.swap(second, Relaxed) != second {
            self.decisions.store(0, Relaxed);
        }
        let may = self.decisions.load(Relaxed) < MAX_DECISIONS
            && self.decisions.fetch_add(1, Relaxed) < MAX_DECISIONS;
        if !may {
            self.skipped.fetch_add(1, Relaxed);
        }
        may
    }
}

/// Decisions that were left out.
#[derive(Serialize)]
struct Skipped {
    decisions: u64,
}

#[derive(Serialize)]
struct ReloadEvent<'e> {
    changes: &'e str,
    taken: bool,
}

#[derive(Serialize)]
struct StoreEntry<'e> {
    server: &'e str,
    up: bool,
    why: &'e str,
}

#[derive(Serialize)]
struct UpstreamEvent<'e> {
    up: bool,
    upstream: &'e str,
}

#[derive(Serialize)]
struct AlarmEvent<'e> {
    begins: bool,
    failures: u64,
    route: &'e str,
    share: f64,
}

#[derive(Serialize)]
struct GuessEvent<'e> {
    account: String,
    failures: u32,
    route: &'e str,
}

#[derive(Serialize)]
struct WarningEvent<'e> {
    text: &'e str,
}

impl EventListener for EventFeed {
    fn on_event(&self, event: &Event<'_>) {
        if self.viewers.load(Relaxed) == 0 {
            return;
        }
        match *event {
            Event::RequestCompleted(entry) => {
                if let Some(attempt) = &entry.attempt {
                    self.attempt(entry, attempt);
                }
            }
            Event::Reloaded { taken, changes } => {
                self.send("reload", &ReloadEvent { changes, taken });
            }
            Event::Store(StoreEvent::Up(StoreChange { server, up, why, .. })) => {
                self.send("store", &StoreEntry { server, up, why });
            }
            Event::UpstreamUp { upstream, up } => {
                self.send("upstream", &UpstreamEvent { up, upstream });
            }
            Event::Alarm(AlarmChange { route, words, begins, figures, .. }) => {
                let AlarmFigures { failures, share } = figures;
                self.send(words.event, &AlarmEvent { begins, failures, route, share });
            }
            Event::GuessWorked(GuessWorked { route, account, failures, .. }) => {
                let account = format!("{account:012x}");
                self.send("guess", &GuessEvent { account, failures, route: &route.name });
            }
            Event::Trouble(Trouble { kind, subject, why, .. }) => {
                let text = format!("{} {subject}: {why}", kind.name());
                self.send("warning", &WarningEvent { text: &text });
            }
            Event::Miswired { warning } => self.send("warning", &WarningEvent { text: warning }),
            Event::Store(StoreEvent::Warning(text)) => self.send("warning", &WarningEvent { text }),
            _ => {}
        }
    }
}

impl std::fmt::Debug for EventFeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EventFeed")
    }
}

/// Messages that a viewer may be behind.
const RING: usize = 1024;
/// Decisions in one second; the rest is counted.
const MAX_DECISIONS: u32 = 500;
/// As in `2026-11-21T18:56:45`.
const SECOND_LEN: usize = 19;

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::observe::samples::{AT, entry};
    use crate::observe::settings::ClientsShown;
    use crate::policy::key::PrefixLengths;
    use crate::time::Span;

    fn feed() -> (EventFeed, Clock) {
        let clock = Clock::manual(AT);
        let clients = ClientFormatter::new(ClientsShown::Full, PrefixLengths::default());
        (EventFeed::new(clients, clock.clone()), clock)
    }

    fn read(receiver: &mut broadcast::Receiver<Bytes>) -> Vec<String> {
        let text = |message: Bytes| String::from_utf8(message.to_vec()).unwrap();
        std::iter::from_fn(|| receiver.try_recv().ok()).map(text).collect()
    }

    #[test]
    fn each_limit_of_an_attempt_is_a_message() {
        let (feed, _) = feed();
        feed.on_event(&Event::RequestCompleted(&entry()));
        let mut viewer = feed.join();
        feed.on_event(&Event::RequestCompleted(&entry()));
        feed.on_event(&Event::UpstreamUp { upstream: "http://[::1]:1", up: false });
        let messages = read(&mut viewer);
        assert_eq!(messages.len(), 3, "{messages:?}");
        assert!(messages[0].starts_with("event: decision\ndata: {\"time\":\"2026-11-20T23:21:52.043Z\""));
        assert!(messages[1].contains("\"limit\":\"account\"") && messages[1].ends_with("}\n\n"));
        let upstream = "event: upstream\ndata: {\"up\":false,\"upstream\":\"http://[::1]:1\"}\n\n";
        assert_eq!(messages[2], upstream);
    }

    /// L16: names in events end no message.
    #[test]
    fn what_a_client_or_a_store_says_stays_in_its_line() {
        let (feed, _) = feed();
        let mut viewer = feed.join();
        let mut hostile = entry();
        let bytes = http::HeaderValue::from_bytes(b"x\"\tevent: reload").unwrap();
        hostile.request_id = Some(bytes);
        feed.on_event(&Event::RequestCompleted(&hostile));
        feed.on_event(&Event::Store(StoreEvent::Warning("one\n\nevent: decision\r\ndata: {}")));
        for message in read(&mut viewer) {
            assert_eq!(message.matches(['\n', '\r']).count(), 3, "{message:?}");
            let data = message.split_once("data: ").unwrap().1;
            assert!(serde_json::from_str::<Value>(data).is_ok(), "{data}");
        }
    }

    #[test]
    fn decisions_beyond_five_hundred_a_second_are_counted() {
        let (feed, clock) = feed();
        let mut viewer = feed.join();
        (0..400).for_each(|_| feed.on_event(&Event::RequestCompleted(&entry())));
        feed.report_skipped();
        let messages = read(&mut viewer);
        assert_eq!(messages.len(), 501);
        assert_eq!(messages[500], "event: skipped\ndata: {\"decisions\":300}\n\n");
        clock.set(AT.after(Span::from_secs(1)));
        feed.on_event(&Event::RequestCompleted(&entry()));
        feed.report_skipped();
        assert_eq!(read(&mut viewer).len(), 2, "nothing was left out since");
    }

    #[test]
    fn a_viewer_that_does_not_read_holds_nothing_but_the_ring() {
        let (feed, _) = feed();
        let mut viewer = feed.join();
        for _ in 0..10 * RING {
            feed.on_event(&Event::Store(StoreEvent::Warning("again")));
        }
        assert!(matches!(viewer.try_recv(), Err(broadcast::error::TryRecvError::Lagged(_))));
        feed.leave();
        assert_eq!(feed.viewers.load(Relaxed), 0);
    }
}
