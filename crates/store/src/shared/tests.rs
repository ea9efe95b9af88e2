//! One process, or several side by side, on a backend that misbehaves on demand.
//!
//! Real databases are left to `tests/conformance/`.

#![allow(clippy::disallowed_methods, reason = "a test asks the real clock how long something took")]

#[cfg(test)]
mod attempts;
#[cfg(test)]
mod several_servers;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod words;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use tokio::runtime::Runtime;

use super::*;
use crate::memory::Buckets;
use crate::{
    Clocked, RecordVersion, ServerEntry, ServerId, StoreClock, StoreError, StoreFuture, StoreRecord, Stored,
    Swap, SwapRequest, SwapResults,
};
use tollgate_bucket::{Admission, Continuous, Op, Own, Spec, Verdict};

/// A backend in memory that can be told to misbehave.
#[derive(Default)]
struct Ledger {
    rows: Mutex<HashMap<u128, Stored>>,
    asked: AtomicUsize,
    /// Never answers.
    silent: AtomicBool,
    /// Answers that it is unreachable.
    away: AtomicBool,
    /// Does what it is told, and then answers that it is unreachable.
    loses_answers: AtomicBool,
    /// Answers, and refuses what is to be written.
    is_full: AtomicBool,
    /// Refuses what attempts ask, and answers what else is asked.
    lacks_a_right: AtomicBool,
    /// The key that it takes no requests about.
    throttled: Mutex<Option<u128>>,
    /// Another gate writes before each write.
    has_rivals: AtomicBool,
    /// Writes several buckets in one request.
    writes_together: AtomicBool,
    /// Takes steps, which are never lost here, and refuses them cheaply.
    steps: AtomicBool,
    /// Panics at the next request.
    panics: AtomicBool,
    /// By how many seconds its clock is ahead.
    ahead: AtomicU64,
    clock: Mutex<Option<Clock>>,
}

impl Ledger {
    fn answer<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut HashMap<u128, Stored>) -> T,
    ) -> StoreFuture<'static, T> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.silent.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        assert!(!self.panics.swap(false, Ordering::SeqCst), "on purpose");
        let away = Err(StoreError::Unreachable("unplugged".to_owned()));
        if self.away.load(Ordering::SeqCst) {
            return Box::pin(async { away });
        }
        let value = what(&mut self.rows.lock().unwrap());
        if self.loses_answers.load(Ordering::SeqCst) {
            return Box::pin(async { away });
        }
        let clock = self
            .clock
            .lock()
            .unwrap()
            .as_ref()
            .map(Clock::now)
            .map(|now| StoreClock::Exact(now.after(Span::from_secs(self.ahead.load(Ordering::SeqCst)))));
        Box::pin(async move {
            tokio::task::yield_now().await;
            Ok(Clocked { value, clock })
        })
    }

    /// The answer to a probe, which is not a call.
    fn answer_uncounted(&self) -> StoreFuture<'static, ()> {
        let calls = self.asked.load(Ordering::SeqCst);
        let answer = self.answer(|_| ());
        self.asked.store(calls, Ordering::SeqCst);
        answer
    }

    fn take_asked(&self) -> usize {
        self.asked.swap(0, Ordering::SeqCst)
    }
}

fn swap_in(
    rows: &mut HashMap<u128, Stored>,
    (key, old): (u128, Option<RecordVersion>),
    new: StoreRecord,
) -> Swap {
    let current = rows.get(&key).cloned();
    if current.as_ref().map(|stored| stored.version) != old {
        return Swap::Conflict(current);
    }
    let version = RecordVersion::random();
    rows.insert(key, Stored { bytes: new.bytes, version });
    Swap::Done(version)
}

