//! Temporary changes of the rules by operators: exempt and banned prefixes, and limits that observe or enforce for a while.
//!
//! A change modifies the policy itself, once, so that requests pay nothing for it. A snapshot keeps the changes over a restart, and
//! gates with a shared store have the same ones. The layers above handle who asked, when a change ends, and how other gates hear of it.

mod ban;
mod record;

use std::sync::Arc;

use ipnet::IpNet;

pub(super) use self::ban::BanInForce;
pub use self::ban::PrefixBan;

use super::{Engine, Rules};
use crate::policy::{Limit, Mode, Policy};
use crate::store::memory::TooLarge;
use crate::time::Time;

/// The changes in force.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    exemptions: Vec<PrefixExemption>,
    bans: Vec<PrefixBan>,
    /// In the order in which they were set: a later one wins.
    modes: Vec<ModeOverride>,
}

/// Clients that limits do not see for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixExemption {
    /// The clients, and who decided it.
    pub clients: PrefixOverride,
    /// Whether only limits by address do not see them: those by account do.
    pub is_of_address_limits: bool,
}

/// Clients for whom other rules are in force for a while: limits do not see them, or they are banned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixOverride {
    /// The clients.
    pub prefix: IpNet,
    /// When the operator decided it, by the clock of the store; zero if an earlier version did.
    pub since: Time,
    /// The end, by the clock of the store.
    pub until: Time,
    /// The operator, as in `uid 1000`; empty if an earlier version decided it.
    pub by: String,
    /// The operator's reason; may be empty.
    pub why: String,
}

/// A mode that a limit has for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModeOverride {
    /// The limit; `None` stands for all that are not off.
    pub limit: Option<Arc<str>>,
    /// Its mode.
    pub mode: Mode,
    /// The end, by the clock of the store; `None` is the next reload.
    pub until: Option<Time>,
}

/// One change by an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OverrideChange {
    /// Adds an exemption, or replaces the one of the same prefix.
    Exempt(PrefixExemption),
    /// Ends an exemption.
    EndExemption(IpNet),
    /// Adds a ban, or replaces the one of the same prefix.
    Ban(PrefixBan),
    /// Ends a ban.
    EndBan(IpNet),
    /// Sets a mode, in place of an earlier one of the same limit.
    SetMode(ModeOverride),
}

/// Why a change is not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// There are [`MAX_EXEMPTIONS`] already.
    #[error("there are {MAX_EXEMPTIONS} exemptions already: end one first, or write networks into the file")]
    TooMany,
    /// There are as many as are kept already.
    #[error(
        "there are {MAX_BANS} bans of prefixes already: end one first, or refuse networks before the gate"
    )]
    TooManyBans,
    /// The prefix is not banned.
    #[error("{0} is not banned")]
    NoBan(IpNet),
    /// The prefix is not exempt.
    #[error("{0} has no temporary exemption")]
    NoExemption(IpNet),
    /// The file has no such limit.
    #[error("there is no limit `{0}`")]
    NoLimit(Arc<str>),
    /// Another process is taking over.
    #[error("a new process takes over: ask that one")]
    Frozen,
    /// The store that gates share does not answer, or has no room for the change.
    #[error("the store {0}: no gate has changed its rules, as far as is known")]
    Store(String),
    /// The buckets of the changed rules do not fit.
    #[error(transparent)]
    Capacity(#[from] TooLarge),
}

impl Overrides {
    /// The exemptions, in the order in which they were made.
    #[must_use]
    pub fn exemptions(&self) -> &[PrefixExemption] {
        &self.exemptions
    }

    /// The bans of prefixes, in the order in which they were made.
    #[must_use]
    pub fn bans(&self) -> &[PrefixBan] {
        &self.bans
    }

    /// The mode that this limit has for a while, if it has one; for one that is off in the file only if it is named.
    fn mode_of(&self, limit: &str, configured: Mode) -> Option<&ModeOverride> {
        let applies = |mode: &&ModeOverride| match &mode.limit {
            Some(name) => **name == *limit,
            None => configured != Mode::Off,
        };
        self.modes.iter().rev().find(applies)
    }

    /// The end that comes first.
    #[must_use]
    pub fn next_end(&self) -> Option<Time> {
        let exemptions = self.exemptions.iter().map(|exemption| exemption.clients.until);
        let bans = self.bans.iter().map(|ban| ban.clients.until);
        exemptions.chain(bans).chain(self.modes.iter().filter_map(|mode| mode.until)).min()
    }

