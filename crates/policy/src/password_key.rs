//! The key under which passwords are hashed for limits that have a bucket for each.
//!
//! It is drawn from the system, lives for a day, and is in the memory of this process alone: in no snapshot and no store.
//! The next one overwrites it, and with it goes the way from a bucket back to a password that someone guesses.

use std::hash::Hasher;
use std::sync::{Arc, Mutex, PoisonError};

use siphasher::sip128::{Hasher128, SipHasher13};

use super::random::random_bytes;
use tollgate_bucket::{Span, Time};

/// Hashes passwords under the key of the day. A clone has the same key.
#[derive(Clone, Default)]
pub(super) struct PasswordKey(Arc<Mutex<Option<KeyOfDay>>>);

struct KeyOfDay {
    secret: [u8; 16],
    drawn_at: Time,
}

impl PasswordKey {
    /// The hash of a password; `None` if the system gives no randomness for a key.
    pub(super) fn hash(&self, password: &[u8], now: Time) -> Option<u128> {
        let mut hasher = SipHasher13::new_with_key(&self.of_day(now)?);
        hasher.write(password);
        Some(hasher.finish128().as_u128())
    }

    fn of_day(&self, now: Time) -> Option<[u8; 16]> {
        let mut key = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if key.as_ref().is_none_or(|key| now >= key.drawn_at.after(LIFETIME)) {
            *key = Some(KeyOfDay { secret: random_bytes()?, drawn_at: now });
        }
        key.as_ref().map(|key| key.secret)
    }
}

/// One day, counted from the first password: attackers do not know when.
const LIFETIME: Span = Span::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_has_another_hash_each_day_and_in_each_process() {
        let (key, other) = (PasswordKey::default(), PasswordKey::default());
        let at = |seconds| Time::from_nanos(1).after(Span::from_secs(seconds));
        let first = key.hash(b"winter", at(0)).unwrap();
        assert_eq!(key.clone().hash(b"winter", at(86_399)), Some(first));
        assert_ne!(key.hash(b"Winter", at(5)), Some(first));
        assert_ne!(other.hash(b"winter", at(0)), Some(first));
        let next = key.hash(b"winter", at(86_400)).unwrap();
        assert_ne!(next, first);
        assert_eq!(key.hash(b"winter", at(0)), Some(next), "the former key is gone");
    }
}
