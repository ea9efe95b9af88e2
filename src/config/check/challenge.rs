//! `refuse.challenge`: what a browser may earn by a proof of work, and whether any limit lets it.

use tollgate_grammar::kind::Checked as _;
use tollgate_grammar::{Findings, Located};

use super::super::raw::RawRoute;
use super::super::values::RateValue;
use super::context::CheckContext;
use super::rate_parts::built;
use crate::bucket::Continuous;
use crate::policy::Policy;
use crate::policy::challenge::ChallengeRule;
use crate::proxy::respond::{RefusalPages, Template};
use crate::time::Span;

/// The policy with the rule, if anything may be earned.
pub(super) fn with_rule(cx: &CheckContext<'_>, policy: Policy, f: &mut Findings) -> Policy {
    let rule = check(cx, &policy, f);
    policy.with_challenge(rule)
}

fn check(cx: &CheckContext<'_>, policy: &Policy, f: &mut Findings) -> Option<ChallengeRule> {
    let raw = &cx.raw.refuse;
    let rate = raw.challenge_rate.checked(f);
    let is_on = raw.challenge.checked(f) == Some(true);
    let Some(word) = raw.challenge.as_ref().filter(|_| is_on) else {
        if let Some(rate) = raw.challenge_rate.as_ref().filter(|_| raw.challenge.is_none()) {
            let message = "`challenge_rate` means nothing without challenge = \"work\"";
            f.warning(&rate.spot, message.to_owned(), "");
        }
        return None;
    };
    let is_lifted = |limit: &usize| policy.limits.get(*limit).is_some_and(ChallengeRule::lifts);
    let mut chosen_by_path = policy.routes.iter().filter(|route| !route.is_conditional());
    if !chosen_by_path.any(|route| route.limits.iter().any(is_lifted)) {
        f.warning(&word.spot, "no attempt can be earned: no limit is lifted by one".to_owned(), NO_LIMIT);
    }
    warn_of_pages(cx, f);
    let spot = raw.challenge_rate.as_ref().map_or(&word.spot, |text| &text.spot);
    let rate = rate.unwrap_or(DEFAULT_RATE);
    let rate = built(Continuous::new(rate.count, rate.period, rate.burst), spot, f)?;
    built(ChallengeRule::new(rate), spot, f)
}

fn warn_of_pages(cx: &CheckContext<'_>, f: &mut Findings) {
    let common = cx.raw.refuse.html.as_deref().zip(cx.refuse.pages.html.as_ref());
    let routes = cx.raw.routes.iter().zip(&cx.refuse.of_routes);
    let of_routes = routes.filter_map(|(route, pages)| page_of(&route.value, pages.as_ref()?));
    for (path, _) in common.into_iter().chain(of_routes).filter(|(_, page)| !page.has_challenge()) {
        let message = "the page does not offer the challenge".to_owned();
        f.warning(&path.spot, message, "write {{challenge}} where its button belongs");
    }
}

fn page_of<'r>(route: &'r RawRoute, pages: &'r RefusalPages) -> Option<(&'r Located<String>, &'r Template)> {
    Some((route.refuse.as_ref()?.value.html.as_deref()?, pages.html.as_ref()?))
}

/// One more attempt each twelve minutes: 125 guesses a day at most from one address.
const DEFAULT_RATE: RateValue = RateValue { count: 5, period: Span::from_secs(3600), burst: 5 };
const NO_LIMIT: &str = "a proof lifts limits that enforce, count attempts by `ip` without `debt`, and apply to a route \
                        without `when`";
