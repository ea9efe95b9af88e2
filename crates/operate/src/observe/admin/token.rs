//! The token of callers over TCP: what it is compared with, and how.
//!
//! Only its SHA-256 is kept, so that a picture of the memory does not hold it, and a comparison takes the same time
//! for each guess, whatever its length.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// `admin.token`, hashed.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken([u8; 32]);

impl AdminToken {
    /// The token with this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }

    /// Whether it is the token, in constant time.
    #[must_use]
    pub fn matches(&self, given: &[u8]) -> bool {
        let given: [u8; 32] = Sha256::digest(given).into();
        given.ct_eq(&self.0).into()
    }
}

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// J8: neither the token nor its hash is in what `Debug` writes.
    #[test]
    fn only_the_token_itself_matches_and_it_is_never_shown() {
        let token = AdminToken::new("0123456789abcdef");
        assert!(token.matches(b"0123456789abcdef"));
        for other in [&b""[..], b"0123456789abcde", b"0123456789abcdef ", b"0123456789ABCDEF"] {
            assert!(!token.matches(other), "{other:?}");
        }
        assert_eq!(format!("{token:?}"), "AdminToken(hidden)");
    }
}
