//! What an attempt is charged, and to which buckets.
//!
//! It names buckets and takes nothing. The surprising thing: an attempt from a known device pays from a bucket of the
//! device where others pay from the account's, so that nobody can empty what an account's owner pays from.

use smallvec::{SmallVec, smallvec};

use super::attempt::{Attempt, AttemptBody};
use super::count::UnreadableBody;
use super::credential_locations::{CredentialLocations, SplitCost};
use super::device::Claim;
use super::field::RequestFields;
use super::identity::Identity;
use super::inspection::Inspection;
use super::key::NamedAccount;
use super::key::{KeyHasher, KeyPart, TooManyValues};
use super::{Limit, LimitKind, Mode, Policy, Route, Unit};
use crate::bucket::{Key, Spec};
use crate::time::Time;

/// One bucket that an attempt is charged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge {
    /// Index into [`Policy::limits`](super::Policy::limits).
    pub limit: usize,
    /// The bucket.
    pub key: Key,
    /// Which of the limit's rates it has: [`Rate::number`](super::Rate::number).
    pub class: usize,
    /// What it promises.
    pub spec: Spec,
    /// Tokens it has to give, at least 1.
    pub cost: u32,
    /// How many of them for what `Authorization: Basic` carries.
    pub basic_cost: u32,
    /// What is counted once, where the limit counts something once: a hash of it.
    pub tag: Option<u64>,
    /// Whether its refusal refuses the attempt.
    pub enforce: bool,
}

/// Why an attempt cannot be charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unchargeable {
    /// It names more buckets at once than could honestly be meant.
    #[error(transparent)]
    TooManyValues(#[from] TooManyValues),
    /// Nobody can say how many attempts its body makes.
    #[error(transparent)]
    Unreadable(#[from] UnreadableBody),
}

/// What the policy says about a request.
#[derive(Debug, Clone, Default)]
pub struct Charges {
    /// The routes that matched, indices into [`Policy::routes`](super::Policy::routes); none: not an attempt.
    pub routes: SmallVec<[usize; 2]>,
    /// The buckets to pay from, by limit.
    pub charges: SmallVec<[Charge; 2]>,
    /// The limits that do not see this client.
    pub exempt: SmallVec<[usize; 2]>,
    /// The buckets that are full again if the attempt succeeds, although it does not pay from them.
    pub refilled_on_success: Vec<Charge>,
    /// How many accounts it names; `None` if nobody asked, or that stands in a body that was not read.
    pub accounts: Option<u32>,
    /// Whether a success is that of the one account that all routes read: whoever names several proves nothing.
    pub is_single_account: bool,
    /// What is needed to remember the device if that account signs in.
    pub claim: Option<Box<Claim>>,
}

/// What is known of whom an attempt is about.
enum IdentityState {
    /// Nobody asks.
    NotNeeded,
    /// It stands in a body that was not read yet.
    Unknown,
    Known(Box<Identity>),
}

impl IdentityState {
    /// Whether it tries something elsewhere than in `Authorization: Basic`; `None` if the route's fields were not looked for.
    fn is_beside_basic(&self) -> Option<bool> {
        match self {
            Self::Known(subject) => Some(subject.is_beside_basic),
            Self::Unknown => Some(false),
            Self::NotNeeded => None,
        }
    }

    /// Whose account a success is good for, and what is needed to remember the device.
    fn proven_by_success(&self) -> (Option<u64>, Option<Box<Claim>>) {
        match self {
            Self::Known(subject) => (subject.account(), subject.claim.clone()),
            Self::NotNeeded | Self::Unknown => (None, None),
        }
    }
}

/// What all charges of one route have in common.
struct ChargePlan<'b> {
    route: &'b Route,
    attempt: &'b Attempt<'b>,
    hasher: &'b KeyHasher,
    cost: u32,
    locations: CredentialLocations,
    identity: IdentityState,
}

