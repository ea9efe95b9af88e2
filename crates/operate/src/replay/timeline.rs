//! Puts events in the order of their times, within a window: lines of slow requests come late.
//!
//! It knows no clock and no events.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::time::{Span, Time};

/// Events that wait for their turn.
pub(super) struct Timeline<E> {
    waiting: BinaryHeap<Reverse<TimedEvent<E>>>,
    newest: Time,
    pushed: u64,
}

struct TimedEvent<E> {
    at: Time,
    /// Of events at the same time the one that came first is first.
    order: u64,
    event: E,
}

impl<E> Timeline<E> {
    pub(super) fn new() -> Self {
        Self { waiting: BinaryHeap::new(), newest: Time::default(), pushed: 0 }
    }

    /// Adds an event that the log shows: it moves the window.
    pub(super) fn observe(&mut self, at: Time, event: E) {
        self.newest = self.newest.max(at);
        self.schedule(at, event);
    }

    /// Adds an event that follows from another.
    pub(super) fn schedule(&mut self, at: Time, event: E) {
        self.pushed += 1;
        self.waiting.push(Reverse(TimedEvent { at, order: self.pushed, event }));
    }

    /// The next event that no later line can come before: it is older than the window, or too many wait.
    pub(super) fn pop_due(&mut self) -> Option<(Time, E)> {
        let Reverse(first) = self.waiting.peek()?;
        let is_due =
            first.at <= self.newest.before(REORDER_WINDOW) || self.waiting.len() > MAX_WAITING_EVENTS;
        if is_due { self.pop() } else { None }
    }

    /// The next event.
    pub(super) fn pop(&mut self) -> Option<(Time, E)> {
        self.waiting.pop().map(|Reverse(next)| (next.at, next.event))
    }
}

impl<E> Ord for TimedEvent<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl<E> PartialOrd for TimedEvent<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for TimedEvent<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for TimedEvent<E> {}

/// How late a line may come and still be judged at its own time.
const REORDER_WINDOW: Span = Span::from_secs(120);

/// Attempts and outcomes that wait at most.
const MAX_WAITING_EVENTS: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Time {
        Time::from_nanos(secs * 1_000_000_000)
    }

    #[test]
    fn events_within_the_window_come_in_the_order_of_their_times() {
        let mut timeline = Timeline::new();
        for (secs, event) in [(100, 'c'), (50, 'a'), (100, 'd'), (60, 'b')] {
            timeline.observe(at(secs), event);
        }
        assert!(timeline.pop_due().is_none(), "a line of the same window may still come");
        timeline.observe(at(220), 'e');
        let due: String = std::iter::from_fn(|| timeline.pop_due()).map(|(_, event)| event).collect();
        assert_eq!(due, "abcd");
        assert_eq!(timeline.pop(), Some((at(220), 'e')));
    }

    #[test]
    fn a_crowded_window_gives_up_its_oldest_event() {
        let mut timeline = Timeline::new();
        (0..=MAX_WAITING_EVENTS).for_each(|number| timeline.observe(at(1_000), number));
        assert_eq!(timeline.pop_due(), Some((at(1_000), 0)));
        assert!(timeline.pop_due().is_none());
    }
}
