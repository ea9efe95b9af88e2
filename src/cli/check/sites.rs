//! Tells of many sites which of them differ from the others.
//!
//! Two are alike if only names, hosts and upstreams tell them apart: their own limits may have other names, and nothing
//! else. What a route does is left to the policy; here it is only compared.

use crate::config::{ALIKE, shortened};
use crate::policy::{Limit, Policy, Route, RouteMatch, Site};

/// As in `1000 sites: 997 alike, 3 differ: blog, shop, wiki`; `None` for few sites.
pub(super) fn alike(policy: &Policy) -> Option<String> {
    let sites = Site::all(policy);
    if sites.len() < ALIKE {
        return None;
    }
    let mut kinds: Vec<Vec<&Site<'_>>> = Vec::new();
    for site in &sites {
        match kinds.iter_mut().find(|kind| kind.first().is_some_and(|first| are_alike(first, site, policy))) {
            Some(kind) => kind.push(site),
            None => kinds.push(vec![site]),
        }
    }
    let most = kinds.iter().map(Vec::len).max().unwrap_or(0);
    let common = kinds.iter().position(|kind| kind.len() == most);
    let others: Vec<String> = kinds
        .iter()
        .enumerate()
        .filter(|(at, _)| Some(*at) != common)
        .flat_map(|(_, kind)| kind.iter().map(|site| site.name.to_owned()))
        .collect();
    Some(match (others.len(), most) {
        (0, _) => format!("{} sites are alike", sites.len()),
        (_, ..ALIKE) => format!("{} sites, few of them alike", sites.len()),
        (count, _) => {
            format!("{} sites: {most} alike, {count} differ: {}", sites.len(), shortened(&others))
        }
    })
}

fn are_alike(one: &Site<'_>, other: &Site<'_>, policy: &Policy) -> bool {
    let mut pairs = one.routes.iter().zip(&other.routes);
    one.routes.len() == other.routes.len()
        && pairs.all(|(first, second)| {
            first.name.strip_prefix(one.name) == second.name.strip_prefix(other.name)
                && are_same(first, second)
                && have_same_limits(first, second, policy)
        })
}

/// Compares all but names, hosts, upstreams and limits. All fields are named, so that none is forgotten.
fn are_same(one: &Route, other: &Route) -> bool {
    let Route {
        name: _,
        application: _,
        matching: RouteMatch { patterns, when, hosts, other_than, case },
        reading,
        step,
        defences,
        permits,
        rules,
        limits: _,
        upstream,
        cors,
        on_error,
    } = one;
    *patterns == other.matching.patterns
        && *when == other.matching.when
        && hosts.is_empty() == other.matching.hosts.is_empty()
        && other_than.is_some() == other.matching.other_than.is_some()
        && *case == other.matching.case
        && *reading == other.reading
        && *step == other.step
        && *defences == other.defences
        && *permits == other.permits
        && *rules == other.rules
        && upstream.is_some() == other.upstream.is_some()
        && *cors == other.cors
        && *on_error == other.on_error
}

fn have_same_limits(one: &Route, other: &Route, policy: &Policy) -> bool {
    let are_same = |(first, second): (&usize, &usize)| {
        let [first, second] = [first, second].map(|&at| policy.limits.get(at));
        let (Some(first), Some(second)) = (first, second) else { return false };
        std::ptr::eq(first, second) || *first == Limit { name: first.name.clone(), ..second.clone() }
    };
    one.limits.len() == other.limits.len() && one.limits.iter().zip(&other.limits).all(are_same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Sources, load};

    /// Sites whose files differ in names, hosts and upstreams, and in what this says of them.
    fn policy(count: usize, own: impl Fn(usize) -> &'static str) -> Policy {
        let mut text = "listen = \"http://[::]:80\"\nupstream = \"http://127.0.0.1:81\"\n\
                        [limit.address]\nrate = \"10 per 5m\"\n"
            .to_owned();
        for site in 0..count {
            text += &format!(
                "[route.site{site}-pages]\nmatch = \"GET /\"\nhost = \"{site}.example.org\"\nlimits = []\n\
                 [route.site{site}]\npreset = \"wordpress\"\nhost = \"{site}.example.org\"\n\
                 upstream = \"http://127.0.1.{site}:81\"\nlimits = [\"address\", \"own{site}\"]\n\
                 [limit.own{site}]\nroutes = [\"site{site}\"]\nkey = \"user\"\nrate = \"{}\"\n",
                own(site)
            );
        }
        load(&Sources::from_text("gate.toml", &text)).config.unwrap().policy
    }

    #[test]
    fn sites_that_differ_in_names_hosts_and_upstreams_only_are_alike() {
        assert_eq!(alike(&policy(9, |_| "20/h")).unwrap(), "9 sites are alike");
        assert_eq!(alike(&policy(3, |_| "20/h")), None);
    }

    #[test]
    fn a_site_with_another_rate_is_named() {
        let rate = |site| if site == 2 || site == 7 { "30/h" } else { "20/h" };
        assert_eq!(alike(&policy(9, rate)).unwrap(), "9 sites: 7 alike, 2 differ: site2-pages, site7-pages");
        let rates = ["1/h", "2/h", "3/h", "4/h", "5/h"];
        assert_eq!(alike(&policy(5, |site| rates[site])).unwrap(), "5 sites, few of them alike");
    }
}
