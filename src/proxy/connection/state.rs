//! Connection state and deadlines.
//!
//! hyper does not say; the socket's wrapper and the service do: bytes arrive (a head begins), the service is called,
//! the answer ends. Atomics only because the wrapper has to be sendable; nobody else looks.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::task::{Context, Waker};

use crate::proxy::settings::ProxySettings;
use crate::time::{Clock, Span, Time};

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// A head is being read; a new connection starts here.
    Head,
    /// A request is being served.
    Busy,
    /// Kept alive between two requests.
    Idle,
}

/// Where a connection stands and since when.
#[derive(Debug)]
pub struct ConnectionState {
    clock: Clock,
    phase: AtomicU8,
    since: AtomicU64,
    received: AtomicU64,
    /// Requests that were begun.
    requests_begun: AtomicU64,
    /// The number of the first request, from 1, that two servers could read differently.
    ambiguous_from: AtomicU64,
    /// An answer of the service may not be flushed yet.
    unflushed: AtomicBool,
    /// Since when nothing could be written; 0 if something could.
    write_stalled: AtomicU64,
    /// How much longer the client has kept the answer waiting than what it took is worth, in nanoseconds.
    below_min_rate: AtomicU64,
    head_expired: AtomicBool,
    lingers: AtomicBool,
    /// The next answer is the last.
    closes_after_next: AtomicBool,
    draining: AtomicBool,
    tunnel: AtomicBool,
    aborted: AtomicBool,
    evicted: AtomicBool,
    waker: OnceLock<Waker>,
}

impl ConnectionState {
    pub(super) fn new(clock: Clock) -> Self {
        let since = AtomicU64::new(clock.now().as_nanos());
        Self {
            clock,
            phase: AtomicU8::new(Phase::Head as u8),
            since,
            received: AtomicU64::new(0),
            requests_begun: AtomicU64::new(0),
            ambiguous_from: AtomicU64::new(u64::MAX),
            unflushed: AtomicBool::new(false),
            write_stalled: AtomicU64::new(0),
            below_min_rate: AtomicU64::new(0),
            head_expired: AtomicBool::new(false),
            lingers: AtomicBool::new(false),
            closes_after_next: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            tunnel: AtomicBool::new(false),
            aborted: AtomicBool::new(false),
            evicted: AtomicBool::new(false),
            waker: OnceLock::new(),
        }
    }

    /// What time it is for this connection.
    pub(in crate::proxy) fn now(&self) -> Time {
        self.clock.now()
    }

    /// A request is being served from now on.
    pub fn request_begins(&self, now: Time) {
        self.requests_begun.store(self.requests_begun.load(Relaxed).saturating_add(1), Relaxed);
        self.below_min_rate.store(0, Relaxed);
        self.enter(Phase::Busy, now);
    }

    /// Whether two servers could read the request that was begun last differently, as far as it has come.
    #[must_use]
    pub fn is_ambiguous(&self) -> bool {
        self.requests_begun.load(Relaxed) >= self.ambiguous_from.load(Relaxed)
    }

    /// The connection carries something else than HTTP from now on.
    pub fn tunnel_opens(&self) {
        self.tunnel.store(true, Relaxed);
    }

    /// The answer breaks off, and the client can only see it if the connection does not end in peace.
    pub fn abort(&self) {
        self.aborted.store(true, Relaxed);
    }

    /// The service hands over the head of an answer.
    pub fn response_begins(&self) {
        self.unflushed.store(true, Relaxed);
    }

    /// The answer was handed over to its end.
    pub fn response_ends(&self, now: Time) {
        self.unflushed.store(true, Relaxed);
        self.received.store(0, Relaxed);
        self.enter(Phase::Idle, now);
    }

    /// The client may still be sending: when the connection closes, listen for a moment, so that the kernel does
    /// not take the answer back with a reset.
    pub fn linger(&self) {
        self.lingers.store(true, Relaxed);
    }

    /// Answers one more request, if one comes, and says that it was the last: a client whose connection is closed while it
    /// sends does not know what became of that.
    pub fn close_after_next(&self) {
        self.closes_after_next.store(true, Relaxed);
        self.wake();
    }

