//! The charges of an attempt: the buckets and the tokens.
//!
//! It names buckets and takes nothing. An attempt of a known owner is charged to a bucket of the owner instead of the
//! account's, so that an attacker cannot empty the bucket of an account's owner.

mod target;

use std::sync::Arc;

use smallvec::SmallVec;

use self::target::{ChargeTarget, for_strangers};

use super::attempt::{Attempt, AttemptBody, AttemptFacts};
use super::body_coding::UndecodableBody;
use super::client_fact::AddressFacts;
use super::cost_factors::CostFactors;
use super::count::UnreadableBody;
use super::credential_locations::{CredentialLocations, SplitCost};
use super::defence::{AttemptNotes, ReadAttempt};
use super::field::{Passwords, RequestFields};
use super::identity::{Identity, IdentityReaders};
use super::key::{KeyHasher, KeyInputs, MAX_VALUES, NamedAccount, PrefixLengths, TooManyValues};
use super::legibility::UnknownCharset;
use super::owner::OwnerClaim;
use super::owner_memory::RememberedClient;
use super::route::SlottedRoute;
use super::second_step::{Remembered, SignIn};
use super::{Limit, LimitKind, MatchedRoutes, Mode, Policy, Route, Unit};
use tollgate_bucket::Time;
use tollgate_bucket::{Effect, Key, Spec};

/// One bucket that an attempt is charged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge {
    /// Index into [`Policy::limits`](super::Policy::limits).
    pub limit: usize,
    /// The bucket.
    pub key: Key,
    /// The class of the limit's rate: [`ClassRate::number`](super::ClassRate::number).
    pub class: usize,
    /// The bucket's specification.
    pub spec: Spec,
    /// Tokens to take, at least 1.
    pub cost: u32,
    /// The part of `cost` for the credentials in `Authorization`.
    pub authorization_cost: u32,
    /// The hash of what the limit counts once, if it does.
    pub tag: Option<u64>,
    /// What a refusal by the bucket does.
    pub effect: Effect,
}

