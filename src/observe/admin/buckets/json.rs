//! Buckets as JSON; the fields are documented in `docs/operating.md`.
//!
//! A response never repeats the key of its buckets, which may be the name of an account.

use serde_json::{Value, json};

use crate::bucket::{Admission, Own};
use crate::engine::{BucketLevel, BucketReport, BucketView, KnownAddressCount};
use crate::observe::timestamp::rfc3339;
use crate::time::Span;

pub(super) fn json(report: &BucketReport) -> Value {
    let mut value = json!({
        "buckets": report.buckets.iter().map(bucket).collect::<Vec<_>>(),
        "exempt": report.exempt.iter().map(|name| &**name).collect::<Vec<_>>(),
        "not_shown": report.not_shown.iter().map(|name| &**name).collect::<Vec<_>>(),
    });
    if !report.addresses.is_empty() {
        value["addresses"] = report.addresses.iter().map(addresses).collect();
    }
    value
}

fn addresses(KnownAddressCount { application, known, until }: &KnownAddressCount) -> Value {
    json!({"application": &**application, "known": known, "until": rfc3339(*until)})
}

fn bucket(view: &BucketView) -> Value {
    let BucketLevel { spec, verdict } = view.rate;
    let mut value = json!({
        "limit": &*view.limit,
        "mode": view.mode.name(),
        "tokens": verdict.left,
        "burst": spec.burst(),
        "next": seconds(verdict.next_token),
        "full_at": rfc3339(verdict.full_at),
    });
    let optional = [
        ("class", (!view.class.is_empty()).then(|| json!(&*view.class))),
        ("network", view.network.map(|network| json!(network.to_string()))),
        ("own", view.own.as_ref().map(own)),
        ("exempt_until", view.exempt_until().map(|until| json!(rfc3339(until)))),
        ("banned_until", view.banned_until().map(|until| json!(rfc3339(until)))),
        ("max_failures", view.cap.map(cap)),
        ("escalate", view.escalation.map(escalation)),
    ];
    for (name, part) in optional {
        if let Some(part) = part {
            value[name] = part;
        }
    }
    value
}

fn own(own: &Own) -> Value {
    json!({
        "burst": own.rate.burst(),
        "seconds_per_token": seconds(own.rate.per_token()),
        "until": rfc3339(own.until),
    })
}

fn cap(BucketLevel { spec, verdict }: BucketLevel) -> Value {
    json!({"left": verdict.left, "most": spec.burst()})
}

fn escalation(BucketLevel { spec, verdict }: BucketLevel) -> Value {
    let wait = match verdict.admission {
        Admission::Refused { wait } => seconds(wait),
        _ => 0.0,
    };
    json!({"left": verdict.left, "after": spec.burst(), "wait": wait, "forgotten_at": rfc3339(verdict.full_at)})
}

/// Rounded up to a millisecond, so a client that waits this long has waited enough.
pub(in super::super) fn seconds(span: Span) -> f64 {
    let millis = span.as_nanos().div_ceil(1_000_000);
    std::time::Duration::from_millis(millis).as_secs_f64()
}
