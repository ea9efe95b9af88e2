//! Many gates at buckets that have tokens for them, on a store without arithmetic: leases.
//!
//! Beside the gates one bucket is kept that decides each attempt at once. So it is known what one gate would have
//! admitted, and the gates admit hardly less.

use super::*;
use tollgate_bucket::step;

const GATES: usize = 8;
const CLIENTS: usize = 4;
const MINUTES: u64 = 4;

struct Crowd {
    gates: Vec<Gate>,
    store: Arc<Store>,
    observer: RefCell<Observer>,
    dice: RefCell<Dice>,
    /// The buckets of a single gate.
    ideal: RefCell<[u64; 4]>,
    figures: RefCell<Figures>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Figures {
    attempts: u32,
    admitted: u32,
    /// By a single gate.
    ideal: u32,
    unavailable: u32,
}

/// A large bucket that hardly refills, one that refills as fast as a gate uses its tokens, one that has too little, and
/// a small one.
fn specs() -> [Spec; 4] {
    let rate = |count, burst| Spec::Continuous(Continuous::new(count, Span::from_secs(1), burst).unwrap());
    [rate(1, 20_000), rate(30, 500), rate(10, 300), rate(2, 10)]
}

fn bucket(key: usize) -> BucketKey {
    BucketKey { spec: specs()[key], ..super::bucket(key, false) }
}

impl Crowd {
    async fn new(seed: u64) -> Rc<Self> {
        let mut dice = Dice(seed.wrapping_mul(0xD134_2543_DE82_EF95));
        let store = Store::new(dice.below(u64::MAX));
        let options =
            StoreOptions { arithmetic: Arithmetic::Gate, on_error: OnError::Deny, ..StoreOptions::default() };
        let gate = |_| {
            let (alive, end) = oneshot::channel();
            let backend = Arc::clone(&store) as Arc<dyn CompareAndSwap>;
            let (clock, observer) = (store.clock_of_gate(0), Arc::new(Quiet));
            let (shared, _) =
                SharedStore::start_within(Handle::current(), backend, options, clock, observer, alive);
            let mirror = RefCell::new(mirror(Buckets::new(100, &specs()).unwrap()));
            Gate { shared, mirror, changed: false.into(), _end: end }
        };
        let gates = (0..GATES).map(gate).collect();
        store.rest(Duration::from_secs(1)).await;
        let (observer, dice) = (Observer::new(&specs(), &specs()), RefCell::new(dice));
        let (ideal, figures) = (RefCell::default(), RefCell::default());
        Rc::new(Self { gates, store, observer: RefCell::new(observer), dice, ideal, figures })
    }

    fn below(&self, max: usize) -> usize {
        usize::try_from(self.dice.borrow_mut().below(max as u64)).unwrap()
    }

    /// From one number on, below the sum of both.
    fn number(&self, from: u64, more: u64) -> u64 {
        from + self.dice.borrow_mut().below(more)
    }

    fn ideally(&self, key: usize, op: Op) -> Verdict {
        let word = &mut self.ideal.borrow_mut()[key..=key];
        step(&specs()[key], word, self.store.now(), op).verdict
    }

    async fn attempt(self: &Rc<Self>, gate: usize, key: usize) {
        self.store.set_clocks();
        let Gate { shared, mirror, .. } = &self.gates[gate];
        let (mirror, bucket) = (Arc::clone(&mirror.borrow()), bucket(key));
        let now = shared.now();
        let ideal = self.ideally(key, Op::Take(1));
        self.figures.borrow_mut().attempts += 1;
        self.figures.borrow_mut().ideal += u32::from(ideal.is_admitted());
        let is_refused = !mirror.buckets.peek(&bucket, now, 1).is_admitted()
            && mirror.is_fresh(&bucket, now)
            && !shared.has_leased(&bucket, now);
        if is_refused {
            return;
        }
        let reply = shared.call(&mirror, bucket, StoreOp::Step(Op::Take(1))).await;
        self.store.set_clocks();
        let Ok(StoreReply { verdict, .. }) = reply else {
            self.figures.borrow_mut().unavailable += 1;
            return;
        };
        if !verdict.is_admitted() {
            return;
        }
        self.figures.borrow_mut().admitted += 1;
        let id = self.observer.borrow_mut().admitted(key, self.store.now(), 1);
        if ideal.is_admitted() && self.below(4) == 0 {
            let (world, open_for) = (Rc::clone(self), [1, 30, 400][self.below(3)]);
            spawn_local(async move {
                world.store.rest(Duration::from_millis(open_for)).await;
                world.observer.borrow_mut().refunded(key, id, world.store.now());
                let _ = world.ideally(key, Op::Refund(ideal.receipt));
                let op = StoreOp::Step(Op::Refund(verdict.receipt));
                world.gates[gate].shared.enqueue([StoreCall { mirror: &mirror, bucket, op }]);
            });
        }
    }

    /// Comes for some seconds, and rests for some.
    async fn client(self: Rc<Self>, gate: usize) {
        let end = Instant::now() + Duration::from_secs(MINUTES * 60);
        while Instant::now() < end {
            let (key, pause) = (self.below(4), self.number(5, 30));
            for _ in 0..self.below(600) {
                self.attempt(gate, key).await;
                self.store.rest(Duration::from_micros(pause * self.number(500, 1_000))).await;
            }
            self.store.rest(Duration::from_millis(self.number(0, 3_000))).await;
        }
    }

    async fn run(self: &Rc<Self>) {
        let clients = (0..GATES * CLIENTS).map(|number| spawn_local(Rc::clone(self).client(number % GATES)));
        for client in clients.collect::<Vec<_>>() {
            client.await.unwrap();
        }
        self.store.rest(Duration::from_secs(60)).await;
        for Gate { shared, .. } in &self.gates {
            assert!(shared.queue.is_empty() && shared.leases.is_empty() && shared.is_up());
        }
    }
}

#[test]
fn gates_that_meet_at_a_bucket_admit_what_one_would_and_hardly_less() {
    for seed in seeds() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let crowd = LocalSet::new().block_on(&runtime, async {
            let crowd = Crowd::new(seed).await;
            crowd.run().await;
            crowd
        });
        let (figures, asked) = (*crowd.figures.borrow(), crowd.store.asked.load(Ordering::Relaxed));
        println!("seed {seed}: {figures:?}, asked {asked}");
        crowd.observer.borrow().demand(1, seed);
        assert!(f64::from(figures.admitted) >= 0.97 * f64::from(figures.ideal), "{figures:?}");
        assert!(figures.unavailable * 500 < figures.attempts, "{figures:?}");
        assert!(asked < u64::from(figures.attempts) / 2, "{figures:?}, asked {asked}");
    }
}
