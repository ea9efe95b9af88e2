//! Buckets as JSON; the fields are documented in `docs/operating.md`.
//!
//! The surprising thing: no answer repeats whose buckets they are, since that may be the name of an account.

use serde_json::{Value, json};

use crate::bucket::{Admission, Own};
use crate::engine::{BucketLevel, BucketReport, BucketView};
use crate::observe::timestamp::rfc3339;
use crate::policy::Mode;
use crate::time::Span;

pub(super) fn json(shown: &BucketReport) -> Value {
    json!({
        "buckets": shown.buckets.iter().map(bucket).collect::<Vec<_>>(),
        "exempt": shown.exempt.iter().map(|name| &**name).collect::<Vec<_>>(),
        "not_shown": shown.not_shown.iter().map(|name| &**name).collect::<Vec<_>>(),
    })
}

fn bucket(seen: &BucketView) -> Value {
    let BucketLevel { spec, verdict } = seen.rate;
    let mut value = json!({
        "limit": &*seen.limit,
        "mode": mode(seen.mode),
        "tokens": verdict.left,
        "burst": spec.burst(),
        "next": seconds(verdict.next_token),
        "full_at": rfc3339(verdict.full_at),
    });
    let optional = [
        ("class", (!seen.class.is_empty()).then(|| json!(&*seen.class))),
        ("network", seen.network.map(|network| json!(network.to_string()))),
        ("own", seen.own.as_ref().map(own)),
        ("max_failures", seen.cap.map(cap)),
        ("escalate", seen.escalation.map(escalation)),
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

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Observe => "observe",
        Mode::Off => "off",
    }
}

/// Rounded up to a millisecond, so that whoever waits that long has waited enough.
fn seconds(span: Span) -> f64 {
    let millis = span.as_nanos().div_ceil(1_000_000);
    std::time::Duration::from_millis(millis).as_secs_f64()
}
