//! Request ids for requests without one: 32 hexadecimal digits, unique but not secret.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

use http::HeaderValue;

/// The generator of one worker.
#[derive(Debug)]
pub struct RequestIds {
    worker: u64,
    state: Cell<u64>,
}

impl Default for RequestIds {
    fn default() -> Self {
        // The standard library seeds each `RandomState` from the operating system's randomness.
        let random = || RandomState::new().hash_one(0_u8);
        Self { worker: random(), state: Cell::new(random()) }
    }
}

impl RequestIds {
    /// The next id.
    pub fn next(&self) -> HeaderValue {
        // SplitMix64 (Steele, Lea, Flood 2014): a counter whose steps look random.
        let state = self.state.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.state.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let bits = u128::from(self.worker) << 64 | u128::from(mixed ^ (mixed >> 31));
        let mut digits = [0; 32];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(bits.to_be_bytes()) {
            pair[0] = HEX[usize::from(byte >> 4)];
            pair[1] = HEX[usize::from(byte & 15)];
        }
        // Hexadecimal digits are always a header value.
        HeaderValue::from_bytes(&digits).unwrap_or(HeaderValue::from_static("-"))
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

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
}
