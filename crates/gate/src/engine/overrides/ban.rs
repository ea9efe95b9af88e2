//! Bans of whole prefixes: the attempts of their clients are refused, however many tokens their buckets have, or all their
//! requests.
//!
//! A ban of a single client is in its buckets. A prefix has no bucket, so its ban is kept with the other changes of operators and
//! looked up for each attempt. It refuses as the limits do that would count the attempt.

use http::StatusCode;

use super::super::{Engine, Rules};
use super::{Overrides, PrefixOverride};
use crate::bucket::{Admission, Receipt, Verdict};
use crate::policy::attempt::Client;
use crate::policy::network::NetworkMap;
use crate::policy::{Charges, DefenceRefusal};
use crate::store::memory::CombinedVerdict;
use crate::time::{Span, Time};

/// Clients of which every limit refuses all attempts for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixBan {
    /// The clients.
    pub clients: PrefixOverride,
    /// Whether every request of theirs is refused, also those that no route counts.
    pub is_of_all_requests: bool,
}

/// A ban as it is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) struct BanInForce {
    until: Time,
    is_of_all_requests: bool,
}

impl Overrides {
    /// The bans by prefix, for look-ups.
    pub(in crate::engine) fn banned(&self) -> NetworkMap<BanInForce> {
        let mut banned = NetworkMap::default();
        for PrefixBan { clients, is_of_all_requests } in &self.bans {
            let (until, is_of_all_requests) = (clients.until, *is_of_all_requests);
            banned.insert(clients.prefix, BanInForce { until, is_of_all_requests });
        }
        banned
    }
}

impl Rules {
    /// The end of the ban of this client's prefix, if there is one.
    #[must_use]
    pub fn banned_until(&self, client: Client, now: Time) -> Option<Time> {
        self.ban_of(client, || now).map(|ban| ban.until)
    }

    /// The refusal of every request of this client, if its prefix is banned like this; `now` is the time of the store.
    pub(in crate::engine) fn refusal_of_all(
        &self,
        client: Client,
        now: impl FnOnce() -> Time,
    ) -> Option<&'static DefenceRefusal> {
        self.ban_of(client, now).filter(|ban| ban.is_of_all_requests).map(|_| &ALL_REFUSED)
    }

    fn ban_of(&self, client: Client, now: impl FnOnce() -> Time) -> Option<BanInForce> {
        if self.banned.is_empty() {
            return None;
        }
        let ban = self.banned.find_translated(client.known_ip()?).copied()?;
        (ban.until > now()).then_some(ban)
    }
}

static ALL_REFUSED: DefenceRefusal = DefenceRefusal {
    status: StatusCode::FORBIDDEN,
    why: "an operator banned the client's prefix from everything",
    detail: "Requests from your network are refused for the time being.",
};

impl Engine {
    /// The refusal of whatever this client asks for, if an operator banned its prefix from everything.
    #[must_use]
    pub fn refusal_by_operator(&self, rules: &Rules, client: Client) -> Option<&'static DefenceRefusal> {
        rules.refusal_of_all(client, || self.time())
    }

    /// The verdict on an attempt from a banned prefix: each limit that enforces refuses it, and nothing is taken. `None` if
    /// the client is not banned, or if no limit enforces.
    pub(in crate::engine) fn banned_verdict(
        rules: &Rules,
        found: &Charges,
        client: Client,
        now: Time,
    ) -> Option<CombinedVerdict> {
        let until = rules.banned_until(client, now)?;
        let wait = until.since(now);
        let verdict = |is_enforced: bool, burst: u32| Verdict {
            admission: if is_enforced { Admission::Refused { wait } } else { Admission::Admitted },
            left: if is_enforced { 0 } else { burst },
            next_token: if is_enforced { wait } else { Span::ZERO },
            full_at: if is_enforced { until } else { now },
            receipt: Receipt::default(),
        };
        let of_charge =
            |charge: &crate::policy::Charge| verdict(charge.effect.is_enforced(), charge.spec.burst());
        let verdicts = found.charges.iter().map(of_charge).collect();
        let is_refused = found.charges.iter().any(|charge| charge.effect.is_enforced());
        is_refused.then_some(CombinedVerdict { admitted: false, verdicts })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{OverrideChange, OverrideError};
    use super::*;
    use crate::bucket::{Continuous, Spec};
    use crate::event::Events;
    use crate::policy::{Limit, Mode, Policy};
    use crate::time::Clock;

    const AT: Time = Time::from_nanos(1_000_000_000_000);

    fn engine() -> (Engine, Clock) {
        let spec = Spec::Continuous(Continuous::new(10, Span::from_secs(300), 10).unwrap());
        let policy = Policy::new(Vec::new(), vec![Limit { mode: Mode::Enforce, ..Limit::new("a", spec) }]);
        let clock = Clock::manual(AT);
        (Engine::new(policy, 16, clock.clone(), Events::default()).unwrap(), clock)
    }

    fn ban(prefix: &str, until: Time) -> PrefixBan {
        let (by, why) = (String::new(), String::new());
        let clients = PrefixOverride { prefix: prefix.parse().unwrap(), since: AT, until, by, why };
        PrefixBan { clients, is_of_all_requests: false }
    }

    fn banned_until(engine: &Engine, ip: &str) -> Option<Time> {
        engine.rules().banned_until(Client::from_ip(ip.parse().unwrap()), engine.time())
    }

    #[test]
    fn a_banned_prefix_is_its_clients_and_ends_by_itself() {
        let (engine, clock) = engine();
        let until = AT.after(Span::from_secs(60));
        engine.override_and(&OverrideChange::Ban(ban("203.0.113.0/24", until)), |_| {}).unwrap();
        for (ip, expected) in [("203.0.113.9", Some(until)), ("203.0.112.9", None), ("2001:db8::1", None)] {
            assert_eq!(banned_until(&engine, ip), expected, "{ip}");
        }
        clock.set(until);
        assert_eq!(
            (banned_until(&engine, "203.0.113.9"), engine.end_overrides_and(|_| {})),
            (None, Ok(true))
        );
        assert_eq!(engine.rules().overrides.bans(), []);
    }

    #[test]
    fn a_ban_is_replaced_and_ended_by_its_prefix() {
        let (engine, _) = engine();
        let (soon, late) = (AT.after(Span::from_secs(60)), AT.after(Span::from_secs(3600)));
        let change = |change: OverrideChange| engine.override_and(&change, |_| {});
        change(OverrideChange::Ban(ban("203.0.113.0/24", late))).unwrap();
        change(OverrideChange::Ban(ban("203.0.113.0/24", soon))).unwrap();
        assert_eq!(banned_until(&engine, "203.0.113.9"), Some(soon));
        let prefix: ipnet::IpNet = "203.0.113.0/24".parse().unwrap();
        change(OverrideChange::EndBan(prefix)).unwrap();
        assert_eq!(banned_until(&engine, "203.0.113.9"), None);
        assert_eq!(change(OverrideChange::EndBan(prefix)), Err(OverrideError::NoBan(prefix)));
    }
}
