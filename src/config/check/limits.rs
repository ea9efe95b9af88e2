//! `[limit.NAME]`: how often.

use std::collections::HashMap;
use std::sync::Arc;

use ipnet::IpNet;

use super::super::diagnostic::{Findings, Spot};
use super::super::document::Located;
use super::super::raw::{self, Named};
use super::super::values::{Key, Rate};
use super::fields::{check_name, distinct, one_of, parsed, within};
use super::networks::Networks;
use super::settings::prefixes;
use crate::bucket::{Continuous, Spec, SpecError};
use crate::policy::key::{Part, PrefixLengths};
use crate::policy::network::{NetworkMap, NetworkSet};
use crate::policy::{self, Limit, Mode};

/// The limits, in the order of the file; `None` where one cannot be.
pub(super) fn check(
    raw: &[Named<raw::Limit>],
    networks: &Networks<'_>,
    client: PrefixLengths,
    f: &mut Findings,
) -> Vec<Option<Limit>> {
    raw.iter().map(|named| check_limit(named, networks, client, f)).collect()
}

fn check_limit(
    Named { name, value: raw }: &Named<raw::Limit>,
    networks: &Networks<'_>,
    client: PrefixLengths,
    f: &mut Findings,
) -> Option<Limit> {
    check_name(name, f);
    one_of(raw.refill.as_ref(), &[("continuous", ())], &["interval"], f);
    one_of(raw.count.as_ref(), &[("attempts", ())], &["failures"], f);
    one_of(raw.unit.as_ref(), &[("attempts", ())], &["users", "passwords"], f);
    let modes = [("enforce", Mode::Enforce), ("observe", Mode::Observe), ("off", Mode::Off)];
    let extras = Extras {
        initial: counted(raw.initial.as_ref(), f),
        debt: counted(raw.debt.as_ref(), f).map_or(0, |debt| debt.value),
    };
    if !raw.has_rate {
        let hint = "rate = \"10 per 5m\"";
        f.error(&name.spot, format!("limit `{}` has no `rate`", name.value), hint);
    }
    let key = raw.key.as_ref().map_or(Some(Key(vec![Part::Ip])), |key| parsed(key, f));
    let mode = one_of(raw.mode.as_ref(), &modes, &[], f).unwrap_or(Mode::Enforce);
    let prefixes = prefixes(raw.ipv4.as_ref(), raw.ipv6.as_ref(), client, f);
    let exempt = distinct(raw.exempt.as_ref(), f).into_iter().flat_map(|entry| networks.resolve(entry, f));
    let exempt: NetworkSet = exempt.collect();
    let rates = check_rates(&raw.rates, networks, &extras, f);
    let spec = raw.rate.as_ref().and_then(|rate| check_rate(rate, &extras, f));
    if let Some(Key(parts)) = &key {
        warn_of_lengths(parts, raw, client, f);
    }
    let Key(key) = key?;
    Some(Limit { name: name.value.as_str().into(), key, prefixes, spec: spec?, rates, exempt, mode })
}

/// What a limit adds to each of its rates.
struct Extras {
    initial: Option<Located<u32>>,
    debt: u32,
}

fn counted(number: Option<&Located<i64>>, f: &mut Findings) -> Option<Located<u32>> {
    let value = within(number, 0..=i64::from(u32::MAX), f)?;
    number.map(|number| Located { value, spot: number.spot.clone() })
}

fn check_rate(text: &Located<String>, extras: &Extras, f: &mut Findings) -> Option<Spec> {
    let rate: Rate = parsed(text, f)?;
    if let Some(initial) = extras.initial.as_ref().filter(|initial| initial.value > rate.burst) {
        let message = format!("a start balance of {} is larger than the bucket", initial.value);
        f.error(&initial.spot, message, format!("0 to {}", rate.burst));
    }
    bucket(rate, &text.spot, extras, f)
}

fn check_rates(
    raw: &[Named<Located<String>>],
    networks: &Networks<'_>,
    extras: &Extras,
    f: &mut Findings,
) -> NetworkMap<policy::Rate> {
    let mut rates = NetworkMap::default();
    let mut seen: HashMap<IpNet, &str> = HashMap::new();
    for (before, Named { name, value: text }) in raw.iter().enumerate() {
        let spec = match text.value.as_str() {
            "off" => None,
            _ => parsed(text, f).and_then(|rate| bucket(rate, &text.spot, extras, f)),
        };
        let class: Arc<str> = name.value.as_str().into();
        for net in networks.resolve(name, f) {
            if let Some(earlier) = seen.insert(net, &name.value).filter(|earlier| *earlier != name.value) {
                f.error(&name.spot, format!("{net} has a rate already"), format!("as part of `{earlier}`"));
            }
            rates.insert(net, policy::Rate { class: Arc::clone(&class), number: before + 1, spec });
        }
    }
    rates
}

fn bucket(rate: Rate, spot: &Spot, extras: &Extras, f: &mut Findings) -> Option<Spec> {
    let bucket = Continuous::new(rate.count, rate.period, rate.burst);
    // A rate for some clients may have a smaller bucket than the one that `initial` was written for.
    let initial = extras.initial.as_ref().map_or(rate.burst, |initial| initial.value.min(rate.burst));
    let bucket = bucket.and_then(|bucket| bucket.with_initial(initial)?.with_debt(extras.debt));
    match bucket {
        Ok(bucket) => Some(Spec::Continuous(bucket)),
        Err(error) => {
            f.error(spot, error.to_string(), spec_hint(error));
            None
        }
    }
}

fn spec_hint(error: SpecError) -> &'static str {
    match error {
        SpecError::Zero => "at least 1",
        SpecError::TooFast => "count less, or in a longer period",
        SpecError::TooLong => "a shorter period, a smaller burst or less debt",
        SpecError::InitialAboveBurst => "at most the burst",
        SpecError::NotWhole => "as in rolling = \"10000 per 24h\" and every = \"1h\"",
        SpecError::TooManyPeriods => "calculate it less often",
        SpecError::TooLarge => "a smaller size or less debt",
    }
}

fn warn_of_lengths(parts: &[Part], raw: &raw::Limit, client: PrefixLengths, f: &mut Findings) {
    if !parts.contains(&Part::Ip) {
        for length in raw.ipv4.iter().chain(&raw.ipv6) {
            f.warning(&length.spot, "this prefix length changes nothing", "the limit's `key` has no \"ip\"");
        }
        return;
    }
    // Whoever gathers neighbours in IPv4 means those in IPv6 too, where one customer has many /64 to hop over.
    if let (Some(ipv4), None) = (&raw.ipv4, &raw.ipv6)
        && ipv4.value < i64::from(client.ipv4)
    {
        let message = format!("neighbours are gathered in IPv4 only: IPv6 stays at /{}", client.ipv6);
        f.warning(&ipv4.spot, message, "add ipv6, as in ipv6 = 48");
    }
}
