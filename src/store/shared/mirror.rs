//! The mirror: what this process last saw in the store of the buckets of one limit.
//!
//! It answers refusals: a bucket that had no token a moment ago, and is due none yet, has none. It tells which writing it
//! saw, so that the next attempt can begin with writing instead of reading; and while the store is away it is the warm
//! bucket that decides. The surprising thing: what was decided here alone makes it another bucket than the one in the
//! store. Where a state is short, what was seen is kept beside it, and both together may be written over it at once; else
//! nothing is written over the store's before it was looked at.

use std::sync::Arc;

use super::bucket_state::{BucketState, digest_of};
use crate::bucket::RecordHeader;
use crate::store::RecordVersion;
use crate::store::memory::{BucketKey, BucketTable, Buckets, TooLarge};
use crate::time::{Span, Time};

/// The buckets of one limit, as this process last saw them.
pub struct Mirror {
    limit: Arc<str>,
    pub(super) buckets: Arc<Buckets>,
    /// For each of them: when the store forgets it, when that was seen, which writing that was, a digest of it, and the
    /// state that was seen, if that is short.
    entries: BucketTable,
    /// Words of a state that are kept.
    state_words: usize,
}

/// What is known of a bucket before the store is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LastSeen {
    /// Which writing was seen, if the store must still have it unless somebody wrote another one.
    pub(super) version: Option<RecordVersion>,
    /// When it was seen.
    pub(super) seen_at: Time,
    /// Whether attempts were decided here alone since: the store does not know of them. With a version, they are on top of
    /// what that writing was.
    pub(super) is_ahead: bool,
    /// What tells whether anything was decided here since.
    pub(super) digest: u64,
}

/// What was seen in the store.
struct MirrorEntry {
    /// When the store forgets it.
    gone_at: Time,
    seen_at: Time,
    /// Zero if nothing stood there.
    version: RecordVersion,
    digest: u64,
    /// All zero where it is not kept.
    state: [u64; SHORT_STATE_WORDS],
}

impl Mirror {
    /// A mirror of this limit's buckets, as many as there is room for in `buckets`.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space.
    pub fn new(limit: &Arc<str>, buckets: &Arc<Buckets>) -> Result<Self, TooLarge> {
        let kept = Some(buckets.words()).filter(|words| *words <= SHORT_STATE_WORDS).unwrap_or(0);
        let known = BucketTable::new(buckets.capacity(), ENTRY_WORDS + kept)?;
        Ok(Self { limit: Arc::clone(limit), buckets: Arc::clone(buckets), entries: known, state_words: kept })
    }

    /// The name of the limit.
    pub(super) fn limit(&self) -> &Arc<str> {
        &self.limit
    }

    /// When what is here was last seen in the store, as far as refusals go: attempts that were refused here alone since may
    /// have deepened its debt.
    #[must_use]
    pub fn seen_at(&self, place: &BucketKey) -> Time {
        self.read(place).seen_at
    }

    /// Whether that was less than a second ago.
    #[must_use]
    pub fn is_fresh(&self, place: &BucketKey, now: Time) -> bool {
        is_recent(self.seen_at(place), now)
    }

    /// The bucket as it stands here, and what is known of the store's.
    pub(super) fn recall(&self, place: &BucketKey, now: Time) -> (BucketState, LastSeen) {
        let mut content = BucketState::absent(place.spec);
        content.header = self.buckets.recall(place, now, &mut content.state);
        let is_empty = content.full_at() == Time::from_nanos(0);
        let digest = content.digest();
        let MirrorEntry { gone_at, seen_at, version, digest: seen, state } = self.read(place);
        let version = Some(version).filter(|version| version.0 != 0 && gone_at > now);
        let known = LastSeen { version, seen_at, is_ahead: false, digest };
        if seen == digest {
            return (content, known);
        }
        let mut stored = BucketState::absent(place.spec);
        if state[0] != 0 && stored.header == content.header {
            stored.state[..SHORT_STATE_WORDS].copy_from_slice(&state);
            let is_ahead = stored.join(&content.header, &content.state, now);
            return (stored, LastSeen { is_ahead, ..known });
        }
        (content, LastSeen { version: None, is_ahead: !is_empty, ..known })
    }

    /// This stands in the store now, until then. What was decided here alone since `recalled` was the digest counts here as
    /// well, and gets there with a later question; without a digest, whatever stands here does.
    pub(super) fn remember(
        &self,
        place: &BucketKey,
        content: &BucketState,
        (version, gone_at): (RecordVersion, Time),
        (recalled, now): (Option<u64>, Time),
    ) {
        self.write(place, content, recalled, now);
        let gone_at = gone_at.max(now.after(FRESH));
        let mut known = [0; ENTRY_WORDS + SHORT_STATE_WORDS];
        known[..ENTRY_WORDS].copy_from_slice(&[
            gone_at.as_nanos(),
            now.as_nanos(),
            version.0,
            content.digest(),
        ]);
        if content.header == RecordHeader::of(place.spec) {
            known[ENTRY_WORDS..].copy_from_slice(&content.state[..SHORT_STATE_WORDS]);
        }
        self.entries.put(place.key, &known[..ENTRY_WORDS + self.state_words], now);
    }

    /// Nothing stands in the store now: the bucket is full, but for what was decided here alone since.
    pub(super) fn forget(&self, place: &BucketKey, (recalled, now): (Option<u64>, Time)) {
        self.write(place, &BucketState::absent(place.spec), recalled, now);
        let mut known = [0; ENTRY_WORDS + SHORT_STATE_WORDS];
        known[..2].copy_from_slice(&[now.after(FRESH).as_nanos(), now.as_nanos()]);
        self.entries.put(place.key, &known[..ENTRY_WORDS + self.state_words], now);
    }

    fn write(&self, place: &BucketKey, content: &BucketState, recalled: Option<u64>, now: Time) {
        self.buckets.remember(place, now, |header, state| {
            let mut next = content.clone();
            if recalled != Some(digest_of(header, state)) {
                next.join(header, state, now);
            }
            (*header, *state) = (next.header, *next.state);
        });
    }

    fn read(&self, place: &BucketKey) -> MirrorEntry {
        let mut known = [0; ENTRY_WORDS + SHORT_STATE_WORDS];
        self.entries.peek(place.key, &mut known[..ENTRY_WORDS + self.state_words]);
        let [gone_at, seen_at, version, digest, ref state @ ..] = known;
        let (gone_at, seen_at) = (Time::from_nanos(gone_at), Time::from_nanos(seen_at));
        MirrorEntry { gone_at, seen_at, version: RecordVersion(version), digest, state: *state }
    }
}

impl std::fmt::Debug for Mirror {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mirror({}, {:?})", self.limit, self.buckets)
    }
}

/// Whether something was seen less than a second ago. What was seen in the future was seen by another clock.
pub(super) fn is_recent(seen_at: Time, now: Time) -> bool {
    seen_at <= now && now < seen_at.after(FRESH)
}

const ENTRY_WORDS: usize = 4;
/// Words of all shapes but rolling windows and those that remember what they counted.
const SHORT_STATE_WORDS: usize = 3;
/// So long a refusal is repeated without asking.
const FRESH: Span = Span::from_secs(1);
