//! A summary of what a thread has given up, and warnings of what it could not.

use std::error::Error;

use landlock::{LandlockStatus, RestrictionStatus, RulesetError, RulesetStatus};

/// The restrictions in force, and those that are missing, which are logged at once.
#[derive(Debug, Default)]
pub(super) struct Enforced {
    in_force: Vec<String>,
    missing: Vec<MissingRestriction>,
}

/// A restriction that the kernel cannot enforce.
#[derive(Debug)]
pub(crate) struct MissingRestriction {
    pub(crate) name: String,
    pub(crate) why: String,
}

impl Enforced {
    /// Whether the restriction is in force.
    pub(super) fn note<E: Into<Box<dyn Error>>>(&mut self, what: &str, done: Result<(), E>) -> bool {
        match done {
            Ok(()) => self.in_force(what.to_owned()),
            Err(error) => self.missing(what, &error.into().to_string()),
        }
    }

    /// The same for landlock, of which a kernel may offer a part.
    pub(super) fn landlock(&mut self, done: Result<RestrictionStatus, RulesetError>) -> bool {
        let status = match done {
            Ok(status) => status,
            Err(error) => return self.missing("landlock", &error.to_string()),
        };
        match (status.ruleset, status.landlock) {
            (RulesetStatus::NotEnforced, LandlockStatus::NotEnabled) => {
                self.missing("landlock", "this kernel has it, but it is not enabled (`lsm=` at boot)")
            }
            (RulesetStatus::NotEnforced, _) => {
                self.missing("landlock", "this kernel does not offer it (Linux 5.13 and later do)")
            }
            (_, LandlockStatus::Available { effective_abi, .. }) => {
                self.in_force(format!("landlock ABI {}", effective_abi as i32))
            }
            (_, _) => self.in_force("landlock".to_owned()),
        }
    }

    /// As in "landlock ABI 7, seccomp".
    pub(super) fn summary(&self) -> String {
        match self.in_force.is_empty() {
            true => "nothing that this kernel can do".to_owned(),
            false => self.in_force.join(", "),
        }
    }

    /// What the kernel cannot enforce.
    pub(super) fn into_missing(self) -> Vec<MissingRestriction> {
        self.missing
    }

    fn in_force(&mut self, what: String) -> bool {
        self.in_force.push(what);
        true
    }

    fn missing(&mut self, what: &str, why: &str) -> bool {
        tracing::warn!("sandbox: not in force: {what}: {why}");
        self.missing.push(MissingRestriction { name: what.to_owned(), why: why.to_owned() });
        false
    }
}
