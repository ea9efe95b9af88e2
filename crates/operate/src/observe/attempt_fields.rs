//! The fields of an attempt, as logs and traces name them. How each writes them is left to it.

use super::json_fields::FieldText;
use crate::defences::OWNERS;
use crate::event::{AttemptRecord, LimitDecision, LimitRecord};

/// A field.
type AttemptField<'a> = (&'static str, FieldText<'a>);

/// Those of a line of the access log; all are `null` for another request.
pub(super) fn of_request(attempt: Option<&AttemptRecord>) -> [AttemptField<'_>; 7] {
    let refused_by = FieldText::Word(attempt.and_then(AttemptRecord::refused_by));
    [
        ("route", FieldText::Word(attempt.map(AttemptRecord::route_name))),
        ("refused_by", refused_by),
        ("limit", refused_by),
        ("wait", FieldText::Seconds(attempt.and_then(|attempt| attempt.first(LimitDecision::Refuse)?.wait))),
        ("left", FieldText::Count(attempt.and_then(AttemptRecord::left))),
        ("outcome", FieldText::Word(attempt.and_then(outcome))),
        ("would_refuse", FieldText::Word(attempt.and_then(AttemptRecord::would_refuse))),
    ]
}

/// Those that tell one limit's decision from others.
pub(super) fn of_decision<'a>(attempt: &'a AttemptRecord, record: &LimitRecord) -> [AttemptField<'a>; 3] {
    [
        ("route", FieldText::Word(Some(attempt.route_name()))),
        ("limit", FieldText::Word(Some(attempt.limit_name(record)))),
        ("verdict", FieldText::Word(Some(record.decision.name()))),
    ]
}

/// Those that say more about it.
pub(super) fn facts(attempt: &AttemptRecord, record: &LimitRecord) -> [AttemptField<'static>; 7] {
    let facts = &attempt.facts;
    [
        ("left", FieldText::Count(Some(record.left))),
        ("wait", FieldText::Seconds(record.wait)),
        ("outcome", FieldText::Word(outcome(attempt))),
        (OWNERS.key, FieldText::Is(facts.is_owner)),
        ("attack", FieldText::Is(facts.is_alarmed)),
        ("bait", FieldText::Is(facts.is_of_nobody)),
        ("failures", FieldText::Count(Some(facts.failures_before))),
    ]
}

/// Those of a span: the strictest verdict, the limit that gave it, and what came of the attempt.
#[cfg(feature = "otel")]
pub(super) fn of_span(attempt: &AttemptRecord) -> impl Iterator<Item = (&'static str, &str)> {
    let strictest = STRICTEST_FIRST.iter().find_map(|&decision| attempt.first(decision));
    [
        ("tollgate.route", Some(attempt.route_name())),
        ("tollgate.limit", strictest.map(|record| attempt.limit_name(record))),
        ("tollgate.verdict", strictest.map(|record| record.decision.name())),
        ("tollgate.outcome", outcome(attempt)),
    ]
    .into_iter()
    .filter_map(|(name, text)| Some((name, text?)))
}

fn outcome(attempt: &AttemptRecord) -> Option<&'static str> {
    attempt.settled.map(|end| end.outcome.name())
}

#[cfg(feature = "otel")]
const STRICTEST_FIRST: [LimitDecision; 4] =
    [LimitDecision::Refuse, LimitDecision::Observe, LimitDecision::Admit, LimitDecision::Exempt];
