//! `[limit.NAME]` and its candidate: key, prefixes, rates and mode of a limit.

use std::sync::Arc;

use tollgate_grammar::kind::Checked as _;
use tollgate_grammar::list::distinct;
use tollgate_grammar::{Findings, RawNamed, name};

use super::super::candidate;
use super::super::ladder;
use super::super::raw;
use super::super::values::LimitKey;
use super::context::CheckContext;
use super::directory;
use super::rate_parts::{Extras, GivenRate};
use super::{buckets, bytes, passwords, rates, shapes, units};
use crate::bucket::{Continuous, Spec};
use crate::defences::OWNERS;
use crate::defences::prefixes::prefixes;
use crate::policy::key::{KeyPart, PrefixLengths};
use crate::policy::network::NetworkSet;
use crate::policy::{ChargeOn, Limit, Mode};
use crate::time::Span;

/// The limits, in the order of the file; `None` for one that counts bytes, or cannot be built.
pub(super) fn check(cx: &mut CheckContext<'_>, f: &mut Findings) -> Vec<Option<Limit>> {
    let raw = &cx.raw.limits;
    let limit = |named: &RawNamed<raw::RawLimit>| {
        if bytes::is_given(&named.value) { None } else { check_limit(named, cx, f) }
    };
    let mut limits: Vec<_> = raw.iter().map(limit).collect();
    observe(&mut limits, cx.observes);
    units::check(raw, &mut limits, f);
    passwords::check(raw, &limits, f);
    cx.byte_limits = bytes::check(cx, f);
    limits
}

/// Puts every limit in observe mode if the file sets that for all; a limit that is off stays off.
fn observe(limits: &mut [Option<Limit>], observes: bool) {
    let is_on = |limit: &&mut Limit| observes && limit.mode != Mode::Off;
    limits.iter_mut().flatten().filter(is_on).for_each(|limit| limit.mode = Mode::Observe);
}

fn check_limit(
    named @ RawNamed { name, value: raw }: &RawNamed<raw::RawLimit>,
    cx: &mut CheckContext<'_>,
    f: &mut Findings,
) -> Option<Limit> {
    let client = cx.client.prefixes;
    let live = candidate::live_name(&name.value);
    if live.is_none() && !ladder::is_rung(&name.value) {
        name::check(name, f);
    }
    if let Some(value) = &raw.candidate {
        let message = format!("`candidate` is {} where a table belongs", value.value.kind());
        f.error(&value.spot, message, format!("as in [limit.{}.candidate]", name.value));
    }
    let charge_on = raw.count.checked(f).unwrap_or(ChargeOn::Attempts);
    let (is_of_directory, directory) = (directory::is_given(raw), directory::check(named, cx, f));
    let has_rate = raw.rate.key.is_some() || raw.rolling.key.is_some() || raw.ladder.is_some();
    if !has_rate && !is_of_directory {
        let hint = "rate = \"10 per 5m\"";
        f.error(&name.spot, format!("limit `{}` has no `rate`", name.value), hint);
    }
    let default_key = if is_of_directory { KeyPart::User } else { KeyPart::Ip };
    let key = raw.key.as_ref().map_or(Some(LimitKey(vec![default_key])), |key| key.checked(f));
    let mode = match (raw.mode.checked(f).unwrap_or(Mode::Enforce), live) {
        (Mode::Enforce, Some(_)) => Mode::Observe,
        (mode, _) => mode,
    };
    let prefixes = prefixes(&raw.ipv4, &raw.ipv6, client, f);
    let exempt = distinct(raw.exempt.as_deref(), f).into_iter();
    let exempt = exempt.flat_map(|entry| cx.networks.resolve_for(entry, "exempt", f));
    let exempt: NetworkSet = exempt.collect();
    let extras = Extras::check(raw, f);
    let rate = raw.rate.value.as_ref().and_then(|given| GivenRate::of(given, f));
    let shape = shapes::check(raw, rate, f);
    let rates = rates::check(&raw.rates, key.as_ref(), shape.as_ref(), &extras, cx, f);
    let spec = shape.and_then(|shape| buckets::of_limit(&shape, rate, &extras, raw, f));
    if let Some(LimitKey(parts)) = &key {
        warn_of_lengths(parts, raw, client, f);
        refuse_debt_of_accounts(parts, raw, f);
    }
    let is_reset_by_success = reset(raw, key.as_ref(), f);
    let LimitKey(key) = key?;
    let limit = Limit {
        key,
        is_reset_by_success,
        on_error: raw.on_error.checked(f),
        prefixes,
        rates,
        exempt,
        mode,
        candidate_of: live.map(Arc::from),
        charge_on,
        ..Limit::new(&name.value, spec.or_else(any)?)
    };
    Some(match directory {
        Some(buckets) => buckets.put_into(limit),
        None => limit,
    })
}

/// A stand-in after a mistake, so that the checks go on: everything fits into it.
fn any() -> Option<Spec> {
    Continuous::new(1, Span::from_millis(1), u32::MAX).ok().map(Spec::Continuous)
}

fn refuse_debt_of_accounts(parts: &[KeyPart], raw: &raw::RawLimit, f: &mut Findings) {
    if let Some(debt) = raw.debt.as_ref().filter(|debt| debt.value > 0 && parts.contains(&KeyPart::User)) {
        let hint = "leave it out: an attacker could keep an account shut for nothing";
        f.error(&debt.spot, "a limit for accounts cannot have `debt`", hint);
    }
}

/// Whether a success fills the bucket. If it filled the bucket of an address, or of an account, attackers could sign in
/// to an account that they own to get more attempts.
fn reset(raw: &raw::RawLimit, key: Option<&LimitKey>, f: &mut Findings) -> bool {
    let Some(()) = raw.reset.checked(f) else { return false };
    let has = |part| key.is_none_or(|LimitKey(parts)| parts.contains(part));
    let is_of_pairs = has(&KeyPart::User) && (has(&KeyPart::Ip) || has(&KeyPart::Owner));
    if let Some(text) = raw.reset.as_ref().filter(|_| !is_of_pairs) {
        let owner = OWNERS.key;
        let hint =
            format!("only with both \"user\" and \"ip\" or \"{owner}\" in `key`, as in key = \"user+ip\"");
        f.error(&text.spot, "a success proves too little for `reset` here", hint);
    }
    is_of_pairs
}

fn warn_of_lengths(parts: &[KeyPart], raw: &raw::RawLimit, client: PrefixLengths, f: &mut Findings) {
    let counts_clients = raw.unit.as_ref().is_some_and(|unit| unit.value == "clients");
    let is_by_address =
        parts.iter().any(|part| matches!(part, KeyPart::Ip | KeyPart::Fact(_) | KeyPart::Password));
    if !is_by_address && !counts_clients {
        for spot in
            raw.ipv4.iter().map(|length| &length.spot).chain(raw.ipv6.iter().map(|length| &length.spot))
        {
            f.warning(spot, "this prefix length changes nothing", "the limit's `key` has no \"ip\"");
        }
        return;
    }
    // A wider prefix in IPv4 is meant for IPv6 too, where one customer can switch between many /64 networks.
    if let (Some(ipv4), None) = (&raw.ipv4, &raw.ipv6)
        && ipv4.value < i64::from(client.ipv4)
    {
        let message = format!("neighbours are gathered in IPv4 only: IPv6 stays at /{}", client.ipv6);
        f.warning(&ipv4.spot, message, "add ipv6, as in ipv6 = 48");
    }
}
