//! Combines all limits of a route: what one address, each wider network and everybody can do.
//!
//! Of all limits that bound somebody the smallest counts. A limit by address bounds a network as well, by as many
//! buckets as the network has; a limit by header, cookie or host bounds nobody, because whoever sends another value has
//! another bucket. The surprising thing: the numbers are attempts, so where one costs two tokens they are half of what
//! the limits say.

use std::fmt;
use std::sync::Arc;

use super::super::diagnostic::grouped;
use super::describe::{DAY, INSTANT};
use super::describe_prefix;
use super::upper_bound::upper_bound;
use crate::policy::key::{KeyPart, PrefixLengths};
use crate::policy::{Cost, Limit, LimitKind, Mode, Policy, Route, Unit};

/// What a route's limits let through, all of them together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CombinedLimits {
    /// The route.
    pub route: Arc<str>,
    /// From the narrowest to the widest.
    pub bounds: Vec<CombinedBound>,
    /// Whether there is a bound on everybody together.
    pub bounded: bool,
    /// Limits that bound nobody, because a client chooses by what it is counted.
    pub evadable: Vec<Arc<str>>,
    /// Limits that bound how many accounts are tried, and not how often each.
    pub of_accounts: Vec<Arc<str>>,
    /// Whether some limit has other rates, or none, for some clients.
    pub exceptions: bool,
    /// The widest network of the ladder.
    widest: Option<PrefixLengths>,
}

/// The most that some clients together can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CombinedBound {
    /// Who, as in `one /24 network (IPv6: /48)`.
    pub who: String,
    /// Attempts within a moment.
    pub at_once: u64,
    /// Attempts in any 24 hours.
    pub in_a_day: u64,
}

/// What the limits of each route let through together, in the order of the file.
#[must_use]
pub fn combined(policy: &Policy) -> Vec<CombinedLimits> {
    policy.routes.iter().map(|route| of_route(route, policy)).collect()
}

impl fmt::Display for CombinedLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said: Vec<String> = self.bounds.iter().map(ToString::to_string).collect();
        if !self.bounded {
            said.push(match self.widest {
                None => "nothing bounds anybody".to_owned(),
                Some(PrefixLengths { ipv4: 32, .. }) => {
                    "nothing bounds an attacker with many addresses".to_owned()
                }
                Some(PrefixLengths { ipv4, ipv6 }) => format!(
                    "nothing bounds an attacker with addresses in many /{ipv4} networks (IPv6: /{ipv6})"
                ),
            });
        }
        for limit in &self.evadable {
            said.push(format!("`{limit}` bounds nobody who sends other values"));
        }
        for limit in &self.of_accounts {
            said.push(format!("`{limit}` bounds how many accounts are tried, not how often each"));
        }
        if self.exceptions {
            said.push("exempt clients and those with rates of their own aside".to_owned());
        }
        write!(f, "{}: {}", self.route, said.join("; "))
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
    let (of_accounts, limits): (Vec<&Limit>, Vec<&Limit>) =
        limits.partition(|limit| limit.unit == Unit::Users);
    let (chosen, limits): (Vec<&Limit>, Vec<&Limit>) = limits.iter().partition(|limit| is_evadable(limit));
    let (by_network, by_all): (Vec<&Limit>, Vec<&Limit>) =
        limits.iter().partition(|limit| limit.key.contains(&KeyPart::Ip));
    let ladder = ladder(&by_network);
    let all = by_all.iter().map(|limit| AttemptBound::of(limit, route)).reduce(AttemptBound::min);
    let mut bounds: Vec<CombinedBound> =
        ladder.iter().flat_map(|rung| bounds_on(*rung, &by_network, all, route)).collect();
    bounds.extend(all.map(|most| most.for_clients("everybody together".to_owned())));
    CombinedLimits {
        route: Arc::clone(&route.name),
        bounds,
        bounded: all.is_some() || ladder.last().is_some_and(|widest| (widest.ipv4, widest.ipv6) == (0, 0)),
        evadable: chosen.iter().map(|limit| Arc::clone(&limit.name)).collect(),
        of_accounts: of_accounts.iter().map(|limit| Arc::clone(&limit.name)).collect(),
        exceptions: limits.iter().any(|limit| !limit.exempt.is_empty() || !limit.rates.is_empty()),
        widest: ladder.last().copied(),
    }
}

