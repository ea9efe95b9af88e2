//! What this process last saw of a limit's buckets in the store.
//!
//! It answers refusals: a bucket that had no token a moment ago, and is due none yet, has none. It tells which writing it
//! saw, so that the next attempt can begin with writing instead of reading; and while the store is away it is the warm
//! bucket that decides. The surprising thing: what was decided here alone makes it another bucket than the one in the
//! store, and that shows in a digest; then nothing is written over the store's before it was looked at.

use std::sync::Arc;

use super::words::{Content, digest_of};
use crate::store::Version;
use crate::store::memory::{Buckets, Place, Table, TooLarge};
use crate::time::{Span, Time};

/// The buckets of one limit, as this process last saw them.
pub struct Mirror {
    limit: Arc<str>,
    pub(super) buckets: Arc<Buckets>,
    /// For each of them: when the store forgets it, which writing that was, when that was seen, and a digest of it.
    known: Table,
}

/// What is known of a bucket before the store is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// Which writing was seen, if the store must still have it unless somebody wrote another one.
    pub(super) version: Option<Version>,
    /// When it was seen.
    pub(super) seen_at: Time,
    /// Whether attempts were decided here alone since: the store does not know of them.
    pub(super) is_ahead: bool,
    /// What tells whether anything was decided here since.
    pub(super) digest: u64,
}

impl Mirror {
    /// A mirror of this limit's buckets, as many as there is room for in `buckets`.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space.
    pub fn new(limit: &Arc<str>, buckets: &Arc<Buckets>) -> Result<Self, TooLarge> {
        let known = Table::new(buckets.capacity(), KNOWN)?;
        Ok(Self { limit: Arc::clone(limit), buckets: Arc::clone(buckets), known })
    }

    /// The name of the limit.
    pub(super) fn limit(&self) -> &Arc<str> {
        &self.limit
    }

    /// Whether what is here was in the store less than a second ago, as far as refusals go: attempts that were refused
    /// here alone since may have deepened its debt.
    #[must_use]
    pub fn is_fresh(&self, place: &Place, now: Time) -> bool {
        is_recent(self.read(place).1, now)
    }

    /// The bucket as it stands here, and what is known of the store's.
    pub(super) fn recall(&self, place: &Place, now: Time) -> (Content, Known) {
        let mut content = Content::absent(place.spec);
        content.header = self.buckets.recall(place, now, &mut content.state);
        let is_empty = content.full_at() == Time::from_nanos(0);
        let seen_as = content.digest();
        let (gone_at, seen_at, version, seen) = self.read(place);
        let is_as_seen = seen == seen_as;
        let is_there = gone_at > now.before(PATIENCE) && version.0 != 0;
        let version = (is_as_seen && is_there).then_some(version);
        (content, Known { version, seen_at, is_ahead: !is_as_seen && !is_empty, digest: seen_as })
    }

    /// This stands in the store now, until then. What was decided here alone since `recalled` was the digest stays, unless
    /// the store is stricter: it gets there with the next question.
    pub(super) fn remember(
        &self,
        place: &Place,
        content: &Content,
        (version, gone_at): (Version, Time),
        (recalled, now): (u64, Time),
    ) {
        self.write(place, content, recalled, now);
        let digest = content.digest();
        let gone_at = gone_at.max(now.after(PATIENCE));
        let known = [gone_at.as_nanos(), now.as_nanos(), version.0, digest];
        self.known.put(place.key, &known, now);
    }

    /// Nothing stands in the store now: the bucket is full, but for what was decided here alone since.
    pub(super) fn forget(&self, place: &Place, (recalled, now): (u64, Time)) {
        self.write(place, &Content::absent(place.spec), recalled, now);
        let known = [now.after(PATIENCE).as_nanos(), now.as_nanos(), 0, 0];
        self.known.put(place.key, &known, now);
    }

    fn write(&self, place: &Place, content: &Content, recalled: u64, now: Time) {
        self.buckets.remember(place, &content.header, &content.state, now, |header, state| {
            let is_another = digest_of(&header, state) != recalled;
            is_another && content.is_laxer_than(&Content { header, state: Box::new(*state) }, now)
        });
    }

    fn read(&self, place: &Place) -> (Time, Time, Version, u64) {
        let mut known = [0; KNOWN];
        self.known.peek(place.key, &mut known);
        let [gone_at, seen_at, version, digest] = known;
        (Time::from_nanos(gone_at), Time::from_nanos(seen_at), Version(version), digest)
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

const KNOWN: usize = 4;
/// So long a refusal is repeated without asking.
const FRESH: Span = Span::from_secs(1);
/// So long a store may still have what has outlived its time.
const PATIENCE: Span = Span::from_secs(2);
