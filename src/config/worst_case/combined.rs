//! Combines all limits of a route: what one address, each wider network and all clients together can do.
//!
//! The smallest of all limits on the same clients counts. A limit by address also bounds a network, by one bucket for
//! each address in it; a limit by header, cookie or host bounds no client, because another value gets another bucket.
//! The numbers are attempts: if an attempt costs two tokens, they are half of what the limits say.

use std::fmt;
use std::sync::Arc;

use tollgate_grammar::diagnostic::grouped;

use super::describe::{DAY, INSTANT};
use super::upper_bound::upper_bound;
use crate::defences::prefixes::describe_prefix;
use crate::policy::count::Count;
use crate::policy::key::{KeyPart, PrefixLengths};
use crate::policy::{Cost, Defence, Limit, LimitKind, Mode, Policy, Route, Unit};

/// The combined bounds of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CombinedLimits {
    /// The route.
    pub route: Arc<str>,
    /// From the narrowest network to the widest.
    pub bounds: Vec<CombinedBound>,
    /// Whether a limit bounds all clients together.
    pub bounded: bool,
    /// Limits that bound no client, because clients choose the value that selects the bucket.
    pub evadable: Vec<Arc<str>>,
    /// Limits on the number of accounts tried, not on the attempts at each.
    pub of_accounts: Vec<Arc<str>>,
    /// What follows while an alarm is on.
    pub alarms: Vec<String>,
    /// Whether a limit exempts some clients or has other rates for them.
    pub exceptions: bool,
    /// Whether accounts pay although it names none, because it is a second step.
    pub follows_sign_in: bool,
    /// What lifts refusals of its limits, if anything does.
    pub pardoned: Option<&'static str>,
    /// What makes an attempt cost more, and what it does not stop.
    pub notes: Vec<String>,
    /// The widest network of the ladder.
    widest: Option<PrefixLengths>,
}

/// The upper bound for some clients together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CombinedBound {
    /// The clients, as in `one /24 network (IPv6: /48)`.
    pub who: String,
    /// Attempts within an instant.
    pub at_once: u64,
    /// Attempts in any 24 hours.
    pub in_a_day: u64,
}

/// The combined limits of each route, in the order of the file.
#[must_use]
pub fn combined(policy: &Policy) -> Vec<CombinedLimits> {
    policy.routes.iter().map(|route| of_route(route, policy)).collect()
}

impl fmt::Display for CombinedLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self.bounds.iter().map(ToString::to_string).collect();
        if !self.bounded {
            parts.push(match self.widest {
                None => "nothing bounds a client".to_owned(),
                Some(PrefixLengths { ipv4: 32, .. }) => {
                    "nothing bounds an attacker with many addresses".to_owned()
                }
                Some(PrefixLengths { ipv4, ipv6 }) => format!(
                    "nothing bounds an attacker with addresses in many /{ipv4} networks (IPv6: /{ipv6})"
                ),
            });
        }
        for limit in &self.evadable {
            parts.push(format!("`{limit}` does not limit a client that sends other values"));
        }
        for limit in &self.of_accounts {
            parts.push(format!("`{limit}` bounds how many accounts are tried, not how often each"));
        }
        parts.extend(self.alarms.iter().cloned());
        if self.exceptions {
            parts.push("exempt clients and those with other rates are not included".to_owned());
        }
        if self.follows_sign_in {
            parts.push(OF_SECOND_STEPS.to_owned());
        }
        parts.extend(self.pardoned.map(str::to_owned));
        parts.extend(self.notes.iter().cloned());
        write!(f, "{}: {}", self.route, parts.join("; "))
    }
}

impl fmt::Display for CombinedBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at_once, in_a_day) = (grouped(self.at_once), grouped(self.in_a_day));
        write!(f, "{}: at most {at_once} at once, {in_a_day} in a day", self.who)
    }
}

