//! A process that puts one load on one store and prints its figures, one on each line.
//!
//! Two gates are two [`Limits`] in this process, because they share nothing but the store: each has a thread,
//! connections and a mirror of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use tollgate::bucket::{Continuous, Span, Spec};
use tollgate::engine::store_observer;
use tollgate::event::{Event, EventListener, Events, StoreCallResult, StoreEvent};
use tollgate::store::Namespace;
use tollgate::store::shared::{OnError, StoreOptions};
use tollgate::store::{Limiter, Limits};

use support::time_of_threads;

/// Pins this thread, and all threads that it starts, to this core.
pub(crate) fn pin(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).unwrap();
}

pub(crate) fn run(words: &[String]) {
    let [load, client, url, millis] = words else { panic!("{words:?}") };
    pin(0);
    let time = Duration::from_millis(millis.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        match &load[..] {
            "many" => throughput(client, url, time, 64, KEYS).await,
            "one" => throughput(client, url, time, 1, KEYS).await,
            "hot" => throughput(client, url, time, 64, 1).await,
            "trips" => trips(url).await,
            _ => back(url).await,
        }
    });
}

/// The client that is measured.
#[derive(Clone)]
enum Client {
    Store(Limiter),
    /// A fixed window of a minute in one round trip, as in envoyproxy's ratelimit: INCRBY and EXPIRE in a pipeline.
    Window(MultiplexedConnection),
}

impl Client {
    async fn open(kind: &str, url: &str, count: &Arc<Count>, spec: Spec) -> Self {
        if kind == "store" {
            // A name of its own: on the records of another process, the first attempt takes two requests.
            let fresh = format!("bench {}", std::process::id());
            return Self::Store(gate(url, count).limiter(&fresh, spec).unwrap());
        }
        let client = redis::Client::open(url).unwrap();
        Self::Window(client.get_multiplexed_async_connection().await.unwrap())
    }

    async fn is_admitted(&self, key: &str) -> bool {
        match self {
            Self::Store(limiter) => limiter.take(key, 1).await.is_ok_and(|taken| taken.is_admitted()),
            Self::Window(connection) => {
                let mut pipe = redis::pipe();
                pipe.incr(key, 1).expire(key, 60).ignore();
                let counted: Result<(u64,), _> = pipe.query_async(&mut connection.clone()).await;
                counted.is_ok_and(|(count,)| count <= u64::MAX / 2)
            }
        }
    }
}

/// Requests to the store, counted by its events.
#[derive(Default)]
struct Count {
    all: AtomicU64,
    failed: AtomicU64,
}

impl EventListener for Count {
    fn on_event(&self, event: &Event<'_>) {
        if let Event::Store(StoreEvent::Called { result, .. }) = event {
            self.all.fetch_add(1, Ordering::Relaxed);
            let is_failed = matches!(result, StoreCallResult::Timeout | StoreCallResult::Error);
            self.failed.fetch_add(u64::from(is_failed), Ordering::Relaxed);
        }
    }
}

fn gate(url: &str, count: &Arc<Count>) -> Limits {
    let events = Events::from_iter([Arc::clone(count) as Arc<dyn EventListener>]);
    // So long that a slow store shows as slow, and a decision without the store as an error.
    let options =
        StoreOptions { timeout: Span::from_secs(2), on_error: OnError::Deny, ..StoreOptions::default() };
    let limits =
        Limits::open_as(&url.parse().unwrap(), &Namespace::default(), b"", options, store_observer(events));
    limits.unwrap().with_capacity(10_000)
}

/// Runs this number of callers, each of which calls again as soon as it has its reply.
async fn throughput(kind: &str, url: &str, time: Duration, callers: usize, keys: usize) {
    let count = Arc::new(Count::default());
    let spec = if keys == 1 { MILLION_A_SECOND } else { TEN_THOUSAND_A_DAY };
    let client = Client::open(kind, url, &count, spec()).await;
    let run = |time| {
        let calls = (0..callers).map(|caller| {
            // Each caller has keys of its own, unless there is only one.
            let own = (0..keys).skip(if keys == 1 { 0 } else { caller }).step_by(callers);
            tokio::spawn(calls(client.clone(), own.map(|key| format!("key {key}")).collect(), time))
        });
        calls.collect::<Vec<_>>()
    };
    for warm in run(time / 4) {
        warm.await.unwrap();
    }
    let requests = count.all.load(Ordering::Relaxed);
    let (processor, of_store, begun) = (processor(), processor_of_stores(), Instant::now());
    let (mut took, mut refused) = (Vec::new(), 0);
    for calls in run(time) {
        let (times, others) = calls.await.unwrap();
        took.extend(times);
        refused += others;
    }
    let (seconds, processor) = (begun.elapsed().as_secs_f64(), self::processor() - processor);
    let of_store = processor_of_stores() - of_store;
    let requests = count.all.load(Ordering::Relaxed) - requests;
    let requests = if kind == "store" { requests } else { took.len() as u64 };
    took.sort_unstable();
    let decisions = took.len() as f64;
    let part = |share: f64| f64::from(took[(decisions * share) as usize]) / 1000.0;
    println!("1 decisions/s {}", decisions / seconds);
    println!("2 processor µs/decision {}", processor * 1e6 / decisions);
    println!("3 p50 µs {}", part(0.5));
    println!("4 p99 µs {}", part(0.99));
    println!("5 questions/decision {}", requests as f64 / decisions);
    println!("6 core used % {}", processor / seconds * 100.0);
    println!("7 store thread µs/question {}", of_store * 1e6 / requests as f64);
    println!("8 not admitted or failed {}", refused + count.failed.load(Ordering::Relaxed));
}

