//! What one decision costs: on a hot key, over ten thousand and a million keys, on one and on two threads; the parts
//! of it that know HTTP; and governor's keyed limiter at the same job in the same run.
//!
//! "engine" is all that a request pays: routes, key, bucket and events without listeners. "table" is the bucket
//! alone, as governor's figures are the limiter alone.

#![allow(clippy::unwrap_used, reason = "a bench that cannot be set up has nothing to measure")]

use std::hint::black_box;
use std::net::Ipv6Addr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use governor::{Quota, RateLimiter};
use http::{HeaderMap, Method, Request};
use tollgate::bucket::{Continuous, Key, Op, Spec};
use tollgate::engine::Engine;
use tollgate::event::Events;
use tollgate::policy::attempt::{Attempt, AttemptBody, Client};
use tollgate::policy::{Limit, Policy, Route, canonical};
use tollgate::proxy::request::target;
use tollgate::store::memory::{BucketKey, Buckets};
use tollgate::time::{Clock, Span};

const SIZES: [u32; 3] = [1, 10_000, 1_000_000];
const CAPACITY: usize = 2_500_000;

fn spec() -> Spec {
    Spec::Continuous(Continuous::new(10, Span::from_secs(300), 10).unwrap())
}

fn policy() -> Policy {
    let route = Route { limits: vec![0], ..Route::new("login", vec!["POST /login".parse().unwrap()]) };
    Policy::new(vec![route], vec![Limit::new("address", spec())])
}

fn attempt<'a>(path: &'a str, number: u32, headers: &'a HeaderMap) -> Attempt<'a> {
    let [a, b, c, d] = number.to_be_bytes().map(u16::from);
    let client = Client::from_ip(Ipv6Addr::new(0x2001, 0xdb8, a << 8 | b, c << 8 | d, 0, 0, 0, 1).into());
    Attempt {
        method: &Method::POST,
        path,
        query: None,
        host: "example.org",
        client,
        headers,
        body: AttemptBody::Unread,
        descriptor: None,
        tls: None,
    }
}

/// A walk over the keys that no cache can predict.
fn scattered(step: u64, size: u32) -> u32 {
    let mixed = step.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    u32::try_from(mixed % u64::from(size)).unwrap()
}

/// The time that `threads` take for `count` decisions each, as the time of one.
fn on_threads(threads: u64, count: u64, decide: impl Fn(u64) + Sync) -> Duration {
    #[expect(clippy::disallowed_methods, reason = "a bench is its own clock")]
    let started = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let decide = &decide;
            scope.spawn(move || (0..count).for_each(|step| decide(step * threads + thread)));
        }
    });
    started.elapsed()
}

fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decision");
    group.measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_secs(1)).sample_size(30);
    for size in SIZES {
        for threads in [1, 2] {
            let id = |what| BenchmarkId::new(what, format!("{size} keys, {threads} threads"));
            let clock = Clock::system();
            let engine = Engine::new(policy(), CAPACITY, clock.clone(), Events::default()).unwrap();
            let headers = HeaderMap::new();
            let rules = engine.rules();
            group.bench_function(id("engine"), |b| {
                b.iter_custom(|count| {
                    on_threads(threads, count, |step| {
                        let attempt = attempt("/login", scattered(step, size), &headers);
                        black_box(engine.decide_in_memory(&rules, &attempt, engine.clock().now()).is_ok());
                    })
                });
            });
            let buckets = Buckets::new(CAPACITY, &[spec()]).unwrap();
            group.bench_function(id("table"), |b| {
                b.iter_custom(|count| {
                    on_threads(threads, count, |step| {
                        let half =
                            u128::from(scattered(step, size)).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060);
                        let bucket = BucketKey { key: Key(half << 64 | half), class: 0, spec: spec() };
                        let _ = black_box(buckets.apply(&bucket, clock.now(), Op::Take(1)));
                    })
                });
            });
            let quota = Quota::with_period(Duration::from_secs(30))
                .unwrap()
                .allow_burst(NonZeroU32::new(10).unwrap());
            let governor = RateLimiter::dashmap(quota);
            group.bench_function(id("governor"), |b| {
                b.iter_custom(|count| {
                    on_threads(threads, count, |step| {
                        let _ = black_box(governor.check_key(&scattered(step, size)));
                    })
                });
            });
        }
    }
    group.finish();
}

fn requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("request");
    let request =
        Request::builder().method("POST").uri("/login").header("host", "Example.org:8080").body(()).unwrap();
    group.bench_function("check target and host", |b| b.iter(|| target::check(black_box(&request)).is_ok()));
    for (name, path) in [("plain", "/login"), ("spelt oddly", "/x/..;a=b/%2e/%6cogin%2ephp")] {
        group.bench_function(BenchmarkId::new("readings", name), |b| {
            b.iter(|| canonical::readings(black_box(path)).len())
        });
        let (policy, headers) = (policy(), HeaderMap::new());
        group.bench_function(BenchmarkId::new("match", name), |b| {
            b.iter(|| policy.routes_of(&attempt(black_box(path), 1, &headers)).len());
        });
    }
    group.finish();
}

criterion_group!(benches, decisions, requests);
criterion_main!(benches);
