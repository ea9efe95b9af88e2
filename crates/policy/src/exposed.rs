//! Exposed passwords: what happens to an attempt whose password is in published lists.
//!
//! The list itself is left to whoever gives it to the policy. A password is hashed here, and forgotten.

use sha1::{Digest as _, Sha1};
use zeroize::Zeroize as _;

/// A list of exposed passwords, by their SHA-1.
pub trait ExposedPasswords: std::fmt::Debug + Send + Sync {
    /// Whether the list has a password with this hash. A listed one is always found; the list says how often another
    /// one is found as well. What cannot be read is not on the list.
    fn contains(&self, sha1: &[u8; 20]) -> bool;
}

/// What happens to an attempt with an exposed password: `exposed`. Later ones win where several routes count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExposedAction {
    /// It is counted.
    Observe,
    /// The application is told.
    Mark,
    /// The application is told, and the attempt costs twice.
    Charge,
    /// It is refused.
    Refuse,
}

/// Whether one of these passwords is on the list.
pub(super) fn is_any_exposed<'p>(
    list: &dyn ExposedPasswords,
    passwords: impl Iterator<Item = &'p [u8]>,
) -> bool {
    let is_exposed = |password: &[u8]| {
        let mut hash: [u8; 20] = Sha1::digest(password).into();
        let is_exposed = list.contains(&hash);
        hash.zeroize();
        is_exposed
    };
    // All are looked up, so that the time tells nothing of their order.
    passwords.filter(|password| is_exposed(password)).count() > 0
}
