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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::bucket::{Answer, Continuous};
    use crate::time::Span;

    const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);

    fn spec(burst: u32, debt: u32) -> Spec {
        Spec::Continuous(Continuous::new(1, Span::from_secs(60), burst).unwrap().with_debt(debt).unwrap())
    }

    fn withdrawal(table: &Table, key: u128, spec: Spec) -> Withdrawal<'_> {
        Withdrawal { table, key: Key(key), spec, cost: 1, enforce: true }
    }

    fn left(table: &Table, key: u128, spec: Spec) -> u32 {
        table.apply(Key(key), &spec, NOW, Op::Peek(1)).left
    }

    #[test]
    fn an_attempt_that_one_bucket_refuses_takes_nothing_from_the_others() {
        let (narrow, wide) = (Table::with_capacity(100).unwrap(), Table::with_capacity(100).unwrap());
        let both = [withdrawal(&narrow, 1, spec(2, 0)), withdrawal(&wide, 1, spec(9, 0))];
        let admitted = (0..5).filter(|_| take_all(&both, NOW).admitted).count();
        assert_eq!((admitted, left(&narrow, 1, spec(2, 0)), left(&wide, 1, spec(9, 0))), (2, 0, 7));
        let refused = take_all(&both, NOW);
        assert_eq!(refused.verdicts[0].answer, Answer::Refused { wait: Span::from_secs(60) });
        assert_eq!((refused.verdicts[1].is_admitted(), refused.verdicts[1].left), (true, 7));
    }

    #[test]
    fn a_refusal_leaves_debt_where_it_is_allowed_and_nowhere_else() {
        let (strict, lenient) = (Table::with_capacity(100).unwrap(), Table::with_capacity(100).unwrap());
        let both = [withdrawal(&strict, 1, spec(1, 3)), withdrawal(&lenient, 1, spec(9, 3))];
        for _ in 0..10 {
            let _ = take_all(&both, NOW);
        }
        let wait = strict.apply(Key(1), &spec(1, 3), NOW, Op::Peek(1)).answer;
        assert_eq!(wait, Answer::Refused { wait: Span::from_secs(4 * 60) });
        assert_eq!(left(&lenient, 1, spec(9, 3)), 8);
    }

    #[test]
    fn an_observing_bucket_never_refuses() {
        let (table, other) = (Table::with_capacity(100).unwrap(), Table::with_capacity(100).unwrap());
        let observing = Withdrawal { enforce: false, ..withdrawal(&table, 1, spec(1, 0)) };
        let both = [observing, withdrawal(&other, 1, spec(9, 0))];
        assert!((0..5).all(|_| take_all(&both, NOW).admitted));
        assert_eq!(left(&other, 1, spec(9, 0)), 4);
    }

    #[test]
    fn buckets_of_one_line_are_held_together() {
        // One line in all: every key shares it, and the lock is taken once.
        let table = Table::with_capacity(1).unwrap();
        let both = [withdrawal(&table, 1, spec(3, 0)), withdrawal(&table, 2, spec(3, 0))];
        assert!(take_all(&both, NOW).admitted);
        assert_eq!((left(&table, 1, spec(3, 0)), left(&table, 2, spec(3, 0))), (2, 2));
    }

    #[test]
    fn threads_that_race_get_exactly_the_tokens_in_whatever_order_they_name_the_buckets() {
        let (one, two) = (Table::with_capacity(100).unwrap(), Table::with_capacity(100).unwrap());
        let admitted = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (one, two, admitted) = (&one, &two, &admitted);
                scope.spawn(move || {
                    let mut both = [withdrawal(one, 7, spec(300, 0)), withdrawal(two, 7, spec(500, 0))];
                    both.rotate_left(thread % 2);
                    for _ in 0..200 {
                        admitted.fetch_add(usize::from(take_all(&both, NOW).admitted), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 300);
        assert_eq!((left(&one, 7, spec(300, 0)), left(&two, 7, spec(500, 0))), (0, 200));
    }

    #[test]
    fn a_token_given_back_can_be_taken_again() {
        let table = Table::with_capacity(100).unwrap();
        let one = [withdrawal(&table, 1, spec(1, 0))];
        assert!(take_all(&one, NOW).admitted && !take_all(&one, NOW).admitted);
        let _ = table.apply(Key(1), &spec(1, 0), NOW, Op::Give(1));
        assert!(take_all(&one, NOW).admitted);
        assert_eq!((table.live(NOW), table.forgotten(), table.capacity()), (1, 0, 100));
    }
}
