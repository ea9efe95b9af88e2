use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::*;
use crate::{Clocked, ServerId, StoreFuture, Stored};

/// A database without failures: what is tested is what the records say of each other.
#[derive(Default)]
pub(super) struct Records(Mutex<HashMap<Key, Stored>>);

impl Records {
    pub(super) fn count(&self) -> usize {
        self.0.lock().unwrap().values().filter(|stored| stored.bytes.len() > 1).count()
    }

    /// Removes what was written to expire at once.
    pub(super) fn expire(&self) {
        self.0.lock().unwrap().retain(|_, stored| stored.bytes.len() > 1);
    }

    /// Whether any record has this text.
    pub(super) fn have(&self, text: &[u8]) -> bool {
        let records = self.0.lock().unwrap();
        records.values().any(|stored| stored.bytes.windows(text.len()).any(|part| part == text))
    }

    /// As a database does that restarts empty.
    pub(super) fn lose(&self, key: Key) {
        self.0.lock().unwrap().remove(&key);
    }

    fn spoil(&self) {
        for stored in self.0.lock().unwrap().values_mut() {
            if let Some(last) = stored.bytes.last_mut() {
                *last ^= 1;
            }
        }
    }
}

impl CompareAndSwap for Records {
    fn load(&self, key: Key) -> StoreFuture<'_, Option<Stored>> {
        let found = self.0.lock().unwrap().get(&key).cloned();
        Box::pin(async { Ok(Clocked::without_clock(found)) })
    }

    fn swap(&self, key: Key, old: Option<RecordVersion>, new: StoreRecord) -> StoreFuture<'_, Swap> {
        let mut records = self.0.lock().unwrap();
        let found = records.get(&key).cloned();
        let swap = if found.as_ref().map(|stored| stored.version) == old {
            let version = RecordVersion::random();
            records.insert(key, Stored { bytes: new.bytes, version });
            Swap::Done(version)
        } else {
            Swap::Conflict(found)
        };
        Box::pin(async { Ok(Clocked::without_clock(swap)) })
    }

    fn probe(&self, _: ServerId) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(Clocked::without_clock(())) })
    }
}

/// The same, until it has answered so many requests: then its writer has ended.
pub(super) struct Ending(pub(super) Arc<Records>, pub(super) AtomicUsize);

impl Ending {
    fn ended<T: 'static>(&self) -> Option<StoreFuture<'_, T>> {
        let left = self.1.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        let error = StoreError::Unreachable("ended".to_owned());
        left.is_err().then(|| -> StoreFuture<'_, T> { Box::pin(async { Err(error) }) })
    }
}

impl CompareAndSwap for Ending {
    fn load(&self, key: Key) -> StoreFuture<'_, Option<Stored>> {
        self.ended().unwrap_or_else(|| self.0.load(key))
    }

    fn swap(&self, key: Key, old: Option<RecordVersion>, new: StoreRecord) -> StoreFuture<'_, Swap> {
        self.ended().unwrap_or_else(|| self.0.swap(key, old, new))
    }

    fn probe(&self, server: ServerId) -> StoreFuture<'_, ()> {
        self.0.probe(server)
    }
}

pub(super) fn fleet(records: &Arc<Records>, secret: &[u8]) -> Fleet {
    let backend: Arc<dyn CompareAndSwap> = Arc::<Records>::clone(records);
    Fleet::new(backend, FleetKeys::new(&Namespace::default(), &[secret]))
}

pub(super) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[test]
fn a_pushed_text_is_the_newest_and_the_history_is_bounded() {
    let records = Arc::default();
    let fleet = fleet(&records, b"secret");
    assert_eq!(run(fleet.head()).unwrap(), FleetHead::default());
    for version in 1..=MAX_HISTORY as u64 + 5 {
        let before = Some(version - 1).filter(|before| *before > 0);
        let entry = run(fleet.push(&format!("# {version}"), before, PolicyNote::default())).unwrap();
        assert_eq!(entry.version, version);
    }
    let head = run(fleet.head()).unwrap();
    assert_eq!(head.policies().len(), MAX_HISTORY);
    assert_eq!((head.policies()[0].version, head.policy(5)), (6, None));
    for entry in head.policies() {
        assert_eq!(run(fleet.policy(entry)).unwrap(), format!("# {}", entry.version));
    }
    assert_eq!(records.count(), MAX_HISTORY + 1, "a text that left the history is gone");
}

#[test]
fn of_two_writers_who_saw_the_same_policy_one_is_refused() {
    let records = Arc::default();
    let fleet = fleet(&records, b"secret");
    run(fleet.push("a = 1", None, PolicyNote::default())).unwrap();
    let late = run(fleet.push("a = 2", None, PolicyNote::default()));
    assert_eq!(late, Err(FleetError::Conflict));
    assert_eq!((run(fleet.head()).unwrap().policies().len(), records.count()), (1, 2));
}

/// Who can write to the database and has not the secret changes no policy.
#[test]
fn a_text_of_another_secret_or_a_spoilt_one_is_refused() {
    let records = Arc::default();
    run(fleet(&records, b"secret").push("a = 1", None, PolicyNote::default())).unwrap();
    assert_eq!(run(fleet(&records, b"Secret").head()), Err(FleetError::Foreign("policy")));
    let head = run(fleet(&records, b"secret").head()).unwrap();
    records.spoil();
    let text = run(fleet(&records, b"secret").policy(head.newest().unwrap()));
    assert_eq!(text, Err(FleetError::Foreign("policy")));
}

