//! Waits that grow: a list of what happened, gone through from its beginning for every question.

use tollgate::bucket::{Admission, Escalation, Time};
use tollgate::time::Span;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Strike,
    WentWell,
}

#[derive(Debug, Clone)]
pub(crate) struct Struck {
    spec: Escalation,
    events: Vec<(Time, Event)>,
}

/// What is known at some time.
#[derive(Debug, Default)]
struct Known {
    row: u32,
    /// The end of each.
    waits: Vec<Time>,
    last_strike: Option<Time>,
}

impl Struck {
    pub(crate) fn new(spec: Escalation) -> Self {
        Self { spec, events: Vec::new() }
    }

    pub(crate) fn happens(&mut self, now: Time, event: Event) {
        self.events.push((now, event));
    }

    pub(crate) fn answer(&self, now: Time) -> Admission {
        match self.known(now).waits.last() {
            Some(until) if *until > now => Admission::Refused { wait: until.since(now) },
            _ => Admission::Admitted,
        }
    }

    /// Strikes that are missing until the next wait; none while one is on.
    pub(crate) fn left(&self, now: Time) -> u32 {
        if self.answer(now) == Admission::Admitted { self.spec.after() - self.known(now).row } else { 0 }
    }

    pub(crate) fn full_at(&self, now: Time) -> Time {
        let known = self.known(now);
        let quiet_since = known.waits.last().copied().max(known.last_strike);
        quiet_since.map_or(now, |quiet_since| quiet_since.after(self.spec.max()))
    }

    fn known(&self, now: Time) -> Known {
        let mut known = Known::default();
        for (time, event) in &self.events {
            known = self.remembered(known, *time);
            match event {
                Event::Strike => self.strike(&mut known, *time),
                Event::WentWell if known.waits.is_empty() => known = Known::default(),
                Event::WentWell => known.row = 0,
            }
        }
        self.remembered(known, now)
    }

    fn remembered(&self, known: Known, now: Time) -> Known {
        let quiet_since = known.waits.last().copied().max(known.last_strike);
        let in_peace = quiet_since.is_some_and(|quiet_since| quiet_since.after(self.spec.max()) <= now);
        if in_peace { Known::default() } else { known }
    }

    fn strike(&self, known: &mut Known, now: Time) {
        (known.row, known.last_strike) = (known.row + 1, Some(now));
        if known.row == self.spec.after() {
            let mut length = u128::from(self.spec.wait().as_nanos());
            for _ in &known.waits {
                length = (length * u128::from(self.spec.factor())).min(self.spec.max().as_nanos().into());
            }
            let end = now.after(Span::from_nanos(length as u64));
            let end = known.waits.last().map_or(end, |before| end.max(*before));
            known.waits.push(end);
            known.row = 0;
        }
    }
}
