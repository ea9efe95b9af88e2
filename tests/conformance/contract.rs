//! What every backend promises: one compare-and-swap, and time.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tollgate::bucket::{Key, MAX_RECORD_LEN};
use tollgate::store::{RecordVersion, StoreClock, StoreError, StoreRecord, Stored, Swap};
use tollgate::time::{Span, Time};

use crate::gate::Gate;
use support::{Server, eventually};

/// A store opened on a server.
struct Opened<S> {
    server: S,
    gate: Gate,
}

impl<S> Deref for Opened<S> {
    type Target = Gate;

    fn deref(&self) -> &Gate {
        &self.gate
    }
}

const KEY: Key = Key(0x0123_4567_89ab_cdef_0011_2233_4455_6677);

fn record(bytes: impl Into<Vec<u8>>, seconds: u64) -> StoreRecord {
    let ttl = Span::from_secs(seconds);
    StoreRecord { bytes: bytes.into(), ttl, limit: "address".into(), full_at: now().after(ttl) }
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Time::from_nanos(u64::try_from(since.as_nanos()).unwrap())
}

impl<S: Server> Opened<S> {
    fn new(server: S) -> Self {
        let gate = Gate::ready(&server.url());
        Self { server, gate }
    }

    /// Whether it answers again: in less than two seconds, where a machine does nothing else.
    fn recovers(&self) -> bool {
        eventually(Duration::from_secs(10), || {
            self.rest(Duration::from_millis(100));
            let patience = Duration::from_millis(200);
            // A probe speaks for one server of several.
            let mut servers = self.store.servers().into_iter();
            servers
                .all(|server| matches!(self.within(patience, |store| store.probe(server.id)), Some(Ok(()))))
                && matches!(self.within(patience, |store| store.load(KEY)), Some(Ok(_)))
        })
    }
}

pub(crate) fn what_was_never_written_is_not_there(server: impl Server) {
    assert_eq!(Opened::new(server).load(KEY), None);
}

pub(crate) fn what_was_written_is_read_with_the_version_that_the_writer_was_told(server: impl Server) {
    let opened = Opened::new(server);
    let first = opened.write(KEY, None, record(*b"one", 60));
    assert_eq!(opened.load(KEY), Some(Stored { bytes: b"one".to_vec(), version: first }));
    let second = opened.write(KEY, Some(first), record(*b"two", 60));
    assert_ne!(first, second);
    assert_eq!(opened.load(KEY), Some(Stored { bytes: b"two".to_vec(), version: second }));
}

pub(crate) fn a_swap_that_expects_another_version_returns_the_record(server: impl Server) {
    let opened = Opened::new(server);
    let first = opened.write(KEY, None, record(*b"one", 60));
    let second = opened.write(KEY, Some(first), record(*b"two", 60));
    let lost = Swap::Conflict(Some(Stored { bytes: b"two".to_vec(), version: second }));
    assert_eq!(opened.swap(KEY, Some(first), record(*b"three", 60)), lost);
    assert_eq!(opened.load(KEY).unwrap().bytes, b"two");
}

pub(crate) fn a_swap_that_expects_no_record_returns_the_one_there_is(server: impl Server) {
    let opened = Opened::new(server);
    let version = opened.write(KEY, None, record(*b"one", 60));
    let lost = Swap::Conflict(Some(Stored { bytes: b"one".to_vec(), version }));
    assert_eq!(opened.swap(KEY, None, record(*b"two", 60)), lost);
}

pub(crate) fn a_swap_that_expects_a_record_is_told_that_there_is_none(server: impl Server) {
    let opened = Opened::new(server);
    assert_eq!(opened.swap(KEY, Some(RecordVersion(7)), record(*b"one", 60)), Swap::Conflict(None));
    assert_eq!(opened.load(KEY), None);
}

