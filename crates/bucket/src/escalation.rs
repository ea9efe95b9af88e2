//! Growing waits: a client that comes back too soon, again and again, waits longer each time.
//!
//! A number of strikes in a row begins a wait; the caller decides what a strike is, a refusal or a failure. The same
//! number of further strikes begins the next wait, longer by a factor, up to a maximum. During a wait no attempt
//! passes, and strikes count on. A success ends the row, but the next wait is still the longer one, until there was no
//! strike for as long as the longest wait. The shape has no tokens: `left` is the number of strikes until the next
//! wait.

use super::units::{Span, Time};
use super::{Admission, MAX_CLOCK_LAG, MAX_SPAN, PlainOp, Receipt, SpecError, Step, Verdict, stored_time};

/// Validated growing waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Escalation {
    after: u32,
    wait: Span,
    factor: u32,
    max: Span,
}

/// The strikes and waits of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct StrikeRecord {
    /// The end of the last wait, or the last strike after it.
    quiet_since: Time,
    /// The end of the last wait.
    until: Time,
    /// Strikes in a row since the last wait began; fewer than begin a wait.
    strikes: u32,
    /// Number of waits so far.
    waits: u32,
}

impl Escalation {
    pub(super) const WORDS: usize = 3;

    /// The largest number of strikes before a wait.
    pub const MAX_STRIKES: u32 = 1000;
    /// The largest factor between two waits.
    pub const MAX_FACTOR: u32 = 100;

    /// The first wait begins after `after` strikes in a row. Each further wait is `factor` times as long as the one
    /// before it, at most `max`. After `max` without a strike the state is dropped.
    ///
    /// # Errors
    /// See [`SpecError`].
    pub fn new(after: u32, wait: Span, factor: u32, max: Span) -> Result<Self, SpecError> {
        if after == 0 || factor == 0 || wait == Span::ZERO {
            return Err(SpecError::Zero);
        }
        if after > Self::MAX_STRIKES || factor > Self::MAX_FACTOR {
            return Err(SpecError::TooMany);
        }
        if wait > max {
            return Err(SpecError::WaitAboveMax);
        }
        if max.plus(max) > MAX_SPAN {
            return Err(SpecError::TooLong);
        }
        Ok(Self { after, wait, factor, max })
    }

    /// Strikes in a row that begin a wait, 1 to [`Escalation::MAX_STRIKES`].
    #[must_use]
    pub fn after(&self) -> u32 {
        self.after
    }

    /// The first wait.
    #[must_use]
    pub fn wait(&self) -> Span {
        self.wait
    }

    /// The factor between two waits, 1 to [`Escalation::MAX_FACTOR`].
    #[must_use]
    pub fn factor(&self) -> u32 {
        self.factor
    }

    /// The longest wait, and the time without a strike after which the state is dropped.
    #[must_use]
    pub fn max(&self) -> Span {
        self.max
    }

    /// The longest wait that still grows: one of which more is left is of the last step. Zero if waits do not grow.
    #[must_use]
    pub fn longest_growing(&self) -> Span {
        let (mut longest, mut next) = (Span::ZERO, self.wait);
        while self.factor > 1 && next < self.max {
            (longest, next) = (next, next.times(u64::from(self.factor)));
        }
        longest
    }

    /// The longest time to live of a state: the longest wait, and as long after it.
    pub(super) fn max_ttl(&self) -> Span {
        self.max.plus(self.max)
    }

    pub(super) fn strike(&self, state: &mut [u64], now: Time) -> Step {
        let before = self.load(state, now).unwrap_or_default();
        let mut record = StrikeRecord { strikes: before.strikes.saturating_add(1), ..before };
        if record.strikes >= self.after {
            record.until = record.until.max(now.after(self.wait_after(before.waits)));
            (record.strikes, record.waits) = (0, before.waits.saturating_add(1));
        }
        record.quiet_since = record.until.max(now);
        self.write(record, state);
        Step { changed: true, verdict: self.verdict(Some(record), now, record.check(now)) }
    }