    /// Whether the next answer is the last.
    #[must_use]
    pub fn closes_after_next(&self) -> bool {
        self.closes_after_next.load(Relaxed)
    }

    /// Whether a request is being served.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.phase() == Phase::Busy
    }

    /// Closes the connection as soon as it is idle.
    pub fn drain(&self) {
        self.draining.store(true, Relaxed);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    pub(in crate::proxy) fn phase(&self) -> Phase {
        match self.phase.load(Relaxed) {
            0 => Phase::Head,
            1 => Phase::Busy,
            _ => Phase::Idle,
        }
    }

    /// How many bytes came since the last answer ended: the request's, if it was not sent ahead of its turn.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    pub(in crate::proxy) fn received_bytes(&self, count: usize) {
        self.received.store(self.received().saturating_add(count as u64), Relaxed);
        if self.phase() == Phase::Idle {
            self.phase.store(Phase::Head as u8, Relaxed);
        }
    }

    pub(in crate::proxy) fn mark_ambiguous_from(&self, request: u64) {
        self.ambiguous_from.store(request, Relaxed);
    }

    pub(in crate::proxy) fn is_tunnel(&self) -> bool {
        self.tunnel.load(Relaxed)
    }

    pub(in crate::proxy) fn is_aborted(&self) -> bool {
        self.aborted.load(Relaxed)
    }

    /// A head that did not come in one piece takes its time from now on. Most do, and nobody asks for the time.
    pub(in crate::proxy) fn head_begins(&self) {
        self.since.store(self.clock.now().as_nanos(), Relaxed);
    }

    pub(in crate::proxy) fn flushed(&self) {
        self.unflushed.store(false, Relaxed);
    }

    /// So many bytes could be written; `None` if the client has taken nothing.
    pub(in crate::proxy) fn wrote(&self, count: Option<usize>) {
        let (stalled, behind) = (self.write_stalled.load(Relaxed), self.below_min_rate.load(Relaxed));
        match count {
            Some(count) if stalled | behind != 0 => self.credit_written(count, stalled, behind),
            None if stalled == 0 => self.write_stalled.store(self.clock.now().as_nanos(), Relaxed),
            Some(_) | None => {}
        }
    }

    fn credit_written(&self, count: usize, stalled: u64, behind: u64) {
        let waited = if stalled == 0 { 0 } else { self.stalled_for(stalled).as_nanos() };
        let worth = (count as u64).saturating_mul(NANOS_PER_BYTE);
        self.below_min_rate.store(behind.saturating_add(waited).saturating_sub(worth), Relaxed);
        self.write_stalled.store(0, Relaxed);
    }

    fn stalled_for(&self, since: u64) -> Span {
        self.clock.now().since(Time::from_nanos(since))
    }

    /// Whether the client has kept the answer waiting for so long, with allowance for what it took.
    fn is_below_min_rate(&self, at_most: Span) -> bool {
        let stalled = self.write_stalled.load(Relaxed);
        let behind = Span::from_nanos(self.below_min_rate.load(Relaxed));
        stalled != 0 && self.stalled_for(stalled).plus(behind) >= at_most
    }

    /// Whether what hyper writes now is an error answer of its own.
    pub(in crate::proxy) fn is_hyper_error_response(&self) -> bool {
        self.phase() == Phase::Head && self.is_quiet()
    }

    /// Whether no request is in flight: none was read, and the last answer has left.
    pub(in crate::proxy) fn is_quiet(&self) -> bool {
        self.phase() != Phase::Busy && !self.unflushed.load(Relaxed)
    }

    /// Since when another client may have the place of this connection; a time to come where it may be about to bring a
    /// request. `None` while one is served.
    pub(super) fn idle_since(&self) -> Option<Time> {
        let since = Time::from_nanos(self.since.load(Relaxed));
        match self.phase() {
            _ if !self.is_quiet() || self.is_tunnel() => None,
            // The client may still have to read why it is refused.
            Phase::Idle if self.lingers() => Some(since.after(NEW_REQUEST_GRACE)),
            Phase::Idle => Some(since),
            Phase::Head => Some(since.after(NEW_REQUEST_GRACE)),
            Phase::Busy => None,
        }
    }

    /// Ends the connection for the sake of another client: with a word if a part of a head is here.
    pub(in crate::proxy) fn evict(&self) {
        self.evicted.store(true, Relaxed);
        if self.phase() == Phase::Head && self.received() > 0 { self.expire_head() } else { self.drain() }
    }

    /// Whether the connection ended for the sake of another client.
    #[must_use]
    pub fn was_evicted(&self) -> bool {
        self.evicted.load(Relaxed)
    }

    pub(in crate::proxy) fn expire_head(&self) {
        self.head_expired.store(true, Relaxed);
    }

    pub(in crate::proxy) fn head_has_expired(&self) -> bool {
        self.head_expired.load(Relaxed)
    }

    pub(in crate::proxy) fn lingers(&self) -> bool {
        self.lingers.load(Relaxed)
    }

    pub(in crate::proxy) fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// A connection is one task for its whole life, so its waker never changes.
    pub(in crate::proxy) fn remember_waker(&self, cx: &Context<'_>) {
        self.waker.get_or_init(|| cx.waker().clone());
    }

    fn enter(&self, phase: Phase, now: Time) {
        self.phase.store(phase as u8, Relaxed);
        self.since.store(now.as_nanos(), Relaxed);
    }
}

