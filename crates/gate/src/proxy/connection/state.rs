//! Connection state and deadlines.
//!
//! The connection's driver and the service set the phase: when bytes arrive, when the service is called and when the
//! response ends. `downstream` enforces the deadlines.

use std::cell::{Cell, OnceCell};
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
    phase: Cell<Phase>,
    since: Cell<u64>,
    received: Cell<u64>,
    pace: WritePace,
    marks: Marks,
    waker: OnceCell<Waker>,
}

/// How fast the client takes a response.
#[derive(Debug, Default)]
struct WritePace {
    /// Start of the current stall, in nanoseconds; 0 if writes make progress.
    stalled: Cell<u64>,
    /// Time stalled in excess of the time that the bytes written allow, in nanoseconds.
    excess: Cell<u64>,
}

/// A property of a connection that does not depend on its phase.
#[derive(Debug, Clone, Copy)]
enum Mark {
    /// Two servers could read the latest request differently.
    Ambiguous,
    /// A response of the service may not be flushed yet.
    Unflushed,
    /// The client may still be sending when the connection closes.
    Lingers,
    /// The next response is the last.
    ClosesAfterNext,
    /// It closes as soon as it is idle.
    Draining,
    /// It carries another protocol than HTTP.
    Tunnel,
    /// It was closed to free its slot.
    Evicted,
    /// It waits for its next byte without buffers.
    Resting,
}

/// A set of [`Mark`]s.
#[derive(Debug, Default)]
struct Marks(Cell<u8>);

impl Marks {
    fn has(&self, mark: Mark) -> bool {
        self.0.get() & (1 << mark as u8) != 0
    }

    fn set(&self, mark: Mark, is: bool) {
        let others = self.0.get() & !(1 << mark as u8);
        self.0.set(others | u8::from(is) << mark as u8);
    }
}

impl ConnectionState {
    pub(super) fn new(clock: Clock) -> Self {
        let since = Cell::new(clock.now().as_nanos());
        Self {
            clock,
            phase: Cell::new(Phase::Head),
            since,
            received: Cell::new(0),
            pace: WritePace::default(),
            marks: Marks::default(),
            waker: OnceCell::new(),
        }
    }

    /// The current time of the connection's clock.
    pub(in crate::proxy) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Starts the service of a request.
    pub fn request_begins(&self, now: Time) {
        self.pace.excess.set(0);
        self.enter(Phase::Busy, now);
    }

    /// Whether the latest request, as far as it was read, is ambiguous: two servers could read it differently.
    #[must_use]
    pub fn is_ambiguous(&self) -> bool {
        self.marks.has(Mark::Ambiguous)
    }

    /// The connection carries another protocol than HTTP from now on.
    pub fn tunnel_opens(&self) {
        self.marks.set(Mark::Tunnel, true);
    }

    /// The service returned the head of a response.
    pub fn response_begins(&self) {
        self.marks.set(Mark::Unflushed, true);
    }

    /// The service handed over the end of a response.
    pub fn response_ends(&self, now: Time) {
        self.marks.set(Mark::Unflushed, true);
        self.received.set(0);
        self.enter(Phase::Idle, now);
    }

    /// Requests a lingering close: the client may still be sending, and a reset by the kernel would discard the
    /// response.
    pub fn linger(&self) {
        self.marks.set(Mark::Lingers, true);
    }

    /// Serves one more request, if one comes, and announces the close in its response: a client whose connection closes
    /// while it sends cannot know whether its request was served.
    pub fn close_after_next(&self) {
        self.marks.set(Mark::ClosesAfterNext, true);
        self.wake();
    }

    /// Whether the next response is the last.
    #[must_use]
    pub fn closes_after_next(&self) -> bool {
        self.marks.has(Mark::ClosesAfterNext)
    }