    pub(super) fn step(&self, state: &mut [u64], now: Time, op: PlainOp) -> Step {
        let is_known = state.first().copied().and_then(stored_time).is_some();
        let (stored, before) = (Self::stored(state, self.max), self.load(state, now));
        let record = match op {
            PlainOp::Give(_) => {
                before.map(|record| StrikeRecord { strikes: 0, ..record }).filter(|record| record.waits > 0)
            }
            PlainOp::Take(_) | PlainOp::Peek(_) | PlainOp::Refund(_) => before,
        };
        let changed = match op {
            // A state from before the clock was set back is written again, or its wait would not end until the clock
            // has caught up.
            PlainOp::Take(_) => record.is_some() && record != stored,
            PlainOp::Give(_) => is_known && record != before,
            PlainOp::Peek(_) | PlainOp::Refund(_) => false,
        };
        match record {
            Some(record) => self.write(record, state),
            None => state.iter_mut().zip([now.as_nanos(), 0, 0]).for_each(|(word, zero)| *word = zero),
        }
        let admission = match (op, record) {
            (PlainOp::Take(_) | PlainOp::Peek(_), Some(record)) => record.check(now),
            _ => Admission::Admitted,
        };
        Step { changed, verdict: self.verdict(record, now, admission) }
    }

    /// The record as of now; `None` if it has expired. After the clock was set back no wait is longer than the longest.
    pub(super) fn load(&self, state: &[u64], now: Time) -> Option<StrikeRecord> {
        let record = Self::stored(state, self.max)?;
        let latest = now.after(self.max);
        let until =
            if record.until.since(now) > self.max.plus(MAX_CLOCK_LAG) { latest } else { record.until };
        let quiet_since = if record.quiet_since.since(now) > self.max.plus(MAX_CLOCK_LAG) {
            latest
        } else {
            record.quiet_since
        };
        let strikes = record.strikes.min(self.after.saturating_sub(1));
        let record = StrikeRecord { quiet_since, until, strikes, ..record };
        (quiet_since.after(self.max) > now && (record.strikes, record.waits) != (0, 0)).then_some(record)
    }

    /// Takes over the strikes, the number of waits and the current wait from a state of other lengths.
    pub(super) fn convert_from(&self, from: &Self, from_state: &[u64], state: &mut [u64], now: Time) {
        if let Some(record) = from.load(from_state, now) {
            let latest = now.after(self.max);
            let record = StrikeRecord {
                until: record.until.min(latest),
                quiet_since: record.quiet_since.min(latest),
                ..record
            };
            self.write(record, state);
        }
    }

    /// Joins two states: the longer wait, the larger numbers of strikes and waits. Returns whether `state` changed.
    pub(super) fn join(&self, state: &mut [u64], other: &[u64], now: Time) -> bool {
        let (here, there) = (self.load(state, now), self.load(other, now));
        let (Some(one), Some(two)) = (here.or(there), there.or(here)) else { return false };
        let joined = StrikeRecord {
            quiet_since: one.quiet_since.max(two.quiet_since),
            until: one.until.max(two.until),
            strikes: one.strikes.max(two.strikes),
            waits: one.waits.max(two.waits),
        };
        self.write(joined, state);
        here != Some(joined)
    }

    /// The length of the wait after this number of earlier waits.
    fn wait_after(&self, waits: u32) -> Span {
        let times = u64::from(self.factor).checked_pow(waits).unwrap_or(u64::MAX);
        self.wait.times(times).min(self.max)
    }

    fn verdict(&self, record: Option<StrikeRecord>, now: Time, admission: Admission) -> Verdict {
        let Some(record) = record else {
            let (left, next_token, receipt) = (self.after, Span::ZERO, Receipt::default());
            return Verdict { admission, left, next_token, full_at: now, receipt };
        };
        let full_at = record.quiet_since.after(self.max);
        let (left, next_token) = match record.until.since(now) {
            Span::ZERO => (self.after.saturating_sub(record.strikes), full_at.since(now)),
            wait => (0, wait),
        };
        let next_token = if left == self.after { Span::ZERO } else { next_token };
        Verdict { admission, left, next_token, full_at, receipt: Receipt::default() }
    }

    fn stored(state: &[u64], max: Span) -> Option<StrikeRecord> {
        let &[full_at, until, counts] = state.first_chunk()?;
        let quiet_since = stored_time(full_at)?.before(max);
        let half = |word: u64| u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0);
        let (waits, strikes) = (half(counts >> 32), half(counts));
        Some(StrikeRecord { quiet_since, until: Time::from_nanos(until), strikes, waits })
    }

    fn write(&self, record: StrikeRecord, state: &mut [u64]) {
        if let Some(words) = state.first_chunk_mut() {
            let full_at = record.quiet_since.after(self.max).as_nanos();
            *words =
                [full_at, record.until.as_nanos(), u64::from(record.waits) << 32 | u64::from(record.strikes)];
        }
    }
}

impl StrikeRecord {
    fn check(&self, now: Time) -> Admission {
        match self.until.since(now) {
            Span::ZERO => Admission::Admitted,
            wait => Admission::Refused { wait },
        }
    }
}

#[cfg(test)]
mod tests;
