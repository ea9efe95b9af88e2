//! What every store promises to those who are counted: the same as the memory of one process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tollgate::bucket::{
    Admission, Continuous, Distinct, Escalation, Floor, Interval, PeriodStart, Rolling, Span, Spec,
};
use tollgate::engine::store_observer;
use tollgate::event::Events;
use tollgate::store::shared::{OnError, StoreOptions};
use tollgate::store::{Limiter, Limits};
use tollgate::store::{Namespace, StoreAddress};

use support::{Server, eventually};

/// Processes on one store, as far as one test process can be several.
struct Processes<S> {
    server: S,
    runtime: Runtime,
    limits: Vec<Limits>,
}

impl<S: Server> Processes<S> {
    fn new(server: S, count: usize) -> Self {
        Self::with(server, count, patient(OnError::Local))
    }

    fn with(server: S, count: usize, manner: StoreOptions) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let address: StoreAddress = server.url().parse().unwrap();
        prepare(&runtime, &address);
        let open = || {
            Limits::open_as(
                &address,
                &Namespace::default(),
                b"key",
                manner,
                store_observer(Events::default()),
            )
        };
        let limits = (0..count).map(|_| open().unwrap().with_capacity(1000)).collect();
        Self { server, runtime, limits }
    }

    /// The same limit in every process.
    fn limit(&self, spec: Spec) -> Vec<Limiter> {
        let limiters = self.limits.iter().map(|limits| limits.limiter("address", spec).unwrap());
        limiters.collect()
    }

    fn take(&self, limiter: &Limiter, tokens: u32) -> bool {
        self.runtime.block_on(limiter.take("client", tokens)).unwrap().is_admitted()
    }

    /// How many of so many at once from each process are admitted.
    fn take_at_once(&self, limiters: &[Limiter], attempts: usize) -> usize {
        let all = limiters.iter().flat_map(|limiter| std::iter::repeat_n(limiter.clone(), attempts));
        let tasks = all.map(|limiter| {
            self.runtime.spawn(async move { limiter.take("client", 1).await.unwrap().is_admitted() })
        });
        let tasks: Vec<_> = tasks.collect();
        tasks.into_iter().filter_map(|task| self.runtime.block_on(task).unwrap().then_some(())).count()
    }

    fn rest(&self, time: Duration) {
        // Within the runtime, since the timer belongs to it.
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    fn is_up(&self) -> bool {
        self.limits.iter().all(|limits| limits.store().is_up())
    }
}

/// With time for a store on a machine on which everything else runs too.
fn patient(on_error: OnError) -> StoreOptions {
    StoreOptions { timeout: Span::from_secs(5), on_error, ..StoreOptions::default() }
}

fn prepare(runtime: &Runtime, address: &StoreAddress) {
    let store = {
        let _within = runtime.enter();
        address.open(&Namespace::default())
    };
    if let Some(store) = store {
        runtime.block_on(store.unwrap().migrate()).unwrap();
    }
}

fn continuous(count: u32, seconds: u64, burst: u32) -> Continuous {
    Continuous::new(count, Span::from_secs(seconds), burst).unwrap()
}

/// One of each shape, none of which gives a token back within the time that a test takes.
fn shapes() -> Vec<Spec> {
    let hour = Span::from_secs(3600);
    vec![
        Spec::Continuous(continuous(1, 3600, 7)),
        Spec::Continuous(continuous(1, 3600, 7).with_initial(3).unwrap().with_debt(2).unwrap()),
        Spec::Interval(Interval::new(7, hour, PeriodStart::First).unwrap()),
        Spec::Rolling(Rolling::new(7, hour, Span::from_secs(600), PeriodStart::First).unwrap()),
        Spec::Rolling(
            Rolling::new(100_000, Span::from_secs(1024 * 60), Span::from_secs(60), PeriodStart::First)
                .unwrap(),
        ),
        Spec::Floor(Floor::new(continuous(1, 3600, 2), continuous(1, 3600, 5)).unwrap()),
        Spec::Distinct(Distinct::new(continuous(1, 3600, 7), None).unwrap()),
        Spec::Escalation(Escalation::new(3, hour, 2, hour).unwrap()),
    ]
}

pub(crate) fn a_bucket_admits_its_burst_and_no_more(server: impl Server) {
    let processes = Processes::new(server, 1);
    let limiters = processes.limit(Spec::Continuous(continuous(1, 3600, 10)));
    assert_eq!(processes.take_at_once(&limiters, 100), 10);
    assert!(!processes.take(&limiters[0], 1));
}

