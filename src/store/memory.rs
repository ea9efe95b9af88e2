//! Buckets in the memory of this process: one bounded [`Table`] for each limit.
//!
//! A withdrawal from several buckets is all or nothing, and exact: all lines are held while it is decided. The
//! surprising thing: an attempt that is refused takes no lock at all, so a flood of refusals does not slow down
//! anybody's admission.

mod line;
mod table;

use smallvec::SmallVec;

pub use self::table::{Table, TooLarge};
use crate::bucket::{Key, Op, Spec, Step, Verdict, step};
use crate::time::Time;

/// Tokens wanted from one bucket, as part of an attempt.
#[derive(Debug, Clone, Copy)]
pub struct Withdrawal<'t> {
    /// Where the bucket lives.
    pub table: &'t Table,
    /// The bucket.
    pub key: Key,
    /// What it promises.
    pub spec: Spec,
    /// Tokens wanted.
    pub cost: u32,
    /// Whether a refusal refuses the whole attempt.
    pub enforce: bool,
}

/// What came of an attempt.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Whether every enforcing bucket had the tokens; if not, none was taken anywhere.
    pub admitted: bool,
    /// What each bucket said, in the order of the withdrawals. If the attempt was refused, buckets that had the
    /// tokens still say so and keep them.
    pub verdicts: SmallVec<[Verdict; 2]>,
}

/// Takes from all buckets or from none.
///
/// The only thing a refused attempt leaves behind is debt, in the buckets that refused it and allow debt.
#[must_use]
pub fn take_all(withdrawals: &[Withdrawal<'_>], now: Time) -> Outcome {
    let mut seen: SmallVec<[Step; 2]> = SmallVec::new();
    for withdrawal in withdrawals {
        seen.push(withdrawal.table.look(withdrawal.key, withdrawal.step_at(now)));
    }
    if let Some(outcome) = refused(withdrawals, &seen, now)
        && writes_nothing(&seen)
    {
        return outcome;
    }
    let held = hold_all(withdrawals);
    let steps: SmallVec<[Step; 2]> =
        withdrawals.iter().map(|w| w.step_at(now)(w.table.stored(w.key))).collect();
    let refused = refused(withdrawals, &steps, now);
    for (withdrawal, step) in withdrawals.iter().zip(&steps) {
        if let Some(next) = step.next
            && (refused.is_none() || !step.verdict.is_admitted())
        {
            withdrawal.table.write(withdrawal.key, next, now);
        }
    }
    drop(held);
    refused.unwrap_or_else(|| Outcome { admitted: true, verdicts: steps.iter().map(|s| s.verdict).collect() })
}

impl Withdrawal<'_> {
    fn step_at(&self, now: Time) -> impl Fn(Option<crate::bucket::State>) -> Step {
        let (spec, cost) = (self.spec, self.cost);
        move |state| step(&spec, state, now, Op::Take(cost))
    }
}

/// The outcome if an enforcing bucket refuses. What the others say is what they hold with the token back in.
fn refused(withdrawals: &[Withdrawal<'_>], steps: &[Step], now: Time) -> Option<Outcome> {
    withdrawals.iter().zip(steps).find(|(w, step)| w.enforce && !step.verdict.is_admitted())?;
    let mut verdicts = SmallVec::new();
    for (withdrawal, taken) in withdrawals.iter().zip(steps) {
        verdicts.push(match taken.verdict.is_admitted() {
            true => step(&withdrawal.spec, taken.next, now, Op::Give(withdrawal.cost)).verdict,
            false => taken.verdict,
        });
    }
    Some(Outcome { admitted: false, verdicts })
}

fn writes_nothing(steps: &[Step]) -> bool {
    steps.iter().all(|step| step.verdict.is_admitted() || step.next.is_none())
}

/// Holds the lines of all buckets, always in the same order, so that two attempts never wait for each other.
fn hold_all<'t>(withdrawals: &[Withdrawal<'t>]) -> SmallVec<[line::Held<'t>; 2]> {
    let mut places: SmallVec<[(usize, usize, &'t Table); 2]> = withdrawals
        .iter()
        .map(|w| (std::ptr::from_ref(w.table).addr(), w.table.line_of(w.key), w.table))
        .collect();
    places.sort_unstable_by_key(|&(table, line, _)| (table, line));
    places.dedup_by_key(|&mut (table, line, _)| (table, line));
    places.into_iter().map(|(_, line, table)| table.hold(line)).collect()
}
