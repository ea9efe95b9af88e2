//! Warns of rules that a wrong password could match, too: legal, and often a way to guess for nothing.
//!
//! It knows what applications usually do, not what this one does. It leaves out rules of presets, which are tested
//! against their applications.

use tollgate_grammar::Findings;

use super::{RawRules, SourcedRule};
use crate::policy::outcome::Outcome;

/// Warns of the success rules, and of an `otherwise`, that prove too little.
pub(super) fn warn(
    raw: &RawRules,
    failure: &[SourcedRule<'_>],
    success: &[SourcedRule<'_>],
    otherwise: Outcome,
    f: &mut Findings,
) {
    let by_status_alone = failure.iter().all(|checked| !checked.says_more_than_status());
    let answers_401 = by_status_alone && failure.iter().any(names_refusals);
    for checked in success.iter().filter(|checked| checked.is_written_here()) {
        warn_of_success(checked, answers_401, f);
    }
    if let Some(text) = &raw.otherwise
        && otherwise != Outcome::Failure
        && text.spot.is_in_config()
    {
        let Some(message) = otherwise_warning(failure, otherwise) else { return };
        f.warning(&text.spot, message, "name in `success` what the right password alone brings about");
    }
}

/// Warns of neutral rules for status 500: clients can break many a page, also behind a wrong password.
pub(super) fn warn_of_errors(neutral: &[SourcedRule<'_>], f: &mut Findings) {
    let is_broken = |checked: &&SourcedRule<'_>| {
        checked.rule.status.as_ref().is_some_and(|status| status.contains(500))
            && !checked.says_more_than_status()
    };
    for checked in neutral.iter().filter(|checked| checked.is_written_here()).filter(is_broken) {
        let spot = checked.raw.status.as_ref().map_or(checked.spot, |status| &status.spot);
        let message = "a client that can break the page behind a wrong password guesses for nothing";
        f.warning(spot, message, "name 503 alone, of a proxy behind the gate");
    }
}

/// Why an answer that no rule names should not give the token back.
fn otherwise_warning(failure: &[SourcedRule<'_>], otherwise: Outcome) -> Option<&'static str> {
    match otherwise {
        _ if failure.is_empty() => {
            Some("no answer is a failure, so limits that count failures count nothing")
        }
        _ if failure.iter().all(SourcedRule::reads_bodies) => {
            Some("an answer without this text, as in another language, is not counted as a failure")
        }
        Outcome::Success if !failure.iter().any(names_refusals) => {
            Some("an answer that no rule names is taken for a success")
        }
        _ => None,
    }
}

/// Whether this rule is the status 401, and nothing else.
fn names_refusals(checked: &SourcedRule<'_>) -> bool {
    let is_status_alone = !checked.says_more_than_status();
    is_status_alone && checked.rule.status.as_ref().is_some_and(|status| status.contains(401))
}

/// `answers_401`: whether the application answers a wrong password with that status and never with another one, by the route's
/// rules.
fn warn_of_success(checked: &SourcedRule<'_>, answers_401: bool, f: &mut Findings) {
    let raw = checked.raw;
    let proves_more = raw.header.is_some() || raw.json.is_some();
    let location = raw.location.as_ref().filter(|_| checked.rule.location.is_some());
    let cookie = raw.set_cookie.as_ref().filter(|_| checked.rule.set_cookie.is_some());
    let is_reflected = location.is_some_and(|glob| may_be_reflected(&glob.value));
    let is_usual = cookie.is_some_and(|name| is_set_on_any_visit(&name.value, raw.status.is_some()));
    match (location, cookie) {
        _ if proves_more || checked.rule == Default::default() => {}
        (Some(_), _) if !is_reflected => {}
        (_, Some(_)) if !is_usual => {}
        (Some(glob), _) => {
            let message =
                "a form that repeats what a client sent in `Location` fits this after a wrong password";
            f.warning(&glob.spot, message, "begin with the path that follows a right one, as in \"/home*\"");
        }
        (None, Some(name)) => {
            let message =
                format!("applications set `{}` for any visitor, a wrong password included", name.value);
            f.warning(
                &name.spot,
                message,
                "add where a right password leads to, as in location = \"/home*\"",
            );
        }
        (None, None) if answers_401 => {}
        (None, None) => {
            let Some(status) = raw.status.as_ref().filter(|_| checked.rule.status.is_some()) else { return };
            let message = "a wrong password may be answered with this status, too";
            f.warning(&status.spot, message, "add location = \"/home*\", or set_cookie = \"SESSION\"");
        }
    }
}

/// Whether another path can come before the one that follows a right password: `/login?next=/home` fits `*/home`.
fn may_be_reflected(glob: &str) -> bool {
    let fixed = glob.split('*').next().unwrap_or_default();
    let path = match fixed.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map(|(_, path)| path),
        None => fixed.strip_prefix('/'),
    };
    let is_whole = !glob.contains('*');
    !is_whole && path.is_none_or(str::is_empty)
}

/// Whether frameworks set a cookie of this name for every visitor. A servlet container also gives a new session to a
/// right password, so there a status next to the name may tell the two apart.
fn is_set_on_any_visit(name: &str, has_status: bool) -> bool {
    let fixed = name.trim_end_matches('*');
    fixed.is_empty() || ON_ANY_VISIT.contains(&fixed) || fixed == "JSESSIONID" && !has_status
}

impl SourcedRule<'_> {
    fn is_written_here(&self) -> bool {
        self.spot.is_in_config()
    }

    fn reads_bodies(&self) -> bool {
        self.raw.body.is_some() || self.raw.json.is_some()
    }

    fn says_more_than_status(&self) -> bool {
        let Self { raw, .. } = self;
        let lines = [&raw.location, &raw.set_cookie, &raw.header];
        self.reads_bodies() || lines.into_iter().any(Option::is_some)
    }
}

const ON_ANY_VISIT: [&str; 13] = [
    "PHPSESSID",
    "ASP.NET_SessionId",
    "ASPSESSIONID",
    "connect.sid",
    "laravel_session",
    "ci_session",
    "CAKEPHP",
    "rack.session",
    "session",
    "XSRF-TOKEN",
    "csrftoken",
    "CFID",
    "CFTOKEN",
];