pub(crate) fn every_shape_is_the_same_as_in_memory(server: impl Server) {
    let processes = Processes::new(server, 1);
    let memory = Limits::open(&StoreAddress::memory()).unwrap().with_capacity(1000);
    for (number, spec) in shapes().into_iter().enumerate() {
        let name = format!("shape {number}");
        let here = memory.limiter(&name, spec).unwrap();
        let there = processes.limits[0].limiter(&name, spec).unwrap();
        for (step, tokens) in [1, 2, 1, 9, 1, 200_000, 2, 1, 1, 1].into_iter().enumerate() {
            let both = processes.runtime.block_on(async {
                (here.take("client", tokens).await.unwrap(), there.take("client", tokens).await.unwrap())
            });
            let told = |taken: &tollgate::store::TakenTokens| {
                // All waits are of hours, and the two are asked one after the other.
                let kind = match taken.verdict.admission {
                    Admission::Refused { wait } => Err(Some(wait.as_secs_ceil().div_ceil(30))),
                    Admission::NeverFits => Err(None),
                    Admission::Admitted | Admission::Held { .. } => Ok(()),
                };
                (kind, taken.verdict.left)
            };
            assert_eq!(told(&both.0), told(&both.1), "step {step} of {spec:?}");
        }
    }
}

pub(crate) fn what_is_given_back_can_be_taken_again(server: impl Server) {
    let processes = Processes::new(server, 1);
    let limiter = processes.limit(Spec::Continuous(continuous(1, 3600, 3))).remove(0);
    let taken = processes.runtime.block_on(limiter.take("client", 3)).unwrap();
    assert!(taken.is_admitted() && !processes.take(&limiter, 1));
    limiter.refund(taken);
    assert!(eventually(Duration::from_secs(10), || processes.take(&limiter, 3)));
}

pub(crate) fn a_wait_is_as_long_as_it_was_told(server: impl Server) {
    let processes = Processes::new(server, 1);
    let limiter = processes.limit(Spec::Continuous(continuous(1, 2, 1))).remove(0);
    assert!(processes.take(&limiter, 1));
    for _ in 0..2 {
        let refused = processes.runtime.block_on(limiter.take("client", 1)).unwrap();
        assert!(!refused.is_admitted());
        let (wait, since) = (refused.wait().unwrap().to_std(), Instant::now());
        processes.rest(wait.saturating_sub(Duration::from_millis(150)));
        if processes.take(&limiter, 1) {
            // A busy machine may be late.
            assert!(since.elapsed() >= wait, "{:?} instead of {wait:?}", since.elapsed());
            continue;
        }
        // A shared store's clock is taken to be a little late.
        processes.rest(Duration::from_millis(200));
        assert!(processes.take(&limiter, 1), "at its time");
    }
}

pub(crate) fn a_bucket_that_was_full_again_is_as_if_never_seen(server: impl Server) {
    let processes = Processes::new(server, 2);
    let limiters = processes.limit(Spec::Continuous(continuous(5, 1, 5)));
    for _ in 0..2 {
        assert_eq!(processes.take_at_once(&limiters[..1], 5), 5);
        processes.rest(Duration::from_millis(3500));
        assert_eq!(processes.take_at_once(&limiters[1..], 5), 5);
        processes.rest(Duration::from_millis(3500));
    }
}

pub(crate) fn buckets_of_different_keys_and_limits_do_not_meet(server: impl Server) {
    let processes = Processes::new(server, 1);
    let spec = Spec::Continuous(continuous(1, 3600, 1));
    let limits = &processes.limits[0];
    let (one, other) = (limits.limiter("address", spec).unwrap(), limits.limiter("account", spec).unwrap());
    processes.runtime.block_on(async {
        for limiter in [&one, &other] {
            for key in ["a", "b", "", "a b\r\nc"] {
                assert!(limiter.take(key, 1).await.unwrap().is_admitted(), "{key:?}");
                assert!(!limiter.take(key, 1).await.unwrap().is_admitted(), "{key:?}");
            }
        }
    });
}

pub(crate) fn processes_share_one_bucket(server: impl Server) {
    let processes = Processes::new(server, 4);
    let limiters = processes.limit(Spec::Continuous(continuous(1, 3600, 50)));
    assert_eq!(processes.take_at_once(&limiters, 64), 50);
}