fn of_route(route: &Route, policy: &Policy) -> CombinedLimits {
    let limits = route.limits.iter().filter_map(|&limit| policy.limits.get(limit));
    let limits = limits.filter(|limit| limit.mode == Mode::Enforce && limit.kind == LimitKind::Rate);
    // What they bound is not a network of one size, so it is left out of the sums.
    let is_other = |part: &KeyPart| matches!(part, KeyPart::Fact(fact) if !fact.is_chosen_by_clients());
    let limits = limits.filter(|limit| !limit.key.iter().any(is_other));
    let (of_accounts, limits): (Vec<&Limit>, Vec<&Limit>) =
        limits.partition(|limit| limit.unit == Unit::Users);
    let (evadable, limits): (Vec<&Limit>, Vec<&Limit>) = limits.iter().partition(|limit| is_evadable(limit));
    let (by_network, by_all): (Vec<&Limit>, Vec<&Limit>) =
        limits.iter().partition(|limit| limit.key.contains(&KeyPart::Ip));
    let ladder = ladder(&by_network);
    let all = by_all.iter().map(|limit| AttemptBound::of(limit, route)).reduce(AttemptBound::min);
    let mut bounds: Vec<CombinedBound> =
        ladder.iter().flat_map(|rung| bounds_on(*rung, &by_network, all, route)).collect();
    bounds.extend(all.map(|bound| bound.for_clients("all clients together".to_owned())));
    CombinedLimits {
        route: Arc::clone(&route.name),
        bounds,
        bounded: all.is_some() || ladder.last().is_some_and(|widest| (widest.ipv4, widest.ipv6) == (0, 0)),
        evadable: evadable.iter().map(|limit| Arc::clone(&limit.name)).collect(),
        of_accounts: of_accounts.iter().map(|limit| Arc::clone(&limit.name)).collect(),
        alarms: described(route, |defence| defence.alarm().is_some()).collect(),
        pardoned: pardoned(policy, &limits),
        follows_sign_in: route.step.is_some() && evadable.iter().any(|limit| limit.is_account()),
        exceptions: limits.iter().any(|limit| !limit.exempt.is_empty() || !limit.rates.classes().is_empty()),
        notes: notes(route),
        widest: ladder.last().copied(),
    }
}

fn pardoned(policy: &Policy, limits: &[&Limit]) -> Option<&'static str> {
    let pardon = policy.pardon.as_ref()?;
    limits.iter().any(|limit| pardon.lifts(limit)).then(|| pardon.exception())
}

fn notes(route: &Route) -> Vec<String> {
    let documents = match &route.reading.cost {
        Cost::Counted(Count::Fields(fields)) => Some(format!(
            "each `{}` of a GraphQL document is an attempt; accounts and passwords in its text are not read",
            fields.join("` or `")
        )),
        _ => None,
    };
    described(route, |defence| defence.alarm().is_none()).chain(documents).collect()
}

fn described(route: &Route, is_wanted: fn(&dyn Defence) -> bool) -> impl Iterator<Item = String> {
    route.defences.iter().filter(move |defence| is_wanted(*defence)).filter_map(Defence::describe)
}

/// What limits by account do on a route that names none.
const OF_SECOND_STEPS: &str = "limits by account charge the accounts that signed in with one of its cookies; \
                               after 15m of rest, or at another gate, its client";

/// Whether a client selects its bucket by a value that it sends.
fn is_evadable(limit: &Limit) -> bool {
    limit.key.iter().any(|part| !matches!(part, KeyPart::Ip | KeyPart::All))
}

/// The networks of the limits, the narrowest first; a single address always leads.
fn ladder(limits: &[&Limit]) -> Vec<PrefixLengths> {
    let mut rungs: Vec<PrefixLengths> = limits.iter().map(|limit| limit.prefixes).collect();
    if rungs.iter().any(|_| true) && rungs.iter().all(|rung| rung.ipv4 < 32) {
        rungs.push(PrefixLengths { ipv4: 32, ipv6: 64 });
    }
    rungs.sort_by_key(|rung| std::cmp::Reverse((rung.ipv4, rung.ipv6)));
    rungs.dedup_by_key(|rung| (rung.ipv4, rung.ipv6));
    rungs
}

