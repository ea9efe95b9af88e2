//! A store of two servers: outages, clocks and throttling stay where they are.

use super::*;
use crate::attempt_probe::key_at;

/// Keys of even numbers are on one server, odd ones on the other.
#[derive(Default)]
struct Pair {
    servers: [Ledger; 2],
    /// How often it was asked which server has a key.
    lookups: AtomicUsize,
}

impl Pair {
    fn of(&self, Key(key): Key) -> &Ledger {
        &self.servers[usize::from(key % 2 == 1)]
    }
}

impl CompareAndSwap for Pair {
    fn servers(&self) -> Vec<ServerEntry> {
        ["even", "odd"]
            .into_iter()
            .zip(0..)
            .map(|(name, id)| ServerEntry { id: ServerId(id), name: name.into() })
            .collect()
    }

    fn server_of(&self, Key(key): Key) -> ServerId {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        ServerId(u32::from(key % 2 == 1))
    }

    fn load(&self, key: Key) -> StoreFuture<'_, Option<Stored>> {
        self.of(key).load(key)
    }

    fn swap(&self, key: Key, old: Option<RecordVersion>, new: StoreRecord) -> StoreFuture<'_, Swap> {
        self.of(key).swap(key, old, new)
    }

    fn probe(&self, ServerId(server): ServerId) -> StoreFuture<'_, ()> {
        self.servers[usize::from(server == 1)].probe(ServerId::ONLY)
    }
}

/// Notes what operators are told.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl StoreObserver for Told {
    fn call_finished(&self, _result: CallStatus, _took: Span) {}
    fn availability_changed(&self, _change: &AvailabilityChange<'_>) {}

    fn availability_reported(&self, change: &AvailabilityChange<'_>) {
        let up = if change.up { "up" } else { "down" };
        self.0.lock().unwrap().push(format!("{} {up}", change.server));
    }

    fn warned(&self, what: &str) {
        self.0.lock().unwrap().push(what.to_owned());
    }
}

/// A process on a pair.
struct Gate {
    shared: Arc<SharedStore>,
    mirror: Arc<Mirror>,
    told: Arc<Told>,
    clock: Clock,
    runtime: Runtime,
}

impl Gate {
    fn on(pair: &Arc<Pair>) -> Self {
        let (clock, told) = (Clock::manual(NOW), Arc::new(Told::default()));
        let (backend, observer) = (Arc::clone(pair) as Arc<dyn CompareAndSwap>, Arc::clone(&told));
        let options = StoreOptions {
            timeout: Span::from_millis(100),
            on_error: OnError::Deny,
            arithmetic: Arithmetic::Store,
        };
        let shared = SharedStore::start_on(move || Ok(backend), options, clock.clone(), observer).unwrap();
        let buckets = Arc::new(Buckets::new(100, &[spec()]).unwrap());
        let mirror = Arc::new(Mirror::new(&"address".into(), &buckets).unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { shared, mirror, told, clock, runtime }
    }

    fn take(&self, key: u128) -> Result<bool, Unavailable> {
        let bucket = BucketKey { key: Key(key), ..bucket() };
        let call = self.shared.call(&self.mirror, bucket, StoreOp::Step(Op::Take(1)));
        self.runtime.block_on(call).map(|reply| reply.verdict.is_admitted())
    }

    fn await_up(&self, up: bool) {
        let begun = std::time::Instant::now();
        while self.shared.is_up() != up {
            let _ = self.take(1);
            assert!(begun.elapsed() < Duration::from_secs(10), "it is noticed");
        }
    }

    /// The store's thread tells operators after it has changed what it knows.
    fn assert_told(&self, expected: &[&str]) {
        let begun = std::time::Instant::now();
        while self.told.0.lock().unwrap().len() < expected.len() && begun.elapsed() < Duration::from_secs(10)
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(std::mem::take(&mut *self.told.0.lock().unwrap()), expected);
    }
}

#[test]
fn keys_of_a_server_that_answers_never_notice_another_that_does_not() {
    let pair = Arc::new(Pair::default());
    let gate = Gate::on(&pair);
    pair.servers[1].away.store(true, Ordering::SeqCst);
    gate.await_up(false);
    for key in 0..100 {
        assert_eq!(gate.take(key), if key % 2 == 1 { Err(Unavailable) } else { Ok(true) }, "key {key}");
    }
    pair.servers[1].away.store(false, Ordering::SeqCst);
    gate.await_up(true);
    assert_eq!(gate.take(1), Ok(true));
    gate.assert_told(&["odd down", "odd up"]);
}

#[test]
fn a_server_that_answers_and_takes_no_writes_is_down_until_it_does() {
    let pair = Arc::new(Pair::default());
    let gate = Gate::on(&pair);
    pair.servers[1].is_full.store(true, Ordering::SeqCst);
    gate.await_up(false);
    std::thread::sleep(Duration::from_millis(700));
    assert!(!gate.shared.is_up(), "its probes write");
    pair.servers[1].is_full.store(false, Ordering::SeqCst);
    gate.await_up(true);
    gate.assert_told(&["odd down", "odd up"]);
}

#[test]
fn a_key_that_is_throttled_is_one_key() {
    let pair = Arc::new(Pair::default());
    let gate = Gate::on(&pair);
    *pair.servers[0].throttled.lock().unwrap() = Some(2);
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_millis(300) {
        assert_eq!(gate.take(2), Err(Unavailable));
    }
    assert!(gate.shared.is_up());
    assert_eq!(gate.take(4), Ok(true));
    gate.assert_told(&[]);
}

#[test]
fn each_server_decides_by_its_own_clock_and_one_that_is_far_off_is_told_once() {
    let pair = Arc::new(Pair::default());
    for (ledger, ahead) in pair.servers.iter().zip([0, 6]) {
        *ledger.clock.lock().unwrap() = Some(Clock::manual(NOW.after(Span::from_secs(ahead))));
    }
    let gates = [Gate::on(&pair), Gate::on(&pair)];
    for key in [2, 3] {
        let mut admitted = 0;
        for attempt in 0..40 {
            admitted += usize::from(gates[attempt % 2].take(key).unwrap());
        }
        assert_eq!(admitted, 10, "key {key}");
    }
    for gate in &gates {
        let at = |key: u128| gate.shared.time_at(Key(key), gate.shared.time(gate.clock.now()));
        assert_eq!((at(2), at(3)), (NOW, NOW.after(Span::from_secs(6))));
        let told = "odd: the store's clock is 6 s ahead of this machine's; the store's decides";
        gate.assert_told(&[told]);
    }
}

/// Ten thousand keys were tried for a server that a cluster had left: a tenth of a second at each start, in which every attempt
/// was denied.
#[test]
fn no_key_is_sought_at_a_server_that_the_store_does_not_have() {
    let pair = Pair::default();
    let key = |server| key_at(&pair, ServerId(server), (0..).map(Key));
    assert_eq!((key(0), key(1), key(2)), (Some(Key(0)), Some(Key(1)), None));
    assert_eq!(pair.lookups.load(Ordering::Relaxed), 3);
}