impl CompareAndSwap for Ledger {
    fn load(&self, Key(key): Key) -> StoreFuture<'_, Option<Stored>> {
        self.answer(move |rows| rows.get(&key).cloned())
    }

    fn swap(&self, Key(key): Key, old: Option<RecordVersion>, new: StoreRecord) -> StoreFuture<'_, Swap> {
        if self.is_full.load(Ordering::SeqCst) {
            return Box::pin(async { Err(StoreError::Refused("full".to_owned())) });
        }
        if *self.throttled.lock().unwrap() == Some(key) {
            return Box::pin(async { Err(StoreError::Throttled("slow down".to_owned())) });
        }
        let has_rivals = self.has_rivals.load(Ordering::SeqCst);
        self.answer(move |rows| {
            if let Some(stored) = rows.get_mut(&key).filter(|_| has_rivals) {
                stored.version = RecordVersion::random();
            }
            swap_in(rows, (key, old), new)
        })
    }

    fn can_step(&self, _shape: &crate::StepShape) -> bool {
        self.steps.load(Ordering::SeqCst)
    }

    fn refuses_cheaply(&self) -> bool {
        true
    }

    fn can_swap_together(&self, _keys: &[Key]) -> bool {
        self.writes_together.load(Ordering::SeqCst)
    }

    fn swap_all(&self, swaps: Vec<SwapRequest>) -> StoreFuture<'_, SwapResults> {
        self.answer(move |rows| {
            let swap = |SwapRequest { key: Key(key), old, new, .. }| Ok(swap_in(rows, (key, old), new));
            swaps.into_iter().map(swap).collect()
        })
    }

    fn probe(&self, _server: ServerId) -> StoreFuture<'_, ()> {
        if self.is_full.load(Ordering::SeqCst) {
            return Box::pin(async { Err(StoreError::Refused("full".to_owned())) });
        }
        self.answer_uncounted()
    }

    fn probe_attempt(&self, _key: Key, _now: Time) -> StoreFuture<'_, ()> {
        if self.lacks_a_right.load(Ordering::SeqCst) {
            return Box::pin(async { Err(StoreError::Refused("no right".to_owned())) });
        }
        self.answer_uncounted()
    }

    /// Look-ups that are not for attempts are not counted either.
    fn marker(&self, Key(key): Key) -> StoreFuture<'_, RecordVersion> {
        let mut rows = self.rows.lock().unwrap();
        let new = || Stored { bytes: Vec::new(), version: RecordVersion::random() };
        let value = rows.entry(key).or_insert_with(new).version;
        let is_away = self.away.load(Ordering::SeqCst) || self.silent.load(Ordering::SeqCst);
        Box::pin(async move {
            if is_away {
                Err(StoreError::Unreachable("unplugged".to_owned()))
            } else {
                Ok(Clocked::without_clock(value))
            }
        })
    }
}

struct Quiet;

impl StoreObserver for Quiet {
    fn call_finished(&self, _result: CallStatus, _took: Span) {}
    fn availability_changed(&self, _change: &AvailabilityChange<'_>) {}
    fn availability_reported(&self, _change: &AvailabilityChange<'_>) {}
    fn warned(&self, _what: &str) {}
}

/// One process on a ledger.
struct Process {
    shared: Arc<SharedStore>,
    mirror: Arc<Mirror>,
    clock: Clock,
    runtime: Runtime,
}

const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);
const MINUTE: Span = Span::from_secs(60);

/// Ten tokens, one a minute.
fn spec() -> Spec {
    Spec::Continuous(Continuous::new(1, MINUTE, 10).unwrap())
}

fn bucket() -> BucketKey {
    BucketKey { key: Key(7 << 64 | 9), class: 0, spec: spec() }
}

impl Process {
    fn on(ledger: &Arc<Ledger>) -> Self {
        Self::with(ledger, OnError::Local)
    }

    fn with(ledger: &Arc<Ledger>, on_error: OnError) -> Self {
        Self::with_timeout(ledger, on_error, Span::from_millis(100))
    }

