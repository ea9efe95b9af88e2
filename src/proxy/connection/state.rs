//! Connection state and deadlines.
//!
//! hyper does not report the phase of a connection, so the socket wrapper and the service set it: when bytes arrive,
//! when the service is called and when the response ends. The fields are atomic only because the wrapper has to be
//! `Send`; one thread uses them. `downstream` enforces the deadlines.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::task::{Context, Waker};

use crate::proxy::settings::ProxySettings;
use crate::time::{Clock, Span, Time};

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// A head is being read; a new connection starts here.
    Head,
    /// A request is being served.
    Busy,
    /// Kept alive between two requests.
    Idle,
}

/// Phase, deadlines and flags of a connection.
#[derive(Debug)]
pub struct ConnectionState {
    clock: Clock,
    phase: AtomicU8,
    since: AtomicU64,
    received: AtomicU64,
    /// Number of requests that reached the service.
    requests_begun: AtomicU64,
    /// The number, from 1, of the first ambiguous request.
    ambiguous_from: AtomicU64,
    /// A response of the service may not be flushed yet.
    unflushed: AtomicBool,
    /// Start of the current write stall, in nanoseconds; 0 if writes make progress.
    write_stalled: AtomicU64,
    /// Time stalled in excess of the time that the bytes written allow, in nanoseconds.
    below_min_rate: AtomicU64,
    head_expired: AtomicBool,
    lingers: AtomicBool,
    /// The next response is the last.
    closes_after_next: AtomicBool,
    draining: AtomicBool,
    tunnel: AtomicBool,
    aborted: AtomicBool,
    evicted: AtomicBool,
    /// The bytes read so far end with a request.
    between_requests: AtomicBool,
    resting: AtomicBool,
    /// The sending half is being closed.
    closing: AtomicBool,
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
            between_requests: AtomicBool::new(true),
            resting: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            waker: OnceLock::new(),
        }
    }

    /// The current time of the connection's clock.
    pub(in crate::proxy) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Starts the service of a request.
    pub fn request_begins(&self, now: Time) {
        self.requests_begun.store(self.requests_begun.load(Relaxed).saturating_add(1), Relaxed);
        self.below_min_rate.store(0, Relaxed);
        self.enter(Phase::Busy, now);
    }

    /// Whether the latest request, as far as it was read, is ambiguous: two servers could read it differently.
    #[must_use]
    pub fn is_ambiguous(&self) -> bool {
        self.requests_begun.load(Relaxed) >= self.ambiguous_from.load(Relaxed)
    }

    /// The connection carries another protocol than HTTP from now on.
    pub fn tunnel_opens(&self) {
        self.tunnel.store(true, Relaxed);
    }

    /// The response is incomplete, and only a reset of the connection shows that to the client.
    pub fn abort(&self) {
        self.aborted.store(true, Relaxed);
    }

    /// The service returned the head of a response.
    pub fn response_begins(&self) {
        self.unflushed.store(true, Relaxed);
    }

    /// The service handed over the end of a response.
    pub fn response_ends(&self, now: Time) {
        self.unflushed.store(true, Relaxed);
        self.received.store(0, Relaxed);
        self.enter(Phase::Idle, now);
    }

    /// Requests a lingering close: the client may still be sending, and a reset by the kernel would discard the
    /// response.
    pub fn linger(&self) {
        self.lingers.store(true, Relaxed);
    }

    /// Serves one more request, if one comes, and announces the close in its response: a client whose connection closes
    /// while it sends cannot know whether its request was served.
    pub fn close_after_next(&self) {
        self.closes_after_next.store(true, Relaxed);
        self.wake();
    }

    /// Whether the next response is the last.
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

    /// Bytes received since the end of the last response: those of the request, unless it was pipelined.
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

    /// Whether the bytes read so far end with a request.
    pub(in crate::proxy) fn set_between_requests(&self, between: bool) {
        self.between_requests.store(between, Relaxed);
    }

    /// Whether nothing of the connection is in hyper, so that it needs none until its next byte.
    fn can_rest(&self) -> bool {
        let is_unread = self.received() == 0 && self.between_requests.load(Relaxed);
        let goes_on = !self.is_tunnel() && !self.closing.load(Relaxed);
        is_unread && self.is_quiet() && goes_on && !self.is_resting()
    }

    /// Hyper closes the connection, which may take as long as it lingers.
    pub(in crate::proxy) fn begin_to_close(&self) {
        self.closing.store(true, Relaxed);
    }

    /// Begins or ends a rest without hyper.
    pub(in crate::proxy) fn set_resting(&self, rests: bool) {
        self.resting.store(rests, Relaxed);
    }

    /// Whether the connection waits for its next byte without hyper, or is about to.
    pub(in crate::proxy) fn is_resting(&self) -> bool {
        self.resting.load(Relaxed)
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

    /// Starts the time of a head. Only a head that arrives in several pieces needs it, so most requests read no clock.
    pub(in crate::proxy) fn head_begins(&self) {
        self.since.store(self.clock.now().as_nanos(), Relaxed);
    }

    pub(in crate::proxy) fn flushed(&self) {
        self.unflushed.store(false, Relaxed);
    }

    /// Records a write of `count` bytes; `None` if the client accepts none.
    pub(in crate::proxy) fn wrote(&self, count: Option<usize>) {
        let (stalled, excess) = (self.write_stalled.load(Relaxed), self.below_min_rate.load(Relaxed));
        match count {
            Some(count) if stalled | excess != 0 => self.credit_written(count, stalled, excess),
            None if stalled == 0 => self.write_stalled.store(self.clock.now().as_nanos(), Relaxed),
            Some(_) | None => {}
        }
    }

    fn credit_written(&self, count: usize, stalled: u64, excess: u64) {
        let waited = if stalled == 0 { 0 } else { self.stalled_for(stalled).as_nanos() };
        let credit = (count as u64).saturating_mul(NANOS_PER_BYTE);
        self.below_min_rate.store(excess.saturating_add(waited).saturating_sub(credit), Relaxed);
        self.write_stalled.store(0, Relaxed);
    }

    fn stalled_for(&self, since: u64) -> Span {
        self.clock.now().since(Time::from_nanos(since))
    }

    /// Whether the client has stalled the response for `limit`, with credit for the bytes written.
    fn is_below_min_rate(&self, limit: Span) -> bool {
        let stalled = self.write_stalled.load(Relaxed);
        let excess = Span::from_nanos(self.below_min_rate.load(Relaxed));
        stalled != 0 && self.stalled_for(stalled).plus(excess) >= limit
    }

    /// Whether a response that hyper writes now is an error response of its own.
    pub(in crate::proxy) fn is_hyper_error_response(&self) -> bool {
        self.phase() == Phase::Head && self.is_quiet()
    }

    /// Whether no request is in flight: none was read, and the last response was flushed.
    pub(in crate::proxy) fn is_quiet(&self) -> bool {
        self.phase() != Phase::Busy && !self.unflushed.load(Relaxed)
    }

    /// When the connection became evictable; in the future if a request may be about to arrive. `None` while a request
    /// is served.
    pub(super) fn idle_since(&self) -> Option<Time> {
        let since = Time::from_nanos(self.since.load(Relaxed));
        match self.phase() {
            _ if !self.is_quiet() || self.is_tunnel() => None,
            // The client may still have to read its refusal.
            Phase::Idle if self.lingers() => Some(since.after(NEW_REQUEST_GRACE)),
            Phase::Idle => Some(since),
            Phase::Head => Some(since.after(NEW_REQUEST_GRACE)),
            Phase::Busy => None,
        }
    }

    /// Ends the connection to free its slot; with an error response if part of a head was read.
    pub(in crate::proxy) fn evict(&self) {
        self.evicted.store(true, Relaxed);
        if self.phase() == Phase::Head && self.received() > 0 { self.expire_head() } else { self.drain() }
    }

    /// Whether the connection was closed to free its slot for another client.
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

/// The time limits of the phases.
#[derive(Debug)]
pub(in crate::proxy) struct Deadlines {
    head: Span,
    idle: Span,
}

/// The deadline that a connection has missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::proxy) enum Overdue {
    Nothing,
    Head,
    Idle,
    Write,
    /// Nothing is late, and the connection can go on without hyper.
    Rest,
}

