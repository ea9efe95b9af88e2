//! A value in memcached: a record, and the takes that gates have appended to it.
//!
//! memcached cannot calculate, but it appends. A gate that appends its takes loses no race, and the value brings them in
//! the order in which they came. A reader takes the steps of all entries by [`step`], one after the other; an
//! entry has the same verdict for each reader, because what is before it never changes. A gate that reads many
//! entries writes their sum, by compare-and-swap. Requests are left to [`memcached`](super).
//!
//! An entry, all numbers big endian: `mark (8) | fingerprint of the spec (4) | time (8) | tokens (4)`. It counts nothing
//! where the record has another spec, its own rate, or was written long after that time: then the gate decides by
//! compare-and-swap.

use crate::RecordVersion;
use crate::bucket_state::BucketState;
use crate::compare_and_swap::StoreRecord;
use crate::step_program::StepProgram;
use tollgate_bucket::{Op, Span, Time, step};

/// What a gate appends to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Takes {
    mark: u64,
    /// The entries.
    pub(super) bytes: Vec<u8>,
    /// The record of a full bucket, for where there is no value.
    pub(super) full: StoreRecord,
}

/// A value as it was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Journal {
    /// The record after all entries.
    pub(super) record: Vec<u8>,
    /// When its bucket is full again.
    pub(super) full_at: Time,
    /// The number of entries.
    pub(super) entries: usize,
    /// What became of the entries that the reader has appended.
    pub(super) taken: Taken,
}

/// What became of a gate's own entries.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// They are not there, or no more.
    Absent,
    /// They count nothing.
    Void,
    /// They were taken from this record.
    From(Vec<u8>),
}

struct Entry {
    mark: u64,
    fingerprint: u32,
    time: Time,
    tokens: u32,
}

impl Takes {
    /// The takes of this program; `None` if it does anything else, since a refund may not be done twice.
    pub(super) fn of(new: &StoreRecord, program: &StepProgram) -> Option<Self> {
        let RecordVersion(mark) = RecordVersion::random();
        let (content, _) = BucketState::decode_first(&new.bytes)?;
        let (fingerprint, time) = (content.header.spec.fingerprint(), program.now);
        let takes = program.takes()?;
        let entry = |tokens| Entry { mark, fingerprint, time, tokens }.encode();
        let bytes = takes.into_iter().flat_map(entry).collect();
        let full = StoreRecord {
            bytes: BucketState::absent(content.header.spec).encode(),
            ttl: lifetime(program),
            ..new.clone()
        };
        Some(Self { mark, bytes, full })
    }
}

impl Journal {
    /// Reads a value, and looks for these takes in it; `None` for foreign bytes.
    pub(super) fn read(value: &[u8], takes: Option<&Takes>) -> Option<Self> {
        let (mut content, rest) = BucketState::decode_first(value)?;
        let (entries, rest) = rest.as_chunks::<ENTRY_LEN>();
        if !rest.is_empty() {
            return None;
        }
        let mut taken = Taken::Absent;
        for entry in entries.iter().map(Entry::decode) {
            let counts = entry.counts(&content);
            if taken == Taken::Absent && takes.is_some_and(|takes| takes.mark == entry.mark) {
                taken = if counts { Taken::From(content.encode()) } else { Taken::Void };
            }
            if counts {
                entry.take_from(&mut content);
            }
        }
        let (record, full_at) = (content.encode(), content.full_at());
        Some(Self { record, full_at, entries: entries.len(), taken })
    }

    /// Whether the value is gone before its bucket is full, unless it is written again; `ttl` are seconds.
    pub(super) fn outlives(&self, ttl: Option<u64>, now: Time) -> bool {
        let needed = self.full_at.since(now).as_secs_ceil().saturating_add(CLOCKS_APART);
        ttl.is_some_and(|ttl| ttl < needed)
    }
}

