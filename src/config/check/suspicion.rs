//! `bait` and `quick` of routes: what no person does, and as how many attempts it counts.
//!
//! What pays for it, says the policy. Here are the warnings about what could never happen, or costs no address anything.

use tollgate_grammar::kind::{Checked as _, Given, Whole};
use tollgate_grammar::list::distinct;
use tollgate_grammar::{Findings, RawNamed, Spot, StringList};

use super::super::raw;
use super::account_lists::{account, listed_accounts};
use super::context::CheckContext;
use super::files::Files;
use crate::policy::fingerprint::Fingerprint;
use crate::policy::{Bait, Limit, Mode, QuickFailures, Route, is_charged_for_suspicion};

/// Gives each route its bait and its quick failures. Limits have to be bound to routes by now.
pub(super) fn check(cx: &mut CheckContext<'_>, f: &mut Findings) {
    for (RawNamed { value: raw, .. }, route) in cx.raw.routes.iter().zip(&mut cx.routes) {
        let bait_weight = weight(&raw.bait_weight, "bait", raw.bait.is_some(), f);
        let quick_weight = weight(&raw.quick_weight, "quick", raw.quick.is_some(), f);
        let accounts = raw.bait.as_ref().map(|list| bait(list, &mut cx.files, f));
        let quick = raw.quick.checked(f);
        let Some(route) = route else { continue };
        route.bait = accounts.filter(|accounts| !accounts.is_empty()).map(|accounts| {
            Box::new(Bait {
                accounts: accounts.into_iter().collect(),
                weight: bait_weight.unwrap_or(BAIT_WEIGHT),
            })
        });
        route.quick = quick.map(|within| QuickFailures {
            within,
            weight: quick_weight.unwrap_or(QUICK_WEIGHT),
            prefixes: cx.client.prefixes,
        });
        warn(raw, route, &cx.limits, f);
    }
}

fn weight(
    number: &Option<Given<Whole<u32, 1, 10>>>,
    of: &str,
    is_there: bool,
    f: &mut Findings,
) -> Option<u32> {
    if let Some(number) = number.as_ref().filter(|_| !is_there) {
        f.warning(&number.spot, format!("`{of}_weight` means nothing without `{of}`"), "");
    }
    number.checked(f)
}

/// The accounts of a list, by name or by a file of names.
fn bait(list: &StringList, files: &mut Files<'_>, f: &mut Findings) -> Vec<Fingerprint> {
    if list.is_empty {
        f.error(&list.spot, "`bait` is empty", "leave it out to mean none");
    }
    let mut accounts = Vec::new();
    for entry in distinct(Some(list), f) {
        match entry.value.strip_prefix('@') {
            Some(path) => accounts.extend(listed_accounts(path, &entry.spot, files, f)),
            None => accounts.extend(account(&entry.value, &entry.spot, f)),
        }
    }
    accounts
}

fn warn(raw: &raw::RawRoute, route: &Route, limits: &[Option<Limit>], f: &mut Findings) {
    let keys = [
        raw.bait.as_ref().map(|list| ("bait", &list.spot)),
        raw.quick.as_ref().map(|text| ("quick", &text.spot)),
    ];
    let mut reaching = route.limits.iter().filter_map(|&at| limits.get(at)?.as_ref());
    if !reaching.any(|limit| limit.mode != Mode::Off && is_charged_for_suspicion(limit)) {
        for (key, spot) in keys.into_iter().flatten() {
            let message =
                format!("no address pays for `{key}`: no limit by address applies to route `{}`", route.name);
            f.warning(spot, message, "add [limit.address] with rate = \"10 per 5m\"");
        }
    }
    if let Some(list) = raw.bait.as_ref().filter(|_| route.user.is_empty()) {
        warn_of(&list.spot, route, "names no `user`, so none is bait", "add user = \"form:username\"", f);
    }
    let rules = &route.rules;
    let is_silent = rules.header.is_none() && rules.failure.is_empty() && rules.success.is_empty();
    if let Some(text) = raw.quick.as_ref().filter(|_| is_silent && raw.otherwise.is_none()) {
        warn_of(&text.spot, route, "does not say what a failure is", "add failure = [{ status = 401 }]", f);
    }
}

fn warn_of(spot: &Spot, route: &Route, what: &str, hint: &str, f: &mut Findings) {
    f.warning(spot, format!("route `{}` {what}", route.name), hint);
}

/// The bucket of `10 per 5m`.
const BAIT_WEIGHT: u32 = 10;
/// A button that is clicked twice makes two failures as well.
const QUICK_WEIGHT: u32 = 3;