impl Deadlines {
    pub(in crate::proxy) fn new(settings: &ProxySettings) -> Self {
        Self { head: settings.header_timeout, idle: settings.idle_timeout }
    }

    /// The time until the next check, at least [`MIN_TIMER`].
    pub(in crate::proxy) fn next(&self, state: &ConnectionState) -> Span {
        let since = Time::from_nanos(state.since.load(Relaxed));
        let due = match state.phase() {
            _ if state.can_rest() => since.after(REST_AFTER.min(self.idle).min(self.head)),
            // The connection may become idle before, and the idle time may be shorter.
            Phase::Head => {
                let due = since.after(self.head);
                due.min(state.clock.now().after(self.idle))
            }
            Phase::Idle => since.after(self.idle),
            Phase::Busy => state.clock.now().after(self.idle),
        };
        due.since(state.clock.now()).max(MIN_TIMER)
    }

    pub(in crate::proxy) fn overdue(&self, state: &ConnectionState) -> Overdue {
        let now = state.clock.now();
        let passed = now.since(Time::from_nanos(state.since.load(Relaxed)));
        match state.phase() {
            _ if state.is_below_min_rate(self.idle) => Overdue::Write,
            Phase::Head if passed >= self.head => Overdue::Head,
            Phase::Idle if passed >= self.idle => Overdue::Idle,
            _ if state.can_rest() && passed >= REST_AFTER => Overdue::Rest,
            _ => Overdue::Nothing,
        }
    }
}

