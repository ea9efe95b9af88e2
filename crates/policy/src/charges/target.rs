//! The identities that an attempt is charged as under a limit.

use super::super::fingerprint::Fingerprint;
use super::super::key::NamedAccount;
use super::super::{Limit, LimitKind, Mode, Policy, Route};
use super::{ChargePlan, IdentityState};
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

impl Policy {
    /// The identities that an attempt is charged as under a limit; none if the limit does not apply to it.
    pub(super) fn charge_targets<'p>(
        &'p self,
        limit: &'p Limit,
        plan: &'p ChargePlan<'_>,
    ) -> impl Iterator<Item = ChargeTarget> + use<'p> {
        let (any, named): (_, &[_]) = match &plan.identity {
            IdentityState::Known(identity) if limit.is_of_passwords() && identity.is_of_owner() => {
                (None, &[])
            }
            IdentityState::Known(identity) if limit.is_of_accounts() => (None, &identity.named),
            _ => (Some(ChargeTarget::AnyIdentity), &[]),
        };
        let is_of_owners = limit.is_of_owners();
        // A directory counts the failures of an account, from any client.
        let is_of_all = !limit.is_account() || limit.kind == LimitKind::Directory;
        let targets = named.iter().filter_map(move |named| match named.owner {
            Some(_) if is_of_owners => Some(ChargeTarget::Account(*named)),
            None if is_of_owners => None,
            Some(_) if is_of_all => Some(ChargeTarget::Account(named.without_owner())),
            Some(_) if limit.kind == LimitKind::Cap => {
                Some(ChargeTarget::RefilledOnly(named.without_owner()))
            }
            Some(_) if self.has_owner_limit(plan.route) => None,
            // A row of failures would shut all of them out for good.
            _ if named.is_of_strangers() && limit.kind == LimitKind::Cap => None,
            _ => Some(ChargeTarget::Account(*named)),
        });
        any.into_iter().chain(targets)
    }

    /// Whether this route has its own limit for known owners.
    fn has_owner_limit(&self, route: &Route) -> bool {
        let is = |limit: &Limit| limit.mode == Mode::Enforce && limit.is_of_owners();
        route.limits.iter().any(|&limit| is(&self.limits[limit]))
    }
}

/// The bucket that all strangers of a route share: larger than that of one client, so that none empties it alone.
pub(super) fn for_strangers(spec: Spec) -> Spec {
    let burst = spec.burst().saturating_mul(STRANGERS);
    Continuous::new(burst, spec.window(), burst).map_or(spec, Spec::Continuous)
}

/// As much as so many clients have.
const STRANGERS: u32 = 4;
