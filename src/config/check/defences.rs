//! The optional [`defences`](crate::defences): which files, limits and routes each is given.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_grammar::list::distinct;
use tollgate_grammar::table::SecretText;
use tollgate_grammar::{Findings, Located, RawNamed, Spot, StringList};

use super::super::features;
use super::super::raw::RawLimit;
use super::account_lists::{account, listed_accounts};
use super::bytes;
use super::context::CheckContext;
use super::files::{Files, words};
use super::secret::{parse_keys, resolve};
use crate::defences::{
    self, AnswerLimit, DefenceCheck, DefenceFiles, DefendedRoute, KeyedLimit, KnownOwners, OwnerContext,
    SharedSettings,
};
use crate::net::listener::ListenAddress;
use crate::policy::client_fact::ClientLookup;
use crate::policy::fingerprint::Fingerprint;
use crate::policy::{Limit, Mode, Route};

/// What makes the owners of accounts known.
pub(super) fn owners(cx: &mut CheckContext<'_>, f: &mut Findings) -> KnownOwners {
    let context = OwnerContext { prefixes: cx.client.prefixes, limits: &cx.limits };
    defences::owners(&cx.raw.defences, &context, &mut cx.files, f)
}

/// What finds out facts of clients by their addresses.
pub(super) fn lookup(cx: &mut CheckContext<'_>, f: &mut Findings) -> Option<Arc<dyn ClientLookup>> {
    let limits: Vec<_> = keyed(&cx.raw.limits, &cx.limits, &cx.byte_limits).collect();
    defences::lookup(&cx.raw.lookups, &limits, &mut cx.files, f)
}

/// Whether a limit needs the fingerprints of clients.
pub(super) fn fingerprints(cx: &CheckContext<'_>, f: &mut Findings) -> bool {
    let limits: Vec<_> = keyed(&cx.raw.limits, &cx.limits, &cx.byte_limits).collect();
    defences::fingerprints(&limits, cx.listen.iter().any(ListenAddress::is_tls), f)
}

/// The valid limits, also those of bytes, each with the place of its key.
fn keyed<'c>(
    raw: &'c [RawNamed<RawLimit>],
    of_attempts: &'c [Option<Limit>],
    of_bytes: &'c [Option<AnswerLimit>],
) -> impl Iterator<Item = KeyedLimit<'c>> {
    let of_bytes = of_bytes.iter().map(|limit| limit.as_ref().map(AnswerLimit::as_limit));
    let limits = of_attempts.iter().map(Option::as_ref).zip(of_bytes);
    let limits = limits.map(|(attempts, bytes)| attempts.or(bytes));
    raw.iter().zip(limits).filter_map(|(RawNamed { name, value }, limit)| {
        let key = value.key.as_ref().map_or(&name.spot, |key| &key.spot);
        Some(KeyedLimit { limit: limit?, key })
    })
}

/// Gives each route and each limit its defences. Limits have to be bound to routes by now.
pub(super) fn check(cx: &mut CheckContext<'_>, f: &mut Findings) {
    bytes::hold_back(cx);
    let (tables, prefixes, forwards) = (&cx.raw.defences, cx.client.prefixes, cx.forwards());
    let missing_tls = features::TLS.missing().map(|missing| (missing, features::HINT));
    let lists = Arc::clone(&cx.lists.listed);
    let shared = SharedSettings { prefixes, observes: cx.observes, missing_tls, lists };
    let routes = cx.raw.routes.iter().map(|route| &route.value.defences);
    let mut check = DefenceCheck::new(tables, routes, shared, &mut cx.files, f);
    for (RawNamed { value: raw, .. }, route) in cx.raw.routes.iter().zip(&mut cx.routes) {
        let route = route.as_mut();
        let has_address_limit = route.as_ref().is_some_and(|route| has_address_limit(route, &cx.limits));
        let knows_failures = raw.rules.otherwise.is_some()
            || raw.preset.is_some()
            || route.as_ref().is_some_and(|route| says_failures(route));
        let refuses_strangers = route.as_ref().is_some_and(|route| refuses_strangers(route, &cx.limits));
        let names_password =
            raw.password.is_some() || route.as_ref().is_some_and(|route| !route.reading.password.is_empty());
        let to =
            DefendedRoute { route, has_address_limit, refuses_strangers, knows_failures, names_password };
        check.check(&raw.defences, to, f);
    }
    for (RawNamed { value: raw, .. }, route) in cx.raw.routes.iter().zip(&mut cx.routes) {
        defences::bound_route(&raw.bounds, forwards, route.as_mut(), f);
    }
    for (RawNamed { value: raw, .. }, limit) in cx.raw.limits.iter().zip(&mut cx.limits) {
        defences::bound_limit(&raw.bounds, forwards, limit.as_mut(), f);
    }
}

impl DefenceFiles for Files<'_> {
    fn keys(&mut self, secret: &Located<SecretText>, f: &mut Findings) -> Option<Vec<Vec<u8>>> {
        let (text, origin) = resolve(secret, self, f)?;
        parse_keys(&text, &origin, &secret.spot, f)
    }

    fn accounts(&mut self, list: &StringList, f: &mut Findings) -> Vec<Fingerprint> {
        accounts(list, self, f)
    }

    fn path_of(&mut self, path: &str, spot: &Spot, f: &mut Findings) -> Option<PathBuf> {
        Files::path_of(self, path, spot, f)
    }

    fn bytes(&mut self, path: &str, spot: &Spot, f: &mut Findings) -> Option<Vec<u8>> {
        Files::bytes(self, path, spot, f)
    }

    fn resolve(&self, path: &str) -> PathBuf {
        Files::resolve(self, path)
    }

    fn cannot_read(&self, path: &Path, error: &io::Error, spot: &Spot, f: &mut Findings) {
        f.error(spot, format!("cannot read `{}`", path.display()), words(error));
    }
}

fn has_address_limit(route: &Route, limits: &[Option<Limit>]) -> bool {
    limits_of(route, limits).any(|limit| limit.mode != Mode::Off && limit.charges_weights())
}

fn refuses_strangers(route: &Route, limits: &[Option<Limit>]) -> bool {
    limits_of(route, limits).any(|limit| limit.mode == Mode::Enforce && limit.charges_strangers())
}

fn limits_of<'l>(route: &Route, limits: &'l [Option<Limit>]) -> impl Iterator<Item = &'l Limit> {
    route.limits.iter().filter_map(|&at| limits.get(at)?.as_ref())
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