    fn with_timeout(ledger: &Arc<Ledger>, on_error: OnError, timeout: Span) -> Self {
        let clock = Clock::manual(NOW);
        let backend = Arc::clone(ledger) as Arc<dyn CompareAndSwap>;
        let options = StoreOptions { timeout, on_error, ..StoreOptions::default() };
        let shared =
            SharedStore::start_on(move || Ok(backend), options, clock.clone(), Arc::new(Quiet)).unwrap();
        let buckets = Arc::new(Buckets::new(100, &[spec()]).unwrap());
        let mirror = Arc::new(Mirror::new(&"address".into(), &buckets).unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        ledger.take_asked();
        Self { shared, mirror, clock, runtime }
    }

    /// Another process, whose clock shows the same.
    fn beside(&self, ledger: &Arc<Ledger>) -> Self {
        let other = Self::on(ledger);
        other.clock.set(self.clock.now());
        other
    }

    fn alone() -> (Arc<Ledger>, Self) {
        let ledger = Arc::new(Ledger::default());
        let process = Self::on(&ledger);
        (ledger, process)
    }

    fn call(&self, op: StoreOp) -> Result<StoreReply, Unavailable> {
        self.runtime.block_on(self.shared.call(&self.mirror, bucket(), op))
    }

    fn step(&self, op: Op) -> Verdict {
        self.call(StoreOp::Step(op)).unwrap().verdict
    }

    fn take(&self, tokens: u32) -> bool {
        self.step(Op::Take(tokens)).is_admitted()
    }

    fn left(&self) -> u32 {
        self.step(Op::Peek(1)).left
    }

    fn advance(&self, span: Span) {
        self.clock.set(self.clock.now().after(span));
    }

    fn enqueue(&self, op: Op) {
        self.shared.enqueue([StoreCall { mirror: &self.mirror, bucket: bucket(), op: StoreOp::Step(op) }]);
    }

    fn probe(&self) {
        self.runtime.block_on(self.shared.probe(&self.shared.server_of(bucket().key)));
    }

    fn flush(&self) {
        self.runtime.block_on(self.shared.flush(Duration::from_secs(5)));
    }
}

#[test]
fn an_admission_is_one_question_even_for_a_client_never_seen_before() {
    let (ledger, process) = Process::alone();
    for _ in 0..10 {
        assert!(process.take(1));
        assert_eq!(ledger.take_asked(), 1);
    }
}

#[test]
fn a_refusal_is_repeated_for_a_second_and_then_asked_for_again() {
    let (ledger, process) = Process::alone();
    assert!(process.take(10));
    ledger.take_asked();
    for _ in 0..1000 {
        assert!(!process.take(1));
        assert!(process.mirror.is_fresh(&bucket(), process.shared.now()));
    }
    assert_eq!(ledger.take_asked(), 0);
    process.advance(Span::from_secs(1));
    assert!(!process.mirror.is_fresh(&bucket(), process.shared.now()));
    assert!(!process.take(1) && !process.take(1));
    assert_eq!(ledger.take_asked(), 1);
}

#[test]
fn what_another_process_does_is_seen_within_a_second() {
    let (ledger, one) = Process::alone();
    let other = Process::on(&ledger);
    assert!(one.take(10) && !one.take(1));
    assert!(!other.take(1), "it never saw the bucket, and writes over nothing");
    other.step(Op::Give(3));
    assert!(!one.take(1));
    one.advance(Span::from_secs(1));
    assert!(one.take(3) && !one.take(1));
}

#[test]
fn processes_that_race_get_exactly_the_tokens() {
    let ledger = Arc::new(Ledger::default());
    let processes: Vec<_> = (0..4).map(|_| Process::on(&ledger)).collect();
    let admitted: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = processes
            .iter()
            .map(|process| {
                scope.spawn(move || {
                    let calls = (0..50)
                        .map(|_| process.shared.call(&process.mirror, bucket(), StoreOp::Step(Op::Take(1))));
                    let all = calls.collect::<Vec<_>>();
                    let mut admitted = 0;
                    for answer in all {
                        admitted +=
                            usize::from(process.runtime.block_on(answer).unwrap().verdict.is_admitted());
                    }
                    admitted
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(admitted, 10);
}

/// A gate once refused with a wait of a second what it could not write in time.
#[test]
fn who_loses_every_race_for_a_bucket_with_tokens_has_no_answer() {
    let ledger = Arc::new(Ledger::default());
    let process = Process::with(&ledger, OnError::Deny);
    assert!(process.take(1));
    ledger.has_rivals.store(true, Ordering::SeqCst);
    ledger.take_asked();
    assert_eq!(process.call(StoreOp::Step(Op::Take(1))), Err(Unavailable));
    assert!((3..=34).contains(&ledger.take_asked()), "it tries again, and not for ever");
    assert!(process.shared.is_up(), "losing does not count as a failure of the store");
}

#[test]
fn who_loses_every_race_and_would_decide_alone_waits_for_the_next_token() {
    let (ledger, process) = Process::alone();
    assert!(process.take(2));
    ledger.has_rivals.store(true, Ordering::SeqCst);
    let verdict = process.step(Op::Take(1));
    assert!(!verdict.is_admitted() && !process.take(2));
    let Admission::Refused { wait } = verdict.admission else { panic!("{verdict:?}") };
    assert!(wait > Span::from_secs(50) && wait <= MINUTE, "{wait:?}");
}

#[test]
fn attempts_that_come_together_are_decided_together() {
    let (ledger, process) = Process::alone();
    let calls: Vec<_> = (0..500)
        .map(|_| process.shared.call(&process.mirror, bucket(), StoreOp::Step(Op::Take(1))))
        .collect();
    let mut admitted = 0;
    for answer in calls {
        admitted += usize::from(process.runtime.block_on(answer).unwrap().verdict.is_admitted());
    }
    assert_eq!(admitted, 10);
    assert!(ledger.take_asked() < 100, "far fewer calls than attempts");
}

#[test]
fn a_silent_store_is_waited_for_as_long_as_the_file_says_and_then_not_asked_any_more() {
    let (ledger, process) = Process::alone();
    ledger.silent.store(true, Ordering::SeqCst);
    let begun = std::time::Instant::now();
    for _ in 0..5 {
        assert_eq!(process.call(StoreOp::Step(Op::Take(1))), Err(Unavailable));
    }
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_millis(400), "{waited:?}");
    while process.shared.is_up() {
        std::thread::sleep(Duration::from_millis(5));
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
    let begun = std::time::Instant::now();
    for _ in 0..100 {
        assert_eq!(process.call(StoreOp::Step(Op::Take(1))), Err(Unavailable));
    }
    assert!(begun.elapsed() < Duration::from_millis(100));
    ledger.silent.store(false, Ordering::SeqCst);
    await_recovery(&process);
    assert!(process.take(1));
}

/// H15: a panic in the probe.
#[test]
fn a_store_that_refuses_what_attempts_ask_is_down_whatever_else_it_answers() {
    let (ledger, process) = Process::alone();
    assert!(process.take(1) && process.shared.is_up());
    ledger.lacks_a_right.store(true, Ordering::SeqCst);
    process.probe();
    assert!(!process.shared.is_up(), "one probe is enough");
    process.probe();
    assert!(!process.shared.is_up(), "no probe that is answered closes it");
    ledger.lacks_a_right.store(false, Ordering::SeqCst);
    process.probe();
    let health = StoreHealth { is_up: true, trips: 1, since_trip: Some(0) };
    assert_eq!(process.shared.health(), health, "it tripped once");
}

#[test]
fn the_first_attempt_that_is_refused_has_the_store_probed() {
    let (ledger, process) = Process::alone();
    ledger.is_full.store(true, Ordering::SeqCst);
    assert_eq!(process.call(StoreOp::Step(Op::Take(1))), Err(Unavailable));
    let begun = std::time::Instant::now();
    while process.shared.is_up() {
        std::thread::sleep(Duration::from_millis(5));
        assert!(begun.elapsed() < Duration::from_secs(1), "the next regular probe is later");
    }
}

#[test]
fn an_attempt_waits_for_a_connection_that_is_made_in_time() {
    let ledger = Arc::new(Ledger::default());
    let process = Process::with_timeout(&ledger, OnError::Deny, Span::from_secs(10));
    assert!(process.take(1));
    ledger.away.store(true, Ordering::SeqCst);
    let call = process.shared.call(&process.mirror, bucket(), StoreOp::Step(Op::Take(1)));
    std::thread::sleep(Duration::from_millis(20));
    ledger.away.store(false, Ordering::SeqCst);
    assert!(process.runtime.block_on(call).unwrap().verdict.is_admitted());
    assert_eq!(process.left(), 8, "it took its token once");
}

#[test]
fn a_panic_while_the_store_is_away_is_not_the_end_of_asking_for_it() {
    let (ledger, process) = Process::alone();
    take_down(&ledger, &process);
    ledger.panics.store(true, Ordering::SeqCst);
    while ledger.panics.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(5));
    }
    ledger.away.store(false, Ordering::SeqCst);
    await_recovery(&process);
    assert!(process.take(1));
}

fn await_recovery(process: &Process) {
    let begun = std::time::Instant::now();
    while !process.shared.is_up() {
        std::thread::sleep(Duration::from_millis(5));
        assert!(begun.elapsed() < Duration::from_secs(10), "it is back");
    }
}

fn take_down(ledger: &Ledger, process: &Process) {
    ledger.away.store(true, Ordering::SeqCst);
    while process.shared.is_up() {
        let _ = process.call(StoreOp::Step(Op::Take(1)));
    }
}

#[test]
fn what_was_decided_here_while_the_store_was_away_is_carried_there() {
    let (ledger, process) = Process::alone();
    assert!(process.take(4));
    take_down(&ledger, &process);
    let local = &process.mirror.buckets;
    assert!(local.apply(&bucket(), process.shared.now(), Op::Take(6)).unwrap().is_admitted());
    ledger.away.store(false, Ordering::SeqCst);
    await_recovery(&process);
    process.advance(Span::from_secs(1));
    assert!(!process.take(1), "the six are gone in the store as well");
    assert_eq!(process.beside(&ledger).left(), 0);
}

#[test]
fn a_store_that_comes_back_empty_is_told_what_is_known() {
    let (ledger, process) = Process::alone();
    assert!(process.take(10));
    take_down(&ledger, &process);
    ledger.rows.lock().unwrap().clear();
    process.advance(Span::from_secs(1));
    ledger.away.store(false, Ordering::SeqCst);
    await_recovery(&process);
    process.advance(Span::from_secs(1));
    assert!(!process.take(1));
    assert_eq!(process.beside(&ledger).left(), 0);
}

#[test]
fn what_an_operator_deletes_is_full() {
    let (ledger, process) = Process::alone();
    assert!(process.take(10));
    ledger.rows.lock().unwrap().clear();
    process.advance(Span::from_secs(1));
    assert!(process.take(10));
}

#[test]
fn foreign_bytes_are_written_over() {
    let (ledger, process) = Process::alone();
    assert!(process.take(10));
    for stored in ledger.rows.lock().unwrap().values_mut() {
        *stored = Stored { bytes: b"not ours".to_vec(), version: RecordVersion::random() };
    }
    process.advance(Span::from_secs(1));
    assert!(process.take(1));
    assert_eq!(process.beside(&ledger).left(), 9);
}

#[test]
fn a_refund_is_done_once_the_store_is_back() {
    let (ledger, process) = Process::alone();
    let receipt = process.step(Op::Take(10)).receipt;
    ledger.away.store(true, Ordering::SeqCst);
    process.enqueue(Op::Refund(receipt));
    std::thread::sleep(Duration::from_millis(50));
    ledger.away.store(false, Ordering::SeqCst);
    process.flush();
    assert_eq!(process.left(), 10);
}

#[test]
fn a_refund_with_an_unknown_outcome_is_not_done_twice() {
    let (ledger, process) = Process::alone();
    assert!(process.take(8));
    ledger.loses_answers.store(true, Ordering::SeqCst);
    process.enqueue(Op::Give(4));
    std::thread::sleep(Duration::from_millis(50));
    ledger.loses_answers.store(false, Ordering::SeqCst);
    process.flush();
    assert_eq!(process.left(), 6);
    assert_eq!(process.shared.enqueued.load(Ordering::Relaxed), 0, "its slot is free again");
}

#[test]
fn a_refund_that_was_never_sent_has_a_known_outcome() {
    let (ledger, process) = Process::alone();
    assert!(process.take(8));
    take_down(&ledger, &process);
    process.enqueue(Op::Give(4));
    // It is retried while calls to the store are stopped.
    std::thread::sleep(Duration::from_millis(1200));
    // Another process writes the same state again.
    ledger.rows.lock().unwrap().values_mut().for_each(|stored| stored.version = RecordVersion::random());
    ledger.away.store(false, Ordering::SeqCst);
    await_recovery(&process);
    process.flush();
    assert_eq!(process.left(), 6);
}

#[test]
fn what_was_decided_here_alone_while_the_store_was_asked_is_not_forgotten() {
    let (_ledger, process) = Process::alone();
    let (mirror, now) = (&process.mirror, process.shared.now());
    let (mut content, last_seen) = mirror.recall(&bucket(), now);
    assert!(mirror.buckets.apply(&bucket(), now, Op::Take(6)).unwrap().is_admitted());
    let remembered = |content: &crate::bucket_state::BucketState, recalled| {
        mirror.remember(&bucket(), content, RecordVersion(5), Some(recalled), now);
        let (_, last_seen) = mirror.recall(&bucket(), now);
        (mirror.buckets.peek(&bucket(), now, 1).left, last_seen.is_ahead)
    };
    content.state[0] = now.after(MINUTE).as_nanos();
    assert_eq!(
        remembered(&content, last_seen.digest),
        (4, true),
        "the store knows of one, and learns of six later"
    );
    content.state[0] = now.after(Span::from_secs(540)).as_nanos();
    assert_eq!(remembered(&content, last_seen.digest), (1, false), "the store knows of more");
    content.state[0] = now.after(MINUTE).as_nanos();
    let (_, last_seen) = mirror.recall(&bucket(), now);
    assert_eq!(remembered(&content, last_seen.digest), (9, false), "nothing was decided since");
}

/// G4: without a look at the record nothing that may have been written is done again.
#[test]
fn a_lost_answer_costs_a_token_and_gives_none() {
    let (ledger, process) = Process::alone();
    assert!(process.take(5));
    ledger.loses_answers.store(true, Ordering::SeqCst);
    assert_eq!(process.call(StoreOp::Step(Op::Take(1))), Err(Unavailable));
    ledger.loses_answers.store(false, Ordering::SeqCst);
    process.advance(Span::from_secs(1));
    assert_eq!(process.left(), 4);
}

/// G4: an answer that is lost costs a token at most, and no attempt.
#[test]
fn an_attempt_whose_answer_was_lost_is_charged_again_and_decided() {
    let ledger = Arc::new(Ledger::default());
    let process = Process::with_timeout(&ledger, OnError::Deny, Span::from_secs(10));
    assert!(process.take(5));
    ledger.take_asked();
    ledger.loses_answers.store(true, Ordering::SeqCst);
    let connection = Arc::clone(&ledger);
    let repair = std::thread::spawn(move || {
        // The second request is the look that follows the lost answer.
        while connection.asked.load(Ordering::SeqCst) < 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        connection.loses_answers.store(false, Ordering::SeqCst);
    });
    assert!(process.take(1));
    repair.join().unwrap();
    assert_eq!(process.left(), 3, "one token for the lost answer");
}

#[test]
fn processes_whose_clocks_disagree_decide_by_the_stores() {
    let ledger = Arc::new(Ledger::default());
    let truth = Clock::manual(NOW.after(Span::from_secs(1000)));
    *ledger.clock.lock().unwrap() = Some(truth.clone());
    let (one, other) = (Process::on(&ledger), Process::on(&ledger));
    // As if it ran on a machine that is five minutes ahead.
    other.clock.set(NOW.after(Span::from_secs(300)));
    other.probe();
    assert!(one.take(10));
    assert_eq!(other.left(), 0);
    assert_eq!((one.shared.now(), other.shared.now()), (truth.now(), truth.now()));
    truth.set(truth.now().after(MINUTE));
    one.advance(MINUTE);
    other.advance(MINUTE);
    assert!(other.take(1) && !other.take(1) && !one.take(1));
}

#[test]
fn a_bucket_may_have_a_rate_of_its_own_and_loses_it_in_time() {
    let (ledger, one) = Process::alone();
    let other = Process::on(&ledger);
    let rate = Continuous::new(1, Span::from_secs(1), 100).unwrap();
    let own = Own { rate, until: NOW.after(Span::from_secs(5)) };
    let reply = one.call(StoreOp::Rate(Some(own))).unwrap();
    assert_eq!((reply.verdict.left, reply.own), (100, Some(own)));
    assert!(other.take(100) && !other.take(1));
    other.advance(Span::from_secs(6));
    assert_eq!(other.call(StoreOp::Step(Op::Peek(1))).unwrap().own, None);
    other.call(StoreOp::Rate(Some(own))).unwrap();
    assert_eq!(other.call(StoreOp::Rate(None)).unwrap().own, None);
}

#[test]
fn a_reset_bucket_is_full_for_everybody() {
    let (ledger, one) = Process::alone();
    let other = Process::on(&ledger);
    assert!(one.take(10) && !other.take(1));
    other.call(StoreOp::Reset).unwrap();
    assert!(other.take(1));
    one.advance(Span::from_secs(1));
    assert_eq!(one.left(), 9);
}

#[test]
fn the_thread_ends_with_the_store() {
    let (ledger, process) = Process::alone();
    assert!(process.take(1));
    drop(process);
    let begun = std::time::Instant::now();
    while Arc::strong_count(&ledger) > 1 {
        std::thread::sleep(Duration::from_millis(5));
        assert!(begun.elapsed() < Duration::from_secs(5), "it is still in use");
    }
}