pub(crate) fn of_many_at_once_one_wins_each_round(server: impl Server) {
    const RIVALS: usize = 16;
    const ROUNDS: usize = 10;
    let opened = Opened::new(server);
    let rivals: Vec<_> = (0..RIVALS).map(|_| opened.beside(&opened.server.url())).collect();
    // So many connections at once are a database's business, which may take its time.
    let is_there = |gate: &Gate| gate.ask(|store| store.load(KEY)).is_ok();
    assert!(rivals.iter().all(|gate| eventually(Duration::from_secs(10), || is_there(gate))));
    let mut old = None;
    for round in 0..ROUNDS {
        let asked: Vec<_> = rivals
            .iter()
            .enumerate()
            .map(|(rival, gate)| {
                let store = Arc::clone(&gate.store);
                gate.spawn(async move {
                    // The database may ask to come again, and a swap that said so has written nothing.
                    loop {
                        match store.swap(KEY, old, record(format!("{round} {rival}"), 60)).await {
                            Err(StoreError::WriteConflict) => {}
                            answer => return answer.unwrap().value,
                        }
                    }
                })
            })
            .collect();
        let mut won = Vec::new();
        for (rival, task) in asked.into_iter().enumerate() {
            match opened.wait(task) {
                Swap::Done(version) => won.push((rival, version)),
                Swap::Conflict(stored) => assert!(stored.is_some()),
                Swap::Stepped { .. } => panic!("no step was asked for"),
            }
        }
        let [(winner, version)] = won[..] else { panic!("{won:?} in round {round}") };
        assert_eq!(opened.load(KEY), Some(Stored { bytes: format!("{round} {winner}").into(), version }));
        old = Some(version);
    }
}

pub(crate) fn the_longest_record_comes_back_byte_for_byte(server: impl Server) {
    let opened = Opened::new(server);
    let bytes: Vec<u8> = (0..MAX_RECORD_LEN).map(|at| u8::try_from(at * 7 % 256).unwrap()).collect();
    let version = opened.write(KEY, None, record(bytes.clone(), 60));
    assert_eq!(opened.load(KEY), Some(Stored { bytes, version }));
}

pub(crate) fn keys_that_differ_in_one_bit_do_not_meet(server: impl Server) {
    let opened = Opened::new(server);
    let keys: Vec<Key> =
        (0..128).map(|bit| Key(KEY.0 ^ 1 << bit)).chain([KEY, Key(0), Key(u128::MAX)]).collect();
    for key in &keys {
        opened.write(*key, None, record(key.0.to_be_bytes(), 60));
    }
    for key in &keys {
        assert_eq!(opened.load(*key).unwrap().bytes, key.0.to_be_bytes());
    }
}

pub(crate) fn two_installations_in_one_store_do_not_meet(server: impl Server) {
    let opened = Opened::new(server);
    let other = opened.of_another(&opened.server.url(), "other-site");
    other.ask(|store| store.migrate()).unwrap();
    opened.write(KEY, None, record(*b"one", 60));
    assert_eq!(other.load(KEY), None);
}

pub(crate) fn what_has_outlived_its_time_is_not_there(server: impl Server) {
    let opened = Opened::new(server);
    let version = opened.write(KEY, None, record(*b"one", 1));
    // A second, rounded up to the next where the database counts in seconds, and up to one more until it looks.
    opened.rest(Duration::from_millis(3500));
    assert_eq!(opened.load(KEY), None);
    assert_eq!(opened.swap(KEY, Some(version), record(*b"two", 60)), Swap::Conflict(None));
    opened.write(KEY, None, record(*b"three", 60));
}

