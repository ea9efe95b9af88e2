//! The mirror: what this process last saw in the store of the buckets of one limit.
//!
//! It answers refusals: a bucket that had no token a moment ago, and is due none yet, has none. It knows the version
//! that it saw, so the next attempt can start with a write instead of a read. While the store is down, its buckets
//! decide. A decision made here alone makes the mirror's state differ from the store's. So a short state is also stored
//! as it was seen, and both together may be written over the record at once; a long state is written only after the
//! record was read again. Calls are left to [`batch`](super::batch).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::RecordVersion;
use crate::bucket_state::{BucketState, digest_of};
use crate::memory::{BucketKey, BucketTable, Buckets, TooLarge};
use tollgate_bucket::RecordHeader;
use tollgate_bucket::{Span, Time};

/// The buckets of one limit, as this process last saw them.
pub struct Mirror {
    limit: Arc<str>,
    pub(super) buckets: Arc<Buckets>,
    /// For each of them: when the store drops its record, when the record was seen, its version, its digest, and its
    /// state, if that is short.
    entries: BucketTable,
    /// Words of a state in `entries`; zero for long states.
    state_words: usize,
    /// The share of attempts that buckets of this limit refused lately, where the store was asked: of [`ALL`].
    refused: AtomicU32,
}

/// What is known of a bucket before the store is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LastSeen {
    /// The version that was seen, if its record cannot have expired since.
    pub(super) version: Option<RecordVersion>,
    /// When it was seen.
    pub(super) seen_at: Time,
    /// Whether attempts were decided here alone since, unknown to the store. With a version, they are on top of its
    /// state.
    pub(super) is_ahead: bool,
    /// The digest of the state here: another one means that something was decided here since.
    pub(super) digest: u64,
}

/// What was last seen in the store.
struct MirrorEntry {
    /// When the store drops the record.
    gone_at: Time,
    seen_at: Time,
    /// Zero if there was no record.
    version: RecordVersion,
    digest: u64,
    /// All zero if it is too long.
    state: [u64; SHORT_STATE_WORDS],
}

impl Mirror {
    /// A mirror of the buckets of this limit, with the capacity of `buckets`.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space.
    pub fn new(limit: &Arc<str>, buckets: &Arc<Buckets>) -> Result<Self, TooLarge> {
        let state_words = Some(buckets.words()).filter(|words| *words <= SHORT_STATE_WORDS).unwrap_or(0);
        let entries = BucketTable::new(buckets.capacity(), ENTRY_WORDS + state_words)?;
        Ok(Self {
            limit: Arc::clone(limit),
            buckets: Arc::clone(buckets),
            entries,
            state_words,
            refused: 0.into(),
        })
    }

    /// The name of the limit.
    pub(crate) fn limit(&self) -> &Arc<str> {
        &self.limit
    }

    /// Notes what a bucket of this limit said in the store. Of notes at the same time one may be lost.
    pub(crate) fn note(&self, is_admitted: bool) {
        let (share, now) = (self.refused.load(Ordering::Relaxed), if is_admitted { 0 } else { ALL });
        self.refused.store(share - share / NOTES + now / NOTES, Ordering::Relaxed);
    }

    /// The share of attempts that buckets of this limit refused lately, if it is most of them.
    pub(crate) fn refuses_most(&self) -> Option<u32> {
        Some(self.refused.load(Ordering::Relaxed)).filter(|share| *share > ALL / 2)
    }

    /// When the bucket was last seen in the store. Refusals made here alone since may have deepened its debt.
    #[must_use]
    pub fn seen_at(&self, bucket: &BucketKey) -> Time {
        self.read(bucket).seen_at
    }

    /// Whether the bucket was seen in the store less than a second ago.
    #[must_use]
    pub fn is_fresh(&self, bucket: &BucketKey, now: Time) -> bool {
        is_recent(self.seen_at(bucket), now)
    }

