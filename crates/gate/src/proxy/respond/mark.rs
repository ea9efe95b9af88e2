//! `X-Tollgate-Refused`: tells the application which limits with `mode = "mark"` would have refused the attempt.

use http::HeaderValue;
use smallvec::SmallVec;

use super::retry_after;
use crate::bucket::Effect;
use crate::engine::{LimitStatus, Rules};
use crate::policy::Mode;
use crate::time::Span;

/// The value of the header, as in `address; retry-after=21`; several limits are separated by commas, and one that time
/// does not lift has no wait. `None` if no marking limit lacks the tokens.
#[must_use]
pub fn refused_mark(rules: &Rules, statuses: &[LimitStatus]) -> Option<HeaderValue> {
    let mut marked: SmallVec<[(usize, Option<Span>); 2]> = SmallVec::new();
    for status in statuses.iter().filter(|status| status.would_refuse()) {
        let limit = rules.policy.rate_limit_of(status.charge.limit);
        if rules.policy.limits[limit].mode != Mode::Mark {
            continue;
        }
        let mut enforcing = *status;
        enforcing.charge.effect = Effect::Enforce { owner: 0 };
        let wait = rules.longest_wait(&[enforcing]);
        match marked.iter_mut().find(|(known, _)| *known == limit) {
            Some((_, longest)) => *longest = longest.and_then(|known| Some(known.max(wait?))),
            None => marked.push((limit, wait)),
        }
    }
    let text = |(limit, wait): &(usize, Option<Span>)| {
        let name = &rules.policy.limits[*limit].name;
        let seconds = wait.map(|wait| format!("; retry-after={}", retry_after::seconds(wait, 0, &[])));
        format!("{name}{}", seconds.unwrap_or_default())
    };
    let marks: Vec<String> = marked.iter().map(text).collect();
    if marks.is_empty() { None } else { HeaderValue::try_from(marks.join(", ")).ok() }
}
