//! The name of an account, folded: whatever an application takes for the same name is one account here.
//!
//! A folded name is as secret as the name; it lives as long as the decision about its attempt, and is kept as a keyed
//! hash only. The surprising thing: more is folded than any one application folds, since two names in one bucket cost a
//! token, and one name in two buckets is a way around the limit.

/// A folded name of an account; never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Account(Vec<u8>);

impl Account {
    /// Folds a name as it was sent.
    #[must_use]
    pub fn fold(name: &[u8]) -> Self {
        Self(name.trim_ascii().to_ascii_lowercase())
    }

    /// What is hashed.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Account(hidden)")
    }
}