impl Policy {
    /// The buckets that an attempt is charged to. Of one whose body was not read yet: those that are certain.
    ///
    /// # Errors
    /// See [`Unchargeable`].
    pub fn charges(
        &self,
        attempt: &Attempt<'_>,
        hasher: &KeyHasher,
        now: Time,
    ) -> Result<Charges, Unchargeable> {
        let carried = Inspection::of(attempt, self.names.field_names());
        let mut found = Charges { routes: self.routes_by(&carried), ..Charges::default() };
        let mut proven: Option<(Option<u64>, Option<Box<Claim>>)> = None;
        for index in found.routes.clone() {
            let route = &self.routes[index];
            let whose = self.identity_state(index, &carried.fields, hasher, now)?;
            let cost = self.cost_of(route, attempt)?;
            if let IdentityState::Known(subject) = &whose {
                found.accounts = Some(found.accounts.unwrap_or(0).max(subject.accounts));
            }
            let here = whose.proven_by_success();
            proven = Some(match proven {
                None => here,
                Some(so_far) if so_far == here => here,
                Some((account, _)) => (account.filter(|_| account == here.0), None),
            });
            let known = route.with_known_host(attempt);
            let places = CredentialLocations::of(
                (route, &self.slots[index]),
                &carried.fields,
                whose.is_beside_basic(),
            );
            let bill =
                ChargePlan { route, attempt: &known, hasher, cost, locations: places, identity: whose };
            for &limit in &route.limits {
                self.charge(limit, &bill, &mut found)?;
            }
        }
        let (account, claim) = proven.unwrap_or_default();
        (found.is_single_account, found.claim) = (account.is_some(), claim);
        if found.charges.len() > 1 {
            found.charges.sort_by_key(|charge| charge.limit);
        }
        Ok(found)
    }

    /// Whether a limit of this route could refuse the attempt: whoever is exempt sends what it likes, and a limit that
    /// only observes refuses nothing.
    pub(super) fn could_refuse(&self, route: &Route, attempt: &Attempt<'_>) -> bool {
        let could = |limit: &Limit| limit.mode == Mode::Enforce && limit.rate_of(attempt).is_some();
        route.limits.iter().any(|&limit| could(&self.limits[limit]))
    }

    /// Whether it matters for this route whom an attempt is about.
    pub(super) fn needs_accounts(&self, route: &Route) -> bool {
        let asks = |limit: &Limit| limit.mode != Mode::Off && limit.needs_accounts();
        (self.devices.is_some() && !route.user.is_empty())
            || route.limits.iter().any(|&limit| asks(&self.limits[limit]))
    }

    fn cost_of(&self, route: &Route, attempt: &Attempt<'_>) -> Result<u32, UnreadableBody> {
        match route.cost.of(attempt) {
            Err(UnreadableBody) if !self.could_refuse(route, attempt) => Ok(1),
            cost => cost,
        }
    }

    fn identity_state(
        &self,
        index: usize,
        sent: &RequestFields<'_>,
        hasher: &KeyHasher,
        now: Time,
    ) -> Result<IdentityState, TooManyValues> {
        let route = (&self.routes[index], &self.slots[index]);
        if !self.needs_accounts(route.0) {
            return Ok(IdentityState::NotNeeded);
        }
        if sent.attempt.body == AttemptBody::Unread && route.0.reads_accounts() {
            return Ok(IdentityState::Unknown);
        }
        Identity::of(route, sent, hasher, self.devices.as_deref(), now)
            .map(|subject| IdentityState::Known(Box::new(subject)))
    }

    fn charge(&self, index: usize, bill: &ChargePlan<'_>, found: &mut Charges) -> Result<(), TooManyValues> {
        let limit = &self.limits[index];
        if limit.mode == Mode::Off {
            return Ok(());
        }
        let Some((class, name, spec)) = limit.rate_of(bill.attempt) else {
            if !found.exempt.contains(&index) && limit.kind == LimitKind::Rate {
                found.exempt.push(index);
            }
            return Ok(());
        };
        let Some((tag, price)) = bill.split_cost(limit, &spec) else { return Ok(()) };
        let enforce = limit.mode == Mode::Enforce;
        let SplitCost { total: cost, basic: by_basic } = price;
        let charge =
            |key| Charge { limit: index, key, class, spec, cost, basic_cost: by_basic, tag, enforce };
        for payer in self.charge_targets(limit, bill) {
            let keys = bill.hasher.keys(limit, name, bill.attempt, payer.named_account())?;
            for key in keys {
                match (payer, found.charges.iter_mut().find(|c| c.limit == index && c.key == key)) {
                    (ChargeTarget::RefilledOnly(_), _) => found.refilled_on_success.push(charge(key)),
                    (_, Some(known)) => known.add(price, tag),
                    (_, None) => found.charges.push(charge(key)),
                }
            }
        }
        let of_this = found.charges.iter().filter(|charge| charge.limit == index).count();
        if of_this > TooManyValues::MAX_VALUES { Err(TooManyValues) } else { Ok(()) }
    }

