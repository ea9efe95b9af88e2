//! A state on its way between the store's bytes and the arithmetic.
//!
//! It knows headers and words, and neither databases nor time. The surprising thing: of two states of one bucket
//! that nobody can add up, the stricter one is the one that leaves less now, not the one that is full again later.

use std::cmp::Reverse;
use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::bucket::{Header, LONGEST_RECORD, Op, Spec, Time, step};
use crate::time::Span;

/// The words of the longest state.
pub(super) type Words = [u64; Spec::MOST_WORDS];

/// What a bucket holds, and under what.
#[derive(Debug, Clone)]
pub(super) struct Content {
    pub(super) header: Header,
    pub(super) state: Box<Words>,
}

impl Content {
    /// A bucket that was never seen.
    pub(super) fn absent(spec: Spec) -> Self {
        Self { header: Header::of(spec), state: Box::new([0; Spec::MOST_WORDS]) }
    }

    /// What these bytes say; `None` if they are nobody's.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut state = Box::new([0; Spec::MOST_WORDS]);
        let header = Header::decode(bytes, &mut state).ok()?;
        Some(Self { header, state })
    }

    /// What the limit promises now, or the bucket's own rate while it has one.
    pub(super) fn turn_to(&mut self, limit: &Spec, now: Time) {
        self.header.in_force(limit, &mut self.state, now);
    }

    /// For the store.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = [0; LONGEST_RECORD];
        let length = self.header.encode(&self.state[..], &mut bytes);
        bytes[..length].to_vec()
    }

    /// Whether the other one is of the same promise, and leaves less: fewer tokens, or as many and later all of them.
    pub(super) fn is_laxer_than(&self, other: &Self, now: Time) -> bool {
        self.header == other.header && self.leaves(now) > other.leaves(now)
    }

    fn leaves(&self, now: Time) -> (u32, Reverse<Time>) {
        let Self { header, mut state } = self.clone();
        let words = header.spec.words().min(state.len());
        let step = step(&header.spec, &mut state[..words], now, Op::Peek(1));
        (step.verdict.left, Reverse(self.full_at()))
    }

    /// When it is full again.
    pub(super) fn full_at(&self) -> Time {
        Time::from_nanos(self.state[0])
    }

    /// From when on nothing has to be known of it.
    pub(super) fn gone_at(&self) -> Time {
        self.full_at().max(self.header.own_until.unwrap_or_default())
    }

    /// The time to decide at: that of whoever wrote this, if their clock is a little ahead. It is not this one that was set
    /// back; if both took it so, each would write anew what the other wrote, and every time some tokens would come of it.
    pub(super) fn decided_at(&self, now: Time) -> Time {
        let written_at = self.full_at().before(self.header.spec.memory());
        if written_at.since(now) <= APART { now.max(written_at) } else { now }
    }

    /// Tells contents apart; within this process only.
    pub(super) fn digest(&self) -> u64 {
        digest_of(&self.header, &self.state)
    }
}

/// The digest of a content with these words.
pub(super) fn digest_of(header: &Header, state: &Words) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write_u32(header.spec.fingerprint());
    hasher.write_u64(header.own_until.map_or(0, Time::as_nanos));
    state.iter().take(header.spec.words()).for_each(|word| hasher.write_u64(*word));
    hasher.finish()
}

/// No two gates are further apart over a store that knows whole seconds, unless one of them has not heard it yet.
const APART: Span = Span::from_secs(4);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{Anchor, Interval};

    #[test]
    fn who_has_fewer_tokens_left_is_stricter_even_if_full_again_sooner() {
        let hour = Span::from_secs(3600);
        let spec = Spec::Interval(Interval::new(7, hour, Anchor::First).unwrap());
        let begun = Time::from_nanos(1_800_000_000_000_000_000);
        let later = begun.after(Span::from_secs(60));
        let taken = |tokens, at| {
            let mut content = Content::absent(spec);
            let _ = step(&spec, &mut content.state[..spec.words()], at, Op::Take(tokens));
            content
        };
        let (many, one) = (taken(6, begun), taken(1, later));
        assert!(many.full_at() < one.full_at());
        assert!(one.is_laxer_than(&many, later) && !many.is_laxer_than(&one, later));
        let as_many = taken(6, later);
        assert!(many.is_laxer_than(&as_many, later) && !as_many.is_laxer_than(&many, later));
    }
}
