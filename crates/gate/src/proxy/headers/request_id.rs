//! Request ids for requests without one: 32 hexadecimal digits, unique but not secret.
//!
//! All ids of one process begin alike, so a request that comes back to the gate is recognized.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use http::HeaderValue;

use super::hex::write_hex;

/// The generator of one worker.
#[derive(Debug)]
pub struct RequestIds {
    /// The worker's first half of each id.
    worker: [u8; 16],
    state: Cell<u64>,
}

impl Default for RequestIds {
    fn default() -> Self {
        let mut worker = [0; 16];
        write_hex(&(*PROCESS << 32 | random() >> 32).to_be_bytes(), &mut worker);
        Self { worker, state: Cell::new(random()) }
    }
}

impl RequestIds {
    /// The next id.
    pub fn next(&self) -> HeaderValue {
        let mut digits = [0; 32];
        let (worker, number) = digits.split_at_mut(16);
        worker.copy_from_slice(&self.worker);
        write_hex(&self.next_bits().to_be_bytes(), number);
        // Hexadecimal digits are always a header value.
        HeaderValue::from_bytes(&digits).unwrap_or(HeaderValue::from_static("-"))
    }

    /// The next 64 bits; none come again before all others came.
    pub(super) fn next_bits(&self) -> u64 {
        // SplitMix64 (Steele, Lea, Flood 2014): a counter whose steps look random.
        let state = self.state.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.state.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Whether this process generated the id.
    #[must_use]
    pub fn is_generated(id: &HeaderValue) -> bool {
        id.len() == 32 && id.as_bytes().starts_with(&*PREFIX)
    }
}

/// The standard library seeds each `RandomState` from the operating system's randomness.
fn random() -> u64 {
    RandomState::new().hash_one(0_u8)
}

/// The first half of `worker` in all generators of this process.
static PROCESS: LazyLock<u64> = LazyLock::new(|| random() >> 32);
/// The same as it is in ids.
static PREFIX: LazyLock<[u8; 8]> = LazyLock::new(|| {
    let mut digits = [0; 8];
    write_hex(&PROCESS.to_be_bytes()[4..], &mut digits);
    digits
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_32_digits_and_differ() {
        let ids = RequestIds::default();
        let ids: std::collections::HashSet<_> = (0..1000).map(|_| ids.next()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|name| name.len() == 32 && name.as_bytes().iter().all(u8::is_ascii_hexdigit)));
    }
    #[test]
    fn the_ids_of_all_workers_are_known_again_and_no_others() {
        let [one, other] = [RequestIds::default(), RequestIds::default()].map(|ids| ids.next());
        assert!(RequestIds::is_generated(&one) && RequestIds::is_generated(&other) && one != other);
        let mut foreign = one.to_str().unwrap().to_owned();
        let first = if foreign.starts_with('0') { "1" } else { "0" };
        foreign.replace_range(..1, first);
        for id in [foreign.as_str(), "0192f0c1", ""] {
            assert!(!RequestIds::is_generated(&HeaderValue::from_str(id).unwrap()), "{id}");
        }
    }
}
