//! Buckets in the memory of this process: one bounded table for each limit.
//!
//! A withdrawal from several buckets is all or nothing, and exact: it is decided while all their lines are locked, or by
//! what was read before if nobody wrote to them since. A refusal that writes nothing takes no lock, so a flood of refusals
//! does not slow down admissions. The arithmetic is left to [`bucket`](tollgate_bucket).

mod buckets;
mod sync;
mod table;
mod table_line;

use smallvec::SmallVec;

use self::buckets::UnlockedStep;
pub use self::buckets::{
    BucketKey, Buckets, BucketsSnapshot, EncodedSpec, OwnRateError, RestoreError, Stale,
};
pub(super) use self::table::BucketTable;
pub use self::table::TooLarge;
use tollgate_bucket::{Effect, Key, Op, Receipt, Step, Time, Verdict};

/// Tokens wanted from one bucket, as part of an attempt.
#[derive(Debug)]
pub struct Withdrawal<'b, L = Buckets> {
    /// The buckets of the limit, or what has them.
    pub buckets: &'b L,
    /// The bucket of the attempt.
    pub bucket: BucketKey,
    /// Tokens wanted.
    pub cost: u32,
    /// What the tokens are taken for, for limits that count each value once.
    pub tag: Option<u64>,
    /// What a refusal by this bucket does.
    pub effect: Effect,
}

impl<L> Clone for Withdrawal<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Withdrawal<'_, L> {}

/// The verdict on an attempt.
#[derive(Debug, Clone)]
pub struct CombinedVerdict {
    /// Whether every enforcing bucket had the tokens; if not, none was taken anywhere.
    pub admitted: bool,
    /// The verdict of each bucket, in the order of the withdrawals. In a refused attempt, buckets that have the tokens
    /// say so and keep them.
    pub verdicts: SmallVec<[Verdict; 2]>,
}

/// The present time for each key: over a database of several servers each of them has a clock.
pub(super) type TimeAt<'t> = &'t dyn Fn(Key) -> Time;

