//! The number of requests that an application serves well at once, found by the time to the heads of its answers.
//!
//! The formula is that of the gradient limits of Netflix' concurrency-limits (`GradientLimit`) and of Envoy's filter
//! `adaptive_concurrency`: `limit * (tolerated latency / latency) + sqrt(limit)`, the quotient from 1/2 to 1, once for each
//! window of answers. The tolerated latency is Envoy's default, a quarter more than that without a queue, which is
//! measured with a quarter of the limit in flight. A saturated application of n slots has a latency of limit / n, so
//! the limit settles at 1.25 n and its root.
//!
//! Answers that cost the application nothing must not decide how much work it gets at once:
//!
//! - Those that come in less than a quarter of the latency without a queue are *quick*, and are not measured. Where only such
//!   come for a while, the application has become faster, and is measured again.
//! - The limit grows to twice what the application has really done at once, and no further. That is throughput times latency
//!   without a queue, by Little's law. Netflix' limits grow only if more than half of them is in flight; but a flood puts as
//!   many in flight as it may.
//!
//! Everything is pure: callers bring the time, and keep the requests.

use crate::time::{Span, Time};

/// What is known of one application.
#[derive(Debug)]
pub(super) struct Gradient {
    /// In thousandths of a request.
    limit: u64,
    /// The latency without a queue.
    base: Option<Span>,
    /// The latency of the last window.
    latency: Option<Span>,
    window: LatencyWindow,
    /// Since when only a quarter of the limit is allowed, to measure `base`.
    probing_since: Option<Time>,
    next_probe: Time,
    /// The limit when `base` was measured last.
    probed_limit: u64,
    /// Whether it has only grown so far.
    is_starting: bool,
    /// When it held a request back last, or has fallen for lack of that.
    needed: Time,
    /// Since when all answers have been quick.
    quick_since: Option<Time>,
}

/// The latencies of requests that were sent under one limit.
#[derive(Debug)]
struct LatencyWindow {
    /// `None` until no more requests are in flight than are allowed.
    since: Option<Time>,
    /// The last of them, in nanoseconds.
    latencies: [u64; MAX_SAMPLES],
    count: usize,
    /// The answers, also to requests that were sent before.
    answers: u64,
    /// The most requests that were in flight.
    peak: u32,
    /// Whether a request had to wait, or was refused.
    is_held_back: bool,
}

impl Gradient {
    /// The limit of an application before its first request.
    pub(super) fn new() -> Self {
        Self {
            limit: START,
            base: None,
            latency: None,
            window: LatencyWindow::new(),
            probing_since: None,
            next_probe: Time::default(),
            probed_limit: 0,
            is_starting: true,
            needed: Time::default(),
            quick_since: None,
        }
    }

    /// The limit.
    pub(super) fn limit(&self) -> u32 {
        u32::try_from(self.limit / UNIT).unwrap_or(u32::MAX)
    }

    /// The requests that may be in flight now, if the next one is of a known client. Known ones may fill half of the limit even
    /// while the latency without a queue is measured.
    pub(super) fn allowed(&self, is_known: bool) -> u32 {
        match (self.probing_since, is_known) {
            (None, _) => self.limit(),
            (Some(_), true) => self.limit() / 2,
            (Some(_), false) => self.limit() / PROBE_DIVISOR,
        }
    }

    /// How long an answer takes, if that is known.
    pub(super) fn latency(&self) -> Option<Span> {
        self.latency
    }

    /// A request was sent; `in_flight` counts it.
    pub(super) fn sent(&mut self, in_flight: u32, now: Time) {
        self.window.peak = self.window.peak.max(in_flight);
        self.forget_unneeded(now);
    }

    /// Ends a probe for which too few requests come, or too many do not end. What is known has to do until the next one.
    pub(super) fn end_long_probe(&mut self, now: Time) {
        let longest = self.longest_probe();
        if self.probing_since.is_some_and(|since| now.since(since) > longest) {
            self.window = LatencyWindow::new();
            self.base = self.base.or(self.latency);
            self.next_probe = now.after(LATER.max(longest.times(4)));
            self.probed_limit = self.limit;
            self.probing_since = None;
        }
    }

