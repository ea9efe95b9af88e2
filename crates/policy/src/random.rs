//! Random bytes that no client can guess: for what owners of accounts carry, and for receipts of attempts.

use rustix::rand::{GetRandomFlags, getrandom};

/// Random bytes, at most 256; `None` if the system gives no randomness.
#[must_use]
pub fn random_bytes<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let given = getrandom(&mut bytes, GetRandomFlags::empty()).ok()?;
    (given == bytes.len()).then_some(bytes)
}
