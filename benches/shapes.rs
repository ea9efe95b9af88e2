//! What one decision costs for each shape of bucket: on a hot key, over ten thousand and over a million live keys, on
//! one thread, without the clock.
//!
//! "admitted" finds a token at every visit: half a period, or the time of a token, passes from one visit of a key to
//! the next, so that a rolling window moves on as well. "refused" finds every bucket drained. The first writes, the
//! second only reads.

#![allow(clippy::unwrap_used, reason = "a bench that cannot be set up has nothing to measure")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tollgate::bucket::{Anchor, Continuous, Floor, Interval, Key, Op, Rolling, Spec};
use tollgate::store::memory::{Buckets, Place};
use tollgate::time::{Span, Time};

const START: Time = Time::from_nanos(1_800_000_000_000_000_000);
const SIZES: [u32; 3] = [1, 10_000, 1_000_000];
const ROOM: usize = 2_500_000;
const PERIOD: Span = Span::from_secs(1);
const BURST: u32 = 50;

/// Each gives a token a second, or begins a period each second.
fn shapes() -> [(&'static str, Spec); 5] {
    let continuous = Continuous::new(1, PERIOD, BURST).unwrap();
    let rolling = Rolling::new(BURST, PERIOD.times(24), PERIOD, Anchor::First).unwrap();
    let floor = Floor::new(Continuous::new(1, PERIOD, 1).unwrap(), continuous).unwrap();
    [
        ("continuous", Spec::Continuous(continuous)),
        ("interval", Spec::Interval(Interval::new(BURST, PERIOD, Anchor::First).unwrap())),
        ("rolling 24", Spec::Rolling(rolling)),
        ("rolling 24 with rate", Spec::Rolling(rolling.with_rate(5).unwrap())),
        ("floor", Spec::Floor(floor)),
    ]
}

/// A walk over the keys that no cache foresees, each about once in a round.
fn scattered(step: u64, size: u32) -> u64 {
    (step.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % u64::from(size)
}

/// As well spread as a hash would be.
fn place(number: u64, spec: Spec) -> Place {
    let mixed = u128::from(number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    let mixed = (mixed ^ mixed >> 61).wrapping_mul(0x2545_F491_4F6C_DD1D_8CB9_2BA7_2F3D_8DD7);
    Place { key: Key(mixed ^ mixed >> 67), class: 0, spec }
}

/// Takes `tokens` from every key, one by one, or until it is refused.
fn filled(size: u32, spec: Spec, tokens: u32) -> Buckets {
    let buckets = Buckets::new(ROOM, &[spec]).unwrap();
    for number in 0..size {
        let place = place(number.into(), spec);
        for _ in 0..tokens {
            let _ = buckets.apply(&place, START, Op::Take(1)).unwrap();
        }
    }
    buckets
}

fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("shape");
    group.measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_secs(1)).sample_size(30);
    for size in SIZES {
        for (name, spec) in shapes() {
            // A floor gives two tokens in a second, one of them its own.
            let (admitted, refused) = (filled(size, spec, 2), filled(size, spec, BURST + 1));
            assert!(size < 1000 || admitted.live(START) > size as usize / 2, "most keys are live");
            let pace = PERIOD.as_nanos() / 2 / u64::from(size);
            let mut step = 0;
            group.bench_function(BenchmarkId::new(format!("{name}, admitted"), size), |b| {
                b.iter(|| {
                    step += 1;
                    let now = Time::from_nanos(START.as_nanos() + step * pace);
                    black_box(admitted.apply(&place(scattered(step, size), spec), now, Op::Take(1)))
                });
            });
            let mut step = 0;
            group.bench_function(BenchmarkId::new(format!("{name}, refused"), size), |b| {
                b.iter(|| {
                    step += 1;
                    let now = Time::from_nanos(START.as_nanos() + step);
                    black_box(refused.apply(&place(scattered(step, size), spec), now, Op::Take(1)))
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