/// How long each call took in nanoseconds, and how many were not admitted.
async fn calls(client: Client, keys: Vec<String>, time: Duration) -> (Vec<u32>, u64) {
    let end = Instant::now() + time;
    let (mut took, mut refused) = (Vec::new(), 0);
    for key in keys.iter().cycle() {
        let begun = Instant::now();
        refused += u64::from(!client.is_admitted(key).await);
        took.push(u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX));
        if Instant::now() >= end {
            break;
        }
    }
    (took, refused)
}

/// The gate that is called at this step.
type Pick = fn(usize) -> usize;

/// Of a hundred keys in turn, how many admitted attempts in a hundred took one request.
async fn trips(url: &str) {
    let picks: [(&str, Pick); 4] = [
        ("1 one gate", |_| 0),
        ("2 two gates, sticky", |step| step % 2),
        ("3 two gates, at random", |step| (step.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) & 1),
        ("4 two gates, alternating", |step| step / 100 % 2),
    ];
    for (name, pick) in picks {
        let counts = [(); 2].map(|()| Arc::new(Count::default()));
        let fresh = format!("{name} {}", std::process::id());
        let gates =
            counts.each_ref().map(|count| gate(url, count).limiter(&fresh, TEN_THOUSAND_A_DAY()).unwrap());
        let (mut single, mut admitted) = (0_u32, 0_u32);
        for step in 0..ATTEMPTS {
            let (gate, count) = (&gates[pick(step)], &counts[pick(step)]);
            let requests = count.all.load(Ordering::Relaxed);
            let taken = gate.take(format!("key {}", step % 100), 1).await.unwrap();
            let requests = count.all.load(Ordering::Relaxed) - requests;
            admitted += u32::from(taken.is_admitted());
            single += u32::from(taken.is_admitted() && requests == 1);
        }
        println!("{name} {}", f64::from(single) / f64::from(admitted) * 100.0);
    }
}

/// Of keys that come back after a pause, when their bucket is full again (which takes 100 ms), how many in a hundred
/// took one request.
async fn back(url: &str) {
    let pauses = [500, 1500, 2500, 3500, 4500, 6500];
    for (pause, task) in pauses.map(|pause| (pause, tokio::spawn(back_after(url.to_owned(), pause)))) {
        println!("{pause:04} after {pause} ms {}", task.await.unwrap());
    }
}

async fn back_after(url: String, pause: u64) -> u32 {
    let count = Arc::new(Count::default());
    let fresh = format!("back {pause} {}", std::process::id());
    let spec = Spec::Continuous(Continuous::new(10, Span::from_secs(1), 5).unwrap());
    let gate = gate(&url, &count).limiter(&fresh, spec).unwrap();
    let mut single = 0;
    for is_back in [false, true] {
        for key in 0..50 {
            let requests = count.all.load(Ordering::Relaxed);
            let taken = gate.take(format!("key {key}"), 1).await.unwrap();
            let requests = count.all.load(Ordering::Relaxed) - requests;
            single += u32::from(is_back && taken.is_admitted() && requests == 1);
        }
        if !is_back {
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }
    single * 2
}

/// The processor time of all threads of this process, in seconds.
fn processor() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The processor time of the threads that call stores, in seconds.
fn processor_of_stores() -> f64 {
    time_of_threads(std::process::id(), |name| name == "store").as_secs_f64()
}

const KEYS: usize = 1000;
const ATTEMPTS: usize = 3000;
/// Never empty during a run, and full again long after it.
const TEN_THOUSAND_A_DAY: fn() -> Spec =
    || Spec::Continuous(Continuous::new(10_000, Span::from_secs(86_400), 10_000).unwrap());
/// Never empty.
const MILLION_A_SECOND: fn() -> Spec =
    || Spec::Continuous(Continuous::new(1_000_000, Span::from_secs(1), 1_000_000).unwrap());