    /// The bucket's state in this process, and what is known of the store's.
    pub(super) fn recall(&self, bucket: &BucketKey, now: Time) -> (BucketState, LastSeen) {
        let mut content = BucketState::absent(bucket.spec);
        content.header = self.buckets.recall(bucket, now, &mut content.state);
        let is_empty = content.full_at() == Time::from_nanos(0);
        let digest = content.digest();
        let MirrorEntry { gone_at, seen_at, version, digest: seen, state } = self.read(bucket);
        let version = Some(version).filter(|version| version.0 != 0 && gone_at > now);
        let last_seen = LastSeen { version, seen_at, is_ahead: false, digest };
        if seen == digest {
            return (content, last_seen);
        }
        let mut stored = BucketState::absent(bucket.spec);
        if state[0] != 0 && stored.header == content.header {
            stored.state[..SHORT_STATE_WORDS].copy_from_slice(&state);
            let is_ahead = stored.join(&content.header, &content.state, now);
            return (stored, LastSeen { is_ahead, ..last_seen });
        }
        (content, LastSeen { version: None, is_ahead: !is_empty, ..last_seen })
    }

    /// Records what the store has now. Decisions made here alone since the digest was `recalled` stay
    /// on top of it, and reach the store with a later call; without a digest, so does the whole state here.
    pub(super) fn remember(
        &self,
        bucket: &BucketKey,
        content: &BucketState,
        version: RecordVersion,
        recalled: Option<u64>,
        now: Time,
    ) {
        self.write(bucket, content, recalled, now);
        let gone_at = content.gone_at().max(now.after(FRESH));
        let mut entry = [0; ENTRY_WORDS + SHORT_STATE_WORDS];
        entry[..ENTRY_WORDS].copy_from_slice(&[
            gone_at.as_nanos(),
            now.as_nanos(),
            version.0,
            content.digest(),
        ]);
        if content.header == RecordHeader::of(bucket.spec) {
            entry[ENTRY_WORDS..].copy_from_slice(&content.state[..SHORT_STATE_WORDS]);
        }
        self.entries.put(bucket.key, &entry[..ENTRY_WORDS + self.state_words], now);
    }

    /// Records that the store has no record: the bucket is full, but for decisions made here alone since.
    pub(super) fn forget(&self, bucket: &BucketKey, recalled: Option<u64>, now: Time) {
        self.write(bucket, &BucketState::absent(bucket.spec), recalled, now);
        let mut entry = [0; ENTRY_WORDS + SHORT_STATE_WORDS];
        entry[..2].copy_from_slice(&[now.after(FRESH).as_nanos(), now.as_nanos()]);
        self.entries.put(bucket.key, &entry[..ENTRY_WORDS + self.state_words], now);
    }

    fn write(&self, bucket: &BucketKey, content: &BucketState, recalled: Option<u64>, now: Time) {
        self.buckets.remember(bucket, now, |header, state| {
            if recalled == Some(digest_of(header, state)) {
                *header = content.header;
                state.copy_from_slice(&content.state[..]);
                return;
            }
            let mut next = content.clone();
            next.join(header, state, now);
            (*header, *state) = (next.header, *next.state);
        });
    }

    fn read(&self, bucket: &BucketKey) -> MirrorEntry {
        let mut entry = [0; ENTRY_WORDS + SHORT_STATE_WORDS];
        self.entries.peek(bucket.key, &mut entry[..ENTRY_WORDS + self.state_words]);
        let [gone_at, seen_at, version, digest, ref state @ ..] = entry;
        let (gone_at, seen_at) = (Time::from_nanos(gone_at), Time::from_nanos(seen_at));
        MirrorEntry { gone_at, seen_at, version: RecordVersion(version), digest, state: *state }
    }
}

impl std::fmt::Debug for Mirror {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mirror({}, {:?})", self.limit, self.buckets)
    }
}

/// Whether something was seen less than a second ago. A time in the future comes from another clock and does not count.
pub(super) fn is_recent(seen_at: Time, now: Time) -> bool {
    seen_at <= now && now < seen_at.after(FRESH)
}

/// A share of one.
const ALL: u32 = 1 << 16;
/// How many notes make a share.
const NOTES: u32 = 32;
const ENTRY_WORDS: usize = 4;
/// Words of all shapes but rolling windows and those that remember what they counted.
const SHORT_STATE_WORDS: usize = 3;
/// How long a refusal is repeated without a call to the store.
const FRESH: Span = Span::from_secs(1);
