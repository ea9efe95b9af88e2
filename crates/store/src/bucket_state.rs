//! The state of a bucket between the store's bytes and the arithmetic.
//!
//! It knows headers and words, and neither databases nor clocks. Only states of the same spec are [joined](join); where
//! two gates have read different files, the store's state wins.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use tollgate_bucket::Span;
use tollgate_bucket::{MAX_RECORD_LEN, RecordHeader, Spec, Time, join};

/// The words of the longest state.
pub(crate) type StateWords = [u64; Spec::MAX_WORDS];

/// The header and the state of a bucket.
#[derive(Debug, Clone)]
pub(crate) struct BucketState {
    pub(crate) header: RecordHeader,
    pub(crate) state: Box<StateWords>,
}

impl BucketState {
    /// The state of a bucket that was never seen.
    pub(crate) fn absent(spec: Spec) -> Self {
        Self { header: RecordHeader::of(spec), state: Box::new([0; Spec::MAX_WORDS]) }
    }

    /// Decodes a record; `None` for foreign bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut state = Box::new([0; Spec::MAX_WORDS]);
        let header = RecordHeader::decode(bytes, &mut state).ok()?;
        Some(Self { header, state })
    }

    /// Decodes the record at the beginning of these bytes, and returns the rest.
    #[cfg(feature = "memcached")]
    pub(crate) fn decode_first(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let mut state = Box::new([0; Spec::MAX_WORDS]);
        let (header, rest) = RecordHeader::decode_first(bytes, &mut state).ok()?;
        Some((Self { header, state }, rest))
    }

    /// Converts to the limit's present spec, or to the bucket's own rate while it has one.
    pub(crate) fn convert_to(&mut self, limit: &Spec, now: Time) {
        self.header.effective_spec(limit, &mut self.state, now);
    }

    /// Encodes a record for the store.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = [0; MAX_RECORD_LEN];
        let length = self.header.encode(&self.state[..], &mut bytes);
        bytes[..length].to_vec()
    }

    /// Merges another state of this bucket into this one, if both have the same spec. Returns whether that changed
    /// anything.
    pub(crate) fn join(&mut self, header: &RecordHeader, other: &StateWords, now: Time) -> bool {
        let words = header.spec.words().min(other.len());
        let (mut joined, mut other) = (self.state.clone(), *other);
        let is_more =
            self.header == *header && join(&header.spec, &mut joined[..words], &mut other[..words], now);
        if is_more {
            self.state = joined;
        }
        is_more
    }

    /// Whether this is fuller than the other one, or lacks its order.
    pub(crate) fn has_less_than(&self, known: &Self, now: Time) -> bool {
        let lacks_order =
            self.header.own_until.is_none() && known.header.own_until.is_some_and(|until| until > now);
        lacks_order || self.full_at() < known.full_at()
    }

    /// Merges what was known of this bucket before its record was lost. An operator's order or rate that has not ended comes
    /// back with its state.
    pub(crate) fn restore(&mut self, lost: &Self, now: Time) -> bool {
        let is_ordered = lost.header.own_until.is_some_and(|until| until > now);
        if is_ordered && self.header.own_until.is_none() {
            *self = lost.clone();
            return true;
        }
        self.join(&lost.header, &lost.state, now)
    }

    /// When the bucket is full again.
    pub(crate) fn full_at(&self) -> Time {
        Time::from_nanos(self.state[0])
    }

    /// When the record is no longer needed.
    pub(crate) fn gone_at(&self) -> Time {
        self.full_at().max(self.header.own_until.unwrap_or_default())
    }

    /// The time to decide at: that of the writer, if its clock is a little ahead. This must not count as a clock that
    /// was set back: if two processes took it so, each would rewrite the other's state, and every rewrite would yield
    /// some tokens.
    pub(crate) fn decision_time(&self, now: Time) -> Time {
        let written_at = self.written_at();
        if written_at.since(now) <= MAX_CLOCK_SKEW { now.max(written_at) } else { now }
    }

    /// The earliest time at which this may have been written, unless a clock was set back.
    pub(crate) fn written_at(&self) -> Time {
        self.full_at().before(self.header.spec.max_ttl())
    }

    /// Tells states apart; within this process only.
    pub(crate) fn digest(&self) -> u64 {
        digest_of(&self.header, &self.state)
    }
}

/// The digest of a state with this header.
pub(crate) fn digest_of(header: &RecordHeader, state: &StateWords) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write_u32(header.spec.fingerprint());
    hasher.write_u64(header.own_until.map_or(0, Time::as_nanos));
    state.iter().take(header.spec.words()).for_each(|word| hasher.write_u64(*word));
    hasher.finish()
}

/// The largest difference between two gates over a store that reports whole seconds, unless one of them has not heard
/// its clock yet.
const MAX_CLOCK_SKEW: Span = Span::from_secs(4);