impl Entry {
    fn encode(&self) -> [u8; ENTRY_LEN] {
        let mut bytes = [0; ENTRY_LEN];
        bytes[..8].copy_from_slice(&self.mark.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.fingerprint.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.time.as_nanos().to_be_bytes());
        bytes[20..].copy_from_slice(&self.tokens.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8; ENTRY_LEN]) -> Self {
        let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_be_bytes(*word));
        let half = |at: usize| bytes[at..].first_chunk().map_or(0, |half| u32::from_be_bytes(*half));
        Self { mark: word(0), fingerprint: half(8), time: Time::from_nanos(word(12)), tokens: half(20) }
    }

    fn counts(&self, content: &BucketState) -> bool {
        let header = &content.header;
        header.own_until.is_none()
            && header.spec.fingerprint() == self.fingerprint
            && content.decision_time(self.time) >= content.written_at()
    }

    fn take_from(&self, content: &mut BucketState) {
        let now = content.decision_time(self.time);
        let BucketState { header, state } = content;
        let words = header.spec.words().min(state.len());
        let _ = step(&header.spec, &mut state[..words], now, Op::Take(self.tokens));
    }
}

/// How long a value lives that takes are appended to, which does not change its time: twice as long as a bucket needs,
/// so that it is not written again for each of them.
pub(super) fn lifetime(program: &StepProgram) -> Span {
    program.max_ttl().times(2).plus(Span::from_secs(2 * CLOCKS_APART))
}

const ENTRY_LEN: usize = 24;
/// Seconds that gates may be apart, and that memcached rounds by.
const CLOCKS_APART: u64 = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_bucket::{Continuous, Spec};

    const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);

    fn spec(burst: u32) -> Spec {
        Spec::Continuous(Continuous::new(1, Span::from_secs(60), burst).unwrap())
    }

    fn record(spec: Spec) -> StoreRecord {
        let bytes = BucketState::absent(spec).encode();
        StoreRecord { bytes, ttl: Span::from_secs(1), limit: "address".into(), full_at: NOW }
    }

    fn takes(spec: Spec, tokens: &[u32], now: Time) -> Takes {
        let ops = tokens.iter().map(|tokens| Op::Take(*tokens));
        let program = StepProgram::new(&spec, ops, now, now.after(Span::from_secs(1))).unwrap();
        Takes::of(&record(spec), &program).unwrap()
    }

    fn left(journal: &Journal) -> u32 {
        let (mut content, _) = BucketState::decode_first(&journal.record).unwrap();
        step(&content.header.spec, &mut content.state[..1], NOW, Op::Peek(1)).verdict.left
    }

    #[test]
    fn entries_are_taken_one_after_the_other_and_a_refused_one_takes_nothing() {
        let (one, other, third) =
            (takes(spec(10), &[4, 3], NOW), takes(spec(10), &[4], NOW), takes(spec(10), &[2], NOW));
        let value = [&one.full.bytes[..], &one.bytes, &other.bytes, &third.bytes].concat();
        let journal = Journal::read(&value, Some(&third)).unwrap();
        assert_eq!((left(&journal), journal.entries), (1, 4));
        let Taken::From(before) = journal.taken else { panic!("{journal:?}") };
        assert_eq!(left(&Journal::read(&before, None).unwrap()), 3);
    }

    #[test]
    fn what_was_made_for_another_bucket_counts_nothing() {
        let foreign = takes(spec(11), &[1], NOW);
        let value = [&record(spec(10)).bytes[..], &foreign.bytes].concat();
        let journal = Journal::read(&value, Some(&foreign)).unwrap();
        assert_eq!((left(&journal), journal.taken), (10, Taken::Void));
    }

    #[test]
    fn an_entry_of_long_ago_counts_nothing() {
        let (new, old) =
            (takes(spec(10), &[10], NOW), takes(spec(10), &[1], NOW.before(Span::from_secs(60))));
        let value = [&new.full.bytes[..], &new.bytes, &old.bytes].concat();
        let journal = Journal::read(&value, Some(&old)).unwrap();
        assert_eq!((left(&journal), journal.taken), (0, Taken::Void));
    }

    #[test]
    fn half_an_entry_is_foreign() {
        let takes = takes(spec(10), &[1], NOW);
        for end in 1..ENTRY_LEN {
            assert_eq!(Journal::read(&[&takes.full.bytes[..], &takes.bytes[..end]].concat(), None), None);
        }
    }

    #[test]
    fn a_refund_is_not_appended() {
        let ops = [Op::Take(1), Op::Give(1)];
        let program = StepProgram::new(&spec(10), ops, NOW, NOW).unwrap();
        assert_eq!(Takes::of(&record(spec(10)), &program), None);
    }
}
