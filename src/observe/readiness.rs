//! Readiness: the reasons for which `/readyz` says no.
//!
//! It finds nothing out by itself. The surprising thing: trouble with the store is none of it. A gate that goes on without its
//! store serves, and if all gates were called dead for one store, nobody would.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// All that is wrong now.
#[derive(Debug, Default)]
pub struct Readiness(Mutex<BTreeSet<String>>);

impl Readiness {
    /// Something is wrong from now on, or is not any more. Says whether that is new.
    pub fn set_reason(&self, what: &str, wrong: bool) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong { all.insert(what.to_owned()) } else { all.remove(what) }
    }

    /// What is wrong, in words; `None` if nothing is.
    #[must_use]
    pub fn reasons(&self) -> Option<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let words: Vec<&str> = all.iter().map(String::as_str).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_wrong_is_named_until_it_is_not_any_more() {
        let trouble = Readiness::default();
        assert_eq!(trouble.reasons(), None);
        assert!(trouble.set_reason("worker-1 stands still", true));
        assert!(!trouble.set_reason("worker-1 stands still", true));
        assert!(trouble.set_reason("reload is down", true));
        assert_eq!(trouble.reasons().unwrap(), "reload is down, worker-1 stands still");
        assert!(
            trouble.set_reason("reload is down", false) && trouble.set_reason("worker-1 stands still", false)
        );
        assert_eq!(trouble.reasons(), None);
    }
}