/// How long a connection may stay where it stands.
#[derive(Debug)]
pub(in crate::proxy) struct Deadlines {
    head: Span,
    idle: Span,
}

/// What a connection is late with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::proxy) enum Overdue {
    Nothing,
    Head,
    Idle,
    Write,
}

impl Deadlines {
    pub(in crate::proxy) fn new(settings: &ProxySettings) -> Self {
        Self { head: settings.header_timeout, idle: settings.idle_timeout }
    }

    /// When to look again, at the earliest in a moment.
    pub(in crate::proxy) fn next(&self, phases: &ConnectionState) -> Span {
        let due = match phases.phase() {
            // It may be idle in a moment, and that may have a shorter time.
            Phase::Head => {
                let due = Time::from_nanos(phases.since.load(Relaxed)).after(self.head);
                due.min(phases.clock.now().after(self.idle))
            }
            Phase::Idle => Time::from_nanos(phases.since.load(Relaxed)).after(self.idle),
            Phase::Busy => phases.clock.now().after(self.idle),
        };
        due.since(phases.clock.now()).max(MIN_TIMER)
    }

    pub(in crate::proxy) fn overdue(&self, phases: &ConnectionState) -> Overdue {
        let now = phases.clock.now();
        let passed = now.since(Time::from_nanos(phases.since.load(Relaxed)));
        match phases.phase() {
            _ if phases.is_below_min_rate(self.idle) => Overdue::Write,
            Phase::Head if passed >= self.head => Overdue::Head,
            Phase::Idle if passed >= self.idle => Overdue::Idle,
            _ => Overdue::Nothing,
        }
    }
}

const MIN_TIMER: Span = Span::from_millis(5);
/// For a handshake and for a head, before they are in the way of others: more than those take that anybody waits for.
pub(in crate::proxy) const NEW_REQUEST_GRACE: Span = Span::from_secs(1);