    /// A request has waited, or is refused.
    pub(super) fn held_back(&mut self, now: Time) {
        self.window.is_held_back = true;
        self.needed = now;
    }

    /// An answer has begun; `in_flight` are those that are left.
    pub(super) fn answered(&mut self, sent: Time, in_flight: u32, now: Time) {
        if self.is_quick(now.since(sent)) {
            self.answered_quickly(now);
            return self.open_window(in_flight, now);
        }
        self.quick_since = None;
        let Some(since) = self.window.since else {
            return self.open_window(in_flight, now);
        };
        self.window.answers += 1;
        if sent < since {
            return;
        }
        self.window.add(now.since(sent));
        let least = if self.probing_since.is_some() { LEAST_SAMPLES } else { SAMPLES };
        let wanted = usize::try_from(self.allowed(false)).unwrap_or(usize::MAX).saturating_mul(2);
        let wanted = wanted.clamp(least, MAX_SAMPLES);
        // Fewer than one latency would see only those that are sent first.
        let shortest = self.latency.unwrap_or_default().clamp(SHORTEST_WINDOW, LONG_WINDOW);
        if let Some(latency) = self.window.mean_once_complete(wanted, shortest, now) {
            self.latency = Some(latency);
            match self.probing_since {
                Some(started) => self.end_probe(latency, started, now),
                None => self.adapt(latency, now),
            }
            self.window = LatencyWindow::new();
            self.open_window(in_flight, now);
        }
    }

    /// Whether an answer after this time took too little for the work that the limit is about.
    fn is_quick(&self, latency: Span) -> bool {
        self.base.is_some_and(|base| base > UNNOTICED && latency < part(base, QUICK_DIVISOR))
    }

    /// Forgets the latency without a queue if nothing has taken so long for a while.
    fn answered_quickly(&mut self, now: Time) {
        let since = *self.quick_since.get_or_insert(now);
        if now.since(since) > FASTER_AFTER {
            (self.base, self.probing_since, self.quick_since) = (None, None, None);
            self.window = LatencyWindow::new();
        }
    }

    /// A request ended without a latency.
    pub(super) fn ended(&mut self, in_flight: u32, now: Time) {
        self.open_window(in_flight, now);
    }

    /// Opens the window, as soon as the requests sent under a greater limit are answered.
    fn open_window(&mut self, in_flight: u32, now: Time) {
        if self.window.since.is_none() && in_flight <= self.allowed(true) {
            self.window.since = Some(now);
            self.window.peak = in_flight;
        }
    }

    /// Adapts the limit to the latency of a window.
    fn adapt(&mut self, latency: Span, now: Time) {
        let allowed = self.limit();
        let Some(base) = self.base else {
            match self.window.peak <= allowed / PROBE_DIVISOR {
                true => self.base = Some(latency),
                false => self.probing_since = Some(now),
            }
            return;
        };
        // By less, chance is enough.
        let is_faster = latency < base.minus(part(base, 8));
        if self.window.peak <= allowed / PROBE_DIVISOR || is_faster {
            self.base = Some(moved(base, latency));
        }
        if self.window.is_held_back || self.window.peak >= allowed {
            self.step(latency, now);
        }
        let has_halved = self.limit.saturating_mul(2) <= self.probed_limit;
        if self.window.is_held_back && latency > UNNOTICED && (now >= self.next_probe || has_halved) {
            self.probing_since = Some(now);
        }
    }

    /// One step of the formula. Only a limit that holds requests back grows, and only to twice what the application does at once.
    fn step(&mut self, latency: Span, now: Time) {
        let base = self.base.unwrap_or(latency);
        let tolerated = base.plus(part(base, 4)).max(UNNOTICED);
        let quotient = tolerated.as_nanos().saturating_mul(UNIT) / latency.as_nanos().max(1);
        let quotient = quotient.clamp(UNIT / 2, UNIT);
        self.is_starting &= quotient == UNIT;
        let root = self.limit.saturating_mul(UNIT).isqrt();
        let headroom = if self.is_starting { self.limit } else { root };
        let target = (self.limit.saturating_mul(quotient) / UNIT).saturating_add(headroom).clamp(LEAST, MOST);
        if target < self.limit {
            self.limit = target;
        } else if self.window.is_held_back {
            // A burst is over before its window is.
            let free = if self.is_starting { FREE } else { 0 };
            let most = self.window.at_work(base, now).saturating_mul(2).max(free);
            self.limit = target.min(most).max(self.limit);
        }
    }

