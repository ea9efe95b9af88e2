//! Growing waits: a client that comes back too soon, again and again, waits longer each time.
//!
//! So many strikes in a row (refusals or failures; the caller says what is one) begin a wait, and as many more the next
//! one, longer by a factor, up to a longest. While a wait is on nobody passes, and strikes count on. Something that went
//! well breaks the row, but the next wait is still the longer one, until nothing has happened for as long as the longest
//! wait. The surprising thing: it has no tokens. `left` says how many strikes it takes until the next wait.

use super::units::{Span, Time};
use super::{Admission, MAX_CLOCK_LAG, MAX_SPAN, PlainOp, Receipt, SpecError, Step, Verdict, stored_time};

/// Checked waits that grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Escalation {
    after: u32,
    wait: Span,
    factor: u32,
    max: Span,
}

/// What is remembered of whoever was struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct StrikeRecord {
    /// Since when nothing has happened: the end of the last wait, or the last strike after it.
    quiet_since: Time,
    /// The end of the last wait.
    until: Time,
    /// Since the last wait began, in a row; less than it takes.
    strikes: u32,
    /// Waits so far.
    waits: u32,
}

impl Escalation {
    pub(super) const WORDS: usize = 3;

    /// Strikes before a wait at most.
    pub const MAX_STRIKES: u32 = 1000;
    /// Times as long as the one before it that a wait is at most.
    pub const MAX_FACTOR: u32 = 100;

    /// The first wait after `after` strikes in a row, each further one `factor` times as long as the one before it, none
    /// longer than `max`, and all forgotten after `max` without a strike.
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

    /// Strikes in a row that begin a wait, 1 to [`Escalation::MOST_STRIKES`].
    #[must_use]
    pub fn after(&self) -> u32 {
        self.after
    }

    /// The first wait.
    #[must_use]
    pub fn wait(&self) -> Span {
        self.wait
    }

    /// How many times as long as the one before it a wait is, 1 to [`Escalation::MOST_FACTOR`].
    #[must_use]
    pub fn factor(&self) -> u32 {
        self.factor
    }

    /// The longest wait, and how long it takes in peace until all is forgotten.
    #[must_use]
    pub fn max(&self) -> Span {
        self.max
    }

    /// The longest that anything is remembered: for the longest wait and as long after it.
    pub(super) fn max_ttl(&self) -> Span {
        self.max.plus(self.max)
    }

    pub(super) fn strike(&self, state: &mut [u64], now: Time) -> Step {
        let before = self.load(state, now).unwrap_or_default();
        let mut row = StrikeRecord { strikes: before.strikes.saturating_add(1), ..before };
        if row.strikes >= self.after {
            row.until = row.until.max(now.after(self.wait_after(before.waits)));
            (row.strikes, row.waits) = (0, before.waits.saturating_add(1));
        }
        row.quiet_since = row.until.max(now);
        self.write(row, state);
        Step { changed: true, verdict: self.verdict(Some(row), now, row.check(now)) }
    }

    pub(super) fn step(&self, state: &mut [u64], now: Time, op: PlainOp) -> Step {
        let is_known = state.first().copied().and_then(stored_time).is_some();
        let (stored, before) = (Self::stored(state, self.max), self.load(state, now));
        let row = match op {
            PlainOp::Give(_) => {
                before.map(|row| StrikeRecord { strikes: 0, ..row }).filter(|row| row.waits > 0)
            }
            PlainOp::Take(_) | PlainOp::Peek(_) | PlainOp::Refund(_) => before,
        };
        let changed = match op {
            // What was written by a clock that is behind now is written anew, or it would not move until the clock is back.
            PlainOp::Take(_) => row.is_some() && row != stored,
            PlainOp::Give(_) => is_known && row != before,
            PlainOp::Peek(_) | PlainOp::Refund(_) => false,
        };
        match row {
            Some(row) => self.write(row, state),
            None => state.iter_mut().zip([now.as_nanos(), 0, 0]).for_each(|(word, zero)| *word = zero),
        }
        let answer = match (op, row) {
            (PlainOp::Take(_) | PlainOp::Peek(_), Some(row)) => row.check(now),
            _ => Admission::Admitted,
        };
        Step { changed, verdict: self.verdict(row, now, answer) }
    }

    /// The row as of now, unless it was forgotten. A clock that was set back keeps nobody waiting for longer than the
    /// longest wait.
    pub(super) fn load(&self, state: &[u64], now: Time) -> Option<StrikeRecord> {
        let row = Self::stored(state, self.max)?;
        let latest = now.after(self.max);
        let until = if row.until.since(now) > self.max.plus(MAX_CLOCK_LAG) { latest } else { row.until };
        let quiet_since =
            if row.quiet_since.since(now) > self.max.plus(MAX_CLOCK_LAG) { latest } else { row.quiet_since };
        let strikes = row.strikes.min(self.after.saturating_sub(1));
        let row = StrikeRecord { quiet_since, until, strikes, ..row };
        (quiet_since.after(self.max) > now && (row.strikes, row.waits) != (0, 0)).then_some(row)
    }

    /// What waits of another length leave behind: the strikes, the growth, and the wait that is on.
    pub(super) fn convert_from(&self, from: &Self, from_state: &[u64], state: &mut [u64], now: Time) {
        if let Some(row) = from.load(from_state, now) {
            let latest = now.after(self.max);
            let row = StrikeRecord {
                until: row.until.min(latest),
                quiet_since: row.quiet_since.min(latest),
                ..row
            };
            self.write(row, state);
        }
    }

    /// The longer of two waits, the more strikes and the further growth. Says whether that is more than `state` had.
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

    /// How long a wait is after so many before it.
    fn wait_after(&self, waits: u32) -> Span {
        let times = u64::from(self.factor).checked_pow(waits).unwrap_or(u64::MAX);
        self.wait.times(times).min(self.max)
    }

    fn verdict(&self, row: Option<StrikeRecord>, now: Time, answer: Admission) -> Verdict {
        let Some(row) = row else {
            let (left, next_token, receipt) = (self.after, Span::ZERO, Receipt::default());
            return Verdict { admission: answer, left, next_token, full_at: now, receipt };
        };
        let full_at = row.quiet_since.after(self.max);
        let (left, next_token) = match row.until.since(now) {
            Span::ZERO => (self.after.saturating_sub(row.strikes), full_at.since(now)),
            wait => (0, wait),
        };
        let next_token = if left == self.after { Span::ZERO } else { next_token };
        Verdict { admission: answer, left, next_token, full_at, receipt: Receipt::default() }
    }

    fn stored(state: &[u64], max: Span) -> Option<StrikeRecord> {
        let &[full_at, until, counts] = state.first_chunk()?;
        let quiet_since = stored_time(full_at)?.before(max);
        let half = |word: u64| u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0);
        let (waits, strikes) = (half(counts >> 32), half(counts));
        Some(StrikeRecord { quiet_since, until: Time::from_nanos(until), strikes, waits })
    }

    fn write(&self, row: StrikeRecord, state: &mut [u64]) {
        if let Some(words) = state.first_chunk_mut() {
            let full_at = row.quiet_since.after(self.max).as_nanos();
            *words = [full_at, row.until.as_nanos(), u64::from(row.waits) << 32 | u64::from(row.strikes)];
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