/// Takes from all buckets or from none.
///
/// A refused attempt leaves only debt behind, in the buckets that refused it and allow debt.
///
/// # Errors
/// [`Stale`] if one of the limits was changed meanwhile; nothing was taken.
pub fn take_all<L: AsRef<Buckets>>(
    withdrawals: &[Withdrawal<'_, L>],
    now: Time,
) -> Result<CombinedVerdict, Stale> {
    take_all_at(withdrawals, &|_| now)
}

/// The same where keys have their own clocks.
pub(super) fn take_all_at<L: AsRef<Buckets>>(
    withdrawals: &[Withdrawal<'_, L>],
    now: TimeAt<'_>,
) -> Result<CombinedVerdict, Stale> {
    if let [only] = withdrawals {
        let verdict = only.buckets.as_ref().apply(&only.bucket, now(only.bucket.key), only.take())?;
        let admitted = verdict.is_admitted() || !only.effect.is_enforced();
        return Ok(CombinedVerdict { admitted, verdicts: [verdict].into_iter().collect() });
    }
    let seen = dry_run_all(withdrawals, now);
    if writes_nothing(withdrawals, &seen) {
        return Ok(refused(withdrawals, &seen, now));
    }
    if let Some(verdict) = write_all(withdrawals, &seen, now)? {
        return Ok(verdict);
    }
    let _held = lock_all(withdrawals)?;
    Ok(take_locked(withdrawals, now))
}

/// Writes what was seen without a lock, if that admits the attempt and nobody wrote to one of the lines since; otherwise
/// nothing, and returns `None`. It waits for no line.
fn write_all<L: AsRef<Buckets>>(
    withdrawals: &[Withdrawal<'_, L>],
    seen: &[UnlockedStep],
    now: TimeAt<'_>,
) -> Result<Option<CombinedVerdict>, Stale> {
    if !seen.iter().all(UnlockedStep::may_be_written) {
        return Ok(None);
    }
    let mut held: SmallVec<[table_line::LineGuard<'_>; 2]> = SmallVec::new();
    for (withdrawal, seen) in withdrawals.iter().zip(seen) {
        // A second bucket of a line finds it locked.
        let guard = withdrawal.buckets.as_ref().lock_if_unchanged(&withdrawal.bucket, seen);
        let Some(guard) = guard else { return Ok(None) };
        held.push(guard);
    }
    if withdrawals.iter().any(|withdrawal| withdrawal.buckets.as_ref().is_closed()) {
        return Err(Stale);
    }
    let mut verdicts = SmallVec::new();
    for (withdrawal, seen) in withdrawals.iter().zip(seen) {
        let now = now(withdrawal.bucket.key);
        withdrawal.buckets.as_ref().write_seen(&withdrawal.bucket, seen, now);
        verdicts.push(seen.step.verdict);
    }
    Ok(Some(CombinedVerdict { admitted: true, verdicts }))
}

/// Refuses as [`take_all`] would, debt included; `None` if it would admit. Then nothing was taken.
///
/// # Errors
/// [`Stale`] if one of the limits was changed meanwhile.
pub fn refuse_all<L: AsRef<Buckets>>(
    withdrawals: &[Withdrawal<'_, L>],
    now: Time,
) -> Result<Option<CombinedVerdict>, Stale> {
    refuse_all_at(withdrawals, &|_| now)
}

/// The same where keys have their own clocks.
pub(super) fn refuse_all_at<L: AsRef<Buckets>>(
    withdrawals: &[Withdrawal<'_, L>],
    now: TimeAt<'_>,
) -> Result<Option<CombinedVerdict>, Stale> {
    let seen = dry_run_all(withdrawals, now);
    if !is_refused(withdrawals, seen.iter().map(|seen| &seen.step)) {
        return Ok(None);
    }
    if writes_nothing(withdrawals, &seen) {
        return Ok(Some(refused(withdrawals, &seen, now)));
    }
    let _held = lock_all(withdrawals)?;
    let dry_run = |withdrawal: &Withdrawal<'_, L>| {
        let now = now(withdrawal.bucket.key);
        withdrawal.buckets.as_ref().dry_run_locked(&withdrawal.bucket, now, withdrawal.take())
    };
    let seen: SmallVec<[Step; 2]> = withdrawals.iter().map(dry_run).collect();
    Ok(is_refused(withdrawals, seen.iter()).then(|| take_locked(withdrawals, now)))
}

fn dry_run_all<L: AsRef<Buckets>>(
    withdrawals: &[Withdrawal<'_, L>],
    now: TimeAt<'_>,
) -> SmallVec<[UnlockedStep; 2]> {
    let mut seen = SmallVec::new();
    for withdrawal in withdrawals {
        let Withdrawal { buckets, bucket, .. } = withdrawal;
        seen.push(buckets.as_ref().dry_run_to_write(bucket, now(bucket.key), withdrawal.take()));
    }
    seen
}

/// Whether the attempt is refused and nothing has to be written for it.
fn writes_nothing<L: AsRef<Buckets>>(withdrawals: &[Withdrawal<'_, L>], seen: &[UnlockedStep]) -> bool {
    let idle = |(withdrawal, seen): (&Withdrawal<'_, L>, &UnlockedStep)| match seen.step.verdict.is_admitted()
    {
        true => !matches!(withdrawal.effect, Effect::Candidate { .. }),
        false => !seen.step.changed,
    };
    is_refused(withdrawals, seen.iter().map(|seen| &seen.step)) && withdrawals.iter().zip(seen).all(idle)
}

/// For each withdrawal whether its bucket gives the tokens, if it has them.
pub(super) fn gives<L>(
    withdrawals: &[Withdrawal<'_, L>],
    has_tokens: impl Fn(usize) -> bool,
) -> SmallVec<[bool; 4]> {
    let refuses = |applies: &dyn Fn(Effect) -> bool| {
        withdrawals.iter().enumerate().any(|(at, other)| applies(other.effect) && !has_tokens(at))
    };
    let enforced = !refuses(&Effect::is_enforced);
    let observed = enforced && !refuses(&|effect| effect == Effect::Observe);
    let gives = |withdrawal: &Withdrawal<'_, L>| match withdrawal.effect {
        Effect::Enforce { .. } => enforced,
        Effect::Observe => observed,
        Effect::Candidate { owner } => !refuses(&|effect| match effect {
            Effect::Enforce { owner: other } => other != owner,
            Effect::Observe => false,
            Effect::Candidate { owner: other } => other == owner,
        }),
    };
    withdrawals.iter().map(gives).collect()
}

fn refused<L: AsRef<Buckets>>(
    withdrawals: &[Withdrawal<'_, L>],
    seen: &[UnlockedStep],
    now: TimeAt<'_>,
) -> CombinedVerdict {
    let verdicts =
        withdrawals.iter().zip(seen).map(|(withdrawal, seen)| match seen.step.verdict.is_admitted() {
            true => {
                let now = now(withdrawal.bucket.key);
                withdrawal.buckets.as_ref().dry_run(&withdrawal.bucket, now, withdrawal.peek()).verdict
            }
            false => seen.step.verdict,
        });
    CombinedVerdict { admitted: false, verdicts: verdicts.collect() }
}

fn take_locked<L: AsRef<Buckets>>(withdrawals: &[Withdrawal<'_, L>], now: TimeAt<'_>) -> CombinedVerdict {
    let apply = |withdrawal: &Withdrawal<'_, L>, op| {
        withdrawal.buckets.as_ref().apply_locked(&withdrawal.bucket, now(withdrawal.bucket.key), op)
    };
    let dry_run = |withdrawal: &Withdrawal<'_, L>| {
        let now = now(withdrawal.bucket.key);
        withdrawal.buckets.as_ref().dry_run_locked(&withdrawal.bucket, now, withdrawal.take())
    };
    let seen: SmallVec<[Step; 2]> = withdrawals.iter().map(dry_run).collect();
    let has_tokens = |at: usize| seen.get(at).is_some_and(|step| step.verdict.is_admitted());
    let gives = gives(withdrawals, has_tokens);
    let verdicts =
        withdrawals.iter().enumerate().map(|(at, withdrawal)| match has_tokens(at) && !gives[at] {
            // Nothing is taken, so nothing may come back.
            true => Verdict { receipt: Receipt::default(), ..apply(withdrawal, withdrawal.peek()) },
            // A refusal may add debt.
            false => apply(withdrawal, withdrawal.take()),
        });
    CombinedVerdict { admitted: !is_refused(withdrawals, seen.iter()), verdicts: verdicts.collect() }
}

impl<L: AsRef<Buckets>> Withdrawal<'_, L> {
    /// What taking would do now; takes nothing.
    pub fn dry_run(&self, now: Time) -> Step {
        self.buckets.as_ref().dry_run(&self.bucket, now, self.take())
    }

    /// The operation that takes.
    #[must_use]
    pub fn take(&self) -> Op {
        let tokens = self.cost;
        self.tag.map_or(Op::Take(tokens), |tag| Op::TakeOnce { tokens, tag })
    }

    /// The operation that previews taking.
    #[must_use]
    pub fn peek(&self) -> Op {
        let tokens = self.cost;
        self.tag.map_or(Op::Peek(tokens), |tag| Op::PeekOnce { tokens, tag })
    }
}

fn is_refused<'s, L: AsRef<Buckets>>(
    withdrawals: &[Withdrawal<'_, L>],
    steps: impl Iterator<Item = &'s Step>,
) -> bool {
    let refuses = |withdrawal: &Withdrawal<'_, L>, step: &Step| {
        withdrawal.effect.is_enforced() && !step.verdict.is_admitted()
    };
    withdrawals.iter().zip(steps).any(|(withdrawal, step)| refuses(withdrawal, step))
}

/// Locks the lines of all buckets, always in the same order, so that two attempts never wait for each other. An attempt
/// under the new rules may wait for a line of closed buckets while it holds others; so an attempt must not wait for a
/// further line while it holds a line of closed buckets.
fn lock_all<'b, L: AsRef<Buckets>>(
    withdrawals: &[Withdrawal<'b, L>],
) -> Result<SmallVec<[table_line::LineGuard<'b>; 2]>, Stale> {
    let mut lines: SmallVec<[(usize, usize, &'b Buckets); 2]> = SmallVec::new();
    for Withdrawal { buckets, bucket, .. } in withdrawals {
        let buckets: &'b L = buckets;
        let buckets = buckets.as_ref();
        lines.push((std::ptr::from_ref(buckets).addr(), buckets.line_of(bucket.key), buckets));
    }
    lines.sort_unstable_by_key(|&(buckets, line, _)| (buckets, line));
    lines.dedup_by_key(|&mut (buckets, line, _)| (buckets, line));
    let lock = |(_, line, buckets): (usize, usize, &'b Buckets)| {
        let held = buckets.lock(line);
        if buckets.is_closed() { Err(Stale) } else { Ok(held) }
    };
    lines.into_iter().map(lock).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use tollgate_bucket::Span;
    use tollgate_bucket::{Admission, Continuous, Key, Spec};

    const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);

    fn spec(burst: u32, debt: u32) -> Spec {
        Spec::Continuous(Continuous::new(1, Span::from_secs(60), burst).unwrap().with_debt(debt).unwrap())
    }

    fn new_buckets(capacity: usize) -> Buckets {
        Buckets::new(capacity, &[spec(1, 0)]).unwrap()
    }

    fn bucket(key: u128, spec: Spec) -> BucketKey {
        BucketKey { key: Key(key), class: 0, spec }
    }

    fn withdrawal(buckets: &Buckets, key: u128, spec: Spec) -> Withdrawal<'_> {
        Withdrawal {
            buckets,
            bucket: bucket(key, spec),
            cost: 1,
            tag: None,
            effect: Effect::Enforce { owner: 0 },
        }
    }

    fn take(withdrawals: &[Withdrawal<'_>]) -> CombinedVerdict {
        take_all(withdrawals, NOW).unwrap()
    }

    fn left(buckets: &Buckets, key: u128, spec: Spec) -> u32 {
        buckets.apply(&bucket(key, spec), NOW, Op::Peek(1)).unwrap().left
    }

    #[test]
    fn an_attempt_that_one_bucket_refuses_takes_nothing_from_the_others() {
        let (narrow, wide) = (new_buckets(100), new_buckets(100));
        let both = [withdrawal(&narrow, 1, spec(2, 0)), withdrawal(&wide, 1, spec(9, 0))];
        let admitted = (0..5).filter(|_| take(&both).admitted).count();
        assert_eq!((admitted, left(&narrow, 1, spec(2, 0)), left(&wide, 1, spec(9, 0))), (2, 0, 7));
        let refused = take(&both);
        assert_eq!(refused.verdicts[0].admission, Admission::Refused { wait: Span::from_secs(60) });
        assert_eq!((refused.verdicts[1].is_admitted(), refused.verdicts[1].left), (true, 7));
    }

    #[test]
    fn a_refusal_leaves_debt_where_it_is_allowed_and_nowhere_else() {
        let (strict, lenient) = (new_buckets(100), new_buckets(100));
        let both = [withdrawal(&strict, 1, spec(1, 3)), withdrawal(&lenient, 1, spec(9, 3))];
        for _ in 0..10 {
            let _ = take(&both);
        }
        let wait = strict.apply(&bucket(1, spec(1, 3)), NOW, Op::Peek(1)).unwrap().admission;
        assert_eq!(wait, Admission::Refused { wait: Span::from_secs(4 * 60) });
        assert_eq!(left(&lenient, 1, spec(9, 3)), 8);
    }

    #[test]
    fn refusing_alone_takes_nothing_where_an_attempt_could_be_admitted() {
        let (table, other) = (new_buckets(100), new_buckets(100));
        let both = [withdrawal(&table, 1, spec(2, 3)), withdrawal(&other, 1, spec(9, 0))];
        assert!(refuse_all(&both, NOW).unwrap().is_none());
        assert_eq!((left(&table, 1, spec(2, 3)), left(&other, 1, spec(9, 0))), (2, 9));
        assert!(take(&both).admitted && take(&both).admitted);
        let refused = refuse_all(&both, NOW).unwrap().unwrap();
        assert_eq!(refused.verdicts[0].admission, Admission::Refused { wait: Span::from_secs(2 * 60) });
        assert_eq!((refused.verdicts[1].is_admitted(), refused.verdicts[1].left), (true, 7));
        assert_eq!(take(&both).verdicts[0].admission, Admission::Refused { wait: Span::from_secs(3 * 60) });
    }

    #[test]
    fn refusing_alone_is_exact_while_others_take_and_give() {
        let table = new_buckets(100);
        let one = [withdrawal(&table, 1, spec(1, 1))];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..5000 {
                    let verdict = take(&one).verdicts[0];
                    if verdict.is_admitted() {
                        table.apply(&bucket(1, spec(1, 1)), NOW, Op::Refund(verdict.receipt)).unwrap();
                    } else {
                        table.apply(&bucket(1, spec(1, 1)), NOW, Op::Give(2)).unwrap();
                    }
                }
            });
            for _ in 0..5000 {
                if let Some(refused) = refuse_all(&one, NOW).unwrap() {
                    assert!(!refused.admitted && !refused.verdicts[0].is_admitted());
                }
            }
        });
    }

    #[test]
    fn nothing_is_taken_where_one_of_the_limits_was_changed() {
        let (table, changed) = (new_buckets(100), new_buckets(100));
        changed.close();
        let both = [withdrawal(&table, 1, spec(9, 0)), withdrawal(&changed, 1, spec(9, 0))];
        assert_eq!(take_all(&both, NOW).map(|verdict| verdict.admitted), Err(Stale));
        assert_eq!(left(&table, 1, spec(9, 0)), 9);
    }

    #[test]
    fn an_observing_bucket_never_refuses() {
        let (table, other) = (new_buckets(100), new_buckets(100));
        let observing = Withdrawal { effect: Effect::Observe, ..withdrawal(&table, 1, spec(1, 0)) };
        let both = [observing, withdrawal(&other, 1, spec(9, 0))];
        assert!((0..5).all(|_| take(&both).admitted));
        assert_eq!(left(&other, 1, spec(9, 0)), 4);
    }

    #[test]
    fn observing_buckets_take_what_they_would_take_if_they_enforced() {
        let tables: Vec<Buckets> = (0..4).map(|_| new_buckets(100)).collect();
        let specs = [spec(3, 0), spec(5, 2)];
        for attempt in 0..40 {
            // The first key comes again and again, the second has one of three values.
            let keys = [1, 10 + attempt % 3];
            let pair = |tables: &'_ [Buckets], effect| {
                let both =
                    [0, 1].map(|at| Withdrawal { effect, ..withdrawal(&tables[at], keys[at], specs[at]) });
                let verdict = take(&both);
                (verdict.admitted, verdict.verdicts.iter().map(Verdict::is_admitted).collect::<Vec<_>>())
            };
            let (enforced, by_enforcing) = pair(&tables[..2], Effect::Enforce { owner: 0 });
            let (observed, by_observing) = pair(&tables[2..], Effect::Observe);
            assert!(observed && by_enforcing == by_observing, "attempt {attempt}");
            assert_eq!(enforced, by_observing.iter().all(|admits| *admits));
            for at in 0..2 {
                assert_eq!(
                    left(&tables[at], keys[at], specs[at]),
                    left(&tables[at + 2], keys[at], specs[at])
                );
            }
        }
    }

    #[test]
    fn an_admitted_attempt_has_no_receipt_of_a_bucket_that_gave_nothing() {
        let (narrow, wide) = (new_buckets(100), new_buckets(100));
        let both = [withdrawal(&narrow, 1, spec(1, 0)), withdrawal(&wide, 1, spec(9, 0))]
            .map(|withdrawal| Withdrawal { effect: Effect::Observe, ..withdrawal });
        let receipts = || {
            let taken = take(&both);
            assert!(taken.admitted);
            taken.verdicts.iter().map(|verdict| verdict.receipt.tokens).collect::<Vec<_>>()
        };
        assert_eq!([receipts(), receipts()], [[1, 1], [0, 0]]);
    }

    #[test]
    fn a_candidate_is_judged_as_if_it_stood_in_for_its_limit() {
        let (live, candidate, other) = (new_buckets(100), new_buckets(100), new_buckets(100));
        let all = [
            withdrawal(&live, 1, spec(2, 0)),
            Withdrawal { effect: Effect::Candidate { owner: 0 }, ..withdrawal(&candidate, 1, spec(4, 0)) },
            Withdrawal { effect: Effect::Enforce { owner: 2 }, ..withdrawal(&other, 1, spec(3, 0)) },
        ];
        assert!(take(&all).admitted && take(&all).admitted);
        // The live limit refuses from now on; the candidate would have admitted one more.
        for expected in [1, 0, 0] {
            assert!(!take(&all).admitted);
            assert_eq!(left(&candidate, 1, spec(4, 0)), expected);
        }
        // What another limit refuses costs the candidate nothing.
        let strict = [
            withdrawal(&live, 2, spec(2, 0)),
            Withdrawal { effect: Effect::Candidate { owner: 0 }, ..withdrawal(&candidate, 2, spec(4, 0)) },
            Withdrawal { effect: Effect::Enforce { owner: 2 }, ..withdrawal(&other, 2, spec(1, 0)) },
        ];
        assert!(take(&strict).admitted && !take(&strict).admitted);
        assert_eq!(left(&candidate, 2, spec(4, 0)), 3);
    }

    #[test]
    fn buckets_of_one_line_are_held_together() {
        // The table has one line: every key shares it, and the lock is taken once.
        let table = new_buckets(1);
        let both = [withdrawal(&table, 1, spec(3, 0)), withdrawal(&table, 2, spec(3, 0))];
        assert!(take(&both).admitted);
        assert_eq!((left(&table, 1, spec(3, 0)), left(&table, 2, spec(3, 0))), (2, 2));
    }

    #[test]
    fn threads_that_race_get_exactly_the_tokens_in_whatever_order_they_name_the_buckets() {
        let (one, two) = (new_buckets(100), new_buckets(100));
        let admitted = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (one, two, admitted) = (&one, &two, &admitted);
                scope.spawn(move || {
                    let mut both = [withdrawal(one, 7, spec(300, 0)), withdrawal(two, 7, spec(500, 0))];
                    both.rotate_left(thread % 2);
                    for _ in 0..200 {
                        admitted.fetch_add(usize::from(take(&both).admitted), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 300);
        assert_eq!((left(&one, 7, spec(300, 0)), left(&two, 7, spec(500, 0))), (0, 200));
    }

    #[test]
    fn a_holder_of_a_line_of_closed_buckets_waits_for_no_other() {
        let tables = [new_buckets(1), new_buckets(1)];
        // Lines are locked in the order of their tables' addresses.
        let [first, second] = &tables;
        let both = [withdrawal(first, 1, spec(1, 0)), withdrawal(second, 1, spec(1, 0))];
        first.close();
        let _elsewhere = second.lock(0);
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| sender.send(lock_all(&both).is_err()).unwrap());
            assert_eq!(receiver.recv_timeout(std::time::Duration::from_secs(10)), Ok(true));
        });
    }

    #[test]
    fn a_token_given_back_can_be_taken_again() {
        let table = new_buckets(100);
        let one = [withdrawal(&table, 1, spec(1, 0))];
        assert!(take(&one).admitted && !take(&one).admitted);
        table.apply(&bucket(1, spec(1, 0)), NOW, Op::Give(1)).unwrap();
        assert!(take(&one).admitted);
        assert_eq!((table.live(NOW), table.forgotten(), table.capacity()), (1, 0, 100));
    }
}
