//! The identity that an attempt is charged as under a limit.

use super::super::fingerprint::Fingerprint;
use super::super::key::NamedAccount;
use tollgate_bucket::{Continuous, Spec};

/// The identity that an attempt is charged as.
#[derive(Clone, Copy)]
pub(super) enum ChargeTarget {
    /// The limit does not depend on accounts.
    AnyIdentity,
    /// An account, or a known owner of it.
    Account(NamedAccount),
    /// Not charged, but a success fills the bucket of this account.
    RefilledOnly(NamedAccount),
}

impl ChargeTarget {
    pub(super) fn named_account(&self) -> Option<&NamedAccount> {
        match self {
            Self::AnyIdentity => None,
            Self::Account(named) | Self::RefilledOnly(named) => Some(named),
        }
    }

    pub(super) fn listed(&self) -> Option<Fingerprint> {
        self.named_account()?.listed
    }

    pub(super) fn is_of_strangers(&self) -> bool {
        self.named_account().is_some_and(NamedAccount::is_of_strangers)
    }
}

/// The bucket that all strangers of a route share: larger than that of one client, so that none empties it alone.
pub(super) fn for_strangers(spec: Spec) -> Spec {
    let burst = spec.burst().saturating_mul(STRANGERS);
    Continuous::new(burst, spec.window(), burst).map_or(spec, Spec::Continuous)
}

/// As much as so many clients have.
const STRANGERS: u32 = 4;
