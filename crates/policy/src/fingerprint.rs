//! What the file lists and requests are compared with: names of accounts and credentials in headers.
//!
//! Both are kept as keyed hashes. The key is random and never leaves the process, so a look-up tells an attacker nothing
//! by its time, and a dump of the lists names no one.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use siphasher::sip128::{Hasher128, SipHasher13};

use super::account::Account;

/// The hash of a listed text under the key of this process: SipHash-1-3, 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(u128);

impl Fingerprint {
    /// The fingerprint of an account.
    #[must_use]
    pub fn of_account(account: &Account) -> Self {
        Self::of(account.as_bytes())
    }

    /// The fingerprint of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = *KEYED;
        hasher.write(bytes);
        Self(hasher.finish128().as_u128())
    }
}

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fingerprint(hidden)")
    }
}

static KEYED: LazyLock<SipHasher13> = LazyLock::new(|| {
    // The standard library seeds each `RandomState` from the operating system's randomness.
    let key = |salt: u8| RandomState::new().hash_one(salt);
    SipHasher13::new_with_keys(key(0), key(1))
});
