//! Binds limits to routes, and reports bindings that cannot be meant.
//!
//! Every limit applies to every route unless one side names the other. If both sides name names, they must agree: a
//! guess could leave a form without its limit.

use std::collections::HashMap;

use tollgate_grammar::diagnostic::grouped;
use tollgate_grammar::list::distinct;
use tollgate_grammar::name::index_of;
use tollgate_grammar::{Findings, Located, RawNamed};

use super::super::raw;
use super::context::CheckContext;
use super::pages;
use super::routes::tokens;
use crate::policy::{Cost, Limit, Mode, Route};

/// Fills in the limits of every route.
pub(super) fn check(cx: &mut CheckContext<'_>, f: &mut Findings) {
    let raw = cx.raw;
    let of_route = named_limits(raw, f);
    let of_limit = named_routes(raw, f);
    report_disagreement(raw, &of_route, &of_limit, f);
    let bound = bind(&of_route, &of_limit);
    for (route, limits) in cx.routes.iter_mut().zip(&bound) {
        if let Some(route) = route {
            route.limits.clone_from(limits);
        }
    }
    let mut reaching = vec![Vec::new(); raw.limits.len()];
    for (route, limits) in bound.iter().enumerate() {
        limits.iter().for_each(|&limit| reaching[limit].push(route));
    }
    match () {
        () if raw.routes.is_empty() => f.warning(&cx.whole, "nothing is protected: there is no route", ROUTE),
        () if raw.limits.is_empty() => f.warning(&cx.whole, "nothing is protected: there is no limit", LIMIT),
        () => warn_of_unreached(raw, &reaching, f),
    }
    for (index, limit) in cx.limits.iter().enumerate() {
        let Some(limit) = limit.as_ref().filter(|limit| limit.mode != Mode::Off) else { continue };
        let routes = reaching[index].iter().filter_map(|&at| Some((at, cx.routes.get(at)?.as_ref()?)));
        warn_of_costs(raw, index, limit, routes, f);
    }
    pages::warn(cx, f);
}

/// The limits of each route, ascending.
fn bind(of_route: &[NamedRefs<'_>], of_limit: &[NamedRefs<'_>]) -> Vec<Vec<usize>> {
    let wide: Vec<usize> = (0..of_limit.len()).filter(|&limit| of_limit[limit].is_none()).collect();
    let mut narrowed = vec![Vec::new(); of_route.len()];
    for (limit, names) in of_limit.iter().enumerate() {
        names.iter().flatten().for_each(|(route, _)| narrowed[*route].push(limit));
    }
    let limits = narrowed.into_iter().zip(of_route).map(|(narrowed, names)| {
        let mut limits: Vec<usize> = match names {
            None => wide.iter().copied().chain(narrowed).collect(),
            Some(names) => {
                let applies = |limit: &usize| of_limit[*limit].is_none() || narrowed.contains(limit);
                names.iter().map(|(limit, _)| *limit).filter(applies).collect()
            }
        };
        limits.sort_unstable();
        limits.dedup();
        limits
    });
    limits.collect()
}

/// The references of one side to the other: positions, each with its spot in the file.
type NamedRefs<'r> = Option<Vec<(usize, &'r Located<String>)>>;

fn named_limits<'r>(raw: &'r raw::RawFile, f: &mut Findings) -> Vec<NamedRefs<'r>> {
    let known = positions(&raw.limits);
    let lists = raw.routes.iter().map(|route| {
        let list = route.value.limits.as_ref()?;
        let names = distinct(Some(&**list), f).into_iter();
        let index = |name: &'r Located<String>, f: &mut Findings| {
            known.get(&*name.value).copied().or_else(|| index_of(name, "limit", &raw.limits, f))
        };
        Some(names.filter_map(|name| Some((index(name, f)?, name))).collect())
    });
    lists.collect()
}

fn named_routes<'r>(raw: &'r raw::RawFile, f: &mut Findings) -> Vec<NamedRefs<'r>> {
    let known = positions(&raw.routes);
    let lists = raw.limits.iter().map(|limit| {
        let list = limit.value.routes.as_ref()?;
        let names = distinct(Some(&**list), f).into_iter();
        let index = |name: &'r Located<String>, f: &mut Findings| {
            known.get(&*name.value).copied().or_else(|| index_of(name, "route", &raw.routes, f))
        };
        Some(names.filter_map(|name| Some((index(name, f)?, name))).collect())
    });
    lists.collect()
}

/// The positions of names; of one that is there twice, the first.
fn positions<T>(all: &[RawNamed<T>]) -> HashMap<&str, usize> {
    all.iter().enumerate().rev().map(|(at, named)| (&*named.name.value, at)).collect()
}

fn has(names: &[(usize, &Located<String>)], wanted: usize) -> bool {
    names.iter().any(|(index, _)| *index == wanted)
}

fn report_disagreement(
    raw: &raw::RawFile,
    of_route: &[NamedRefs<'_>],
    of_limit: &[NamedRefs<'_>],
    f: &mut Findings,
) {
    for (route, names) in of_route.iter().enumerate() {
        for (limit, name) in names.iter().flatten() {
            if of_limit[*limit].as_ref().is_some_and(|routes| !has(routes, route)) {
                let message = format!("limit `{}` is narrowed to other routes", name.value);
                let hint =
                    format!("add \"{}\" to its `routes`, or leave it out here", raw.routes[route].name.value);
                f.error(&name.spot, message, hint);
            }
        }
    }
    for (limit, names) in of_limit.iter().enumerate() {
        for (route, name) in names.iter().flatten() {
            if of_route[*route].as_ref().is_some_and(|limits| !has(limits, limit)) {
                let message = format!("route `{}` is narrowed to other limits", name.value);
                let hint =
                    format!("add \"{}\" to its `limits`, or leave it out here", raw.limits[limit].name.value);
                f.error(&name.spot, message, hint);
            }
        }
    }
}

fn warn_of_unreached(raw: &raw::RawFile, reaching: &[Vec<usize>], f: &mut Findings) {
    for (limit, routes) in raw.limits.iter().zip(reaching) {
        if routes.is_empty() {
            let message = format!("no route reaches limit `{}`", limit.name.value);
            f.warning(&limit.name.spot, message, "add it to the `limits` of a route, or leave it out");
        }
    }
}

fn warn_of_costs<'p>(
    raw: &raw::RawFile,
    index: usize,
    limit: &Limit,
    routes: impl Iterator<Item = (usize, &'p Route)>,
    f: &mut Findings,
) {
    let others = limit.rates.classes().iter().filter_map(|rate| rate.spec);
    let Some(smallest) = others.chain([limit.spec]).map(|spec| spec.burst()).min() else { return };
    for (at, route) in routes {
        let Cost::Fixed(cost) = route.reading.cost else { continue };
        if cost <= smallest {
            continue;
        }
        let spot = raw.routes[at].value.cost.as_ref().map(|cost| &cost.spot);
        let message = format!("an attempt of {} can never fit into limit `{}`", tokens(cost), limit.name);
        let hint = format!("its smallest bucket holds {}", grouped(smallest.into()));
        f.warning(spot.unwrap_or(&raw.limits[index].name.spot), message, hint);
    }
}

const ROUTE: &str = "add [route.login] with match = \"POST /login\"";
const LIMIT: &str = "add [limit.address] with rate = \"10 per 5m\"";