    fn end_probe(&mut self, latency: Span, started: Time, now: Time) {
        let former = self.base.replace(latency);
        let is_news = former.is_none_or(|former| {
            let (less, more) = (former.min(latency), former.max(latency));
            more.minus(less).as_nanos() > more.as_nanos() / 8
        });
        let took = now.since(started);
        let pause = if is_news { SOON.max(took.times(4)) } else { LATER.max(took.times(20)) };
        self.next_probe = now.after(pause);
        self.probed_limit = self.limit;
        self.probing_since = None;
    }

    /// The longest time for a probe.
    fn longest_probe(&self) -> Span {
        LONGEST_PROBE.max(self.latency.unwrap_or_default().times(8))
    }

    /// Halves what was learned of much load, for each minute in which nobody needed it: the application may be another one
    /// when the next flood comes.
    fn forget_unneeded(&mut self, now: Time) {
        let minutes = now.since(self.needed).as_nanos() / FORGOTTEN_AFTER.as_nanos();
        if minutes > 0 {
            let used = u64::from(self.window.peak).saturating_mul(2 * UNIT);
            let halved = (self.limit >> minutes.min(32)).max(START).max(used);
            self.limit = self.limit.min(halved);
            self.needed = now;
        }
    }
}

impl LatencyWindow {
    fn new() -> Self {
        let latencies = [0; MAX_SAMPLES];
        Self { since: None, latencies, count: 0, answers: 0, peak: 0, is_held_back: false }
    }

    fn add(&mut self, latency: Span) {
        self.latencies[self.count % MAX_SAMPLES] = latency.as_nanos();
        self.count += 1;
    }

    /// How many requests the application works on at once, in thousandths: without the time that they wait for others.
    fn at_work(&self, base: Span, now: Time) -> u64 {
        let elapsed = self.since.map_or(Span::ZERO, |since| now.since(since));
        let worked = u128::from(self.answers) * u128::from(base.as_nanos());
        let at_once = worked.saturating_mul(u128::from(UNIT)) / u128::from(elapsed.as_nanos().max(1));
        u64::try_from(at_once).unwrap_or(u64::MAX)
    }

    /// The mean without the fastest and the slowest eighth, once the window is complete: a few answers that take long on
    /// purpose tell nothing of the others.
    fn mean_once_complete(&mut self, wanted: usize, shortest: Span, now: Time) -> Option<Span> {
        let elapsed = now.since(self.since?);
        let is_complete = self.count >= wanted && elapsed >= shortest
            || self.count >= LEAST_SAMPLES && elapsed >= LONG_WINDOW;
        if !is_complete {
            return None;
        }
        let kept = &mut self.latencies[..self.count.min(MAX_SAMPLES)];
        kept.sort_unstable();
        let eighth = kept.len() / 8;
        let middle = &kept[eighth..kept.len() - eighth];
        let sum = middle.iter().fold(0_u64, |sum, latency| sum.saturating_add(*latency));
        let count = u64::try_from(middle.len()).unwrap_or(u64::MAX);
        Some(Span::from_nanos((sum / count.max(1)).max(1)))
    }
}

/// A quarter of the way to what was seen: one window may have seen other requests than the next.
fn moved(base: Span, seen: Span) -> Span {
    base.minus(part(base, 4)).plus(part(seen, 4))
}

fn part(span: Span, divisor: u64) -> Span {
    Span::from_nanos(span.as_nanos() / divisor)
}