pub(crate) fn processes_together_get_what_one_would_get_over_time(server: impl Server) {
    const SECONDS: u64 = 4;
    let processes = Processes::new(server, 4);
    let limiters = processes.limit(Spec::Continuous(continuous(20, 1, 10)));
    let begun = Instant::now();
    let end = begun + Duration::from_secs(SECONDS);
    let tasks: Vec<_> = limiters
        .into_iter()
        .flat_map(|limiter| std::iter::repeat_n(Arc::new(limiter), 8))
        .map(|limiter| {
            processes.runtime.spawn(async move {
                let mut admitted = 0;
                while Instant::now() < end {
                    admitted += u32::from(limiter.take("client", 1).await.unwrap().is_admitted());
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                admitted
            })
        })
        .collect();
    let admitted: u32 = tasks.into_iter().map(|task| processes.runtime.block_on(task).unwrap()).sum();
    let most = 10.0 + 20.0 * begun.elapsed().as_secs_f64();
    assert!(f64::from(admitted) <= most, "{admitted} of at most {most}");
    let least = (10.0 + 20.0 * 4.0) * 0.95 - 1.0;
    assert!(f64::from(admitted) >= least, "{admitted} of at least {least}");
}

pub(crate) fn while_the_store_is_away_each_process_decides_by_what_it_saw(server: impl Server) {
    let mut processes = Processes::new(server, 2);
    let limiters = processes.limit(Spec::Continuous(continuous(1, 3600, 10)));
    assert!(processes.take(&limiters[0], 6) && processes.take(&limiters[1], 1));
    processes.server.kill();
    assert!(processes.take(&limiters[1], 3), "three are left");
    assert!(!processes.take(&limiters[1], 1), "as far as this one saw it");
    assert!(processes.take(&limiters[0], 4), "this one saw six taken");
    assert!(!processes.take(&limiters[0], 1));
    // The breaker opens when calls have failed for as long as one may take.
    assert!(eventually(Duration::from_secs(30), || {
        let _ = (processes.take(&limiters[0], 1), processes.take(&limiters[1], 1));
        !processes.is_up()
    }));
    processes.server.start_again();
    assert!(eventually(Duration::from_secs(30), || processes.is_up()), "it is asked again");
    processes.rest(Duration::from_millis(1100));
    assert!(
        !processes.take(&limiters[1], 1) && !processes.take(&limiters[0], 1),
        "what was taken is carried there"
    );
}

pub(crate) fn a_stopped_store_costs_the_timeout_and_then_nothing(server: impl Server) {
    let mut processes = Processes::with(server, 1, StoreOptions::default());
    let limiter = processes.limit(Spec::Continuous(continuous(1, 60, 1_000_000))).remove(0);
    assert!(processes.take(&limiter, 1));
    processes.server.pause();
    let in_one_timeout = || {
        let begun = Instant::now();
        (0..20).all(|_| processes.take(&limiter, 1))
            && begun.elapsed() < StoreOptions::default().timeout.to_std()
    };
    // Who waits for how long is for a machine that does nothing else; that it ends is for any.
    assert!(eventually(Duration::from_secs(30), || in_one_timeout() && !processes.is_up()));
    processes.server.resume();
    assert!(eventually(Duration::from_secs(30), || processes.is_up()));
    // What it was asked when it stood still may stand in the way of the next question for a moment.
    assert!(eventually(Duration::from_secs(30), || processes.take(&limiter, 1)));
}

pub(crate) fn who_asked_for_deny_or_allow_gets_it(server: impl Server) {
    let mut processes = Processes::with(server, 1, patient(OnError::Deny));
    let strict = processes.limit(Spec::Continuous(continuous(1, 3600, 1))).remove(0);
    let address: StoreAddress = processes.server.url().parse().unwrap();
    let manner = patient(OnError::Allow);
    let open =
        Limits::open_as(&address, &Namespace::default(), b"key", manner, store_observer(Events::default()))
            .unwrap();
    let lenient = open.limiter("address", Spec::Continuous(continuous(1, 3600, 1))).unwrap();
    assert!(processes.take(&strict, 1));
    processes.server.kill();
    processes.rest(Duration::from_millis(1100));
    processes.runtime.block_on(async {
        for _ in 0..10 {
            assert!(strict.take("client", 1).await.is_err());
            assert!(lenient.take("client", 1).await.unwrap().is_admitted());
        }
    });
}

pub(crate) fn foreign_bytes_give_no_token_to_a_gate_that_saw_the_bucket(server: impl Server) {
    let mut processes = Processes::new(server, 1);
    let limiter = processes.limit(Spec::Continuous(continuous(1, 3600, 10))).remove(0);
    for bytes in [&b"not ours"[..], b"", &[0xff; 3000], &[1, 1, 0, 0, 0, 0]] {
        assert!(
            eventually(Duration::from_secs(10), || processes.take(&limiter, 1)),
            "before {} bytes",
            bytes.len()
        );
        processes.server.spoil(bytes);
        processes.rest(Duration::from_millis(1100));
    }
    // A damaged record is a full bucket to a gate that had not seen it; it can be used all the same.
    let _ = processes.take_at_once(std::slice::from_ref(&limiter), 30);
    assert!(!processes.take(&limiter, 10));
}
