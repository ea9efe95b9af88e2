//! What a gate is not well with, so that whoever asks `/readyz` hears of it.
//!
//! It finds nothing out by itself. The surprising thing: trouble with the store is none of it. A gate that goes on without its
//! store serves, and if all gates were called dead for one store, nobody would.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// All that is wrong now.
#[derive(Debug, Default)]
pub struct Trouble(Mutex<BTreeSet<String>>);

impl Trouble {
    /// Something is wrong from now on, or is not any more. Says whether that is new.
    pub fn note(&self, what: &str, wrong: bool) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong { all.insert(what.to_owned()) } else { all.remove(what) }
    }

    /// What is wrong, in words; `None` if nothing is.
    #[must_use]
    pub fn words(&self) -> Option<String> {
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
        let trouble = Trouble::default();
        assert_eq!(trouble.words(), None);
        assert!(trouble.note("worker-1 stands still", true));
        assert!(!trouble.note("worker-1 stands still", true));
        assert!(trouble.note("reload is down", true));
        assert_eq!(trouble.words().unwrap(), "reload is down, worker-1 stands still");
        assert!(trouble.note("reload is down", false) && trouble.note("worker-1 stands still", false));
        assert_eq!(trouble.words(), None);
    }
}
