//! Slow models of all shapes: a list of what was taken and when, counted anew for every question.
//!
//! They share nothing with the buckets but the types of time. Attempts come in the order of their times.

mod floor;
mod interval;
mod once;
mod rolling;
mod steady;
mod struck;

pub(crate) use floor::Pair;
pub(crate) use interval::Periods;
pub(crate) use once::Once;
pub(crate) use rolling::Windows;
pub(crate) use steady::Steady;
pub(crate) use struck::{Event, Struck};
use tollgate::bucket::{Admission, Spec, Time, Verdict};
use tollgate::time::Span;

/// What a bucket tells an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) answer: Admission,
    pub(crate) left: u32,
    pub(crate) next_token: Span,
    pub(crate) full_at: Time,
}

impl From<Verdict> for Said {
    fn from(verdict: Verdict) -> Self {
        let Verdict { admission: answer, left, next_token, full_at, .. } = verdict;
        Self { answer, left, next_token, full_at }
    }
}

/// A list and how it is counted.
pub(crate) trait Model {
    /// From now on the bucket is known.
    fn visit(&mut self, now: Time);
    /// What an attempt would be told if refusals were free.
    fn answer(&self, now: Time, cost: u32) -> Admission;
    /// Adds an admitted attempt to the list.
    fn admit(&mut self, now: Time, cost: u32);
    /// How far refused attempts are counted below zero; none is, if that is 0.
    fn debt(&self) -> u32;
    /// Adds a refused attempt, as far as the debt goes.
    fn indebt(&mut self, now: Time, cost: u32);
    /// Takes an admitted attempt out of the list again: the last one, the one before it, and so on.
    fn forget(&mut self, attempt: usize);
    /// Whole tokens that are there.
    fn left(&self, now: Time) -> u32;
    /// When there is one more than now.
    fn next_token(&self, now: Time) -> Span;
    /// When nothing of the list counts any more.
    fn full_at(&self, now: Time) -> Time;

    fn take(&mut self, now: Time, cost: u32) -> Said {
        self.visit(now);
        let mut answer = self.answer(now, cost);
        match answer {
            Admission::Admitted | Admission::Held { .. } => self.admit(now, cost),
            Admission::Refused { .. } if self.debt() > 0 => {
                self.indebt(now, cost);
                answer = self.answer(now, cost);
            }
            Admission::Refused { .. } | Admission::NeverFits => {}
        }
        self.said(now, answer)
    }

    fn said(&self, now: Time, answer: Admission) -> Said {
        Said { answer, left: self.left(now), next_token: self.next_token(now), full_at: self.full_at(now) }
    }
}

pub(crate) fn of(spec: &Spec) -> Box<dyn Model> {
    match spec {
        Spec::Continuous(spec) => Box::new(Steady::new(*spec)),
        Spec::Interval(spec) => Box::new(Periods::new(*spec)),
        Spec::Rolling(spec) => Box::new(Windows::new(*spec)),
        Spec::Floor(spec) => Box::new(Pair::new(*spec)),
        Spec::Distinct(spec) => Box::new(Steady::new(spec.bucket())),
        Spec::Escalation(_) | Spec::Recent(_) => unimplemented!("there are no tokens: see `Struck`"),
    }
}