/// A client has to take 500 bytes a second, as it has to send them of a body: less than any telephone does.
const NANOS_PER_BYTE: u64 = 2_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn setup() -> (Clock, ConnectionState, Deadlines) {
        let clock = Clock::manual(Time::from_nanos(1_000_000_000_000));
        let phases = ConnectionState::new(clock.clone());
        (clock, phases, Deadlines { head: Span::from_secs(10), idle: Span::from_secs(75) })
    }

    fn pass(clock: &Clock, secs: u64) {
        clock.set(clock.now().after(Span::from_secs(secs)));
    }

    #[test]
    fn a_head_is_late_after_its_time_however_many_bytes_trickle_in() {
        let (clock, phases, deadlines) = setup();
        for _ in 0..9 {
            pass(&clock, 1);
            phases.received_bytes(1);
            assert_eq!(deadlines.overdue(&phases), Overdue::Nothing);
        }
        pass(&clock, 1);
        assert_eq!(deadlines.overdue(&phases), Overdue::Head);
    }

    #[test]
    fn an_idle_connection_has_its_own_time_and_a_new_head_starts_afresh() {
        let (clock, phases, deadlines) = setup();
        phases.request_begins(clock.now());
        pass(&clock, 1000);
        assert_eq!(
            deadlines.overdue(&phases),
            Overdue::Nothing,
            "a busy connection is the service's business"
        );
        phases.response_ends(clock.now());
        pass(&clock, 74);
        assert_eq!(deadlines.overdue(&phases), Overdue::Nothing);
        phases.received_bytes(1);
        phases.head_begins();
        pass(&clock, 9);
        assert_eq!(deadlines.overdue(&phases), Overdue::Nothing);
        pass(&clock, 1);
        assert_eq!(deadlines.overdue(&phases), Overdue::Head);
    }

    #[test]
    fn a_client_that_reads_nothing_is_late_too() {
        let (clock, phases, deadlines) = setup();
        phases.request_begins(clock.now());
        phases.wrote(None);
        pass(&clock, 74);
        phases.wrote(Some(74 * 500));
        phases.wrote(None);
        pass(&clock, 74);
        assert_eq!(deadlines.overdue(&phases), Overdue::Nothing);
        pass(&clock, 1);
        assert_eq!(deadlines.overdue(&phases), Overdue::Write);
    }

    #[test]
    fn a_client_that_reads_next_to_nothing_is_late_in_all() {
        let (clock, phases, deadlines) = setup();
        phases.request_begins(clock.now());
        for _ in 0..7 {
            phases.wrote(None);
            pass(&clock, 10);
            assert_eq!(deadlines.overdue(&phases), Overdue::Nothing);
            phases.wrote(Some(1));
        }
        phases.wrote(None);
        pass(&clock, 6);
        assert_eq!(deadlines.overdue(&phases), Overdue::Write);
        phases.wrote(Some(40_000));
        phases.wrote(None);
        pass(&clock, 74);
        assert_eq!(deadlines.overdue(&phases), Overdue::Nothing, "who catches up is not late");
    }

    #[test]
    fn a_shorter_time_to_be_idle_is_kept_from_the_first_request_on() {
        let clock = Clock::manual(Time::from_nanos(1_000_000_000_000));
        let phases = ConnectionState::new(clock.clone());
        let deadlines = Deadlines { head: Span::from_secs(10), idle: Span::from_secs(2) };
        assert_eq!(deadlines.next(&phases), Span::from_secs(2), "it may be answered before");
        pass(&clock, 9);
        assert_eq!(deadlines.next(&phases), Span::from_secs(1));
    }

    #[test]
    fn a_place_is_others_while_nothing_is_served_and_a_moment_later_while_something_may_come() {
        let (clock, phases, _) = setup();
        let (now, later) = (Some(clock.now()), Some(clock.now().after(NEW_REQUEST_GRACE)));
        assert_eq!(phases.idle_since(), later, "nothing was said yet");
        phases.request_begins(clock.now());
        assert_eq!(phases.idle_since(), None);
        phases.response_ends(clock.now());
        assert_eq!(phases.idle_since(), None, "the answer has not left");
        phases.flushed();
        assert_eq!(phases.idle_since(), now);
        phases.linger();
        assert_eq!(phases.idle_since(), later);
        phases.received_bytes(1);
        assert_eq!(phases.idle_since(), later);
        phases.tunnel_opens();
        assert_eq!(phases.idle_since(), None);
    }

    #[test]
    fn hypers_own_answers_are_those_that_no_service_gave() {
        let (clock, phases, _) = setup();
        assert!(phases.is_hyper_error_response());
        phases.request_begins(clock.now());
        phases.response_begins();
        phases.response_ends(clock.now());
        phases.received_bytes(1);
        assert!(!phases.is_hyper_error_response(), "the last answer may not be flushed yet");
        phases.flushed();
        assert!(phases.is_hyper_error_response());
    }
}
