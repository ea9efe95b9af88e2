//! Attempts on the buckets of several limits, through [`Store::take`].

use super::*;
use crate::memory::{CombinedVerdict, Withdrawal};
use crate::store::{LimitBuckets, Store, TakeState};
use tollgate_bucket::Effect;

/// A process with two limits, and a third whose buckets it shares with no other.
struct TwoLimits {
    store: Store,
    limits: [LimitBuckets; 3],
    runtime: Runtime,
    database: Arc<SharedStore>,
}

impl TwoLimits {
    fn on(ledger: &Arc<Ledger>, on_error: OnError) -> Self {
        let (clock, backend) = (Clock::manual(NOW), Arc::clone(ledger) as Arc<dyn CompareAndSwap>);
        let options = StoreOptions { timeout: Span::from_secs(5), on_error, ..StoreOptions::default() };
        let database =
            SharedStore::start_on(move || Ok(backend), options, clock.clone(), Arc::new(Quiet)).unwrap();
        let store = Store::over(Arc::clone(&database), 100, clock);
        let [address, subnet] =
            ["address", "subnet"].map(|name| store.limit(&name.into(), &[spec()]).unwrap());
        let limits = [address, subnet, store.own_limit(&[spec()]).unwrap()];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { store, limits, runtime, database }
    }

    /// Takes tokens from the limits at these positions, or from none.
    fn take(&self, costs: &[(usize, u32)]) -> Result<CombinedVerdict, Unavailable> {
        self.take_of(7, costs)
    }

