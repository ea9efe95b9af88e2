//! The optional [`defences`](crate::defences) of routes: which file and which route each is given.

use tollgate_grammar::list::distinct;
use tollgate_grammar::{Findings, RawNamed, StringList};

use super::account_lists::{account, listed_accounts};
use super::context::CheckContext;
use super::files::Files;
use crate::defences::{DefenceCheck, DefendedRoute};
use crate::policy::fingerprint::Fingerprint;
use crate::policy::{Limit, Mode, Route};

/// Gives each route its defences. Limits have to be bound to routes by now.
pub(super) fn check(cx: &mut CheckContext<'_>, f: &mut Findings) {
    let mut accounts = |list: &StringList, f: &mut Findings| accounts(list, &mut cx.files, f);
    let mut check = DefenceCheck::new(cx.client.prefixes, &mut accounts);
    for (RawNamed { value: raw, .. }, route) in cx.raw.routes.iter().zip(&mut cx.routes) {
        let route = route.as_mut();
        let has_address_limit = route.as_ref().is_some_and(|route| has_address_limit(route, &cx.limits));
        let knows_failures =
            raw.otherwise.is_some() || route.as_ref().is_some_and(|route| says_failures(route));
        check.check(&raw.defences, DefendedRoute { route, has_address_limit, knows_failures }, f);
    }
}

fn has_address_limit(route: &Route, limits: &[Option<Limit>]) -> bool {
    let mut reaching = route.limits.iter().filter_map(|&at| limits.get(at)?.as_ref());
    reaching.any(|limit| limit.mode != Mode::Off && limit.charges_weights())
}

fn says_failures(route: &Route) -> bool {
    let rules = &route.rules;
    rules.header.is_some() || !rules.failure.is_empty() || !rules.success.is_empty()
}

/// The accounts of a list, by name or by a file of names.
fn accounts(list: &StringList, files: &mut Files<'_>, f: &mut Findings) -> Vec<Fingerprint> {
    let mut accounts = Vec::new();
    for entry in distinct(Some(list), f) {
        match entry.value.strip_prefix('@') {
            Some(path) => accounts.extend(listed_accounts(path, &entry.spot, files, f)),
            None => accounts.extend(account(&entry.value, &entry.spot, f)),
        }
    }
    accounts
}