/// Why an attempt cannot be charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unchargeable {
    /// The request names too many buckets at once.
    #[error(transparent)]
    TooManyValues(#[from] TooManyValues),
    /// The body does not reveal how many attempts it makes.
    #[error(transparent)]
    Unreadable(#[from] UnreadableBody),
    /// The body is in a coding that is not read.
    #[error(transparent)]
    Undecodable(#[from] UndecodableBody),
    /// The body is in a charset that is not read.
    #[error(transparent)]
    UnknownCharset(#[from] UnknownCharset),
}

/// The policy's result for a request.
#[derive(Debug, Clone, Default)]
pub struct Charges {
    /// The routes that matched, indices into [`Policy::routes`](super::Policy::routes); empty if the request is no
    /// attempt.
    pub routes: MatchedRoutes,
    /// The buckets to charge, in the order of the limits.
    pub charges: SmallVec<[Charge; 2]>,
    /// The limits that exempt this client.
    pub exempt: SmallVec<[usize; 2]>,
    /// The number of accounts it names; `None` if no limit needs it, or if it depends on a body that was not read.
    pub accounts: Option<u32>,
    /// What else is known of it. The caller finds out whether an alarm is on.
    pub facts: AttemptFacts,
    /// What matters once its outcome is known.
    pub unsettled: Unsettled,
}

/// What is kept of an attempt until its outcome is known.
#[derive(Debug, Clone, Default)]
pub struct Unsettled {
    /// Buckets that become full if the attempt succeeds, although they are not charged.
    pub refilled_on_success: Vec<Charge>,
    /// Whether all routes read the same single account: only then does a success prove its password.
    pub is_single_account: bool,
    /// Whether its client has an IPv4 address, also one inside an IPv6 address.
    pub is_ipv4: bool,
    /// The claim to be known as the owner of that account, granted if it signs in.
    pub claim: Option<Arc<dyn OwnerClaim>>,
    /// Its client, which the set of that account remembers from now on if it signs in.
    pub client: Option<RememberedClient>,
    /// The sign-in that second steps may follow, if there are any.
    pub sign_in: Option<Box<SignIn>>,
    /// What the defences of its routes noted.
    pub notes: AttemptNotes,
}

impl Charges {
    /// Whether the attempt names no account and nothing of a sign-in, and no defence refuses or counts it: under
    /// the same rules the same head from the same client has the same charges whenever it comes.
    #[must_use]
    pub fn names_nobody(&self) -> bool {
        let Unsettled { claim, client, sign_in, notes, .. } = &self.unsettled;
        self.accounts.is_none()
            && claim.is_none()
            && client.is_none()
            && sign_in.is_none()
            && notes.are_silent()
    }
}

/// The identity of an attempt, as far as it is known.
enum IdentityState {
    /// No limit needs it.
    NotNeeded,
    /// It depends on a body that was not read yet.
    Unknown,
    Known(Box<Identity>),
}

impl IdentityState {
    fn named(&self) -> &[NamedAccount] {
        match self {
            Self::Known(identity) => &identity.named,
            Self::NotNeeded | Self::Unknown => &[],
        }
    }

    fn passwords(&self) -> Option<&Passwords> {
        match self {
            Self::Known(identity) => identity.passwords.as_ref(),
            Self::NotNeeded | Self::Unknown => None,
        }
    }

    /// Whether the request carries credentials elsewhere than in `Authorization`; `None` if the route's fields
    /// were not read.
    fn is_beside_authorization(&self) -> Option<bool> {
        match self {
            Self::Known(identity) => Some(identity.is_beside_authorization),
            Self::Unknown => Some(false),
            Self::NotNeeded => None,
        }
    }

    /// What a success proves.
    fn proven_by_success(&self) -> Proven {
        match self {
            // For its second step, a client can send a session that was never seen together with one that was.
            // Who is signed in may be answered alike, whatever else the request names.
            Self::Known(identity) if identity.is_following || identity.is_beside_the_form => {
                Proven::default()
            }
            Self::Known(identity) => {
                Proven { account: identity.account(), claim: identity.claim.clone(), client: identity.client }
            }
            Self::NotNeeded | Self::Unknown => Proven::default(),
        }
    }
}

/// What a success proves: the account, and what makes its client known.
#[derive(Clone, PartialEq, Eq, Default)]
struct Proven {
    account: Option<u64>,
    claim: Option<Arc<dyn OwnerClaim>>,
    client: Option<RememberedClient>,
}

impl Proven {
    /// What both routes read alike.
    fn and(self, other: Self) -> Self {
        match self == other {
            true => self,
            false => {
                Self { account: self.account.filter(|_| self.account == other.account), ..Self::default() }
            }
        }
    }
}

/// The common part of all charges of one route.
struct ChargePlan<'b> {
    route: &'b Route,
    attempt: &'b Attempt<'b>,
    host: &'b str,
    origin: AddressFacts,
    hasher: &'b KeyHasher,
    cost: u32,
    /// As how many times that rates charge it.
    factors: CostFactors,
    locations: CredentialLocations,
    identity: IdentityState,
}

impl Policy {
    /// The buckets that an attempt is charged to, if no client is remembered. If its body was not read yet: only those that
    /// do not depend on it.
    ///
    /// # Errors
    /// See [`Unchargeable`].
    pub fn charges(
        &self,
        attempt: &Attempt<'_>,
        hasher: &KeyHasher,
        now: Time,
    ) -> Result<Charges, Unchargeable> {
        self.charges_of(attempt, self.routes_of(attempt), hasher, Remembered::NOTHING, now)
    }

    /// As [`charges`](Self::charges), by the attempt's [routes](Self::routes_of) and what earlier attempts told.
    ///
    /// # Errors
    /// See [`Unchargeable`].
    pub fn charges_of(
        &self,
        attempt: &Attempt<'_>,
        routes: MatchedRoutes,
        hasher: &KeyHasher,
        remembered: Remembered<'_>,
        now: Time,
    ) -> Result<Charges, Unchargeable> {
        let request = RequestFields::with(attempt, self.names.field_names());
        let mut found = Charges::default();
        let mut proven: Option<Proven> = None;
        let origin = self.origin_of(attempt.client);
        for &index in &routes {
            let route = &self.routes[index];
            let identity = self.identity_state(index, &request, hasher, remembered, now)?;
            let cost = self.cost_of(route, attempt)?;
            if let IdentityState::Known(identity) = &identity {
                found.accounts = Some(found.accounts.unwrap_or(0).max(identity.accounts));
                (found.facts.account, found.facts.is_owner) = identity.for_logs(hasher);
                if self.has_second_steps {
                    let sign_in = found.unsettled.sign_in.get_or_insert_default();
                    sign_in.and(identity.sign_in(route, &request, hasher)?);
                }
            }
            let (is_owner, named, passwords) = (found.facts.is_owner, identity.named(), identity.passwords());
            let host = route.known_host(attempt);
            let read = ReadAttempt { attempt, hasher, now, host, origin, is_owner, named, passwords };
            let factors = found.unsettled.notes.add(index, &route.defences, &read);
            let here = identity.proven_by_success();
            proven = Some(match proven {
                None => here,
                Some(so_far) => so_far.and(here),
            });
            let is_beside = identity.is_beside_authorization();
            let locations = CredentialLocations::of(self.slotted(index), &request, is_beside);
            let plan =
                ChargePlan { route, attempt, host, origin, hasher, cost, factors, locations, identity };
            for &limit in &route.limits {
                match self.charge(limit, &plan, &mut found) {
                    // A candidate refuses nothing, not even what it cannot charge.
                    Err(TooManyValues) if !self.limits[limit].is_live() => {
                        found.charges.retain(|charge| charge.limit != limit);
                    }
                    charged => charged?,
                }
            }
        }
        if let Some(Proven { account, claim, client }) = proven {
            found.unsettled.is_single_account = account.is_some();
            (found.unsettled.claim, found.unsettled.client) = (claim, client);
        }
        found.facts.is_of_nobody = found.unsettled.notes.is_of_nobody();
        let client = attempt.client.ip().map(|ip| PrefixLengths::default().mask(ip));
        found.unsettled.is_ipv4 = client.is_some_and(|ip| ip.is_ipv4());
        found.routes = routes;
        if found.charges.len() > 1 {
            found.charges.sort_by_key(|charge| charge.limit);
        }
        Ok(found)
    }

    pub(super) fn slotted(&self, index: usize) -> SlottedRoute<'_> {
        SlottedRoute { route: &self.routes[index], slots: &self.slots[index] }
    }

    fn effect_of(&self, index: usize) -> Effect {
        let limit = &self.limits[index];
        let owner = |at| self.rate_limit_of(at);
        match &limit.candidate_of {
            Some(name) => Effect::Candidate {
                owner: self.limits.iter().position(|l| l.name == *name).map_or(index, owner),
            },
            None if limit.mode == Mode::Enforce => Effect::Enforce { owner: owner(index) },
            None => Effect::Observe,
        }
    }

    /// Whether a limit of this route could refuse the attempt: a limit that exempts the client or only observes cannot.
    pub(super) fn could_refuse(&self, route: &Route, attempt: &Attempt<'_>) -> bool {
        let could = |limit: &Limit| {
            limit.mode == Mode::Enforce && limit.may_charge(attempt, || self.origin_of(attempt.client))
        };
        route.limits.iter().any(|&limit| could(&self.limits[limit]))
    }

    /// Whether this route needs the accounts of an attempt.
    pub(super) fn needs_accounts(&self, route: &Route) -> bool {
        let needs = |limit: &Limit| limit.mode != Mode::Off && limit.needs_accounts();
        let of_defences = route.defences.needs();
        ((self.knows_owners() || self.has_second_steps || of_defences.accounts_if_legible)
            && !route.reading.user.is_empty())
            || of_defences.identity()
            || route.limits.iter().any(|&limit| needs(&self.limits[limit]))
    }

    /// Whether this route needs the passwords of an attempt.
    fn needs_passwords(&self, route: &Route) -> bool {
        let needs = |limit: &Limit| limit.mode != Mode::Off && limit.needs_passwords();
        route.defences.needs().passwords || route.limits.iter().any(|&limit| needs(&self.limits[limit]))
    }

    /// Whether this route has buckets for passwords.
    fn keeps_passwords(&self, route: &Route) -> bool {
        let keeps = |limit: &Limit| limit.mode != Mode::Off && limit.is_of_passwords();
        route.limits.iter().any(|&limit| keeps(&self.limits[limit]))
    }

    /// Whether accounts matter to more than candidates, and defences that do without.
    pub(super) fn depends_on_accounts(&self, route: &Route) -> bool {
        let needs = |limit: &Limit| limit.mode != Mode::Off && limit.is_live() && limit.needs_accounts();
        self.knows_owners()
            || self.has_second_steps
            || route.defences.needs().identity()
            || route.limits.iter().any(|&limit| needs(&self.limits[limit]))
    }

    fn cost_of(&self, route: &Route, attempt: &Attempt<'_>) -> Result<u32, UnreadableBody> {
        let cost = match route.reading.cost.of(attempt) {
            Err(UnreadableBody) if !self.could_refuse(route, attempt) => 1,
            cost => cost?,
        };
        Ok(cost.saturating_mul(attempt.descriptor.map_or(1, |descriptor| descriptor.hits)))
    }

    fn identity_state(
        &self,
        index: usize,
        request: &RequestFields<'_>,
        hasher: &KeyHasher,
        remembered: Remembered<'_>,
        now: Time,
    ) -> Result<IdentityState, TooManyValues> {
        let slotted = self.slotted(index);
        let route = slotted.route;
        if !self.needs_accounts(route) {
            return Ok(IdentityState::NotNeeded);
        }
        if request.attempt.body == AttemptBody::Unread && route.reads_accounts() {
            return Ok(IdentityState::Unknown);
        }
        let readers = IdentityReaders {
            owner_cookie: self.owner_cookie.as_deref(),
            owner_memory: self.owner_memory.as_deref(),
            is_remembered: remembered.is_known,
            keeps_passwords: self.keeps_passwords(route),
            reads_passwords: self.needs_passwords(route) || request.has_authorization(),
            shows_passwords: route.defences.needs().passwords,
            lists_users: self.lists_users,
        };
        let followed = |identity: Identity| {
            let mut identity = Box::new(identity);
            identity.follow_sign_ins(route, request, hasher, remembered)?;
            Ok(identity)
        };
        match Identity::of(slotted, request, hasher, readers, now).and_then(followed) {
            Ok(identity) => Ok(IdentityState::Known(identity)),
            Err(TooManyValues) if !self.depends_on_accounts(route) => Ok(IdentityState::Unknown),
            Err(error) => Err(error),
        }
    }

    fn charge(&self, index: usize, plan: &ChargePlan<'_>, found: &mut Charges) -> Result<(), TooManyValues> {
        let limit = &self.limits[index];
        if limit.mode == Mode::Off {
            return Ok(());
        }
        let effect = self.effect_of(index);
        for target in self.charge_targets(limit, plan) {
            let Some((class, name, spec)) = limit.rate_of(plan.attempt, plan.origin, target.listed()) else {
                if !found.exempt.contains(&index) && limit.kind == LimitKind::Rate {
                    found.exempt.push(index);
                }
                continue;
            };
            let spec = if target.is_of_strangers() { for_strangers(spec) } else { spec };
            let Some((tag, split)) = plan.split_cost(limit, &spec) else { return Ok(()) };
            let SplitCost { total: cost, authorization: authorization_cost } = split;
            let charge =
                |key| Charge { limit: index, key, class, spec, cost, authorization_cost, tag, effect };
            let keys = plan.hasher.keys(limit, name, plan.key_inputs(), target.named_account())?;
            for key in keys {
                match (target, found.charges.iter_mut().find(|c| c.limit == index && c.key == key)) {
                    (ChargeTarget::RefilledOnly(_), _) => {
                        found.unsettled.refilled_on_success.push(charge(key))
                    }
                    (_, Some(known)) => known.add(split, tag, limit.most_together(&spec)),
                    (_, None) => found.charges.push(charge(key)),
                }
            }
        }
        let of_this = found.charges.iter().filter(|charge| charge.limit == index).count();
        if of_this > MAX_VALUES { Err(TooManyValues) } else { Ok(()) }
    }
}

impl Charge {
    /// Adds the charge of another route to the same bucket: what is counted once is charged once, and so are
    /// credentials that both routes read in the same place.
    fn add(&mut self, other: SplitCost, tag: Option<u64>, most: u32) {
        let known = SplitCost { total: self.cost, authorization: self.authorization_cost };
        let is_same = tag.is_some() && self.tag == tag;
        let sum = if is_same { known.or(other) } else { known.and(other).within(most) };
        (self.cost, self.authorization_cost) = (sum.total, sum.authorization);
        self.tag = self.tag.filter(|_| is_same);
    }
}

impl ChargePlan<'_> {
    fn key_inputs(&self) -> KeyInputs<'_> {
        let passwords: &[_] = match &self.identity {
            IdentityState::Known(identity) => &identity.tried,
            IdentityState::NotNeeded | IdentityState::Unknown => &[],
        };
        KeyInputs { attempt: self.attempt, host: self.host, origin: self.origin, passwords }
    }

    /// The tag of what is counted once, and the tokens that the attempt costs; `None` if that is not known yet.
    fn split_cost(&self, limit: &Limit, spec: &Spec) -> Option<(Option<u64>, SplitCost)> {
        let (tag, times) = match (limit.unit, &self.identity) {
            (_, IdentityState::Unknown) if limit.needs_accounts() => return None,
            (Unit::Users, IdentityState::Known(identity)) => (identity.account(), Some(identity.accounts)),
            (Unit::Passwords, IdentityState::Known(identity)) => (identity.password, Some(identity.guesses)),
            (Unit::Clients, _) => {
                (Some(self.hasher.tag_of_client(limit.prefixes, self.attempt.client)), Some(1))
            }
            _ => (None, None),
        };
        // An attempt with many guesses is refused when `max_failures` is reached, not because it can never fit.
        let max = if limit.kind == LimitKind::Cap { spec.burst() } else { u32::MAX };
        let tokens = self.cost.saturating_mul(times.unwrap_or(1).max(1)).min(max);
        let tokens = match self.factors.of(limit) {
            // Never more than its bucket holds.
            factor @ 2.. => tokens.saturating_mul(factor).min(spec.burst().max(tokens)),
            _ => tokens,
        };
        let split = match times {
            Some(_) => self.locations.once(tokens),
            None => self.locations.each(tokens).within(limit.most_together(spec)),
        };
        Some((tag, split))
    }
}
