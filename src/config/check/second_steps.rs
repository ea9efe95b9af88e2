//! `step = "after"` of routes: second steps of sign-ins, which pay from the accounts of these.
//!
//! What pays, says the policy. Here are the warnings about a step that follows nothing, or costs no account anything.

use tollgate_grammar::kind::Checked as _;
use tollgate_grammar::{Findings, RawNamed};

use super::super::raw;
use super::super::values::SessionCookieName;
use super::context::CheckContext;
use super::endpoints;
use crate::policy::{Limit, Mode, Route, SecondStep};

/// The second step that a route is, and the name of its session's cookie.
pub(super) fn check(raw: &raw::RawRoute, f: &mut Findings) -> Option<SecondStep> {
    if let Some(name) = raw.step_cookie.as_ref().filter(|_| raw.step.is_none()) {
        f.error(&name.spot, "`step_cookie` without `step`", "add step = \"after\", or leave it out");
    }
    let cookie = raw.step_cookie.checked(f).map(|SessionCookieName(name)| name.into());
    raw.step.checked(f).map(|_| SecondStep { cookie })
}

/// Warns of second steps that cannot do what they are for. Limits have to be bound to routes by now.
pub(super) fn warn(cx: &CheckContext<'_>, f: &mut Findings) {
    let (raw, limits) = (cx.raw, &cx.limits);
    let is_followable = cx.routes.iter().flatten().any(Route::may_be_followed);
    let blind = raw.endpoints.iter().find(|endpoint| !endpoints::is_rls(&endpoint.value));
    for (RawNamed { value, .. }, route) in raw.routes.iter().zip(&cx.routes) {
        let (Some(step), Some(route)) = (&value.step, route) else { continue };
        if !is_followable {
            let message =
                format!("route `{}` follows nothing: no route names the account of a form", route.name);
            f.warning(&step.spot, message, "add user = \"form:username\" to the route of the sign-in");
        }
        let is_by_account = |limit: &Limit| limit.mode != Mode::Off && limit.is_account();
        // A preset is no less right without such a limit.
        if step.spot.is_in_config()
            && !route.limits.iter().filter_map(|&at| limits.get(at)?.as_ref()).any(is_by_account)
        {
            let message = format!("no account pays for route `{}`: no limit by account applies", route.name);
            f.warning(&step.spot, message, "add [limit.account] with key = \"user\"");
        }
        if let Some(endpoint) = blind.filter(|_| raw.listen.is_none()) {
            let message = format!("endpoint `{}` sees no cookies that a sign-in sets", endpoint.name.value);
            let hint = "a step follows a sign-in there only by a cookie that was there before it";
            f.warning(&step.spot, message, hint);
        }
    }
}
