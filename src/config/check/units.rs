//! `unit`: whether attempts are counted, or the accounts or passwords that they try.
//!
//! It wraps the buckets that a limit has already, its own and those of some clients. The surprising thing: only a plain
//! `rate` can count a thing once, because what is remembered lives as long as the bucket is not full; with debt a
//! refused thing would cost without being remembered.

use super::super::diagnostic::{Findings, Spot};
use super::super::document::Located;
use super::super::raw::{self, Named};
use super::fields::one_of;
use crate::bucket::{Continuous, Distinct, Spec};
use crate::policy::network::NetworkMap;
use crate::policy::{Limit, Rate, Unit};
use crate::time::Span;

/// Gives each limit its unit.
pub(super) fn check(raw: &[Named<raw::Limit>], limits: &mut [Option<Limit>], f: &mut Findings) {
    for (Named { value: raw, .. }, limit) in raw.iter().zip(limits) {
        let unit = one_of(raw.unit.as_ref(), &UNITS, &[], f).unwrap_or(Unit::Attempts);
        if let (Some(limit), Some(text)) = (limit, &raw.unit)
            && unit != Unit::Attempts
        {
            count_once(limit, unit, raw, text, f);
        }
    }
}

fn count_once(limit: &mut Limit, unit: Unit, raw: &raw::Limit, text: &Located<String>, f: &mut Findings) {
    if let Some((key, spot)) = stranger(limit, raw) {
        let message = format!("`{key}` does not go with unit = \"{}\"", text.value);
        return f.error(spot.unwrap_or(&text.spot), message, "only a plain `rate` counts a thing once");
    }
    let wrapped = |spec| match spec {
        Spec::Continuous(bucket) => Distinct::new(bucket, free_repeats(unit)).map_or(spec, Spec::Distinct),
        other => other,
    };
    let mut rates = NetworkMap::default();
    for (network, rate) in limit.rates.iter() {
        rates.insert(network, Rate { spec: rate.spec.map(wrapped), ..rate.clone() });
    }
    (limit.unit, limit.spec, limit.rates) = (unit, wrapped(limit.spec), rates);
}

/// A key that makes something else of the bucket than a plain rate, and where it stands.
fn stranger<'r>(limit: &Limit, raw: &'r raw::Limit) -> Option<(&'static str, Option<&'r Spot>)> {
    fn spot<T>(value: Option<&Located<T>>) -> Option<&Spot> {
        value.map(|value| &value.spot)
    }
    match limit.spec {
        Spec::Interval(_) => Some(("refill", spot(raw.refill.as_ref()))),
        Spec::Rolling(_) => Some(("rolling", spot(raw.rolling.as_ref()))),
        Spec::Floor(_) => Some(("floor", spot(raw.floor.as_ref()))),
        Spec::Continuous(bucket) if bucket.debt() > 0 => Some(("debt", spot(raw.debt.as_ref()))),
        Spec::Continuous(bucket) if holds(&bucket) => Some(("wait", spot(raw.wait.as_ref()))),
        Spec::Continuous(_) | Spec::Distinct(_) | Spec::Escalation(_) => None,
    }
}

fn holds(bucket: &Continuous) -> bool {
    bucket.hold() > Span::ZERO
}

fn free_repeats(unit: Unit) -> Option<u32> {
    (unit == Unit::Passwords).then_some(FREE_PASSWORDS)
}

const UNITS: [(&str, Unit); 3] =
    [("attempts", Unit::Attempts), ("users", Unit::Users), ("passwords", Unit::Passwords)];
/// As many as a forgotten telephone sends in a night; whoever is told apart by being free is told no more often.
const FREE_PASSWORDS: u32 = 200;
