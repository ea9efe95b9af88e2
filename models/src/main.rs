//! The line of the bucket table under every interleaving of threads, by loom.
//!
//! `crates/store/src/memory/table_line.rs` is built here as it is, with loom's atomics under the names that it imports. The
//! table's part, the further words behind a line, is one word for each slot here. Loom treats loads and stores that are
//! `SeqCst` as `AcqRel`. The line needs no more than that; the order between a locked line and a closed limit does, and
//! is left to `tests/buckets/table/concurrency.rs`.
//!
//! `cargo run --release --manifest-path models/Cargo.toml` runs the models; `scripts/test models` does so with a bound
//! on the time.

mod sync;
#[path = "../../crates/store/src/memory/table_line.rs"]
mod table_line;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use sync::AtomicU64;
use table_line::{LineVersion, SLOTS, TableLine, WORDS, Written};
use tollgate_bucket::Time;

const NOW: Time = Time::from_nanos(1);
const TAG: u32 = 7;

/// A line, and a second word for each of its slots.
struct Table {
    line: [AtomicU64; WORDS],
    further: [AtomicU64; SLOTS],
}

impl Table {
    fn new() -> Arc<Self> {
        let zeros = |_| AtomicU64::new(0);
        Arc::new(Self { line: std::array::from_fn(zeros), further: std::array::from_fn(zeros) })
    }

    fn line(&self) -> TableLine<'_> {
        TableLine(&self.line)
    }

    /// Both words of a bucket; zeros if it is not there.
    fn read(&self, tag: u32) -> ((u64, u64), LineVersion) {
        self.line().consistent(|| self.copy(tag))
    }

    fn copy(&self, tag: u32) -> (u64, u64) {
        let found = self.line().find(tag);
        found.map_or((0, 0), |(slot, full_at)| (full_at.as_nanos(), self.further[slot].load(Relaxed)))
    }

    /// The line must be locked.
    fn write(&self, tag: u32, (full_at, further): (u64, u64)) -> Written {
        let (slot, written) = self.line().write(tag, Time::from_nanos(full_at), NOW);
        self.further[slot].store(further, Relaxed);
        written
    }

    /// Updates a bucket as the table does: from the state that was read if no write came between, else once more with
    /// the lock.
    fn add_ten(&self, tag: u32) {
        let (seen, version) = self.read(tag);
        if let Some(_held) = self.line().lock_if_unchanged(version) {
            self.write(tag, ten_more(seen));
            return;
        }
        let _held = self.line().lock();
        self.write(tag, ten_more(self.copy(tag)));
    }
}

/// Both words of a state always agree.
fn ten_more((full_at, further): (u64, u64)) -> (u64, u64) {
    (full_at.max(100) + 10, further.max(100) + 10)
}

fn whole((full_at, further): (u64, u64)) {
    assert_eq!(full_at, further, "a torn state");
}

fn two_writers_lose_nothing() {
    let table = Table::new();
    let writers = [(); 2].map(|()| {
        let table = Arc::clone(&table);
        loom::thread::spawn(move || table.add_ten(TAG))
    });
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(table.read(TAG).0, (120, 120), "an update was lost");
}

fn a_reader_beside_two_writers_sees_whole_states() {
    let table = Table::new();
    let writers = [(); 2].map(|()| {
        let table = Arc::clone(&table);
        loom::thread::spawn(move || table.add_ten(TAG))
    });
    whole(table.read(TAG).0);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(table.read(TAG).0, (120, 120), "an update was lost");
}

fn an_evicted_bucket_is_seen_whole_or_not_at_all() {
    let table = Table::new();
    for (tag, full_at) in (TAG..).zip([50, 60, 70, 80, 90]) {
        table.write(tag, (full_at, full_at));
    }
    let newcomer = {
        let table = Arc::clone(&table);
        loom::thread::spawn(move || {
            let _held = table.line().lock();
            assert_eq!(table.write(99, (55, 55)), Written::Evicted);
        })
    };
    let seen = table.read(TAG).0;
    assert!([(50, 50), (0, 0)].contains(&seen), "{seen:?}");
    newcomer.join().unwrap();
    assert_eq!((table.read(TAG).0, table.read(99).0), ((0, 0), (55, 55)));
}

fn a_writer_to_an_evicted_bucket_begins_anew() {
    let table = Table::new();
    for (tag, full_at) in (TAG..).zip([150, 160, 170, 180, 190]) {
        table.write(tag, (full_at, full_at));
    }
    let newcomer = {
        let table = Arc::clone(&table);
        loom::thread::spawn(move || {
            let _held = table.line().lock();
            table.write(99, (155, 155));
        })
    };
    table.add_ten(TAG);
    newcomer.join().unwrap();
    let (mine, others) = (table.read(TAG).0, table.read(99).0);
    // Either this write came first and the next nearest bucket was evicted, or this bucket was evicted first, began
    // anew, and took a slot.
    assert!([(160, 160), (110, 110), (0, 0)].contains(&mine), "{mine:?}");
    whole(others);
}

fn main() {
    let models: [(&str, fn()); 4] = [
        ("two writers lose nothing", two_writers_lose_nothing),
        ("a reader beside two writers sees whole states", a_reader_beside_two_writers_sees_whole_states),
        ("an evicted bucket is seen whole or not at all", an_evicted_bucket_is_seen_whole_or_not_at_all),
        ("a writer to an evicted bucket begins anew", a_writer_to_an_evicted_bucket_begins_anew),
    ];
    for (name, model) in models {
        println!("{name}");
        loom::model(model);
    }
}
