//! `[route.NAME.attack]`: when a route is under attack, and where that is reported.
//!
//! The table turns attack mode on; each of its keys has a default. Where it could do nothing, it warns.

use http::Uri;
use http::uri::Scheme;
use tollgate_grammar::kind::{Given, Text};
use tollgate_grammar::{Findings, Located, RawNamed, Spot};

use super::super::features;
use super::super::raw;
use super::super::values::RateValue;
use super::context::CheckContext;
use crate::policy::{AttackRule, Limit, Mode};
use crate::time::Span;

/// Gives each route its rule. Limits have to be bound to routes by now.
pub(super) fn check(cx: &mut CheckContext<'_>, f: &mut Findings) {
    for (RawNamed { name, value: raw }, route) in cx.raw.routes.iter().zip(&mut cx.routes) {
        let (Some(attack), Some(route)) = (&raw.attack, route) else { continue };
        route.attack = rule(attack, f).map(Box::new);
        warn_of_silent_route(&name.value, raw, &attack.name.spot, f);
        let applies = |limit: &Limit| limit.mode == Mode::Enforce && AttackRule::applies_to(limit);
        let of_route = route.limits.iter().filter_map(|&at| cx.limits.get(at)?.as_ref());
        if !of_route.into_iter().any(applies) {
            let message =
                format!("attack mode changes nothing: no limit of route `{}` refuses strangers", name.value);
            f.warning(
                &attack.name.spot,
                message,
                "a limit whose `key` has no \"device\", with mode = \"enforce\"",
            );
        }
    }
}

fn rule(RawNamed { value: raw, .. }: &RawNamed<raw::RawAttack>, f: &mut Findings) -> Option<AttackRule> {
    let failures = raw.failures.as_ref().map_or(Some(FAILURES), |text| per_minute(text, f));
    let share = raw.share.as_ref().map_or(Some(SHARE), |share| share.checked(f));
    let scale = raw.scale.as_ref().map_or(Some(SCALE), |scale| scale.checked(f));
    let calm = raw.calm.as_ref().map_or(Some(CALM), |calm| calm.checked(f));
    let webhook = raw.webhook.as_ref().filter(|text| !text.value.is_empty()).map(|text| webhook(text, f));
    let cost_factor = AttackRule::cost_factor_of(scale?);
    let worst_factor = match &raw.worst {
        Some(worst) => Some(AttackRule::cost_factor_of(worst.checked(f)?)),
        None => None,
    };
    if let Some(worst) = raw.worst.as_ref().filter(|_| worst_factor <= Some(cost_factor)) {
        f.warning(&worst.spot, "`worst` changes nothing: it is not below `scale`", "as in worst = 0.1");
    }
    if cost_factor == 1
        && let Some(scale) = &raw.scale
    {
        f.warning(
            &scale.spot,
            "attack mode changes nothing: strangers keep their rates",
            "as in scale = 0.3",
        );
    }
    Some(AttackRule {
        failures: failures?,
        share: share?,
        cost_factor,
        worst_factor: worst_factor.filter(|worst| *worst > cost_factor),
        calm: calm?,
        webhook: webhook.flatten(),
    })
}

/// A rate by the minute without a burst.
fn per_minute(text: &Given<Text<RateValue>>, f: &mut Findings) -> Option<u64> {
    let rate = text.checked(f)?;
    if rate.period == MINUTE && rate.burst == rate.count {
        return Some(rate.count.into());
    }
    f.error(&text.spot, "failures are counted by the minute", "as in failures = \"60/min\"");
    None
}

fn webhook(text: &Located<String>, f: &mut Findings) -> Option<Uri> {
    let url: Option<Uri> = text.value.parse().ok();
    let url = url.filter(|url| {
        let is_http = [Some(&Scheme::HTTP), Some(&Scheme::HTTPS)].contains(&url.scheme());
        let has_host =
            url.authority().is_some_and(|host| !host.host().is_empty() && !host.as_str().contains('@'));
        is_http && has_host
    });
    if let (Some(missing), Some("https")) = (features::TLS.missing(), url.as_ref().and_then(Uri::scheme_str))
    {
        f.error(&text.spot, missing, features::HINT);
    }
    if url.is_none() {
        f.error(
            &text.spot,
            "this is no address of a web server",
            "as in https://alerts.example.org/tollgate",
        );
    }
    url
}

fn warn_of_silent_route(name: &str, raw: &raw::RawRoute, spot: &Spot, f: &mut Findings) {
    let has_rules = !(raw.success.is_empty() && raw.failure.is_empty()) || raw.otherwise.is_some();
    if !has_rules && raw.preset.is_none() {
        let message = format!("attack mode never begins: route `{name}` does not say what a failure is");
        f.warning(
            spot,
            message,
            "add failure = [{ status = 401 }], or success = [{ location = \"/home*\" }]",
        );
    }
}

const FAILURES: u64 = 60;
const SHARE: f64 = 0.8;
const SCALE: f64 = 0.3;
const CALM: Span = Span::from_secs(600);
const MINUTE: Span = Span::from_secs(60);