pub(crate) fn nothing_is_gone_before_its_time(server: impl Server) {
    let opened = Opened::new(server);
    for odd in [1, 999_999_999, 1_000_000_000, 1_400_000_000] {
        let ttl = Span::from_nanos(1_000_000_000 + odd);
        let key = Key(u128::from(odd));
        let written = Instant::now();
        opened.write(key, None, StoreRecord { ttl, ..record(*b"one", 60) });
        opened.rest(Duration::from_millis(600));
        let found = opened.load(key);
        assert!(found.is_some() || written.elapsed() >= ttl.to_std(), "gone after {:?}", written.elapsed());
    }
    // More than thirty days is a date to memcached.
    let days = 100 * 24 * 3600;
    opened.write(KEY, None, record(*b"long", days));
    opened.rest(Duration::from_millis(1500));
    assert!(opened.load(KEY).is_some());
}

pub(crate) fn a_key_that_was_gone_gets_a_version_that_it_never_had(server: impl Server) {
    let mut opened = Opened::new(server);
    let before = opened.write(KEY, None, record(*b"one", 60));
    opened.server.kill();
    opened.server.start_again();
    assert!(opened.recovers());
    assert_eq!(opened.load(KEY), None, "it starts empty");
    let after = opened.write(KEY, None, record(*b"two", 60));
    assert_ne!(before, after);
}

pub(crate) fn answers_bring_a_clock_that_runs(server: impl Server) {
    let opened = Opened::new(server);
    // From now on it is known which servers there are.
    opened.load(KEY);
    let clock = || {
        let before = now();
        let server = opened.store.servers()[0].id;
        let answer = opened.block_on(opened.store.probe(server)).unwrap();
        (before, answer.clock.expect("a probe brings the clock"), now())
    };
    let (before, first, after) = clock();
    match first {
        StoreClock::Exact(time) => assert!(before <= time && time <= after, "{before:?} {time:?} {after:?}"),
        StoreClock::Seconds(time) => {
            assert!(
                time <= after && before <= time.after(Span::from_secs(2)),
                "{before:?} {time:?} {after:?}"
            );
        }
    }
    opened.rest(Duration::from_millis(2100));
    let (_, second, _) = clock();
    assert_ne!(first, second);
}

pub(crate) fn bytes_of_others_are_read_as_they_stand(server: impl Server) {
    let mut opened = Opened::new(server);
    opened.write(KEY, None, record(*b"ours", 60));
    opened.server.spoil(b"not ours");
    match opened.ask(|store| store.load(KEY)) {
        Ok(Some(stored)) => {
            assert_ne!(stored.bytes, b"ours");
            // A gate that has read them may write over them.
            opened.write(KEY, Some(stored.version), record(*b"again", 60));
        }
        Ok(None) => drop(opened.write(KEY, None, record(*b"again", 60))),
        Err(error) => panic!("{error}: foreign bytes are no fault of the database"),
    }
    assert_eq!(opened.load(KEY).unwrap().bytes, b"again");
}

pub(crate) fn a_killed_server_is_an_error_and_its_return_is_noticed(server: impl Server) {
    let mut opened = Opened::new(server);
    opened.write(KEY, None, record(*b"one", 60));
    for _ in 0..3 {
        opened.server.kill();
        for _ in 0..3 {
            let answer = opened.within(Duration::from_millis(500), |store| store.load(KEY));
            assert!(!matches!(answer, Some(Ok(_))), "{answer:?} from a dead server");
        }
        opened.server.start_again();
        assert!(opened.recovers());
        assert_eq!(opened.load(KEY), None);
    }
}

pub(crate) fn a_stopped_server_does_not_hold_a_caller_that_gives_up(server: impl Server) {
    let mut opened = Opened::new(server);
    let version = opened.write(KEY, None, record(*b"one", 60));
    opened.server.pause();
    let begun = Instant::now();
    for _ in 0..10 {
        let answer = opened.within(Duration::from_millis(50), |store| store.load(KEY));
        assert!(!matches!(answer, Some(Ok(_))), "{answer:?} from a stopped server");
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    opened.server.resume();
    assert!(opened.recovers());
    assert_eq!(opened.load(KEY), Some(Stored { bytes: b"one".to_vec(), version }));
}