const MIN_TIMER: Span = Span::from_millis(5);
/// An active client sends its next request within this time, so its connection keeps its buffers.
const REST_AFTER: Span = Span::from_secs(1);
/// Time for a handshake or a head before the connection can be evicted: more than honest clients need.
pub(in crate::proxy) const NEW_REQUEST_GRACE: Span = Span::from_secs(1);

/// The minimum transfer rate of a response in bytes a second, as for a request body.
const MIN_RATE: u64 = 500;
const NANOS_PER_BYTE: u64 = 1_000_000_000 / MIN_RATE;

#[cfg(test)]
mod tests {
    use super::*;

    fn setup() -> (Clock, ConnectionState, Deadlines) {
        let clock = Clock::manual(Time::from_nanos(1_000_000_000_000));
        let state = ConnectionState::new(clock.clone());
        (clock, state, Deadlines { head: Span::from_secs(10), idle: Span::from_secs(75) })
    }

    fn pass(clock: &Clock, secs: u64) {
        clock.set(clock.now().after(Span::from_secs(secs)));
    }

    #[test]
    fn a_head_is_late_after_its_time_however_many_bytes_trickle_in() {
        let (clock, state, deadlines) = setup();
        for _ in 0..9 {
            pass(&clock, 1);
            state.received_bytes(1);
            assert_eq!(deadlines.overdue(&state), Overdue::Nothing);
        }
        pass(&clock, 1);
        assert_eq!(deadlines.overdue(&state), Overdue::Head);
    }

    #[test]
    fn an_idle_connection_has_its_own_time_and_a_new_head_starts_afresh() {
        let (clock, state, deadlines) = setup();
        state.request_begins(clock.now());
        pass(&clock, 1000);
        assert_eq!(
            deadlines.overdue(&state),
            Overdue::Nothing,
            "a busy connection is the service's business"
        );
        state.response_ends(clock.now());
        pass(&clock, 74);
        assert_eq!(deadlines.overdue(&state), Overdue::Nothing);
        state.received_bytes(1);
        state.head_begins();
        pass(&clock, 9);
        assert_eq!(deadlines.overdue(&state), Overdue::Nothing);
        pass(&clock, 1);
        assert_eq!(deadlines.overdue(&state), Overdue::Head);
    }

