//! A summary of what a thread has given up, and warnings of what it could not.

use std::error::Error;

use landlock::{LandlockStatus, RestrictionStatus, RulesetError, RulesetStatus};

/// The restrictions in force. A missing one is logged at once.
#[derive(Debug, Default)]
pub(super) struct Enforced(Vec<String>);

impl Enforced {
    /// Whether the restriction is in force.
    pub(super) fn note<E: Into<Box<dyn Error>>>(&mut self, what: &str, done: Result<(), E>) -> bool {
        match done {
            Ok(()) => self.in_force(what.to_owned()),
            Err(error) => warn_missing(what, &error.into().to_string()),
        }
    }

    /// The same for landlock, of which a kernel may offer a part.
    pub(super) fn landlock(&mut self, done: Result<RestrictionStatus, RulesetError>) -> bool {
        let status = match done {
            Ok(status) => status,
            Err(error) => return warn_missing("landlock", &error.to_string()),
        };
        match (status.ruleset, status.landlock) {
            (RulesetStatus::NotEnforced, LandlockStatus::NotEnabled) => {
                warn_missing("landlock", "this kernel has it, but it is not enabled (`lsm=` at boot)")
            }
            (RulesetStatus::NotEnforced, _) => {
                warn_missing("landlock", "this kernel does not offer it (Linux 5.13 and later do)")
            }
            (_, LandlockStatus::Available { effective_abi, .. }) => {
                self.in_force(format!("landlock ABI {}", effective_abi as i32))
            }
            (_, _) => self.in_force("landlock".to_owned()),
        }
    }

    /// As in "landlock ABI 7, seccomp".
    pub(super) fn summary(&self) -> String {
        match self.0.is_empty() {
            true => "nothing that this kernel can do".to_owned(),
            false => self.0.join(", "),
        }
    }

    fn in_force(&mut self, what: String) -> bool {
        self.0.push(what);
        true
    }
}

fn warn_missing(what: &str, why: &str) -> bool {
    tracing::warn!("sandbox: not in force: {what}: {why}");
    false
}
