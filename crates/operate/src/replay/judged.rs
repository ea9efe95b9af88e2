//! What of a policy an access log can judge, and the policy without the rest.
//!
//! A log has no bodies, so accounts, passwords and most headers are unknown; a limit that needs them takes no part. A
//! rule about a response that the log shows in part holds if the part does.

use crate::defences::OWNERS;
use crate::policy::canonical::Case;
use crate::policy::client_fact::ClientFact;
use crate::policy::field::Field;
use crate::policy::key::KeyPart;
use crate::policy::matcher::Pattern;
use crate::policy::outcome::{Outcome, OutcomeRule, OutcomeRules};
use crate::policy::response::ResponseView;
use crate::policy::{Cost, Limit, Mode, Policy, Route, RouteDefences, RouteMatch, RouteReading};

/// The columns of a log in addition to client, method, target and status.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LogColumns {
    pub(super) host: bool,
    pub(super) user: bool,
    pub(super) location: bool,
    /// Whether it is a decision log, which names routes, and accounts by hash.
    pub(super) decisions: bool,
}

/// Why a limit is not judged, for each limit of the policy; `None` for those that are. These others are off in the
/// policy afterwards, and routes match any host if the log has none.
pub(super) fn restrict(policy: &mut Policy, columns: LogColumns) -> Vec<Option<&'static str>> {
    if columns.decisions {
        *policy = by_route_name(policy);
    }
    let reasons: Vec<_> = (0..policy.limits.len()).map(|at| why_not(policy, at, columns)).collect();
    for (limit, reason) in policy.limits.iter_mut().zip(&reasons) {
        if reason.is_some() {
            limit.mode = Mode::Off;
        }
    }
    if !columns.host {
        *policy = std::mem::take(policy).on_any_host();
    }
    policy.owner_cookie = None;
    reasons
}

/// The policy whose routes match their own name as a path, with the account where Basic credentials have the user.
fn by_route_name(policy: &Policy) -> Policy {
    let routes = policy.routes.iter().cloned().map(|route| Route {
        matching: RouteMatch {
            patterns: Pattern::parse(&format!("ANY /{}", route.name)).into_iter().collect(),
            when: Vec::new(),
            case: Case::Sensitive,
            ..route.matching
        },
        reading: RouteReading {
            user: vec![Field::Basic],
            password: Vec::new(),
            cost: match route.reading.cost {
                Cost::Counted(_) => Cost::Fixed(1),
                fixed @ Cost::Fixed(_) => fixed,
            },
            ..route.reading
        },
        defences: RouteDefences::default(),
        ..route
    });
    Policy::new(routes.collect(), policy.limits.clone()).with_lookup(policy.lookup.clone())
}

fn why_not(policy: &Policy, at: usize, columns: LogColumns) -> Option<&'static str> {
    let limit: &Limit = &policy.limits[at];
    let keys = |is: fn(&KeyPart) -> bool| limit.key.iter().any(is);
    let mut routes = policy.routes.iter().filter(|route| route.limits.contains(&at));
    let mut has_accounts =
        || (columns.user || columns.decisions) && routes.all(|route| route.reading.user == [Field::Basic]);
    match limit {
        _ if limit.mode == Mode::Off => Some("it is off"),
        _ if keys(|key| matches!(key, KeyPart::Owner)) => Some(OWNERS.not_logged),
        _ if limit.needs_passwords() => Some("the log has no passwords"),
        _ if limit.needs_accounts() && !has_accounts() => Some("the log has no accounts"),
        _ if keys(|key| matches!(key, KeyPart::Header(_))) => Some("the log does not have the header"),
        _ if keys(|key| matches!(key, KeyPart::Fact(ClientFact::Cert))) => {
            Some("the log has no certificates")
        }
        _ if keys(|key| matches!(key, KeyPart::Cookie(_))) => Some("the log has no cookies"),
        _ if keys(|key| matches!(key, KeyPart::Host)) && !columns.host => Some("the log has no hosts"),
        _ => None,
    }
}

/// The rules for the outcome of one route, as far as a log shows responses.
#[derive(Debug)]
pub(super) struct VisibleRules {
    failure: ListedRules,
    success: ListedRules,
    neutral: ListedRules,
    otherwise: OutcomeRules,
    /// Whether a rule reads only what the log does not show.
    pub(super) is_partial: bool,
}

/// One list of rules. Each is kept as the rules of a success, so that only a rule that holds gives one.
#[derive(Debug)]
struct ListedRules {
    whole: OutcomeRules,
    /// Rules without the conditions that the log does not show.
    weakened: OutcomeRules,
    has_invisible: bool,
}

impl VisibleRules {
    pub(super) fn of(route: &Route, columns: LogColumns) -> Self {
        let OutcomeRules { failure, success, neutral, otherwise, header: _ } = &route.rules;
        let lists = [failure, success, neutral].map(|rules| ListedRules::of(rules, columns));
        let is_partial = lists.iter().any(|list| list.has_invisible);
        let [failure, success, neutral] = lists;
        let otherwise = OutcomeRules { otherwise: *otherwise, ..OutcomeRules::default() };
        Self { failure, success, neutral, otherwise, is_partial }
    }

    /// The outcome of a response. If both a failure and a success are only possible it is a failure, as it is for the
    /// gate when a rule stays undecided.
    pub(super) fn outcome(&self, response: &ResponseView<'_>) -> Outcome {
        let may = |list: &ListedRules| holds(&list.weakened, response);
        if holds(&self.failure.whole, response) {
            Outcome::Failure
        } else if holds(&self.success.whole, response) {
            Outcome::Success
        } else if may(&self.failure) {
            Outcome::Failure
        } else if may(&self.success) {
            Outcome::Success
        } else if holds(&self.neutral.whole, response) || may(&self.neutral) {
            Outcome::Neutral
        } else {
            self.otherwise.by_head(response).map_or(Outcome::Failure, |judged| judged.outcome)
        }
    }
}

impl ListedRules {
    fn of(rules: &[OutcomeRule], columns: LogColumns) -> Self {
        let (mut whole, mut weakened, mut has_invisible) = (Vec::new(), Vec::new(), false);
        for rule in rules {
            let visible = OutcomeRule {
                status: rule.status.clone(),
                location: rule.location.clone().filter(|_| columns.location),
                ..OutcomeRule::default()
            };
            // What a failure counts as, `replay` leaves out.
            if visible == (OutcomeRule { extra: 0, ..rule.clone() }) {
                whole.push(visible);
            } else if visible == OutcomeRule::default() {
                has_invisible = true;
            } else {
                weakened.push(visible);
            }
        }
        let list = |success| OutcomeRules { success, ..OutcomeRules::default() };
        Self { whole: list(whole), weakened: list(weakened), has_invisible }
    }
}

fn holds(list: &OutcomeRules, response: &ResponseView<'_>) -> bool {
    !list.success.is_empty()
        && list.by_head(response).is_some_and(|judged| judged.outcome == Outcome::Success)
}

#[cfg(test)]
mod tests;
