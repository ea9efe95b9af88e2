//! What one decision costs for each shape of bucket: on a hot key, over ten thousand and over a million live keys, on
//! one thread, without the clock.
//!
//! "admitted" finds a token at every access: half a period, or the time of a token, passes between two accesses of a
//! key, so that a rolling window moves on as well. "refused" finds every bucket drained. The first writes, the second
//! only reads.

#![allow(clippy::unwrap_used, reason = "a bench that cannot be set up has nothing to measure")]

use std::cell::{Cell, LazyCell};
use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rustix::time::{ClockId, clock_gettime};
use tollgate::bucket::{Continuous, Distinct, Floor, Interval, Key, Op, PeriodStart, Rolling, Spec};
use tollgate::store::memory::{BucketKey, Buckets};
use tollgate::time::{Span, Time};

const START: Time = Time::from_nanos(1_800_000_000_000_000_000);
const SIZES: [u32; 3] = [1, 10_000, 1_000_000];
const CAPACITY: usize = 2_500_000;
const PERIOD: Span = Span::from_secs(1);
const BURST: u32 = 50;

/// Each gives a token a second, or begins a period each second.
fn shapes() -> [(&'static str, Spec); 6] {
    let continuous = Continuous::new(1, PERIOD, BURST).unwrap();
    let rolling = Rolling::new(BURST, PERIOD.times(24), PERIOD, PeriodStart::First).unwrap();
    let floor = Floor::new(Continuous::new(1, PERIOD, 1).unwrap(), continuous).unwrap();
    [
        ("continuous", Spec::Continuous(continuous)),
        ("interval", Spec::Interval(Interval::new(BURST, PERIOD, PeriodStart::First).unwrap())),
        ("rolling 24", Spec::Rolling(rolling)),
        ("rolling 24 with rate", Spec::Rolling(rolling.with_rate(5).unwrap())),
        ("floor", Spec::Floor(floor)),
        ("distinct", Spec::Distinct(Distinct::new(continuous, Some(200)).unwrap())),
    ]
}

/// A walk over the keys that no cache can predict, each about once in a cycle.
fn scattered(step: u64, size: u32) -> u64 {
    (step.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % u64::from(size)
}

/// A key as well spread as a hash.
fn bucket(number: u64, spec: Spec) -> BucketKey {
    let mixed = u128::from(number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    let mixed = (mixed ^ mixed >> 61).wrapping_mul(0x2545_F491_4F6C_DD1D_8CB9_2BA7_2F3D_8DD7);
    BucketKey { key: Key(mixed ^ mixed >> 67), class: 0, spec }
}

/// Buckets from which every key has taken this many tokens.
fn filled(size: u32, spec: Spec, tokens: u32) -> Buckets {
    let buckets = Buckets::new(CAPACITY, &[spec]).unwrap();
    for number in 0..size {
        let taken = buckets.apply(&bucket(number.into(), spec), START, Op::Take(tokens)).unwrap();
        assert!(taken.is_admitted());
    }
    assert!(size < 1000 || buckets.live(START) > size as usize / 2, "most keys are live");
    buckets
}

/// The processor time of `count` decisions, one each `interval` nanoseconds of the buckets' time. Not the wall clock: a
/// thread that has lost its core decides nothing.
fn decide(buckets: &Buckets, size: u32, spec: Spec, interval: u64, from: &Cell<u64>, count: u64) -> Duration {
    let before = processor_time();
    for step in from.get()..from.get() + count {
        let now = Time::from_nanos(START.as_nanos() + step * interval);
        let _ = black_box(buckets.apply(&bucket(scattered(step, size), spec), now, Op::Take(1)));
    }
    from.set(from.get() + count);
    processor_time().saturating_sub(before)
}

fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("shape");
    group.measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(500)).sample_size(20);
    for size in SIZES {
        for (name, spec) in shapes() {
            // A token or half a period passes between two accesses of a key; refused, hardly any time.
            let kinds =
                [("admitted", 2, PERIOD.as_nanos() / 2 / u64::from(size)), ("refused", spec.burst(), 1)];
            for (kind, taken, interval) in kinds {
                let buckets = LazyCell::new(|| filled(size, spec, taken));
                let from = Cell::new(0);
                group.bench_function(BenchmarkId::new(format!("{name}, {kind}"), size), |b| {
                    let buckets = &*buckets;
                    b.iter_custom(|count| decide(buckets, size, spec, interval, &from, count));
                });
            }
        }
    }
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