    /// As whom an attempt pays under a limit; nobody, if the limit is not about such an attempt.
    fn charge_targets(&self, limit: &Limit, bill: &ChargePlan<'_>) -> SmallVec<[ChargeTarget; 1]> {
        let IdentityState::Known(subject) = &bill.identity else {
            return smallvec![ChargeTarget::AnyIdentity];
        };
        if !limit.is_hidden() {
            return smallvec![ChargeTarget::AnyIdentity];
        }
        let named = subject.named.iter();
        let payers = named.filter_map(|named| match named.device {
            Some(_) if limit.key.contains(&KeyPart::Device) => Some(ChargeTarget::Account(*named)),
            None if limit.key.contains(&KeyPart::Device) => None,
            Some(_) if !limit.is_account() => Some(ChargeTarget::Account(named.without_device())),
            Some(_) if limit.kind == LimitKind::Cap => {
                Some(ChargeTarget::RefilledOnly(named.without_device()))
            }
            Some(_) if self.has_device_limit(bill.route) => None,
            _ => Some(ChargeTarget::Account(*named)),
        });
        payers.collect()
    }

    /// Whether known devices pay from a limit of their own on this route.
    fn has_device_limit(&self, route: &Route) -> bool {
        let is = |limit: &Limit| limit.mode == Mode::Enforce && limit.key.contains(&KeyPart::Device);
        route.limits.iter().any(|&limit| is(&self.limits[limit]))
    }
}

/// As whom an attempt pays.
#[derive(Clone, Copy)]
enum ChargeTarget {
    /// It does not matter who it is about.
    AnyIdentity,
    /// An account, or a known device of it.
    Account(NamedAccount),
    /// It does not pay, but a success is good for this account.
    RefilledOnly(NamedAccount),
}

impl ChargeTarget {
    fn named_account(&self) -> Option<&NamedAccount> {
        match self {
            Self::AnyIdentity => None,
            Self::Account(named) | Self::RefilledOnly(named) => Some(named),
        }
    }
}

impl Charge {
    /// What another route charges to the same bucket: what is counted once is paid once, and so is what both read in the
    /// same place.
    fn add(&mut self, other: SplitCost, tag: Option<u64>) {
        let known = SplitCost { total: self.cost, basic: self.basic_cost };
        let is_same = tag.is_some() && self.tag == tag;
        let price = if is_same { known.or(other) } else { known.and(other).within(self.spec.burst()) };
        (self.cost, self.basic_cost) = (price.total, price.basic);
        self.tag = self.tag.filter(|_| is_same);
    }
}

impl ChargePlan<'_> {
    /// What is counted once, and the tokens that it costs; `None` if that is not known yet.
    fn split_cost(&self, limit: &Limit, spec: &Spec) -> Option<(Option<u64>, SplitCost)> {
        let (tag, times) = match &self.identity {
            IdentityState::Unknown if limit.needs_accounts() => return None,
            IdentityState::Known(subject) => match limit.unit {
                Unit::Attempts => (None, None),
                Unit::Users => (subject.account(), Some(subject.accounts)),
                Unit::Passwords => (subject.password, Some(subject.guesses)),
            },
            IdentityState::Unknown | IdentityState::NotNeeded => (None, None),
        };
        // However many guesses an attempt makes: it is refused where the row is full, not because it can never fit.
        let most = if limit.kind == LimitKind::Cap { spec.burst() } else { u32::MAX };
        let tokens = self.cost.saturating_mul(times.unwrap_or(1).max(1)).min(most);
        let price = match times {
            Some(_) => self.locations.once(tokens),
            None => self.locations.each(tokens).within(spec.burst()),
        };
        Some((tag, price))
    }
}