    #[test]
    fn a_client_that_reads_nothing_is_late_too() {
        let (clock, state, deadlines) = setup();
        state.request_begins(clock.now());
        state.wrote(None);
        pass(&clock, 74);
        state.wrote(Some(74 * 500));
        state.wrote(None);
        pass(&clock, 74);
        assert_eq!(deadlines.overdue(&state), Overdue::Nothing);
        pass(&clock, 1);
        assert_eq!(deadlines.overdue(&state), Overdue::Write);
    }

    #[test]
    fn a_client_that_reads_next_to_nothing_is_late_in_all() {
        let (clock, state, deadlines) = setup();
        state.request_begins(clock.now());
        for _ in 0..7 {
            state.wrote(None);
            pass(&clock, 10);
            assert_eq!(deadlines.overdue(&state), Overdue::Nothing);
            state.wrote(Some(1));
        }
        state.wrote(None);
        pass(&clock, 6);
        assert_eq!(deadlines.overdue(&state), Overdue::Write);
        state.wrote(Some(40_000));
        state.wrote(None);
        pass(&clock, 74);
        assert_eq!(deadlines.overdue(&state), Overdue::Nothing, "a client that catches up is not late");
    }

    #[test]
    fn a_shorter_time_to_be_idle_is_kept_from_the_first_request_on() {
        let clock = Clock::manual(Time::from_nanos(1_000_000_000_000));
        let state = ConnectionState::new(clock.clone());
        let deadlines = Deadlines { head: Span::from_secs(10), idle: Span::from_secs(2) };
        state.set_resting(true);
        assert_eq!(deadlines.next(&state), Span::from_secs(2), "it may be idle before");
        pass(&clock, 9);
        assert_eq!(deadlines.next(&state), Span::from_secs(1));
    }

    #[test]
    fn only_a_connection_of_which_nothing_is_left_in_hyper_rests() {
        let (clock, state, deadlines) = setup();
        let rests_after = |secs| {
            pass(&clock, secs);
            deadlines.overdue(&state) == Overdue::Rest
        };
        assert!(!rests_after(0) && rests_after(1), "nothing has come yet");
        state.received_bytes(9);
        assert!(!rests_after(1), "a head is being read");
        state.request_begins(clock.now());
        state.set_between_requests(false);
        state.response_ends(clock.now());
        assert!(!rests_after(1), "the response is not flushed");
        state.flushed();
        assert!(!rests_after(1), "the body has not come");
        state.set_between_requests(true);
        assert!(rests_after(0));
        state.set_resting(true);
        assert!(!rests_after(1), "it rests already");
        state.set_resting(false);
        state.begin_to_close();
        assert!(!rests_after(1), "it lingers");
    }

    #[test]
    fn a_place_is_others_while_nothing_is_served_and_a_moment_later_while_something_may_come() {
        let (clock, state, _) = setup();
        let (now, later) = (Some(clock.now()), Some(clock.now().after(NEW_REQUEST_GRACE)));
        assert_eq!(state.idle_since(), later, "no request was read yet");
        state.request_begins(clock.now());
        assert_eq!(state.idle_since(), None);
        state.response_ends(clock.now());
        assert_eq!(state.idle_since(), None, "the response is not flushed");
        state.flushed();
        assert_eq!(state.idle_since(), now);
        state.linger();
        assert_eq!(state.idle_since(), later);
        state.received_bytes(1);
        assert_eq!(state.idle_since(), later);
        state.tunnel_opens();
        assert_eq!(state.idle_since(), None);
    }

    #[test]
    fn hypers_own_answers_are_those_that_no_service_gave() {
        let (clock, state, _) = setup();
        assert!(state.is_hyper_error_response());
        state.request_begins(clock.now());
        state.response_begins();
        state.response_ends(clock.now());
        state.received_bytes(1);
        assert!(!state.is_hyper_error_response(), "the last response may not be flushed yet");
        state.flushed();
        assert!(state.is_hyper_error_response());
    }
}
