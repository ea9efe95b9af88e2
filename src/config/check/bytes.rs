//! `unit = "bytes"`: the limits that count bytes of answers, and what does not go with them.
//!
//! Such a limit is no [`Limit`] of the policy: it takes no token, and refuses nothing. Its place among the limits stays empty.

use tollgate_grammar::byte_rate::ByteRate;
use tollgate_grammar::kind::Checked as _;
use tollgate_grammar::list::distinct;
use tollgate_grammar::{Findings, Located, RawNamed, Spot, Syntax as _, name as names};

use super::super::candidate;
use super::super::ladder;
use super::super::raw::{RawLimit, RawStore};
use super::super::values::LimitKey;
use super::context::CheckContext;
use super::store::DEFAULT_CAPACITY;
use crate::bucket::{Continuous, Spec};
use crate::defences::prefixes::prefixes;
use crate::defences::{AnswerLimit, MAX_BYTE_LIMITS, limit_answers};
use crate::policy::key::KeyPart;
use crate::policy::{Limit, Mode};
use crate::time::Span;

/// Whether the limit counts bytes.
pub(super) fn is_given(raw: &RawLimit) -> bool {
    raw.unit.as_ref().is_some_and(|unit| unit.value == "bytes")
}

/// The limits that count bytes, in the order of the file; `None` for others, and for those that cannot be built.
pub(super) fn check(cx: &mut CheckContext<'_>, f: &mut Findings) -> Vec<Option<AnswerLimit>> {
    let (raw, mut count) = (cx.raw, 0);
    let mut limit = |named: &RawNamed<RawLimit>, f: &mut Findings| {
        if !is_given(&named.value) {
            warn_of_direction(&named.value, f);
            return None;
        }
        count += 1;
        if count == MAX_BYTE_LIMITS + 1 {
            let message = format!("more than {MAX_BYTE_LIMITS} limits count bytes");
            f.error(&named.name.spot, message, "one limit with a longer `key`, as in key = \"host+ip\"");
        }
        check_limit(named, cx, f)
    };
    raw.limits.iter().map(|named| limit(named, f)).collect()
}

/// Gives each route the limits that hold back its answers. Limits have to be bound to routes by now.
pub(super) fn hold_back(cx: &mut CheckContext<'_>) {
    if cx.byte_limits.iter().any(Option::is_some) {
        for route in cx.routes.iter_mut().flatten() {
            let here = std::mem::take(&mut route.limits);
            limit_answers(route, &cx.byte_limits, &here);
            route.limits = here;
        }
    }
}

fn check_limit(
    RawNamed { name, value: raw }: &RawNamed<RawLimit>,
    cx: &mut CheckContext<'_>,
    f: &mut Findings,
) -> Option<AnswerLimit> {
    let unit = &raw.unit.as_ref()?.spot;
    if candidate::live_name(&name.value).is_some() {
        f.error(&name.spot, "a limit of bytes has no candidate", "another limit with mode = \"observe\"");
    } else if !ladder::is_rung(&name.value) {
        names::check(name, f);
    }
    if !cx.forwards() {
        let hint = "leave it to the proxy that forwards; or `listen` as well";
        f.error(unit, "no endpoint sees the bytes of answers", hint);
    }
    let _ = raw.bytes.direction.checked(f);
    refuse_other_keys(raw, f);
    warn_of_store(&cx.raw.store, unit, &name.value, f);
    let key = raw.key.as_ref().map_or(Some(LimitKey(vec![KeyPart::Ip])), |key| key.checked(f));
    let rate = rate(raw, name, f);
    let mode = mode(raw, cx.observes, f);
    let prefixes = prefixes(&raw.ipv4, &raw.ipv6, cx.client.prefixes, f);
    let exempt = distinct(raw.exempt.as_deref(), f).into_iter();
    let exempt = exempt.flat_map(|entry| cx.networks.resolve_for(entry, "exempt", f)).collect();
    let capacity = cx.raw.store.capacity.as_ref().and_then(|count| usize::try_from(count.value).ok());
    let LimitKey(key) = key?;
    if let Some(text) = raw.key.as_ref().filter(|_| !key.iter().all(AnswerLimit::has_key)) {
        f.error(&text.spot, format!("`{}` is no key for bytes", text.value), "as in key = \"user\"");
    }
    // Nothing takes a token of it.
    let spec = Continuous::new(1, Span::from_secs(1), 1).ok().map(Spec::Continuous)?;
    let limit = Limit { key, prefixes, exempt, mode, ..Limit::new(&name.value, spec) };
    Some(AnswerLimit::new(limit, rate?, capacity.unwrap_or(DEFAULT_CAPACITY)))
}

