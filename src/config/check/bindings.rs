//! Binds limits to routes, and reports bindings that cannot be meant.
//!
//! Every limit applies to every route unless one side names the other. If both sides name names, they must agree: a
//! guess could leave a form without its limit.

use tollgate_grammar::diagnostic::grouped;
use tollgate_grammar::list::distinct;
use tollgate_grammar::name::index_of;
use tollgate_grammar::{Findings, Located};

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
    let applies = |route: usize, limit: usize| {
        let by_route = of_route[route].as_ref().is_none_or(|names| has(names, limit));
        by_route && of_limit[limit].as_ref().is_none_or(|names| has(names, route))
    };
    for (index, route) in cx.routes.iter_mut().enumerate() {
        if let Some(route) = route {
            route.limits = (0..cx.limits.len()).filter(|&limit| applies(index, limit)).collect();
        }
    }
    match () {
        () if raw.routes.is_empty() => f.warning(&cx.whole, "nothing is protected: there is no route", ROUTE),
        () if raw.limits.is_empty() => f.warning(&cx.whole, "nothing is protected: there is no limit", LIMIT),
        () => warn_of_unreached(raw, &applies, f),
    }
    for (index, limit) in cx.limits.iter().enumerate() {
        let Some(limit) = limit.as_ref().filter(|limit| limit.mode != Mode::Off) else { continue };
        let reaching = cx.routes.iter().flatten().filter(|route| route.limits.contains(&index));
        warn_of_costs(raw, index, limit, reaching, f);
    }
    pages::warn(cx, f);
}

/// The references of one side to the other: positions, each with its spot in the file.
type NamedRefs<'r> = Option<Vec<(usize, &'r Located<String>)>>;

fn named_limits<'r>(raw: &'r raw::RawFile, f: &mut Findings) -> Vec<NamedRefs<'r>> {
    let lists = raw.routes.iter().map(|route| {
        let list = route.value.limits.as_ref()?;
        let names = distinct(Some(&**list), f).into_iter();
        Some(names.filter_map(|name| Some((index_of(name, "limit", &raw.limits, f)?, name))).collect())
    });
    lists.collect()
}

fn named_routes<'r>(raw: &'r raw::RawFile, f: &mut Findings) -> Vec<NamedRefs<'r>> {
    let lists = raw.limits.iter().map(|limit| {
        let list = limit.value.routes.as_ref()?;
        let names = distinct(Some(&**list), f).into_iter();
        Some(names.filter_map(|name| Some((index_of(name, "route", &raw.routes, f)?, name))).collect())
    });
    lists.collect()
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

fn warn_of_unreached(raw: &raw::RawFile, applies: &dyn Fn(usize, usize) -> bool, f: &mut Findings) {
    for (index, limit) in raw.limits.iter().enumerate() {
        if !(0..raw.routes.len()).any(|route| applies(route, index)) {
            let message = format!("no route reaches limit `{}`", limit.name.value);
            f.warning(&limit.name.spot, message, "add it to the `limits` of a route, or leave it out");
        }
    }
}

fn warn_of_costs<'p>(
    raw: &raw::RawFile,
    index: usize,
    limit: &Limit,
    routes: impl Iterator<Item = &'p Route>,
    f: &mut Findings,
) {
    let others = limit.rates.classes().iter().filter_map(|rate| rate.spec);
    let Some(smallest) = others.chain([limit.spec]).map(|spec| spec.burst()).min() else { return };
    for route in routes {
        let spot = raw.routes.iter().find(|named| *named.name.value == *route.name);
        let spot = spot.and_then(|named| named.value.cost.as_ref()).map(|cost| &cost.spot);
        let Cost::Fixed(cost) = route.reading.cost else { continue };
        if cost <= smallest {
            continue;
        }
        let message = format!("an attempt of {} can never fit into limit `{}`", tokens(cost), limit.name);
        let hint = format!("its smallest bucket holds {}", grouped(smallest.into()));
        f.warning(spot.unwrap_or(&raw.limits[index].name.spot), message, hint);
    }
}

const ROUTE: &str = "add [route.login] with match = \"POST /login\"";
const LIMIT: &str = "add [limit.address] with rate = \"10 per 5m\"";
