//! `step = "after"` of routes: second steps of sign-ins, which pay from the accounts of these.
//!
//! What pays, says the policy. Here are the keys, and the warnings about a step that follows nothing, or costs no account
//! anything.

use std::str::FromStr;

use tollgate_grammar::kind::{Checked as _, Key, Text, Word};
use tollgate_grammar::{Findings, Mistake, Syntax, tables, words};

use crate::policy::{Limit, Mode, Route, SecondStep, cookies};

tables! {
    /// The keys of a route that is a second step.
    pub RawStep {
        step: Key<Word<Steps>> = Example,
        step_cookie: Key<Text<SessionCookieName>> = Example,
    }
}

words! {
    /// Which step of a sign-in a route is.
    pub Steps: () { "after" => (), }
}

/// `"PHPSESSID"`: the name of an application's session cookie.
pub struct SessionCookieName(Box<str>);

/// The second step that a route is, and the name of its session's cookie.
pub fn step(raw: &RawStep, f: &mut Findings) -> Option<SecondStep> {
    if let Some(name) = raw.step_cookie.as_ref().filter(|_| raw.step.is_none()) {
        f.error(&name.spot, "`step_cookie` without `step`", "add step = \"after\", or leave it out");
    }
    let cookie = raw.step_cookie.checked(f).map(|SessionCookieName(name)| name);
    raw.step.checked(f).map(|_| SecondStep { cookie })
}

/// Warns of second steps that cannot do what they are for. Limits have to be bound to routes by now. `blind` names an
/// endpoint that sees no answers, if nobody else does.
pub fn warn_of_steps(
    routes: &[(&RawStep, &Route)],
    limits: &[Option<Limit>],
    blind: Option<&str>,
    f: &mut Findings,
) {
    let is_followable = routes.iter().any(|(_, route)| route.may_be_followed());
    for (RawStep { step, .. }, route) in routes {
        let Some(step) = step else { continue };
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
        if let Some(endpoint) = blind {
            let message = format!("endpoint `{endpoint}` sees no cookies that a sign-in sets");
            let hint = "a step follows a sign-in there only by a cookie that was there before it";
            f.warning(&step.spot, message, hint);
        }
    }
}

impl FromStr for SessionCookieName {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        if cookies::is_name(text) && text.len() <= MAX_NAME_LEN {
            return Ok(Self(text.into()));
        }
        let hint = "the name that the application sets, up to 64 letters, as in \"PHPSESSID\"";
        Err(Mistake::new(format!("`{text}` is not a cookie name"), hint))
    }
}

impl Syntax for SessionCookieName {
    fn pattern() -> Option<String> {
        None
    }
}

/// Letters of a name at most.
const MAX_NAME_LEN: usize = 64;