/// A secret that was replaced locked out everybody who had to push a policy with the new one.
#[test]
fn what_an_older_secret_has_sealed_is_read_and_sealed_anew() {
    let records = Arc::default();
    let with = |secrets: &[&[u8]]| {
        let backend: Arc<dyn CompareAndSwap> = Arc::<Records>::clone(&records);
        Fleet::new(backend, FleetKeys::new(&Namespace::default(), secrets))
    };
    let old = with(&[b"old"]);
    let entry = run(old.push("a = 1", None, PolicyNote::default())).unwrap();
    run(old.change_overrides(|_| Ok::<_, ()>(b"changes".to_vec()))).unwrap().unwrap();
    let source = AuditSource { id: AuditLogId(1), gate: "one".to_owned(), head: None, at: Time::default() };
    let line = NextAuditLine { hash: [1; 32], text: Some("a".into()), is_whole: true, is_after_gap: false };
    run(old.follow_audit_log(&source, &[line])).unwrap();
    let both = with(&[b"new", b"old"]);
    assert_eq!(run(both.policy(&entry)).unwrap(), "a = 1");
    run(both.reseal()).unwrap();
    run(both.reseal_audit()).unwrap();
    let new = with(&[b"new"]);
    assert_eq!(run(new.audit(Time::default())).unwrap().lines[0].text, "a");
    let head = run(new.head()).unwrap();
    assert_eq!(run(new.policy(head.newest().unwrap())).unwrap(), "a = 1");
    assert_eq!(run(new.overrides(&head)).unwrap(), b"changes");
    assert_eq!(run(old.head()), Err(FleetError::Foreign("policy")));
    run(both.reseal()).unwrap();
    assert_eq!(run(new.push("a = 2", Some(1), PolicyNote::default())).unwrap().version, 2);
}

#[test]
fn a_policy_that_cannot_be_read_is_replaced_if_the_writer_says_so() {
    let records = Arc::default();
    run(fleet(&records, b"lost").push("a = 1", None, PolicyNote::default())).unwrap();
    let fleet = fleet(&records, b"secret");
    let refused = run(fleet.push("a = 2", None, PolicyNote::default()));
    assert_eq!(refused, Err(FleetError::Foreign("policy")));
    let entry = run(fleet.replace("a = 2", PolicyNote::default())).unwrap();
    assert_eq!(run(fleet.policy(&entry)).unwrap(), "a = 2");
    assert_eq!(run(fleet.head()).unwrap().policies(), [entry]);
}

/// What can be read stays: the history, and what operators have changed.
#[test]
fn a_policy_that_can_be_read_is_replaced_as_by_any_push() {
    let records = Arc::default();
    let fleet = fleet(&records, b"secret");
    run(fleet.push("a = 1", None, PolicyNote::default())).unwrap();
    run(fleet.change_overrides(|_| Ok::<_, ()>(b"changes".to_vec()))).unwrap().unwrap();
    let entry = run(fleet.replace("a = 1", PolicyNote::default())).unwrap();
    let head = run(fleet.head()).unwrap();
    assert_eq!((entry.version, head.policies().len()), (2, 2));
    assert_eq!(run(fleet.overrides(&head)).unwrap(), b"changes");
}

#[test]
fn a_text_that_the_smallest_database_cannot_hold_is_refused() {
    let records = Arc::default();
    let text = "#".repeat(MAX_TEXT_LEN + 1);
    let pushed = run(fleet(&records, b"").push(&text, None, PolicyNote::default()));
    assert_eq!(pushed, Err(FleetError::TooLong(MAX_TEXT_LEN + 1)));
    assert_eq!(records.count(), 0);
}

#[test]
fn changes_of_several_gates_add_up_and_what_changes_nothing_writes_nothing() {
    let records = Arc::default();
    let (one, two) = (fleet(&records, b"s"), fleet(&records, b"s"));
    let add = |letter: u8| move |before: &[u8]| Ok::<_, ()>([before, &[letter]].concat());
    run(one.change_overrides(add(b'a'))).unwrap().unwrap();
    let (head, after) = run(two.change_overrides(add(b'b'))).unwrap().unwrap();
    assert_eq!((after, run(one.overrides(&head)).unwrap()), (b"ab".to_vec(), b"ab".to_vec()));
    let (same, _) = run(one.change_overrides(|before| Ok::<_, ()>(before.to_vec()))).unwrap().unwrap();
    assert!(same.has_same_overrides(&head));
    assert_eq!(run(one.change_overrides(|_| Err(7))).unwrap(), Err(7));
    assert_eq!(records.count(), 2);
}

#[test]
fn what_the_database_has_lost_is_written_back_by_any_gate() {
    let records = Arc::default();
    let fleet = fleet(&records, b"secret");
    let push = |text: &str, newest| run(fleet.push(text, newest, PolicyNote::default())).unwrap();
    push("one", None);
    let entry = push("two", Some(1));
    let changed: Result<_, std::convert::Infallible> =
        run(fleet.change_overrides(|_| Ok(b"changes".to_vec()))).unwrap();
    let (head, _) = changed.unwrap();
    records.0.lock().unwrap().clear();
    let known = [(entry.clone(), "two".to_owned())];
    for _ in 0..2 {
        run(fleet.restore(&head, &known, b"changes")).unwrap();
    }
    let restored = run(fleet.head()).unwrap();
    assert!(restored.has_same_overrides(&head));
    assert_eq!(restored.policies(), std::slice::from_ref(&entry), "the text of the other one is gone");
    assert_eq!(run(fleet.policy(&entry)).unwrap(), "two");
    assert_eq!(run(fleet.overrides(&restored)).unwrap(), b"changes");
    assert_eq!(push("three", Some(2)).version, 3, "the numbers go on");
}
