//! Readiness: the reasons for which `/readyz` answers 503, and warnings with which it answers 200.
//!
//! It only keeps what others report. An unavailable store is no reason: the gate serves without it, and if every gate
//! reported unready for one store, none would serve.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// The present reasons for not being ready, and what is wrong although the gate is ready.
#[derive(Debug, Default)]
pub struct Readiness {
    reasons: Mutex<BTreeSet<String>>,
    /// By who warns.
    warnings: Mutex<BTreeMap<&'static str, Vec<ReadinessWarning>>>,
}

/// What is wrong although the gate is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadinessWarning {
    /// For `/readyz`, which anybody may ask: without addresses and paths.
    pub summary: &'static str,
    /// For operators.
    pub text: String,
}

impl Readiness {
    /// Adds a reason, or removes it. Returns whether that changed anything.
    pub fn set_reason(&self, what: &str, wrong: bool) -> bool {
        let mut all = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong { all.insert(what.to_owned()) } else { all.remove(what) }
    }

    /// The reasons, in words; `None` if the gate is ready.
    #[must_use]
    pub fn reasons(&self) -> Option<String> {
        let all = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        let reasons: Vec<&str> = all.iter().map(String::as_str).collect();
        (!reasons.is_empty()).then(|| reasons.join(", "))
    }

    /// Replaces the warnings of this source.
    pub fn set_warnings(&self, source: &'static str, warnings: Vec<ReadinessWarning>) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).insert(source, warnings);
    }

    /// The present warnings.
    #[must_use]
    pub fn warnings(&self) -> Vec<ReadinessWarning> {
        let all = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_wrong_is_named_until_it_is_not_any_more() {
        let readiness = Readiness::default();
        assert_eq!(readiness.reasons(), None);
        assert!(readiness.set_reason("worker-1 stands still", true));
        assert!(!readiness.set_reason("worker-1 stands still", true));
        assert!(readiness.set_reason("reload is down", true));
        assert_eq!(readiness.reasons().unwrap(), "reload is down, worker-1 stands still");
        assert!(
            readiness.set_reason("reload is down", false)
                && readiness.set_reason("worker-1 stands still", false)
        );
        assert_eq!(readiness.reasons(), None);
    }
}