    /// The policy with these changes.
    pub(super) fn apply(&self, configured: &Arc<Policy>) -> Arc<Policy> {
        if self.exemptions.is_empty() && self.modes.is_empty() {
            return Arc::clone(configured);
        }
        let mut policy = Policy::clone(configured);
        let change = |limit: &mut Limit| {
            let is_of_addresses = limit.is_of_addresses();
            for exemption in self.exemptions.iter().filter(|of| is_of_addresses || !of.is_of_address_limits) {
                limit.exempt.insert(exemption.clients.prefix, ());
            }
            if let Some(changed) = self.mode_of(&limit.name, limit.mode) {
                limit.mode = changed.mode;
            }
        };
        policy.limits.iter_mut().for_each(change);
        policy.routes.iter_mut().for_each(|route| route.defences.change_limits(&change));
        Arc::new(policy)
    }

    fn changed(&self, change: &OverrideChange, configured: &Policy) -> Result<Self, OverrideError> {
        let mut changed = self.clone();
        match change {
            OverrideChange::Exempt(exemption) => {
                changed.exemptions.retain(|known| known.clients.prefix != exemption.clients.prefix);
                if changed.exemptions.len() >= MAX_EXEMPTIONS {
                    return Err(OverrideError::TooMany);
                }
                changed.exemptions.push(exemption.clone());
            }
            OverrideChange::EndExemption(prefix) => {
                changed.exemptions.retain(|known| known.clients.prefix != *prefix);
                if changed.exemptions.len() == self.exemptions.len() {
                    return Err(OverrideError::NoExemption(*prefix));
                }
            }
            OverrideChange::Ban(ban) => {
                changed.bans.retain(|known| known.clients.prefix != ban.clients.prefix);
                if changed.bans.len() >= MAX_BANS {
                    return Err(OverrideError::TooManyBans);
                }
                changed.bans.push(ban.clone());
            }
            OverrideChange::EndBan(prefix) => {
                changed.bans.retain(|known| known.clients.prefix != *prefix);
                if changed.bans.len() == self.bans.len() {
                    return Err(OverrideError::NoBan(*prefix));
                }
            }
            OverrideChange::SetMode(mode) => {
                if let Some(name) = mode.limit.as_ref().filter(|name| !has_limit(configured, name)) {
                    return Err(OverrideError::NoLimit(Arc::clone(name)));
                }
                changed.modes.retain(|known| mode.limit.is_some() && known.limit != mode.limit);
                changed.modes.push(mode.clone());
            }
        }
        Ok(changed)
    }

    /// What outlives a reload: all that has an end.
    #[must_use]
    pub fn after_reload(&self) -> Self {
        let modes = self.modes.iter().filter(|mode| mode.until.is_some());
        Self { modes: modes.cloned().collect(), ..self.clone() }
    }

    fn without_ended(&self, now: Time) -> Self {
        let exemptions = self.exemptions.iter().filter(|exemption| exemption.clients.until > now);
        let bans = self.bans.iter().filter(|ban| ban.clients.until > now);
        let modes = self.modes.iter().filter(|mode| mode.until.is_none_or(|until| until > now));
        Self {
            exemptions: exemptions.cloned().collect(),
            bans: bans.cloned().collect(),
            modes: modes.cloned().collect(),
        }
    }
}

impl Rules {
    /// The modes that limits have for a while, the last one in force.
    #[must_use]
    pub fn temporary_modes(&self) -> &[ModeOverride] {
        &self.overrides.modes
    }

    /// When the mode ends that this limit has for a while.
    #[must_use]
    pub fn mode_until(&self, limit: &str, configured: Mode) -> Option<Time> {
        self.overrides.mode_of(limit, configured)?.until
    }
}

impl Engine {
    /// What a change makes of these changes.
    ///
    /// # Errors
    /// See [`OverrideError`].
    pub fn changed_overrides(
        &self,
        before: &Overrides,
        change: &OverrideChange,
    ) -> Result<Overrides, OverrideError> {
        before.without_ended(self.time()).changed(change, &self.rules().configured)
    }

