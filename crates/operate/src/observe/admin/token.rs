//! The tokens of callers over TCP: what they are compared with, how, and what each lets its callers do.
//!
//! Only a token's SHA-256 is kept, so that a picture of the memory does not hold it, and a comparison takes the same time
//! for each guess, whatever its length. A guess is compared with all tokens, so the time does not tell which one it is.

use std::collections::BTreeSet;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use crate::event::OperatorName;

/// A token, hashed.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken([u8; 32]);

/// A token with what it is for: one of `admin.tokens`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedToken {
    /// Who has it, for the log and the audit.
    pub name: OperatorName,
    /// What its callers may do.
    pub role: OperatorRole,
    /// The only sites or routes that they see; `None` is all of them.
    pub sites: Option<BTreeSet<Arc<str>>>,
    /// The token.
    pub token: AdminToken,
}

/// What callers may do; each role may do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperatorRole {
    /// See the gate.
    Read,
    /// Let a person in who is locked out.
    Unlock,
    /// Everything.
    Operate,
}

/// What a caller needs for a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageNeeds {
    /// The least role.
    pub(super) role: OperatorRole,
    /// Whether the page shows or changes only the caller's sites; other pages are for tokens of all sites.
    pub(super) is_narrowed: bool,
}

/// All tokens of a gate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdminTokens(Arc<[Arc<NamedToken>]>);

impl AdminToken {
    /// The token with this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }
}

impl NamedToken {
    /// `admin.token`: its callers may do everything.
    #[must_use]
    pub fn of_all(token: AdminToken) -> Option<Self> {
        let name = SINGLE.parse().ok()?;
        Some(Self { name, role: OperatorRole::Operate, sites: None, token })
    }

    /// Whether both have the same text.
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.token == other.token
    }
}

impl OperatorRole {
    /// Its word in the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Unlock => "unlock",
            Self::Operate => "operate",
        }
    }
}

impl AdminTokens {
    /// These tokens.
    #[must_use]
    pub fn new(tokens: Vec<NamedToken>) -> Self {
        Self(tokens.into_iter().map(Arc::new).collect())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this token is one of them, with the same name, role and sites.
    pub(super) fn has(&self, token: &NamedToken) -> bool {
        self.0.iter().any(|known| **known == *token)
    }

    /// The token with this text, in a time that depends only on the length of the text and the number of tokens.
    #[must_use]
    pub fn find(&self, given: &[u8]) -> Option<&Arc<NamedToken>> {
        let given: [u8; 32] = Sha256::digest(given).into();
        let mut found = u32::MAX;
        for (number, named) in (0..).zip(&*self.0) {
            found.conditional_assign(&number, given.ct_eq(&named.token.0));
        }
        self.0.get(usize::try_from(found).ok()?)
    }
}

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken(hidden)")
    }
}

/// The name of `admin.token`.
const SINGLE: &str = "admin";

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, text: &str) -> NamedToken {
        let (name, token) = (name.parse().unwrap(), AdminToken::new(text));
        NamedToken { name, role: OperatorRole::Read, sites: None, token }
    }

    /// J8: neither the token nor its hash is in what `Debug` writes.
    #[test]
    fn only_the_token_itself_matches_and_it_is_never_shown() {
        let tokens = AdminTokens::new(vec![named("a", "0123456789abcdef"), named("b", "fedcba9876543210")]);
        let found = |given: &[u8]| tokens.find(given).map(|named| named.name.as_str().to_owned());
        assert_eq!(found(b"0123456789abcdef").as_deref(), Some("a"));
        assert_eq!(found(b"fedcba9876543210").as_deref(), Some("b"));
        for other in [&b""[..], b"0123456789abcde", b"0123456789abcdef ", b"0123456789ABCDEF"] {
            assert_eq!(found(other), None, "{other:?}");
        }
        assert_eq!(format!("{:?}", AdminToken::new("0123456789abcdef")), "AdminToken(hidden)");
        assert!(format!("{tokens:?}").contains("AdminToken(hidden)"));
        assert_eq!(AdminTokens::default().find(b""), None);
    }
}
