//! One server of a store: whether it takes calls, what time it is there, and what operators were told of it.
//!
//! In a store of several servers, each server has its own outages and clock, and the store as a whole has none: an
//! outage of one server never affects the keys of another. [`servers`](super::servers) finds which servers there are.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::circuit_breaker::CircuitBreaker;
use super::marker::Marker;
use crate::clock_offset::{ClockCorrection, ClockOffset};
use crate::{ServerEntry, ServerId};
use tollgate_bucket::Time;

/// A server.
#[derive(Debug)]
pub(super) struct StoreServer {
    pub(super) id: ServerId,
    pub(super) name: Arc<str>,
    pub(super) breaker: CircuitBreaker,
    pub(super) offset: ClockOffset,
    pub(super) marker: Marker,
    /// Wakes its probe: it went down, or refused an attempt.
    pub(super) to_probe: Arc<Notify>,
    /// Whether a task probes it.
    is_probed: AtomicBool,
    /// Whether operators were told last that it is down.
    is_told_down: AtomicBool,
    reports: Mutex<Reports>,
}

/// When each kind of report was last made.
#[derive(Debug, Default)]
struct Reports([Option<Instant>; 4]);

/// A kind of report.
#[derive(Debug, Clone, Copy)]
enum ReportKind {
    Down,
    Up,
    Clock,
    Failure,
}

impl StoreServer {
    pub(super) fn new(ServerEntry { id, name }: ServerEntry) -> Self {
        Self {
            id,
            name,
            breaker: CircuitBreaker::default(),
            offset: ClockOffset::default(),
            marker: Marker::default(),
            to_probe: Arc::default(),
            is_probed: AtomicBool::new(false),
            is_told_down: AtomicBool::new(false),
            reports: Mutex::default(),
        }
    }

    /// Records that were seen before this time may be lost: the server was away then, or has lost them.
    pub(super) fn may_have_lost_before(&self) -> Time {
        self.breaker.back_since().max(self.marker.emptied_at())
    }

    /// Whether operators are to be told now that it is up or down. If it changes several times a minute, they are told
    /// what is true when the minute is over.
    pub(super) fn tells_availability(&self) -> bool {
        let is_down = self.breaker.is_open();
        if self.is_told_down() == is_down {
            return false;
        }
        let tells = self.reports().tells(if is_down { ReportKind::Down } else { ReportKind::Up });
        if tells {
            self.is_told_down.store(is_down, Ordering::Relaxed);
            // The change says why; the next minute is the first that may say it again.
            let _ = self.tells_failure();
        }
        tells
    }

    /// Whether operators are to be told of a failure that changes nothing.
    pub(super) fn tells_failure(&self) -> bool {
        self.reports().tells(ReportKind::Failure)
    }

    /// Whether operators were told last that it is down.
    pub(super) fn is_told_down(&self) -> bool {
        self.is_told_down.load(Ordering::Relaxed)
    }

    /// Whether operators are to be told of a correction of its clock.
    pub(super) fn tells_clock(&self) -> bool {
        self.reports().tells(ReportKind::Clock)
    }

    /// A correction of its clock, in words.
    pub(super) fn describe(&self, correction: ClockCorrection) -> String {
        if self.name.is_empty() { correction.to_string() } else { format!("{}: {correction}", self.name) }
    }

    /// Whether no task probed it before; from now on one does.
    pub(super) fn begins_probing(&self) -> bool {
        !self.is_probed.swap(true, Ordering::Relaxed)
    }

    fn reports(&self) -> MutexGuard<'_, Reports> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reports {
    fn tells(&mut self, kind: ReportKind) -> bool {
        let (now, last) = (Instant::now(), &mut self.0[kind as usize]);
        let tells = last.is_none_or(|last| now.duration_since(last) >= REPORT_INTERVAL);
        if tells {
            *last = Some(now);
        }
        tells
    }
}

/// One report of a kind and a server in this time.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::super::circuit_breaker::CallKind::Write;
    use super::*;

    fn server() -> StoreServer {
        StoreServer::new(ServerEntry { id: ServerId::ONLY, name: "".into() })
    }

    fn change(server: &StoreServer, up: bool) -> bool {
        if up {
            server.breaker.succeeded(Write, Time::from_nanos(1));
        } else {
            for _ in 0..5 {
                server.breaker.failed(Write, Instant::now(), Duration::ZERO);
            }
        }
        server.tells_availability()
    }

    #[tokio::test(start_paused = true)]
    async fn what_changes_often_is_told_once_a_minute_and_then_as_it_is() {
        let server = server();
        let told: Vec<bool> = [true, false, true, false, true, false].map(|up| change(&server, up)).into();
        assert_eq!(told, [false, true, true, false, false, false]);
        tokio::time::advance(REPORT_INTERVAL).await;
        assert!(server.tells_availability() && !server.tells_availability(), "it is down");
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_jumps_all_the_time_is_told_once_a_minute() {
        let server = server();
        assert!(server.tells_clock() && !server.tells_clock());
        tokio::time::advance(REPORT_INTERVAL).await;
        assert!(server.tells_clock());
    }
}