/// Whether a client chooses its bucket by what it sends.
fn is_evadable(limit: &Limit) -> bool {
    limit.key.iter().any(|part| !matches!(part, KeyPart::Ip | KeyPart::All))
}

/// The networks that limits are kept for, the narrowest first; a single address always leads.
fn ladder(limits: &[&Limit]) -> Vec<PrefixLengths> {
    let mut rungs: Vec<PrefixLengths> = limits.iter().map(|limit| limit.prefixes).collect();
    if rungs.iter().any(|_| true) && rungs.iter().all(|rung| rung.ipv4 < 32) {
        rungs.push(PrefixLengths { ipv4: 32, ipv6: 64 });
    }
    rungs.sort_by_key(|rung| std::cmp::Reverse((rung.ipv4, rung.ipv6)));
    rungs.dedup_by_key(|rung| (rung.ipv4, rung.ipv6));
    rungs
}

/// What the networks of one rung get: one bound, or two where IPv4 and IPv6 differ.
fn bounds_on(
    rung: PrefixLengths,
    limits: &[&Limit],
    all: Option<AttemptBound>,
    route: &Route,
) -> Vec<CombinedBound> {
    let bound = |length: &dyn Fn(PrefixLengths) -> u8| {
        let each = limits.iter().map(|limit| {
            let wanted = length(limit.prefixes).saturating_sub(length(rung));
            AttemptBound::of(limit, route).times(1_u64.checked_shl(wanted.into()).unwrap_or(u64::MAX))
        });
        each.chain(all).reduce(AttemptBound::min)
    };
    match (bound(&|lengths| lengths.ipv4), bound(&|lengths| lengths.ipv6)) {
        (Some(ipv4), Some(ipv6)) if ipv4 != ipv6 => {
            let address = if rung.ipv4 == 32 { "one IPv4 address".into() } else { network(4, rung.ipv4) };
            vec![ipv4.for_clients(address), ipv6.for_clients(network(6, rung.ipv6))]
        }
        (most, _) => most.map(|most| most.for_clients(describe_prefix(rung))).into_iter().collect(),
    }
}

fn network(version: u8, length: u8) -> String {
    format!("one IPv{version} /{length} network")
}

/// Attempts within a moment and within a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AttemptBound {
    at_once: u64,
    in_a_day: u64,
}

impl AttemptBound {
    /// What one bucket of a limit admits.
    fn of(limit: &Limit, route: &Route) -> Self {
        let cost = match route.cost {
            Cost::Fixed(cost) => cost,
            // Each attempt within a body is one.
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
        let said: Vec<String> =
            combined(&loaded.config.unwrap().policy).iter().map(ToString::to_string).collect();
        said.join("\n")
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
            "login: one address: at most 8 at once, 16 in a day; everybody together: at most 8 at once, 16 in a day"
        );
        assert_eq!(words(all), "login: everybody together: at most 8 at once, 16 in a day");
    }

    #[test]
    fn a_prefix_of_no_bits_bounds_everybody() {
        let text = words("[limit.all]\nrate = \"8 per day\"\nipv4 = 0\nipv6 = 0\n");
        assert!(text.ends_with("; everybody, IPv4 and IPv6 apart: at most 8 at once, 16 in a day"), "{text}");
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
            text.starts_with("login: one address: at most 60 at once, 17,340 in a day; one /24 network (IPv6: /48): at most 60"),
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
    fn limits_that_refuse_nobody_bound_nobody() {
        let observed = "[limit.address]\nrate = \"10 per 5m\"\nmode = \"observe\"\n";
        assert_eq!(words(observed), "login: nothing bounds anybody");
        let chosen = "[limit.agent]\nrate = \"10 per 5m\"\nkey = \"ip+header:User-Agent\"\n";
        assert_eq!(
            words(chosen),
            "login: nothing bounds anybody; `agent` bounds nobody who sends other values"
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
        let expected =
            "login: nothing bounds anybody; `address` bounds how many accounts are tried, not how often each";
        assert_eq!(of("users"), expected);
        assert_eq!(of("passwords"), words(ADDRESS));
    }

    #[test]
    fn exceptions_are_mentioned() {
        let text = words(&format!("{ADDRESS}exempt = \"127.0.0.1\"\n"));
        assert!(text.ends_with("; exempt clients and those with rates of their own aside"), "{text}");
    }
}