    /// Whether a request is being served.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.phase() == Phase::Busy
    }

    /// Closes the connection as soon as it is idle.
    pub fn drain(&self) {
        self.marks.set(Mark::Draining, true);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    pub(in crate::proxy) fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Bytes received since the end of the last response: those of the request, unless it was pipelined.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received.get()
    }

    pub(in crate::proxy) fn received_bytes(&self, count: usize) {
        self.received.set(self.received().saturating_add(count as u64));
        if self.phase() == Phase::Idle {
            self.phase.set(Phase::Head);
        }
    }

    /// Nothing of the next request was received but these bytes.
    pub(in crate::proxy) fn next_begins(&self, received: usize) {
        self.received.set(received as u64);
        self.phase.set(if received == 0 { Phase::Idle } else { Phase::Head });
    }

    /// Whether nothing of a request was received, so that the connection needs no buffers until its next byte.
    fn can_rest(&self) -> bool {
        self.received() == 0 && self.is_quiet() && !self.is_tunnel() && !self.is_resting()
    }

    /// Begins or ends a rest without buffers.
    pub(in crate::proxy) fn set_resting(&self, rests: bool) {
        self.marks.set(Mark::Resting, rests);
    }

    /// Whether the connection waits for its next byte without buffers.
    pub(in crate::proxy) fn is_resting(&self) -> bool {
        self.marks.has(Mark::Resting)
    }

    /// Two servers could read the latest request differently: it is refused, and nothing is read after it.
    pub(in crate::proxy) fn mark_ambiguous(&self) {
        self.marks.set(Mark::Ambiguous, true);
    }

    pub(in crate::proxy) fn is_tunnel(&self) -> bool {
        self.marks.has(Mark::Tunnel)
    }

    /// Starts the time of a head. Only a head that arrives in several pieces needs it, so most requests read no clock.
    pub(in crate::proxy) fn head_begins(&self) {
        self.since.set(self.clock.now().as_nanos());
    }

    pub(in crate::proxy) fn flushed(&self) {
        self.marks.set(Mark::Unflushed, false);
    }

    /// Records a write of `count` bytes; `None` if the client accepts none.
    pub(in crate::proxy) fn wrote(&self, count: Option<usize>) {
        let (stalled, excess) = (self.pace.stalled.get(), self.pace.excess.get());
        match count {
            Some(count) if stalled | excess != 0 => self.credit_written(count, stalled, excess),
            None if stalled == 0 => self.pace.stalled.set(self.clock.now().as_nanos()),
            Some(_) | None => {}
        }
    }

    fn credit_written(&self, count: usize, stalled: u64, excess: u64) {
        let waited = if stalled == 0 { 0 } else { self.stalled_for(stalled).as_nanos() };
        let credit = (count as u64).saturating_mul(NANOS_PER_BYTE);
        self.pace.excess.set(excess.saturating_add(waited).saturating_sub(credit));
        self.pace.stalled.set(0);
    }

    fn stalled_for(&self, since: u64) -> Span {
        self.clock.now().since(Time::from_nanos(since))
    }

    /// Whether the client has stalled the response for `limit`, with credit for the bytes written.
    fn is_below_min_rate(&self, limit: Span) -> bool {
        let stalled = self.pace.stalled.get();
        let excess = Span::from_nanos(self.pace.excess.get());
        stalled != 0 && self.stalled_for(stalled).plus(excess) >= limit
    }

    /// Whether no request is in flight: none was read, and the last response was flushed.
    pub(in crate::proxy) fn is_quiet(&self) -> bool {
        self.phase() != Phase::Busy && !self.marks.has(Mark::Unflushed)
    }

    /// When the connection became evictable; in the future if a request may be about to arrive. `None` while a request
    /// is served.
    pub(super) fn idle_since(&self) -> Option<Time> {
        let since = Time::from_nanos(self.since.get());
        match self.phase() {
            _ if !self.is_quiet() || self.is_tunnel() => None,
            // The client may still have to read its refusal.
            Phase::Idle if self.lingers() => Some(since.after(NEW_REQUEST_GRACE)),
            Phase::Idle => Some(since),
            Phase::Head => Some(since.after(NEW_REQUEST_GRACE)),
            Phase::Busy => None,
        }
    }

    /// The connection has to end, to free its slot.
    pub(in crate::proxy) fn evict(&self) {
        self.marks.set(Mark::Evicted, true);
    }

    /// Whether the connection was closed to free its slot for another client.
    #[must_use]
    pub fn was_evicted(&self) -> bool {
        self.marks.has(Mark::Evicted)
    }

    pub(in crate::proxy) fn lingers(&self) -> bool {
        self.marks.has(Mark::Lingers)
    }

    pub(in crate::proxy) fn is_draining(&self) -> bool {
        self.marks.has(Mark::Draining)
    }

    /// A connection is one task for its whole life, so its waker never changes.
    pub(in crate::proxy) fn remember_waker(&self, cx: &Context<'_>) {
        self.waker.get_or_init(|| cx.waker().clone());
    }

    fn enter(&self, phase: Phase, now: Time) {
        self.phase.set(phase);
        self.since.set(now.as_nanos());
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
    /// Nothing is late, and the connection can go on without buffers.
    Rest,
}

impl Deadlines {
    pub(in crate::proxy) fn new(settings: &ProxySettings) -> Self {
        Self { head: settings.header_timeout, idle: settings.idle_timeout }
    }

    /// The time until the next check, at least [`MIN_TIMER`].
    pub(in crate::proxy) fn next(&self, state: &ConnectionState) -> Span {
        let since = Time::from_nanos(state.since.get());
        let due = match state.phase() {
            _ if state.can_rest() => since.after(REST_AFTER.min(self.idle).min(self.head)),
            // The connection may become idle before, and the idle time may be shorter.
            Phase::Head => {
                let due = since.after(self.head);
                due.min(state.clock.now().after(self.idle))
            }
            Phase::Idle if state.is_quiet() => since.after(self.idle),
            Phase::Idle | Phase::Busy => state.clock.now().after(self.idle),
        };
        due.since(state.clock.now()).max(MIN_TIMER)
    }

    pub(in crate::proxy) fn overdue(&self, state: &ConnectionState) -> Overdue {
        let now = state.clock.now();
        let passed = now.since(Time::from_nanos(state.since.get()));
        match state.phase() {
            _ if state.is_below_min_rate(self.idle) => Overdue::Write,
            Phase::Head if passed >= self.head => Overdue::Head,
            Phase::Idle if state.is_quiet() && passed >= self.idle => Overdue::Idle,
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
    fn only_a_connection_that_waits_for_a_request_rests() {
        let (clock, state, deadlines) = setup();
        let rests_after = |secs| {
            pass(&clock, secs);
            deadlines.overdue(&state) == Overdue::Rest
        };
        assert!(!rests_after(0) && rests_after(1), "nothing has come yet");
        state.received_bytes(9);
        assert!(!rests_after(1), "a head is being read");
        state.request_begins(clock.now());
        state.response_ends(clock.now());
        assert!(!rests_after(1), "the response is not flushed");
        state.flushed();
        assert!(rests_after(0));
        state.set_resting(true);
        assert!(!rests_after(1), "it rests already");
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
}
