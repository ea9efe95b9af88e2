//! `unit`: whether attempts are counted, or the accounts or passwords that they try, or the clients that try.
//!
//! It wraps the buckets that a limit has already: its own and those of some clients. Only a plain `rate` can count an
//! item once, because items are remembered as long as the bucket is not full. With `debt` a refused item would cost a
//! token without being remembered.

use tollgate_grammar::kind::Checked as _;
use tollgate_grammar::{Findings, Located, RawNamed, Spot};

use super::super::raw;
use super::super::values::Duration;
use crate::bucket::{Distinct, Spec};
use crate::policy::key::KeyPart;
use crate::policy::{Limit, Unit};
use crate::time::Span;

/// Gives each limit its unit.
pub(super) fn check(raw: &[RawNamed<raw::RawLimit>], limits: &mut [Option<Limit>], f: &mut Findings) {
    for (RawNamed { value: raw, .. }, limit) in raw.iter().zip(limits) {
        let unit = raw.unit.checked(f).flatten().unwrap_or(Unit::Attempts);
        let Some(text) = raw.unit.as_ref().filter(|_| unit != Unit::Attempts) else { continue };
        match (conflicting_key(raw), limit) {
            (Some((key, spot)), _) => {
                let message = format!("`{key}` does not go with unit = \"{}\"", text.value);
                f.error(spot, message, "only a plain `rate` counts a thing once");
            }
            (None, Some(limit)) => {
                refuse_clients_of_one(text, limit, unit, f);
                count_once(limit, unit);
            }
            (None, None) => {}
        }
    }
}

/// An account is tried by many clients; the bucket of an address or an owner belongs to one.
fn refuse_clients_of_one(text: &Located<String>, limit: &Limit, unit: Unit, f: &mut Findings) {
    let is_of_one = |part: &KeyPart| matches!(part, KeyPart::Ip | KeyPart::Owner);
    if unit == Unit::Clients && limit.key.iter().any(is_of_one) {
        let message =
            format!("limit `{}` has a bucket for each client: there is one client to count", limit.name);
        f.error(&text.spot, message, "as in key = \"user\"");
    }
}

fn count_once(limit: &mut Limit, unit: Unit) {
    let wrapped = |spec| match spec {
        Spec::Continuous(bucket) => Distinct::new(bucket, free_repeats(unit)).map_or(spec, Spec::Distinct),
        other => other,
    };
    let rates = std::mem::take(&mut limit.rates).map(wrapped);
    (limit.unit, limit.spec, limit.rates) = (unit, wrapped(limit.spec), rates);
}

/// A key that makes the bucket more than a plain rate, and its spot. It reads the file as written, so that the conflict
/// is reported next to an invalid rate.
fn conflicting_key(raw: &raw::RawLimit) -> Option<(&'static str, &Spot)> {
    let refill = raw.refill.as_ref().filter(|refill| refill.value == "interval");
    let debt = raw.debt.as_ref().filter(|debt| debt.value > 0);
    let lasts = |wait: &&Located<String>| wait.value.parse().is_ok_and(|Duration(wait)| wait > Span::ZERO);
    let wait = raw.wait.as_deref().filter(lasts);
    let keys = [
        ("rolling", raw.rolling.value.as_ref().map(|text| &text.spot)),
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

/// About what a telephone with an old password sends in one night. The free repeats tell an attacker whether a password
/// was tried before, no more often than this.
const FREE_PASSWORDS: u32 = 200;
