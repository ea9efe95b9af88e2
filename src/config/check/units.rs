//! `unit`: whether attempts are counted, or the accounts or passwords that they try.
//!
//! It wraps the buckets that a limit has already, its own and those of some clients. The surprising thing: only a plain
//! `rate` can count a thing once, because what is remembered lives as long as the bucket is not full; with debt a
//! refused thing would cost without being remembered.

use super::super::diagnostic::{Findings, Spot};
use super::super::document::Located;
use super::super::raw::{self, RawNamed};
use super::super::values::Duration;
use super::fields::one_of;
use crate::bucket::{Distinct, Spec};
use crate::policy::network::NetworkMap;
use crate::policy::{ClassRate, Limit, Unit};
use crate::time::Span;

/// Gives each limit its unit.
pub(super) fn check(raw: &[RawNamed<raw::RawLimit>], limits: &mut [Option<Limit>], f: &mut Findings) {
    for (RawNamed { value: raw, .. }, limit) in raw.iter().zip(limits) {
        let unit = one_of(raw.unit.as_ref(), &UNITS, &[], f).unwrap_or(Unit::Attempts);
        let Some(text) = raw.unit.as_ref().filter(|_| unit != Unit::Attempts) else { continue };
        match (conflicting_key(raw), limit) {
            (Some((key, spot)), _) => {
                let message = format!("`{key}` does not go with unit = \"{}\"", text.value);
                f.error(spot, message, "only a plain `rate` counts a thing once");
            }
            (None, Some(limit)) => count_once(limit, unit),
            (None, None) => {}
        }
    }
}

fn count_once(limit: &mut Limit, unit: Unit) {
    let wrapped = |spec| match spec {
        Spec::Continuous(bucket) => Distinct::new(bucket, free_repeats(unit)).map_or(spec, Spec::Distinct),
        other => other,
    };
    let mut rates = NetworkMap::default();
    for (network, rate) in limit.rates.iter() {
        rates.insert(network, ClassRate { spec: rate.spec.map(wrapped), ..rate.clone() });
    }
    (limit.unit, limit.spec, limit.rates) = (unit, wrapped(limit.spec), rates);
}

/// A key that makes something else of the bucket than a plain rate, and where it stands. It goes by what was written, so
/// that it is told beside a rate that makes no sense.
fn conflicting_key(raw: &raw::RawLimit) -> Option<(&'static str, &Spot)> {
    let refill = raw.refill.as_ref().filter(|refill| refill.value == "interval");
    let debt = raw.debt.as_ref().filter(|debt| debt.value > 0);
    let lasts = |wait: &&Located<String>| wait.value.parse().is_ok_and(|Duration(wait)| wait > Span::ZERO);
    let wait = raw.wait.as_ref().filter(lasts);
    let keys = [
        ("rolling", raw.rolling.as_ref().map(|text| &text.spot)),
        ("refill", refill.map(|text| &text.spot)),
        ("floor", raw.floor.as_ref().map(|text| &text.spot)),
        ("debt", debt.map(|number| &number.spot)),
        ("wait", wait.map(|text| &text.spot)),
    ];
    keys.into_iter().find_map(|(key, spot)| Some((key, spot?)))
}

fn free_repeats(unit: Unit) -> Option<u32> {
    (unit == Unit::Passwords).then_some(FREE_PASSWORDS)
}

const UNITS: [(&str, Unit); 3] =
    [("attempts", Unit::Attempts), ("users", Unit::Users), ("passwords", Unit::Passwords)];
/// As many as a forgotten telephone sends in a night; whoever is told apart by being free is told no more often.
const FREE_PASSWORDS: u32 = 200;