/// The unit of a limit.
const UNIT: u64 = 1000;
/// The first limit; Netflix' begin with 20.
pub(super) const START: u64 = 16 * UNIT;
/// Up to here it grows at its start whatever the application does at once.
const FREE: u64 = 64 * UNIT;
/// The formula has no lower one: half of four, and its root.
const LEAST: u64 = 4 * UNIT;
pub(super) const MOST: u64 = 1024 * UNIT;
/// The share of the limit at which the latency has no queue in it.
const PROBE_DIVISOR: u32 = 4;
/// What takes less than this share of the latency without a queue is no work that the limit is about.
const QUICK_DIVISOR: u64 = 4;
/// For so long, only quick answers are taken for a flood.
const FASTER_AFTER: Span = Span::from_secs(30);
/// Nobody notices a latency below, so it is no reason to hold a request back.
const UNNOTICED: Span = Span::from_millis(10);
/// The answers of a window: twice the limit, at least so many; of a long window, and of a probe; those that are kept.
const SAMPLES: usize = 16;
const LEAST_SAMPLES: usize = 4;
const MAX_SAMPLES: usize = 64;
const SHORTEST_WINDOW: Span = Span::from_millis(100);
const LONG_WINDOW: Span = Span::from_secs(2);
/// The next probe after one that has found another latency than the last one, and after any other.
const SOON: Span = Span::from_secs(3);
const LATER: Span = Span::from_secs(30);
const LONGEST_PROBE: Span = Span::from_secs(5);
const FORGOTTEN_AFTER: Span = Span::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);

    /// The mean of a window of these latencies, in milliseconds.
    fn mean(latencies: &[u64]) -> u64 {
        let mut window = LatencyWindow { since: Some(NOW), ..LatencyWindow::new() };
        latencies.iter().for_each(|&latency| window.add(Span::from_millis(latency)));
        let mean =
            window.mean_once_complete(latencies.len(), SHORTEST_WINDOW, NOW.after(SHORTEST_WINDOW)).unwrap();
        mean.as_nanos() / 1_000_000
    }

    /// A long poll, or a time-out.
    #[test]
    fn an_eighth_of_slow_answers_tells_nothing_of_the_others() {
        let ordinary = [40, 50, 50, 60];
        assert_eq!(mean(&ordinary.repeat(4)), 50);
        let mixed = [ordinary.repeat(7), vec![30_000; 4]].concat();
        assert!((50..=55).contains(&mean(&mixed)), "{}", mean(&mixed));
        assert!(mean(&[ordinary.repeat(6), vec![30_000; 8]].concat()) > 1000);
    }

    #[test]
    fn a_window_keeps_the_last_answers_and_waits_for_enough_of_them() {
        let mut window = LatencyWindow { since: Some(NOW), ..LatencyWindow::new() };
        let late = NOW.after(LONG_WINDOW);
        (0..LEAST_SAMPLES - 1).for_each(|_| window.add(Span::from_secs(9)));
        assert_eq!(window.mean_once_complete(SAMPLES, SHORTEST_WINDOW, late), None);
        (0..MAX_SAMPLES).for_each(|_| window.add(Span::from_secs(1)));
        assert_eq!(window.mean_once_complete(SAMPLES, SHORTEST_WINDOW, NOW), None, "too short");
        assert_eq!(window.mean_once_complete(SAMPLES, SHORTEST_WINDOW, late), Some(Span::from_secs(1)));
    }

    #[test]
    fn what_nobody_needs_is_forgotten_by_halves_down_to_the_first_limit() {
        let mut gradient = Gradient { limit: MOST, needed: NOW, ..Gradient::new() };
        let mut after = |seconds| {
            gradient.sent(1, NOW.after(Span::from_secs(seconds)));
            gradient.limit()
        };
        assert_eq!([59, 60, 119, 120, 300, 10_000].map(&mut after), [1024, 512, 512, 256, 32, 16]);
        gradient.limit = 7 * UNIT;
        gradient.sent(1, NOW.after(Span::from_secs(100_000)));
        assert_eq!(gradient.limit(), 7, "what was learned of little is kept");
    }

    #[test]
    fn no_latency_and_no_time_is_too_much_for_the_arithmetic() {
        let mut gradient = Gradient::new();
        for at in [0, u64::MAX, 1, u64::MAX, 0, u64::MAX].map(Time::from_nanos).repeat(40) {
            gradient.held_back(at);
            gradient.sent(u32::MAX, at);
            gradient.answered(Time::from_nanos(0), 0, at);
            gradient.ended(0, at);
            assert!((4..=1024).contains(&gradient.limit()));
        }
    }
}