    /// Makes a change, and puts the changed rules in force as [`replace_and`](Self::replace_and) does.
    ///
    /// # Errors
    /// See [`OverrideError`]; nothing has changed.
    pub fn override_and(
        &self,
        change: &OverrideChange,
        publish: impl FnOnce(&Arc<Rules>),
    ) -> Result<(), OverrideError> {
        let overrides = self.changed_overrides(&self.rules().overrides, change)?;
        self.set_overrides_and(overrides, publish).map(drop)
    }

    /// Puts these changes in force in the place of all others. Returns whether they are others.
    ///
    /// # Errors
    /// [`OverrideError::Frozen`] and [`OverrideError::Capacity`]; nothing has changed.
    pub fn set_overrides_and(
        &self,
        overrides: Overrides,
        publish: impl FnOnce(&Arc<Rules>),
    ) -> Result<bool, OverrideError> {
        if self.is_frozen() {
            return Err(OverrideError::Frozen);
        }
        let rules = self.rules.load_full();
        if rules.overrides == overrides {
            return Ok(false);
        }
        self.put_in_force(Arc::clone(&rules.configured), overrides, publish)?;
        Ok(true)
    }

    /// Ends the changes that are over by now. Returns whether there were any.
    ///
    /// # Errors
    /// [`OverrideError::Capacity`]; nothing has changed.
    pub fn end_overrides_and(&self, publish: impl FnOnce(&Arc<Rules>)) -> Result<bool, OverrideError> {
        let (rules, now) = (self.rules.load_full(), self.time());
        let is_over = !self.is_frozen() && rules.overrides.next_end().is_some_and(|end| end <= now);
        if is_over {
            let overrides = rules.overrides.without_ended(now);
            self.put_in_force(Arc::clone(&rules.configured), overrides, publish)?;
        }
        Ok(is_over)
    }
}

fn has_limit(policy: &Policy, name: &str) -> bool {
    let of_bytes = policy.byte_limits().iter().map(|limit| limit.limit());
    policy.limits.iter().chain(of_bytes).any(|limit| *limit.name == *name)
}

