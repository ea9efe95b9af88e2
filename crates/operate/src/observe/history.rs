//! Attempts over time, for the dashboard: how many were admitted and refused in each step of the last hour.
//!
//! A request adds to a counter of its thread. A background task closes a step every five seconds; viewers cost the way
//! of a request nothing.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::shards::Shards;
use crate::event::{AttemptRecord, Event, EventListener, LimitDecision};
use crate::time::{Span, Time};

/// Counts attempts, and keeps the counts of the last hour.
#[derive(Debug, Default)]
pub struct AttemptHistory {
    counts: Shards<AttemptCounters>,
    steps: Mutex<HistorySteps>,
}

/// The attempts of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HistoryStep {
    /// Forwarded, and no limit had a word against it.
    pub admitted: u64,
    /// Refused.
    pub refused: u64,
    /// Forwarded, although a limit that only observes lacked the tokens.
    pub observed: u64,
}

/// The last hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HourOfAttempts {
    /// The end of the last step.
    pub end: Time,
    /// The oldest first; at most [`AttemptHistory::STEPS`].
    pub steps: Vec<HistoryStep>,
}

#[derive(Debug, Default)]
struct AttemptCounters {
    admitted: AtomicU64,
    refused: AtomicU64,
    observed: AtomicU64,
}

#[derive(Debug, Default)]
struct HistorySteps {
    end: Time,
    /// All attempts up to there.
    total: HistoryStep,
    steps: VecDeque<HistoryStep>,
}

impl AttemptHistory {
    /// The length of a step.
    pub const STEP: Span = Span::from_secs(5);
    /// The steps that are kept: an hour.
    pub const STEPS: usize = 720;

    /// Ends a step; to be called every [`STEP`](Self::STEP).
    pub fn end_step(&self, now: Time) {
        let total = self.total();
        let mut history = self.lock();
        let step = total.minus(history.total);
        if history.steps.len() >= Self::STEPS {
            history.steps.pop_front();
        }
        history.steps.push_back(step);
        (history.end, history.total) = (now, total);
    }

    /// The steps of the last hour.
    #[must_use]
    pub fn hour(&self) -> HourOfAttempts {
        let history = self.lock();
        HourOfAttempts { end: history.end, steps: history.steps.iter().copied().collect() }
    }

    fn total(&self) -> HistoryStep {
        let sum = |counter: fn(&AttemptCounters) -> &AtomicU64| {
            self.counts.iter().map(|counts| counter(counts).load(Ordering::Relaxed)).sum()
        };
        HistoryStep {
            admitted: sum(|counts| &counts.admitted),
            refused: sum(|counts| &counts.refused),
            observed: sum(|counts| &counts.observed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HistorySteps> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AttemptCounters {
    fn counter_of(&self, attempt: &AttemptRecord) -> &AtomicU64 {
        if attempt.first(LimitDecision::Refuse).is_some() {
            return &self.refused;
        }
        if attempt.would_refuse().is_some() { &self.observed } else { &self.admitted }
    }
}

impl HistoryStep {
    fn minus(self, before: Self) -> Self {
        Self {
            admitted: self.admitted.saturating_sub(before.admitted),
            refused: self.refused.saturating_sub(before.refused),
            observed: self.observed.saturating_sub(before.observed),
        }
    }
}

impl EventListener for AttemptHistory {
    fn on_event(&self, event: &Event<'_>) {
        if let Event::RequestCompleted(entry) = event
            && let Some(attempt) = &entry.attempt
        {
            self.counts.current().counter_of(attempt).fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::samples::{AT, attempt, entry};

    fn emit(history: &AttemptHistory, decision: LimitDecision) {
        let (mut entry, mut attempt) = (entry(), attempt());
        attempt.limits[0].decision = decision;
        entry.attempt = Some(Box::new(attempt));
        history.on_event(&Event::RequestCompleted(&entry));
    }

    #[test]
    fn each_step_holds_what_came_since_the_one_before() {
        let history = AttemptHistory::default();
        emit(&history, LimitDecision::Admit);
        emit(&history, LimitDecision::Refuse);
        emit(&history, LimitDecision::Refuse);
        history.end_step(AT);
        emit(&history, LimitDecision::Observe);
        history.end_step(AT.after(AttemptHistory::STEP));
        let steps = [
            HistoryStep { admitted: 1, refused: 2, observed: 0 },
            HistoryStep { admitted: 0, refused: 0, observed: 1 },
        ];
        let hour = HourOfAttempts { end: AT.after(AttemptHistory::STEP), steps: steps.to_vec() };
        assert_eq!(history.hour(), hour);
    }

    #[test]
    fn an_hour_is_kept_and_no_more() {
        let history = AttemptHistory::default();
        for step in 0..AttemptHistory::STEPS + 10 {
            history.end_step(AT.after(Span::from_secs(step as u64)));
        }
        assert_eq!(history.hour().steps.len(), AttemptHistory::STEPS);
    }
}