fn rate(raw: &RawLimit, name: &Located<String>, f: &mut Findings) -> Option<ByteRate> {
    let Some(text) = raw.rate.value.as_ref() else {
        if raw.rate.key.is_none() {
            f.error(&name.spot, format!("limit `{}` has no `rate`", name.value), EXAMPLE);
        }
        return None;
    };
    let rate = ByteRate::read(text, f)?;
    if AnswerLimit::is_too_slow(rate) {
        f.error(&text.spot, "slower than 100 bytes a second, clients give up", EXAMPLE);
    } else if let Some(least) = AnswerLimit::least_burst(rate) {
        let message = "the burst is too small to reach the rate on a busy machine";
        f.warning(&text.spot, message, format!("a burst of {least} or more"));
    }
    Some(rate)
}

fn mode(raw: &RawLimit, observes: bool, f: &mut Findings) -> Mode {
    let mode = raw.mode.checked(f).unwrap_or(Mode::Enforce);
    if let Some(text) = raw.mode.as_ref().filter(|_| mode == Mode::Mark) {
        let hint = "\"enforce\", \"observe\" or \"off\"";
        f.error(&text.spot, "a limit of bytes refuses nothing that an application could be told", hint);
    }
    if observes && mode != Mode::Off { Mode::Observe } else { mode }
}

fn warn_of_direction(raw: &RawLimit, f: &mut Findings) {
    if let (Some(text), Some(_)) = (&raw.bytes.direction, raw.bytes.direction.checked(f)) {
        let message = "`direction` means nothing without unit = \"bytes\"";
        f.warning(&text.spot, message, "add it, or leave `direction` out");
    }
}

/// Keys about attempts.
fn refuse_other_keys(raw: &RawLimit, f: &mut Findings) {
    let keys: [(&str, Option<&Spot>); 14] = [
        ("count", raw.count.as_ref().map(|text| &text.spot)),
        ("rates", raw.rates.first().map(|rate| &rate.name.spot)),
        ("rolling", raw.rolling.key.as_ref()),
        ("every", raw.every.as_ref().map(|text| &text.spot)),
        ("refill", raw.refill.as_ref().map(|text| &text.spot)),
        ("anchor", raw.anchor.as_ref().map(|text| &text.spot)),
        ("floor", raw.floor.as_ref().map(|text| &text.spot)),
        ("wait", raw.wait.as_ref().map(|text| &text.spot)),
        ("initial", raw.initial.as_ref().map(|number| &number.spot)),
        ("debt", raw.debt.as_ref().map(|number| &number.spot)),
        ("reset", raw.reset.as_ref().map(|text| &text.spot)),
        ("on_error", raw.on_error.as_ref().map(|text| &text.spot)),
        ("max_failures", raw.max_failures.as_ref().map(|number| &number.spot)),
        ("candidate", raw.candidate.as_ref().map(|table| &table.spot)),
    ];
    for (key, spot) in keys.into_iter().chain([raw.bounds.place()]).chain(raw.sub_limits.places()) {
        if let Some(spot) = spot {
            let hint = "leave it out: it is about attempts, and needs another limit";
            f.error(spot, format!("`{key}` does not go with unit = \"bytes\""), hint);
        }
    }
}

/// Warns of a store that the buckets are not in.
fn warn_of_store(store: &RawStore, unit: &Spot, name: &str, f: &mut Findings) {
    let is_memory = store.url.as_ref().is_none_or(|url| url.value.0 == "memory:");
    if !is_memory {
        let message = format!("each gate counts the bytes of `{name}` by itself, not in the store");
        f.warning(unit, message, "divide the rate by the number of gates");
    }
}

const EXAMPLE: &str = "as in rate = \"10MB/s burst 50MB\"";
