//! The line of the bucket table under every order in which threads can meet in it, by loom.
//!
//! `src/store/memory/line.rs` is built here as it is, with loom's atomics under the names that it imports. The table's
//! part, the further words behind a line, is played by one word here. What loom does not do: it treats loads and stores
//! that are `SeqCst` as `AcqRel`. The line needs no more than that; the order between a line that is held and a limit
//! that is closed does, and is left to `tests/concurrency.rs`.
//!
//! `cargo run --release --manifest-path models/Cargo.toml`; `scripts/test models` does so with a bound on the time.

#[path = "../../src/store/memory/line.rs"]
mod line;
mod sync;
#[path = "../../src/bucket/units.rs"]
mod units;

mod time {
    pub(crate) use crate::units::Time;
}

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use line::{Line, SLOTS, Version, WORDS, Written};
use sync::AtomicU64;
use time::Time;

const NOW: Time = Time::from_nanos(1);
const TAG: u32 = 7;

/// A line, and a second word for each of its slots.
struct Room {
    line: [AtomicU64; WORDS],
    further: [AtomicU64; SLOTS],
}

impl Room {
    fn new() -> Arc<Self> {
        let zeros = |_| AtomicU64::new(0);
        Arc::new(Self { line: std::array::from_fn(zeros), further: std::array::from_fn(zeros) })
    }

    fn line(&self) -> Line<'_> {
        Line(&self.line)
    }

    /// Both words of a bucket; zeros if it is not there.
    fn read(&self, tag: u32) -> ((u64, u64), Version) {
        self.line().consistent(|| self.copy(tag))
    }

    fn copy(&self, tag: u32) -> (u64, u64) {
        let found = self.line().find(tag);
        found.map_or((0, 0), |(slot, full_at)| (full_at.as_nanos(), self.further[slot].load(Relaxed)))
    }

    /// The line must be held.
    fn write(&self, tag: u32, (full_at, further): (u64, u64)) -> Written {
        let (slot, written) = self.line().write(tag, Time::from_nanos(full_at), NOW);
        self.further[slot].store(further, Relaxed);
        written
    }

    /// As the table adds to a bucket: without the lock if nobody came between, with it otherwise.
    fn add_ten(&self, tag: u32) {
        let (seen, version) = self.read(tag);
        if let Some(_held) = self.line().hold_if(version) {
            self.write(tag, ten_more(seen));
            return;
        }
        let _held = self.line().hold();
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
    let room = Room::new();
    let writers = [(); 2].map(|()| {
        let room = Arc::clone(&room);
        loom::thread::spawn(move || room.add_ten(TAG))
    });
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(room.read(TAG).0, (120, 120), "an update was lost");
}

fn a_reader_beside_two_writers_sees_whole_states() {
    let room = Room::new();
    let writers = [(); 2].map(|()| {
        let room = Arc::clone(&room);
        loom::thread::spawn(move || room.add_ten(TAG))
    });
    whole(room.read(TAG).0);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(room.read(TAG).0, (120, 120), "an update was lost");
}

fn a_bucket_that_gives_way_is_seen_whole_or_not_at_all() {
    let room = Room::new();
    for (tag, full_at) in (TAG..).zip([50, 60, 70, 80, 90]) {
        room.write(tag, (full_at, full_at));
    }
    let newcomer = {
        let room = Arc::clone(&room);
        loom::thread::spawn(move || {
            let _held = room.line().hold();
            assert_eq!(room.write(99, (55, 55)), Written::Forgot);
        })
    };
    let seen = room.read(TAG).0;
    assert!([(50, 50), (0, 0)].contains(&seen), "{seen:?}");
    newcomer.join().unwrap();
    assert_eq!((room.read(TAG).0, room.read(99).0), ((0, 0), (55, 55)));
}

fn whoever_writes_to_a_bucket_that_gives_way_begins_anew() {
    let room = Room::new();
    for (tag, full_at) in (TAG..).zip([150, 160, 170, 180, 190]) {
        room.write(tag, (full_at, full_at));
    }
    let newcomer = {
        let room = Arc::clone(&room);
        loom::thread::spawn(move || {
            let _held = room.line().hold();
            room.write(99, (155, 155));
        })
    };
    room.add_ten(TAG);
    newcomer.join().unwrap();
    let (mine, others) = (room.read(TAG).0, room.read(99).0);
    // Either I wrote first and the next nearest gave way, or I was forgotten first, began anew, and took a place.
    assert!([(160, 160), (110, 110), (0, 0)].contains(&mine), "{mine:?}");
    whole(others);
}

fn main() {
    let models: [(&str, fn()); 4] = [
        ("two writers lose nothing", two_writers_lose_nothing),
        ("a reader beside two writers sees whole states", a_reader_beside_two_writers_sees_whole_states),
        (
            "a bucket that gives way is seen whole or not at all",
            a_bucket_that_gives_way_is_seen_whole_or_not_at_all,
        ),
        (
            "whoever writes to a bucket that gives way begins anew",
            whoever_writes_to_a_bucket_that_gives_way_begins_anew,
        ),
    ];
    for (name, model) in models {
        println!("{name}");
        loom::model(model);
    }
}
