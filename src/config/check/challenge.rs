//! `refuse.challenge`: what a browser may earn by a proof of work, and whether any limit lets it.

use super::super::diagnostic::Findings;
use super::super::raw::RawRefuse;
use super::super::values::RateValue;
use super::fields::{one_of, parsed};
use super::rate_parts::built;
use crate::bucket::Continuous;
use crate::policy::Policy;
use crate::policy::challenge::ChallengeRule;
use crate::proxy::respond::RefuseSettings;
use crate::time::Span;

/// The policy with the rule, if anything may be earned.
pub(super) fn with_rule(
    raw: &RawRefuse,
    policy: Policy,
    settings: &RefuseSettings,
    f: &mut Findings,
) -> Policy {
    let rule = check(raw, &policy, settings, f);
    policy.with_challenge(rule)
}

fn check(
    raw: &RawRefuse,
    policy: &Policy,
    settings: &RefuseSettings,
    f: &mut Findings,
) -> Option<ChallengeRule> {
    let rate = raw.challenge_rate.as_ref().and_then(|text| Some((parsed::<RateValue>(text, f)?, text)));
    let is_on = one_of(raw.challenge.as_ref(), &[("off", false), ("work", true)], f) == Some(true);
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
    if let Some(page) =
        raw.html.as_ref().filter(|_| settings.html.as_ref().is_some_and(|page| !page.has_challenge()))
    {
        let message = "the page does not offer the challenge".to_owned();
        f.warning(&page.spot, message, "write {{challenge}} where its button belongs");
    }
    let spot = raw.challenge_rate.as_ref().map_or(&word.spot, |text| &text.spot);
    let rate = rate.map_or(DEFAULT_RATE, |(rate, _)| rate);
    let rate = built(Continuous::new(rate.count, rate.period, rate.burst), spot, f)?;
    built(ChallengeRule::new(rate), spot, f)
}

/// One more attempt each twelve minutes: 125 guesses a day at most from one address.
const DEFAULT_RATE: RateValue = RateValue { count: 5, period: Span::from_secs(3600), burst: 5 };
const NO_LIMIT: &str = "a proof lifts limits that enforce, count attempts by `ip` without `debt`, and apply to a route \
                        without `when`";
