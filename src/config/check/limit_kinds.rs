//! `max_failures`, `directory` and the sub-limits of defences: further limits for the key of a limit.
//!
//! Each becomes a limit of the same name right behind it, with the same key and for the same clients. That shifts the
//! limits behind it, so [`insert`] renumbers the positions that routes hold; no earlier check may keep one.

use tollgate_grammar::{Findings, RawNamed};

use super::super::raw;
use super::context::CheckContext;
use crate::bucket::{Continuous, Spec};
use crate::defences;
use crate::policy::{ChargeOn, Limit, LimitKind, Policy, Route, Unit};
use crate::time::Span;

/// The policy of the valid routes, and of the valid limits with their sub-limits: the context has them no longer.
pub(super) fn complete(cx: &mut CheckContext<'_>, f: &mut Findings) -> Policy {
    let sub_limits = sub_limits(&cx.raw.limits, &cx.limits, f);
    let mut routes: Vec<_> = cx.routes.drain(..).flatten().collect();
    let limits = insert(std::mem::take(&mut cx.limits), sub_limits, &mut routes);
    Policy::new(routes, limits)
}

/// The sub-limits of each limit.
fn sub_limits(
    raw: &[RawNamed<raw::RawLimit>],
    limits: &[Option<Limit>],
    f: &mut Findings,
) -> Vec<Vec<Limit>> {
    let sub_limits = raw.iter().zip(limits).map(|(RawNamed { value: raw, .. }, limit)| {
        let cap = cap(raw, limit.as_ref(), f).map(|spec| (LimitKind::Cap, spec));
        let directory = limit.as_ref().and_then(|limit| Some((LimitKind::Directory, limit.directory?)));
        let specs = cap.into_iter().chain(defences::sub_limit(&raw.sub_limits, f)).chain(directory);
        let sub_limits =
            limit.iter().flat_map(|limit| specs.clone().map(|(kind, spec)| sub_limit(limit, kind, spec)));
        sub_limits.collect()
    });
    sub_limits.collect()
}

/// Puts the sub-limits behind their limits, and renumbers the limits of the routes.
fn insert(limits: Vec<Option<Limit>>, sub_limits: Vec<Vec<Limit>>, routes: &mut [Route]) -> Vec<Limit> {
    let (mut all, mut positions) = (Vec::new(), Vec::new());
    for (limit, sub_limits) in limits.into_iter().zip(sub_limits) {
        let first = all.len();
        all.extend(limit);
        all.extend(sub_limits);
        positions.push(first..all.len());
    }
    for route in routes {
        route.limits = route.limits.iter().filter_map(|&at| positions.get(at).cloned()).flatten().collect();
    }
    all
}

/// The bucket of `max_failures`: a success refills it, and time practically does not.
fn cap(raw: &raw::RawLimit, limit: Option<&Limit>, f: &mut Findings) -> Option<Spec> {
    let number = raw.max_failures.as_ref()?;
    let failures = number.checked(f)?;
    if failures == 0 {
        return None;
    }
    if !limit?.is_account() {
        let message = "`max_failures` on a limit that is not kept for an account";
        f.error(&number.spot, message, "as in key = \"user\"");
        return None;
    }
    of_failures(failures)
}

fn of_failures(failures: u32) -> Option<Spec> {
    let per_token = Span::from_nanos(LIFETIME.as_nanos() / u64::from(failures.max(1)));
    Continuous::new(1, per_token, failures).ok().map(Spec::Continuous)
}

/// A sub-limit: the same key and clients, with this bucket for every class that has a rate.
fn sub_limit(limit: &Limit, kind: LimitKind, spec: Spec) -> Limit {
    let rates = limit.rates.clone().map(|_| spec);
    let charge_on = if kind == LimitKind::Cap { ChargeOn::Failures } else { limit.charge_on };
    Limit { spec, rates, kind, charge_on, unit: Unit::Attempts, permits: None, ..limit.clone() }
}

/// For all failures together: the longest time that a bucket may take to fill, in whole years. One failure of a hundred
/// is forgotten after 255 days, which is useless for guessing.
const LIFETIME: Span = Span::from_secs(70 * 365 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::worst_cases;
    use crate::policy::network::NetworkSet;

    fn of_account() -> Limit {
        let bucket = Continuous::new(1, Span::from_secs(180), 10).unwrap();
        Limit::new("account", Spec::Continuous(bucket))
    }

    #[test]
    fn a_cap_holds_as_many_failures_and_is_full_again_after_a_lifetime() {
        let years = |count: u64| Span::from_secs(count * 365 * 86_400);
        for failures in [1, 7, 100, 9_999, 10_000] {
            let cap = of_failures(failures).unwrap();
            assert_eq!(cap.burst(), failures);
            assert!(cap.window() > years(60) && cap.window() <= years(70), "{:?}", cap.window());
        }
    }

    #[test]
    fn a_facet_is_the_same_limit_for_the_same_clients() {
        let mut limit =
            Limit { exempt: NetworkSet::from_iter(["192.0.2.0/24".parse().unwrap()]), ..of_account() };
        for (network, spec) in [("10.0.0.0/8", Some(limit.spec)), ("10.1.0.0/16", None)] {
            let class = limit.rates.add(network, spec);
            limit.rates.insert_network(network.parse().unwrap(), class);
        }
        let cap = sub_limit(&limit, LimitKind::Cap, of_failures(100).unwrap());
        assert_eq!(
            (cap.kind, cap.charge_on, cap.spec),
            (LimitKind::Cap, ChargeOn::Failures, of_failures(100).unwrap())
        );
        assert_eq!((&cap.name, &cap.key, &cap.exempt), (&limit.name, &limit.key, &limit.exempt));
        let spec = |ip: &str| cap.rates.of_address(ip.parse().unwrap()).unwrap().spec;
        assert_eq!((spec("10.9.9.9"), spec("10.1.1.1")), (of_failures(100), None));
    }

    #[test]
    fn what_stands_behind_a_limit_is_said_in_its_line() {
        let limit = of_account();
        let waits = crate::bucket::Escalation::new(5, Span::from_secs(30), 2, Span::from_secs(3600)).unwrap();
        let cap = sub_limit(&limit, LimitKind::Cap, of_failures(100).unwrap());
        let failures = Limit {
            charge_on: ChargeOn::Failures,
            ..sub_limit(&limit, LimitKind::Escalation, Spec::Escalation(waits))
        };
        let limits = insert(vec![Some(limit)], vec![vec![cap, failures]], &mut []);
        let policy = Policy::new(Vec::new(), limits);
        let expected = "account: at most 10 at once, then 480 a day from one address; \
                        after 100 failures in a row a stranger needs a known device or an operator; \
                        after 5 failures in a row waits of 30s, growing to 1h, for a client that goes on";
        assert_eq!(worst_cases(&policy), [("account", expected.to_owned())]);
    }
}
