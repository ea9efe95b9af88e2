//! `success`, `failure`, `neutral` and `otherwise` of a route: what an answer means.
//!
//! It checks the words of each rule and whether the rule can ever match. [`advice`] warns of rules that a wrong
//! password matches, too.

mod advice;

use http::HeaderName;
use tollgate_grammar::kind::{Checked as _, Free, Key, Whole, Word};
use tollgate_grammar::{Findings, Located, RawItem, Spot, tables, words};

use super::values::StatusKind;
use crate::policy::outcome::{Outcome, OutcomeRule, OutcomeRules};
use crate::policy::response::{Glob, JsonPointer};

tables! {
    /// The rules of a route.
    pub(in crate::config) RawRules {
        success: Vec<RawItem<RawRule>> = Example Basic,
        failure: Vec<RawItem<RawRule>> = Example,
        neutral: Vec<RawItem<RawRule>> = Example Basic,
        otherwise: Key<Word<Outcomes>>,
        outcome_header: Key<Free> = Example,
    }

    /// A rule about an answer.
    pub(in crate::config) RawRule {
        /// A status, a class such as "4xx", or a list of them.
        status: Key<StatusKind>,
        /// Where a redirect leads; * is any text.
        location: Key<Free>,
        /// The name of a cookie that is set.
        set_cookie: Key<Free>,
        /// The name of a header; with `equals` for an exact value.
        header: Key<Free>,
        /// A JSON pointer into the answer; with `equals` for an exact value.
        json: Key<Free>,
        /// A text in the first 64 KiB of the answer, for failures only.
        body: Key<Free>,
        /// The exact value of `header` or `json`.
        equals: Key<Free>,
        /// How many failures a failure by this rule counts as; of `failure` only.
        weight: Key<Weight> = Extra,
    }
}

words! {
    /// What an answer means.
    pub(super) Outcomes: Outcome {
        "failure" => Outcome::Failure,
        "success" => Outcome::Success,
        "neutral" => Outcome::Neutral,
    }
}

/// As how many failures one counts.
type Weight = Whole<u32, 1, 10>;

/// The rules of a route. Where there are some and `otherwise` is absent, any other answer is a failure.
pub(super) fn check(raw: &RawRules, f: &mut Findings) -> OutcomeRules {
    let failure = rules(&raw.failure, f);
    for rule in &raw.success {
        if let Some(text) = &rule.value.body {
            f.error(&text.spot, "`body` cannot tell a success: a page can echo what a user typed", OTHER);
        }
    }
    for weight in raw.success.iter().chain(&raw.neutral).filter_map(|rule| rule.value.weight.as_ref()) {
        f.error(
            &weight.spot,
            "`weight` on a rule of `success` or `neutral`",
            "only a failure costs more than one",
        );
    }
    let success = rules(&raw.success, f);
    for rule in &raw.neutral {
        for text in [&rule.value.body, &rule.value.json].into_iter().flatten() {
            f.error(&text.spot, "`neutral` is about the head of an answer", OF_HEADS);
        }
    }
    let neutral = rules(&raw.neutral, f);
    warn_of_covered(&failure, [], f);
    warn_of_covered(&success, [("failure", &failure[..])], f);
    warn_of_covered(&neutral, [("failure", &failure[..]), ("success", &success[..])], f);
    let is_said = raw.outcome_header.is_some();
    let has_none = failure.is_empty() && success.is_empty() && neutral.is_empty() && !is_said;
    let implied = if has_none { OutcomeRules::default().otherwise } else { Outcome::Failure };
    let otherwise = raw.otherwise.checked(f).unwrap_or(implied);
    advice::warn(raw, &failure, &success, otherwise, f);
    advice::warn_of_errors(&neutral, f);
    let without_spots = |rules: Vec<SourcedRule<'_>>| rules.into_iter().map(|checked| checked.rule).collect();
    OutcomeRules {
        failure: without_spots(failure),
        success: without_spots(success),
        neutral: without_spots(neutral),
        otherwise,
        header: raw.outcome_header.as_ref().and_then(|name| outcome_header(name, f)),
    }
}

/// The name of the header in which the application says the outcome. It is removed from answers, so it has to be one
/// that nothing else needs.
fn outcome_header(name: &Located<String>, f: &mut Findings) -> Option<HeaderName> {
    let parsed = name.value.parse::<HeaderName>().ok();
    let is_own = |header: &HeaderName| header.as_str().starts_with("x-");
    if parsed.as_ref().is_none_or(|header| !is_own(header)) {
        let message = format!("`{}` is not a header of the application's own", name.value);
        f.error(&name.spot, message, "a name that begins with X-, as in \"X-Login-Outcome\"");
        return None;
    }
    parsed
}

struct SourcedRule<'r> {
    rule: OutcomeRule,
    raw: &'r RawRule,
    spot: &'r Spot,
}

