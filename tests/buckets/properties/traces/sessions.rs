//! Trace 9: eight sessions ask for one key without pause, and get exactly what it has, on the machine's clock and on
//! one that stands still between steps. Each reads the clock before it decides, so some decide late.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tollgate::bucket::{Continuous, Floor, Interval, Key, Op, PeriodStart, Rolling, Spec, Time};
use tollgate::store::memory::{BucketKey, Buckets};
use tollgate::time::{Clock, Span};

use super::START;

const SESSIONS: usize = 8;
const MILLISECOND: Span = Span::from_millis(1);

/// One bucket for all callers.
struct Shared {
    buckets: Buckets,
    place: BucketKey,
    clock: Clock,
    admitted: AtomicU32,
    ended: AtomicBool,
}

impl Shared {
    fn new(spec: Spec, clock: Clock) -> Self {
        Self {
            buckets: Buckets::new(100, &[spec]).unwrap(),
            place: BucketKey { key: Key(7), class: 0, spec },
            clock,
            admitted: AtomicU32::default(),
            ended: AtomicBool::default(),
        }
    }

    fn take(&self, now: Time) -> bool {
        let admitted = self.buckets.apply(&self.place, now, Op::Take(1)).unwrap().is_admitted();
        self.admitted.fetch_add(u32::from(admitted), Ordering::SeqCst);
        admitted
    }

    fn drain(&self, now: Time) {
        while self.take(now) {}
    }

    /// Eight sessions without pause, as long as `meanwhile` runs.
    fn under_siege(&self, meanwhile: impl FnOnce()) {
        std::thread::scope(|scope| {
            for _ in 0..SESSIONS {
                scope.spawn(|| {
                    while !self.ended.load(Ordering::Relaxed) {
                        self.take(self.clock.now());
                    }
                });
            }
            meanwhile();
            self.ended.store(true, Ordering::Relaxed);
        });
    }
}

/// A token each 100 us: the machine would have to stand still for half a second to let any go to waste.
fn fast() -> Continuous {
    Continuous::new(10, MILLISECOND, 5000).unwrap()
}

#[test]
fn trace_9_eight_sessions_get_exactly_burst_and_rate() {
    let shared = Shared::new(Spec::Continuous(fast()), Clock::system());
    let start = shared.clock.now();
    shared.drain(start);
    assert_eq!(shared.admitted.load(Ordering::SeqCst), 5000);
    shared.under_siege(|| std::thread::sleep(MILLISECOND.times(300).to_std()));
    let end = shared.clock.now();
    shared.drain(end);
    let refill = end.since(start).as_nanos() / fast().per_token().as_nanos();
    assert_eq!(u64::from(shared.admitted.into_inner()), 5000 + refill);
}

#[test]
fn trace_9_holds_for_every_shape() {
    let each = MILLISECOND.times(10);
    let interval = |anchor| Spec::Interval(Interval::new(20, each, anchor).unwrap());
    let rolling = |anchor| Rolling::new(60, each.times(4), each, anchor).unwrap();
    let floor = Floor::new(Continuous::new(5, each, 5).unwrap(), Continuous::new(1, each, 50).unwrap());
    // Number and length of steps, and the attempts admitted by then. In all less than a second: a later decision would
    // look like a clock that was set back.
    let expected = [
        (Spec::Continuous(fast()), MILLISECOND, 100, 5000 + 1000),
        (interval(PeriodStart::First), each, 30, 31 * 20),
        (interval(PeriodStart::Clock), each, 30, 31 * 20),
        (Spec::Rolling(rolling(PeriodStart::First)), each, 30, 8 * 60),
        (Spec::Rolling(rolling(PeriodStart::Clock)), each, 30, 8 * 60),
        (Spec::Rolling(rolling(PeriodStart::Clock).with_rate(25).unwrap()), each, 30, 8 * 60),
        (Spec::Floor(floor.unwrap()), each, 20, 55 + 20 * 6),
    ];
    for (spec, step, steps, admitted) in expected {
        let shared = Shared::new(spec, Clock::manual(START));
        shared.drain(START);
        shared.under_siege(|| {
            for number in 1..=steps {
                let now = START.after(step.times(number));
                shared.clock.set(now);
                shared.drain(now);
            }
        });
        assert_eq!(shared.admitted.into_inner(), admitted, "{spec:?}");
    }
}
