//! What limits for accounts need of their routes, and of what makes owners known.
//!
//! Nearly all of it is legal, and surely not meant. A limit that counts failures counts every attempt on a route that
//! does not define what a failure is.

use std::collections::HashMap;

use tollgate_grammar::{Findings, Located, RawNamed};

use super::super::raw;
use super::context::CheckContext;
use crate::defences::{self, FiledLimit};
use crate::policy::matcher::Pattern;
use crate::policy::{ChargeOn, Limit, LimitKind, Mode, Route};

/// Warns of what is missing.
pub(super) fn check(cx: &mut CheckContext<'_>, f: &mut Findings) {
    defences::warn_of_owners(&cx.raw.defences, filed(cx), f);
    let read = read_by_application(&cx.routes);
    for (raw, route) in cx.raw.routes.iter().zip(&cx.routes) {
        let Some(route) = route else { continue };
        let reaching = reaching(route, &cx.limits);
        if route.step.is_none() {
            warn_of_limits_alone(&raw.name, &reaching, f);
        }
        // One route with the field is enough: not every route of an application has such a field.
        let (has_user, has_password) = read.get(&*route.application).copied().unwrap_or_default();
        let is_described = route.matching.patterns.iter().all(Pattern::is_of_descriptors);
        let names_accounts = is_described || route.step.is_some();
        if !has_user && !names_accounts {
            warn_of_missing_user(&raw.name, &reaching, f);
        }
        if !has_password {
            warn_of_missing_password(&raw.name, &reaching, f);
        }
    }
    let steps = cx.raw.routes.iter().map(|route| &route.value.step).zip(&cx.routes);
    let steps: Vec<_> = steps.filter_map(|(step, route)| Some((step, route.as_ref()?))).collect();
    let blind = cx.first_without_answers();
    defences::warn_of_steps(&steps, &cx.limits, blind.filter(|_| cx.raw.listen.is_none()), f);
    let is_reported = blind.is_some();
    for (raw, route) in cx.raw.routes.iter().zip(&mut cx.routes) {
        if let Some(route) = route {
            let is_reported = is_reported || route.matching.patterns.iter().all(Pattern::is_of_protocols);
            count_all_of_a_silent_route(raw, route, &cx.limits, is_reported, f);
        }
    }
}

/// For each application whether a route of it reads accounts, and passwords.
fn read_by_application(routes: &[Option<Route>]) -> HashMap<&str, (bool, bool)> {
    let mut read: HashMap<&str, (bool, bool)> = HashMap::new();
    for route in routes.iter().flatten() {
        let (has_user, has_password) = read.entry(&route.application).or_default();
        *has_user |= !route.reading.user.is_empty();
        *has_password |= !route.reading.password.is_empty();
    }
    read
}

/// The limits that apply to a route and are not off.
fn reaching<'l>(route: &Route, limits: &'l [Option<Limit>]) -> Vec<&'l Limit> {
    let reaching = route.limits.iter().filter_map(|&limit| limits.get(limit)?.as_ref());
    reaching.filter(|limit| limit.mode != Mode::Off).collect()
}

/// The limits that are not off, for what makes owners known.
fn filed<'c>(cx: &'c CheckContext<'_>) -> impl Iterator<Item = FiledLimit<'c>> {
    let limits = cx.raw.limits.iter().zip(&cx.limits).enumerate();
    limits.filter_map(|(index, (raw, limit))| {
        let limit = limit.as_ref().filter(|limit| limit.mode != Mode::Off)?;
        let spot = raw.value.key.as_ref().map_or(&raw.name.spot, |key| &key.spot);
        Some(FiledLimit { limit, spot, protects_accounts: protects_accounts(index, &cx.routes) })
    })
}

/// Whether a limit applies to more than forms that send a message: those take no password, and prove nothing.
fn protects_accounts(limit: usize, routes: &[Option<Route>]) -> bool {
    let sends_messages = |route: &Route| route.reading.password.is_empty() && !route.rules.know_successes();
    let mut reached = routes.iter().flatten().filter(|route| route.limits.contains(&limit)).peekable();
    reached.peek().is_none() || reached.any(|route| !sends_messages(route))
}

fn warn_of_missing_user(name: &Located<String>, reaching: &[&Limit], f: &mut Findings) {
    if let Some(limit) = reaching.iter().find(|limit| limit.needs_accounts()) {
        let message = format!("route `{}` names no `user`, which limit `{}` needs", name.value, limit.name);
        let hint = "add user = \"form:username\"; without it each client has one bucket for all accounts";
        f.warning(&name.spot, message, hint);
    }
}

fn warn_of_missing_password(name: &Located<String>, reaching: &[&Limit], f: &mut Findings) {
    if let Some(limit) = reaching.iter().find(|limit| limit.needs_passwords()) {
        let message =
            format!("route `{}` names no `password`, which limit `{}` needs", name.value, limit.name);
        f.warning(&name.spot, message, "add password = \"form:password\"; without it every attempt counts");
    }
}

/// Warns where all limits of a route stop one kind of attack, and another one is free.
fn warn_of_limits_alone(name: &Located<String>, reaching: &[&Limit], f: &mut Findings) {
    let mut refusing = reaching
        .iter()
        .filter(|limit| limit.mode == Mode::Enforce && limit.kind == LimitKind::Rate)
        .peekable();
    if refusing.peek().is_none() {
        return;
    }
    let all_are = |is: fn(&Limit) -> bool| refusing.clone().all(|limit| is(limit));
    let (free, hint) = if all_are(Limit::is_of_passwords) {
        let hint =
            "limits by password stop one password at many accounts; add [limit.address] and [limit.account]";
        ("many passwords at one account are free", hint)
    } else if all_are(defences::is_by_fingerprint) {
        let hint = "add [limit.address] with rate = \"10 per 5m\"";
        ("a client that changes its TLS fingerprint is not limited", hint)
    } else if all_are(Limit::is_of_accounts) {
        (
            "a few guesses at each of many accounts are free",
            "limits by account stop many guesses at one; add [limit.address] with rate = \"10 per 5m\"",
        )
    } else {
        return;
    };
    f.warning(&name.spot, format!("on route `{}` {free}", name.value), hint);
}

fn count_all_of_a_silent_route(
    raw: &RawNamed<raw::RawRoute>,
    route: &mut Route,
    limits: &[Option<Limit>],
    is_reported: bool,
    f: &mut Findings,
) {
    let counts_failures = reaching(route, limits).iter().any(|limit| limit.charge_on == ChargeOn::Failures);
    if !(counts_failures && route.rules.are_silent() && raw.value.rules.otherwise.is_none()) {
        return;
    }
    route.rules.fail_otherwise();
    if !is_reported {
        let message = format!("route `{}` does not define what a success is", raw.name.value);
        let hint = "every attempt counts as a failure; add success = [{ location = \"/home*\" }] or \
                    [{ set_cookie = \"SESSION\" }]";
        f.warning(&raw.name.spot, message, hint);
    }
}
