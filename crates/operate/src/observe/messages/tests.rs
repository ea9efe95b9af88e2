//! The messages as a reader of standard error sees them.

use std::io;
use std::sync::{Arc, Mutex};

use super::*;
use crate::observe::samples::AT;
use crate::observe::settings::ClientsShown;
use crate::policy::key::PrefixLengths;

fn messages(clock: &Clock) -> Messages {
    Messages::new(
        ClientFormatter::new(ClientsShown::Prefix, PrefixLengths { ipv4: 24, ipv6: 48 }),
        clock.clone(),
        Arc::default(),
    )
}

/// The lines that are written while `act` runs.
pub(in crate::observe) fn written(level: LogLevel, json: bool, act: impl FnOnce()) -> Vec<String> {
    let text = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&text);
    let writer = move || Sink(Arc::clone(&sink));
    tracing::subscriber::with_default(subscriber(level, json, writer).0, act);
    let text = String::from_utf8(text.lock().unwrap().clone()).unwrap();
    text.lines().map(str::to_owned).collect()
}

struct Sink(Arc<Mutex<Vec<u8>>>);

impl io::Write for Sink {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn repeated_failures_are_told_once_a_second_with_a_count_of_the_others() {
    let clock = Clock::manual(AT);
    let messages = messages(&clock);
    let failure = io::Error::from_raw_os_error(24);
    let lines = written(LogLevel::Info, true, || {
        (0..50_000)
            .for_each(|_| messages.on_event(&Event::Connection(ConnectionEvent::AcceptFailed(&failure))));
        clock.set(AT.after(Span::from_secs(1)));
        messages.on_event(&Event::Connection(ConnectionEvent::AcceptFailed(&failure)));
    });
    assert_eq!(lines.len(), 2);
    let second: serde_json::Value = serde_json::from_str(&lines[1]).unwrap();
    assert_eq!(second["left_out"], 49_999);
    assert_eq!(second["level"], "WARN");
    assert_eq!(second["message"], "a connection could not be accepted");
}

#[test]
fn a_flood_of_one_kind_does_not_hide_another() {
    let clock = Clock::manual(AT);
    let messages = messages(&clock);
    let peer = Some("203.0.113.9".parse().unwrap());
    let lines = written(LogLevel::Info, false, || {
        for _ in 0..1000 {
            messages.on_event(&Event::Connection(ConnectionEvent::Rejected {
                peer,
                reason: RejectReason::ClientRate,
            }));
        }
        messages.on_event(&Event::Connection(ConnectionEvent::Rejected {
            peer,
            reason: RejectReason::ClientMax,
        }));
        messages.on_event(&Event::UpstreamUp { upstream: "http://127.0.0.1:8081", up: false });
        messages.on_event(&Event::UpstreamUp { upstream: "http://127.0.0.1:8082", up: false });
        messages.on_event(&Event::Panicked);
    });
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert!(lines[0].contains("203.0.113.0"), "addresses are written as `log.clients` defines: {}", lines[0]);
    assert!(lines[3].contains("http://127.0.0.1:8082"), "{}", lines[3]);
}

#[test]
fn the_level_decides_what_is_written() {
    let clock = Clock::manual(AT);
    let act = || {
        let messages = messages(&clock);
        messages.on_event(&Event::Reloaded { taken: true, changes: "nothing" });
        messages.on_event(&Event::Reloaded { taken: false, changes: "" });
        messages.on_event(&Event::UpstreamFailed { upstream: "x", reason: Failure::Busy });
        messages.on_event(&Event::Connection(ConnectionEvent::Opened));
    };
    assert_eq!(written(LogLevel::Info, false, act).len(), 3);
    assert_eq!(written(LogLevel::Warn, false, act).len(), 2);
    assert_eq!(written(LogLevel::Error, false, act).len(), 1);
}

#[test]
fn the_level_may_change_while_messages_are_written() {
    let text = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&text);
    let (subscriber, handle) = subscriber(LogLevel::Warn, false, move || Sink(Arc::clone(&sink)));
    tracing::subscriber::with_default(subscriber, || {
        let messages = messages(&Clock::manual(AT));
        let tell = |changes| messages.on_event(&Event::Reloaded { taken: true, changes });
        tell("first");
        handle.reload(filter(LogLevel::Info)).unwrap();
        tell("second");
        handle.reload(filter(LogLevel::Warn)).unwrap();
        tell("third");
    });
    let text = String::from_utf8(text.lock().unwrap().clone()).unwrap();
    assert!(text.contains("second") && text.lines().count() == 1, "{text}");
}