/// Temporary exemptions at most: each is looked up with every attempt's client, in a tree.
pub const MAX_EXEMPTIONS: usize = 1_000;
/// Bans of prefixes at most; they share 60 KiB with all other changes in a store.
const MAX_BANS: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{Continuous, Spec};
    use crate::event::Events;
    use crate::policy::attempt::Client;
    use crate::policy::key::KeyPart;
    use crate::time::{Clock, Span};

    const AT: Time = Time::from_nanos(1_000_000_000_000);

    fn engine(modes: &[(&str, Mode)]) -> (Engine, Clock) {
        let spec = Spec::Continuous(Continuous::new(10, Span::from_secs(300), 10).unwrap());
        let limit = |(name, mode): &(&str, Mode)| Limit { mode: *mode, ..Limit::new(name, spec) };
        let policy = Policy::new(Vec::new(), modes.iter().map(limit).collect());
        let clock = Clock::manual(AT);
        (Engine::new(policy, 16, clock.clone(), Events::default()).unwrap(), clock)
    }

    fn modes(engine: &Engine) -> Vec<Mode> {
        engine.rules().policy.limits.iter().map(|limit| limit.mode).collect()
    }

    fn set(
        engine: &Engine,
        limit: Option<&str>,
        mode: Mode,
        until: Option<Time>,
    ) -> Result<(), OverrideError> {
        let limit = limit.map(Arc::from);
        engine.override_and(&OverrideChange::SetMode(ModeOverride { limit, mode, until }), |_| {})
    }

    #[test]
    fn all_limits_are_those_that_are_not_off_and_a_later_mode_wins() {
        let (engine, _) = engine(&[("a", Mode::Enforce), ("b", Mode::Off), ("c", Mode::Observe)]);
        set(&engine, Some("c"), Mode::Enforce, None).unwrap();
        set(&engine, None, Mode::Observe, None).unwrap();
        assert_eq!(modes(&engine), [Mode::Observe, Mode::Off, Mode::Observe]);
        set(&engine, Some("b"), Mode::Enforce, None).unwrap();
        assert_eq!(modes(&engine), [Mode::Observe, Mode::Enforce, Mode::Observe]);
        assert_eq!(set(&engine, Some("d"), Mode::Enforce, None), Err(OverrideError::NoLimit("d".into())));
    }

    #[test]
    fn a_reload_ends_what_has_no_end_of_its_own() {
        let (engine, clock) = engine(&[("a", Mode::Enforce), ("b", Mode::Enforce)]);
        let until = AT.after(Span::from_secs(60));
        set(&engine, Some("a"), Mode::Observe, None).unwrap();
        set(&engine, Some("b"), Mode::Observe, Some(until)).unwrap();
        engine.replace(Policy::clone(&engine.rules().configured)).unwrap();
        assert_eq!(modes(&engine), [Mode::Enforce, Mode::Observe]);
        assert_eq!(engine.end_overrides_and(|_| {}), Ok(false));
        clock.set(until);
        assert_eq!(engine.end_overrides_and(|_| {}), Ok(true));
        assert_eq!(modes(&engine), [Mode::Enforce; 2]);
        assert!(Arc::ptr_eq(&engine.rules().policy, &engine.rules().configured), "nothing is left of it");
    }

    #[test]
    fn changes_outlive_the_process_by_its_snapshot() {
        let (old, _) = engine(&[("a", Mode::Enforce), ("b", Mode::Enforce)]);
        let until = AT.after(Span::from_secs(60));
        set(&old, Some("a"), Mode::Observe, Some(until)).unwrap();
        let prefix: IpNet = "203.0.113.0/24".parse().unwrap();
        let (by, why) = ("uid 0".to_owned(), "audit".to_owned());
        let clients = PrefixOverride { prefix, since: AT, until, by, why };
        let exemption = PrefixExemption { clients: clients.clone(), is_of_address_limits: false };
        old.override_and(&OverrideChange::Exempt(exemption.clone()), |_| {}).unwrap();
        let ban = PrefixBan { clients, is_of_all_requests: false };
        old.override_and(&OverrideChange::Ban(ban.clone()), |_| {}).unwrap();
        let (new, clock) = engine(&[("a", Mode::Enforce), ("b", Mode::Enforce)]);
        let (new, anew) = new.with_snapshot(&old.snapshot());
        assert_eq!((modes(&new), anew), (vec![Mode::Observe, Mode::Enforce], Vec::new()));
        assert_eq!(
            (new.rules().overrides.exemptions(), new.rules().overrides.bans()),
            (&[exemption][..], &[ban][..])
        );
        let client = Client::from_ip("203.0.113.9".parse().unwrap());
        assert_eq!(new.rules().banned_until(client, new.time()), Some(until), "and it refuses");
        clock.set(until);
        assert_eq!(new.end_overrides_and(|_| {}), Ok(true));
        assert_eq!(modes(&new), [Mode::Enforce; 2]);
    }

    #[test]
    fn an_exemption_from_limits_by_address_leaves_those_by_account() {
        let spec = Spec::Continuous(Continuous::new(10, Span::from_secs(300), 10).unwrap());
        let by = |name, key: &[KeyPart]| Limit { key: key.to_vec(), ..Limit::new(name, spec) };
        let keys: [&[KeyPart]; 3] = [&[KeyPart::Ip], &[KeyPart::User], &[KeyPart::User, KeyPart::Ip]];
        let limits = ["address", "account", "pair"].into_iter().zip(keys).map(|(name, key)| by(name, key));
        let policy = Policy::new(Vec::new(), limits.collect());
        let engine = Engine::new(policy, 16, Clock::manual(AT), Events::default()).unwrap();
        let prefix: IpNet = "203.0.113.7/32".parse().unwrap();
        let clients = PrefixOverride { prefix, since: AT, until: AT, by: String::new(), why: String::new() };
        for (is_of_address_limits, exempt) in [(true, [true, false, false]), (false, [true; 3])] {
            let exemption = PrefixExemption { clients: clients.clone(), is_of_address_limits };
            engine.override_and(&OverrideChange::Exempt(exemption), |_| {}).unwrap();
            let rules = engine.rules();
            let found: Vec<_> =
                rules.policy.limits.iter().map(|limit| limit.exempt.contains(prefix.addr())).collect();
            assert_eq!(found, exempt);
        }
    }

    #[test]
    fn a_refused_change_publishes_nothing() {
        let (engine, _) = engine(&[("a", Mode::Enforce)]);
        let generation = engine.rules().generation;
        let prefix: IpNet = "203.0.113.0/24".parse().unwrap();
        let mut published = false;
        let ended = engine.override_and(&OverrideChange::EndExemption(prefix), |_| published = true);
        assert_eq!(ended, Err(OverrideError::NoExemption(prefix)));
        assert!(!published && engine.rules().generation == generation);
    }
}