    /// The same of the buckets of this client.
    fn take_of(&self, client: u128, costs: &[(usize, u32)]) -> Result<CombinedVerdict, Unavailable> {
        let withdrawal = |&(limit, cost): &(usize, u32)| Withdrawal {
            buckets: &self.limits[limit],
            bucket: BucketKey {
                key: Key(client.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835) ^ limit as u128),
                ..bucket()
            },
            cost,
            tag: None,
            effect: Effect::Enforce { owner: 0 },
        };
        let withdrawals: Vec<_> = costs.iter().map(withdrawal).collect();
        match self.store.take(&withdrawals, self.store.now()).unwrap() {
            TakeState::Done(verdict) => Ok(verdict),
            TakeState::Pending(pending) => {
                let decided = pending.wait(&withdrawals, |on_error| on_error);
                self.runtime.block_on(decided).map(|(verdict, _)| verdict)
            }
        }
    }

    fn is_admitted(&self, costs: &[(usize, u32)]) -> bool {
        self.take(costs).is_ok_and(|verdict| verdict.admitted)
    }

    /// Waits until nothing is under way.
    fn rest(&self) {
        self.runtime.block_on(async {
            self.store.flush(Duration::from_secs(5)).await;
            while !self.database.queue.is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }
}

#[test]
fn an_attempt_that_one_bucket_refuses_takes_nothing_from_the_others() {
    let ledger = Arc::new(Ledger::default());
    let process = || TwoLimits::on(&ledger, OnError::Deny);
    assert!(process().is_admitted(&[(1, 10)]));
    // This process has not seen the empty bucket, so it takes from both and has to give back.
    let one = process();
    let refused = one.take(&[(0, 4), (1, 1)]).unwrap();
    assert!(!refused.admitted);
    assert_eq!(refused.verdicts[0].left, 10);
    one.runtime.block_on(one.store.flush(Duration::from_secs(5)));
    let other = process();
    assert!(other.is_admitted(&[(0, 10)]), "all ten are there");
    assert!(!other.is_admitted(&[(0, 1)]));
}

#[test]
fn a_bucket_of_this_process_alone_is_taken_from_with_those_of_the_database_or_not_at_all() {
    let ledger = Arc::new(Ledger::default());
    let process = || TwoLimits::on(&ledger, OnError::Deny);
    let (one, other) = (process(), process());
    assert!(one.is_admitted(&[(2, 4)]) && one.is_admitted(&[(2, 6), (0, 4)]));
    assert!(!one.is_admitted(&[(0, 1), (2, 1)]), "its ten are gone");
    one.rest();
    assert!(other.is_admitted(&[(0, 6)]) && !other.is_admitted(&[(0, 1)]), "nothing was taken there");
    assert!(other.is_admitted(&[(1, 10)]), "the process before has not seen that");
    assert!(!other.is_admitted(&[(2, 4), (1, 1)]));
    assert!(other.is_admitted(&[(2, 10)]), "all ten of its tokens are there");
    let third = process();
    let refused = third.take(&[(2, 4), (1, 1)]).unwrap();
    assert_eq!((refused.admitted, refused.verdicts[0].left, refused.verdicts.len()), (false, 10, 2));
    assert!(third.is_admitted(&[(2, 10)]));
}

#[test]
fn without_the_database_a_bucket_of_this_process_alone_decides_as_before() {
    let ledger = Arc::new(Ledger::default());
    ledger.away.store(true, Ordering::SeqCst);
    let process = TwoLimits::on(&ledger, OnError::Local);
    assert_eq!((0..20).filter(|_| process.is_admitted(&[(2, 2), (0, 1)])).count(), 5);
    let process = TwoLimits::on(&ledger, OnError::Deny);
    assert_eq!((0..20).filter(|_| process.is_admitted(&[(2, 2)])).count(), 5, "it asks no database");
}

#[test]
fn a_limit_that_refuses_most_attempts_is_asked_first() {
    let ledger = Arc::new(Ledger::default());
    let process = || TwoLimits::on(&ledger, OnError::Deny);
    let (other, one) = (process(), process());
    for client in 1..60 {
        assert!(other.take_of(client, &[(1, 10)]).unwrap().admitted);
    }
    // This process has seen nothing of these clients.
    let asked = (1..60).map(|client| {
        ledger.take_asked();
        assert!(!one.take_of(client, &[(0, 1), (1, 1)]).unwrap().admitted);
        one.rest();
        ledger.take_asked()
    });
    let asked: Vec<_> = asked.collect();
    assert!(asked[0] > 2, "both, and one is given back");
    assert_eq!(asked[50..], [1; 9]);
    assert!(one.take_of(60, &[(0, 1), (1, 1)]).unwrap().admitted);
}

#[test]
fn a_limit_that_refuses_most_attempts_is_taken_from_first_where_the_store_steps() {
    let ledger = Arc::new(Ledger::default());
    ledger.steps.store(true, Ordering::SeqCst);
    let process = || TwoLimits::on(&ledger, OnError::Deny);
    let (other, one) = (process(), process());
    for client in 1..60 {
        assert!(other.take_of(client, &[(1, 10)]).unwrap().admitted);
        assert!(!one.take_of(client, &[(1, 1)]).unwrap().admitted);
    }
    let asked = |client, costs: &[(usize, u32)]| {
        one.rest();
        ledger.take_asked();
        let verdict = one.take_of(client, costs).unwrap();
        one.rest();
        (
            verdict.admitted,
            verdict.verdicts.iter().map(|verdict| verdict.left).collect::<Vec<_>>(),
            ledger.take_asked(),
        )
    };
    assert_eq!(asked(60, &[(0, 1), (1, 2)]), (true, vec![9, 8], 2));
    assert!(other.take_of(61, &[(1, 10)]).unwrap().admitted);
    assert_eq!(asked(61, &[(0, 1), (1, 1)]), (false, vec![10, 0], 1));
    // The other one refuses, and what was taken is given back.
    assert!(other.take_of(62, &[(0, 10)]).unwrap().admitted);
    assert_eq!(asked(62, &[(0, 1), (2, 1), (1, 2)]), (false, vec![0, 10, 10], 3));
    assert_eq!(asked(62, &[(1, 10)]), (true, vec![0], 1));
}

#[test]
fn without_the_database_on_error_decides() {
    for (on_error, expected) in [(OnError::Deny, 0), (OnError::Allow, 20), (OnError::Local, 10)] {
        let ledger = Arc::new(Ledger::default());
        ledger.away.store(true, Ordering::SeqCst);
        let process = TwoLimits::on(&ledger, on_error);
        let admitted = (0..20).filter(|_| process.is_admitted(&[(0, 1), (1, 1)])).count();
        assert_eq!(admitted, expected, "{on_error:?}");
    }
}

fn ledger_of_several() -> Arc<Ledger> {
    let ledger = Ledger::default();
    ledger.writes_together.store(true, Ordering::SeqCst);
    Arc::new(ledger)
}

#[test]
fn all_buckets_of_an_attempt_are_one_request_where_the_store_can() {
    let ledger = ledger_of_several();
    let process = TwoLimits::on(&ledger, OnError::Deny);
    assert!(process.is_admitted(&[(0, 1), (1, 1)]));
    process.rest();
    ledger.take_asked();
    assert!(process.is_admitted(&[(0, 1), (1, 1)]));
    assert_eq!(ledger.take_asked(), 1);
}

#[test]
fn what_one_bucket_refuses_is_given_back_to_the_others_in_one_request() {
    let ledger = ledger_of_several();
    assert!(TwoLimits::on(&ledger, OnError::Deny).is_admitted(&[(1, 10)]));
    let process = TwoLimits::on(&ledger, OnError::Deny);
    // Its clock is known.
    assert!(process.is_admitted(&[(0, 1)]));
    process.rest();
    ledger.take_asked();
    assert!(!process.is_admitted(&[(0, 1), (1, 1)]));
    process.rest();
    assert_eq!(ledger.take_asked(), 2, "one takes, one gives back");
    assert!(TwoLimits::on(&ledger, OnError::Deny).is_admitted(&[(0, 9)]));
}

/// One of two swaps sent together is lost: it alone is repeated.
#[test]
fn a_race_lost_in_a_group_is_repeated_alone() {
    let ledger = ledger_of_several();
    let process = TwoLimits::on(&ledger, OnError::Deny);
    assert!(process.is_admitted(&[(0, 1), (1, 1)]));
    process.rest();
    assert!(TwoLimits::on(&ledger, OnError::Deny).is_admitted(&[(0, 1)]));
    ledger.take_asked();
    let verdict = process.take(&[(0, 1), (1, 1)]).unwrap();
    assert!(verdict.admitted);
    assert_eq!((verdict.verdicts[0].left, verdict.verdicts[1].left), (7, 8));
    assert_eq!(ledger.take_asked(), 2);
}