fn rules<'r>(list: &'r [RawItem<RawRule>], f: &mut Findings) -> Vec<SourcedRule<'r>> {
    let check = |RawItem { value: raw, spot, is_empty }: &'r RawItem<RawRule>| {
        if *is_empty {
            f.error(spot, "this rule has no condition", "as in { status = 401 }");
        }
        SourcedRule { rule: check_rule(raw, f), raw, spot }
    };
    list.iter().map(check).collect()
}

fn check_rule(raw: &RawRule, f: &mut Findings) -> OutcomeRule {
    let equals = raw.equals.as_ref();
    match (equals, &raw.header, &raw.json) {
        (Some(text), None, None) => {
            f.error(&text.spot, "`equals` is alone", "add what it is about: `header` or `json`");
        }
        (Some(text), Some(_), Some(_)) => {
            let hint = "leave `header` or `json` to another rule";
            f.error(&text.spot, "`equals` can be about one thing only", hint);
        }
        _ => {}
    }
    let equals = || equals.map(|text| text.value.clone());
    OutcomeRule {
        status: raw.status.checked(f),
        location: raw.location.as_ref().and_then(|text| pattern(text, f)).map(|text| Glob::new(&text)),
        set_cookie: raw.set_cookie.as_ref().and_then(|text| cookie(text, f)),
        header: raw.header.as_ref().and_then(|text| Some((header(text, f)?, equals()))),
        json: raw.json.as_ref().and_then(|text| Some((pointer(text, f)?, equals()))),
        body: raw.body.as_ref().and_then(|text| pattern(text, f)),
        extra: raw.weight.checked(f).map_or(0, |weight: u32| weight.saturating_sub(1)),
    }
}

fn pattern(text: &Located<String>, f: &mut Findings) -> Option<String> {
    let hint = match text.value.len() {
        0 => "leave it out",
        1..=MAX_PATTERN_LEN => return Some(text.value.clone()),
        _ => "a part of it is enough: at most 1,024 bytes",
    };
    let message = if text.value.is_empty() { "this text is empty" } else { "this text is too long" };
    f.error(&text.spot, message, hint);
    None
}

/// A token (RFC 6265, section 4.1.1).
fn cookie(text: &Located<String>, f: &mut Findings) -> Option<Glob> {
    let is_name = HeaderName::from_bytes(text.value.as_bytes()).is_ok();
    if !is_name {
        f.error(&text.spot, format!("`{}` is not the name of a cookie", text.value), "write the name alone");
    }
    is_name.then(|| Glob::new(&text.value))
}

fn header(text: &Located<String>, f: &mut Findings) -> Option<HeaderName> {
    let name = HeaderName::from_bytes(text.value.as_bytes()).ok();
    if name.is_none() {
        let hint = "write the name alone, and the value in `equals`";
        f.error(&text.spot, format!("`{}` is not the name of a header", text.value), hint);
    }
    name
}

fn pointer(text: &Located<String>, f: &mut Findings) -> Option<JsonPointer> {
    let pointer = JsonPointer::new(&text.value);
    if pointer.is_none() {
        let path = text.value.trim_start_matches(['$', '#', '.', '/']);
        let hint = if text.value.starts_with('/') {
            "write a tilde as ~0 and a slash as ~1".to_owned()
        } else {
            format!("write /{}", path.replace('.', "/"))
        };
        f.error(&text.spot, format!("`{}` is not a JSON pointer", text.value), hint);
    }
    pointer
}

/// Warns of a rule that matches only where an earlier one does: it changes nothing.
fn warn_of_covered<'c, const LISTS: usize>(
    rules: &[SourcedRule<'_>],
    before: [(&str, &'c [SourcedRule<'c>]); LISTS],
    f: &mut Findings,
) {
    for (index, later) in rules.iter().enumerate() {
        let covers = |rules: &[SourcedRule<'_>]| rules.iter().any(|earlier| earlier.covers(later));
        let by_same = || covers(&rules[..index]).then(|| "one before it covers it".to_owned());
        let by_other = before.iter().find(|(_, rules)| covers(rules));
        let by_other =
            by_other.map(|(list, _)| format!("a rule of `{list}` covers it, and those come first"));
        if let Some(hint) = by_other.or_else(by_same) {
            f.warning(later.spot, "this rule changes nothing", hint);
        }
    }
}

impl SourcedRule<'_> {
    /// A rule without conditions lost them to a mistake, and would seem to cover every other.
    fn covers(&self, later: &Self) -> bool {
        let is_empty = |checked: &Self| {
            checked.rule == OutcomeRule { extra: checked.rule.extra, ..OutcomeRule::default() }
        };
        !is_empty(self) && !is_empty(later) && self.rule.covers(&later.rule)
    }
}

const OF_HEADS: &str = "tell it by `status`, `location`, `set_cookie` or `header`";
const OTHER: &str = "tell it by `status`, `location`, `set_cookie`, `header` or `json`";
const MAX_PATTERN_LEN: usize = 1024;
