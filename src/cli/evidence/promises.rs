//! What a limit lets through at most, as far as a decision log can show whether it did.
//!
//! The window of a limit is the time in which its empty bucket is full again. What it admits within it is the arithmetic of
//! `tollgate check`.

use crate::bucket::Spec;
use crate::config::{Config, upper_bound};
use crate::observe::settings::ClientsShown;
use crate::policy::key::KeyPart;
use crate::policy::{ChargeOn, Defence, Limit, Policy, Unit};
use crate::replay::evidence::LimitPromise;
use crate::time::Span;

/// The promise of a limit, or why a decision log does not show whether it is kept.
pub(super) fn of_limit(config: &Config, at: usize) -> Result<LimitPromise, &'static str> {
    let policy = &config.policy;
    let Some(limit) = policy.limits.get(at) else { return Err("there is no such limit") };
    if !limit.enforces() {
        return Err("it does not enforce");
    }
    if limit.unit != Unit::Attempts {
        return Err("it does not count attempts");
    }
    let is_shown = |part: &KeyPart| matches!(part, KeyPart::Ip | KeyPart::User | KeyPart::All);
    if !limit.key.iter().all(is_shown) {
        return Err("a decision log does not show all parts of its key");
    }
    if policy.pardon.as_ref().is_some_and(|pardon| pardon.lifts(limit)) {
        return Err("clients may have their refusals lifted");
    }
    if is_by_hidden_addresses(config, limit) {
        return Err("log.clients does not show the addresses that it counts by");
    }
    let counts_failures = limit.charge_on == ChargeOn::Failures;
    if counts_failures && has_free_repeats(policy, at) {
        return Err("failures that repeat themselves are free");
    }
    let specs = limit.classes().into_iter().filter_map(|(_, spec)| spec);
    let mut windows = specs.map(|spec| Some((spec, window_of(&spec)?)));
    let Some(specs) = windows.try_fold(Vec::new(), |mut specs, window| {
        specs.push(window?);
        Some(specs)
    }) else {
        return Err("its bucket has no tokens");
    };
    promise(limit, &specs, counts_failures).ok_or("its bucket has no tokens")
}

fn promise(limit: &Limit, specs: &[(Spec, Span)], counts_failures: bool) -> Option<LimitPromise> {
    let window = specs.iter().map(|(_, window)| *window).max()?;
    // An attempt that waits for its tokens was decided before they came.
    let most = specs.iter().map(|(spec, _)| upper_bound(spec, window.plus(hold_of(spec)))).max()?;
    Some(LimitPromise {
        most,
        window,
        is_by_client: limit.key.contains(&KeyPart::Ip),
        is_by_account: limit.key.contains(&KeyPart::User),
        prefixes: limit.prefixes,
        counts_failures,
        is_reset_by_success: limit.is_reset_by_success,
    })
}

/// Whether the log has clients in another form than the limit counts them by.
fn is_by_hidden_addresses(config: &Config, limit: &Limit) -> bool {
    let (counted, shown) = (limit.prefixes, config.client.prefixes);
    let is_hidden = match config.log.clients {
        ClientsShown::Full => false,
        ClientsShown::Prefix => counted.ipv4 > shown.ipv4 || counted.ipv6 > shown.ipv6,
        ClientsShown::Hash => true,
    };
    is_hidden && limit.key.contains(&KeyPart::Ip)
}

fn has_free_repeats(policy: &Policy, limit: usize) -> bool {
    let mut routes = policy.routes.iter().filter(|route| route.limits.contains(&limit));
    routes.any(|route| route.defences.iter().any(Defence::forgives_failures))
}

/// The time in which an empty bucket of attempts is full again.
fn window_of(spec: &Spec) -> Option<Span> {
    match spec {
        Spec::Continuous(_) | Spec::Interval(_) | Spec::Floor(_) => Some(spec.window()),
        // Its quota is back after the whole window, whatever a period gives.
        Spec::Rolling(rolling) => Some(rolling.window()),
        Spec::Distinct(_) | Spec::Escalation(_) | Spec::Recent(_) => None,
    }
}

fn hold_of(spec: &Spec) -> Span {
    match spec {
        Spec::Continuous(bucket) => bucket.hold(),
        _ => Span::ZERO,
    }
}