/// The bounds on networks of one rung: one bound, or two where IPv4 and IPv6 differ.
fn bounds_on(
    rung: PrefixLengths,
    limits: &[&Limit],
    all: Option<AttemptBound>,
    route: &Route,
) -> Vec<CombinedBound> {
    let bound = |length: &dyn Fn(PrefixLengths) -> u8| {
        let each = limits.iter().map(|limit| {
            let bits = length(limit.prefixes).saturating_sub(length(rung));
            AttemptBound::of(limit, route).times(1_u64.checked_shl(bits.into()).unwrap_or(u64::MAX))
        });
        each.chain(all).reduce(AttemptBound::min)
    };
    match (bound(&|lengths| lengths.ipv4), bound(&|lengths| lengths.ipv6)) {
        (Some(ipv4), Some(ipv6)) if ipv4 != ipv6 => {
            let address = if rung.ipv4 == 32 { "one IPv4 address".into() } else { network(4, rung.ipv4) };
            vec![ipv4.for_clients(address), ipv6.for_clients(network(6, rung.ipv6))]
        }
        (bound, _) => bound.map(|bound| bound.for_clients(describe_prefix(rung))).into_iter().collect(),
    }
}

fn network(version: u8, length: u8) -> String {
    format!("one IPv{version} /{length} network")
}

/// Attempts within an instant and within a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AttemptBound {
    at_once: u64,
    in_a_day: u64,
}

impl AttemptBound {
    /// The attempts that one bucket of a limit admits.
    fn of(limit: &Limit, route: &Route) -> Self {
        let cost = match route.reading.cost {
            Cost::Fixed(cost) => cost,
            // Each counted attempt in a body costs one token.
            Cost::Counted(_) => 1,
        };
        if cost > limit.spec.burst() {
            return Self { at_once: 0, in_a_day: 0 };
        }
        let cost = u64::from(cost.max(1));
        Self {
            at_once: upper_bound(&limit.spec, INSTANT) / cost,
            in_a_day: upper_bound(&limit.spec, DAY) / cost,
        }
    }

    fn times(self, buckets: u64) -> Self {
        Self {
            at_once: self.at_once.saturating_mul(buckets),
            in_a_day: self.in_a_day.saturating_mul(buckets),
        }
    }

    fn min(self, other: Self) -> Self {
        Self { at_once: self.at_once.min(other.at_once), in_a_day: self.in_a_day.min(other.in_a_day) }
    }

    fn for_clients(self, who: String) -> CombinedBound {
        CombinedBound { who, at_once: self.at_once, in_a_day: self.in_a_day }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Sources, load};

    fn words(rest: &str) -> String {
        let text = format!(
            "listen = \"http://[::]:80\"\nupstream = \"http://a\"\n[route.login]\nmatch = \"POST /\"\n{rest}"
        );
        let loaded = load(&Sources::from_text("f", &text));
        let routes: Vec<String> =
            combined(&loaded.config.unwrap().policy).iter().map(ToString::to_string).collect();
        routes.join("\n")
    }

    const ADDRESS: &str = "[limit.address]\nrate = \"10 per 5m\"\n";
    const SUBNET: &str = "[limit.subnet]\nrate = \"60 per 5m\"\nipv4 = 24\nipv6 = 48\n";

    #[test]
    fn a_ladder_is_said_rung_by_rung() {
        assert_eq!(
            words(&format!("{ADDRESS}{SUBNET}")),
            "login: one address: at most 10 at once, 2,890 in a day; \
             one /24 network (IPv6: /48): at most 60 at once, 17,340 in a day; \
             nothing bounds an attacker with addresses in many /24 networks (IPv6: /48)"
        );
    }

    #[test]
    fn without_a_ladder_many_addresses_are_bounded_by_nothing() {
        assert_eq!(
            words(ADDRESS),
            "login: one address: at most 10 at once, 2,890 in a day; \
             nothing bounds an attacker with many addresses"
        );
    }

    #[test]
    fn a_limit_on_everybody_bounds_everybody_and_each() {
        let all = "[limit.all]\nkey = \"all\"\nrate = \"8 per day\"\n";
        assert_eq!(
            words(&format!("{ADDRESS}{all}")),
            "login: one address: at most 8 at once, 16 in a day; \
             all clients together: at most 8 at once, 16 in a day"
        );
        assert_eq!(words(all), "login: all clients together: at most 8 at once, 16 in a day");
    }

    #[test]
    fn a_prefix_of_no_bits_bounds_everybody() {
        let text = words("[limit.all]\nrate = \"8 per day\"\nipv4 = 0\nipv6 = 0\n");
        assert!(
            text.ends_with("; all clients, IPv4 and IPv6 apart: at most 8 at once, 16 in a day"),
            "{text}"
        );
    }

    #[test]
    fn each_number_is_that_of_the_limit_that_has_the_least() {
        let day = "[limit.day]\nrolling = \"40 per 24h\"\nevery = \"1h\"\n";
        assert!(
            words(&format!("{ADDRESS}{day}"))
                .starts_with("login: one address: at most 10 at once, 80 in a day;")
        );
    }

    #[test]
    fn a_single_address_leads_a_ladder_of_networks() {
        let text = words(SUBNET);
        assert!(
            text.starts_with(
                "login: one address: at most 60 at once, 17,340 in a day; \
                 one /24 network (IPv6: /48): at most 60"
            ),
            "{text}"
        );
    }

    #[test]
    fn narrow_buckets_bound_a_wide_network_too() {
        let text = words(&format!("{ADDRESS}[limit.wide]\nrate = \"100000/s\"\nipv4 = 31\nipv6 = 63\n"));
        assert!(text.contains("one /31 network (IPv6: /63): at most 20 at once, 5,780 in a day"), "{text}");
    }

    #[test]
    fn ipv4_and_ipv6_are_told_apart_where_they_differ() {
        let text = words(&format!("{ADDRESS}[limit.wide]\nrate = \"60 per 5m\"\nipv4 = 24\nipv6 = 64\n"));
        let expected = "one IPv4 /24 network: at most 60 at once, 17,340 in a day; \
                        one IPv6 /64 network: at most 10 at once, 2,890 in a day;";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn limits_that_refuse_no_client_bound_none() {
        let observed = "[limit.address]\nrate = \"10 per 5m\"\nmode = \"observe\"\n";
        assert_eq!(words(observed), "login: nothing bounds a client");
        let evadable = "[limit.agent]\nrate = \"10 per 5m\"\nkey = \"ip+header:User-Agent\"\n";
        assert_eq!(
            words(evadable),
            "login: nothing bounds a client; `agent` does not limit a client that sends other values"
        );
    }

    #[test]
    fn attempts_that_cost_more_are_fewer() {
        let text = words(&format!("cost = 3\n{ADDRESS}"));
        assert!(text.starts_with("login: one address: at most 3 at once, 963 in a day;"), "{text}");
        let text = words(&format!("cost = 11\n{ADDRESS}"));
        assert!(text.starts_with("login: one address: at most 0 at once, 0 in a day;"), "{text}");
    }

    #[test]
    fn a_limit_that_counts_accounts_bounds_no_attempts_and_one_that_counts_passwords_does() {
        let of = |unit: &str| words(&format!("{ADDRESS}unit = \"{unit}\"\n[limit.address.escalate]\n"));
        let expected = "login: nothing bounds a client; \
                        `address` bounds how many accounts are tried, not how often each";
        assert_eq!(of("users"), expected);
        assert_eq!(of("passwords"), words(ADDRESS));
    }

    #[test]
    fn exceptions_are_mentioned() {
        let text = words(&format!("{ADDRESS}exempt = \"127.0.0.1\"\n"));
        assert!(text.ends_with("; exempt clients and those with other rates are not included"), "{text}");
    }
}
