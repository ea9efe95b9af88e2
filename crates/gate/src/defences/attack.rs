//! `[route.NAME.attack]`, attack mode: while very many attempts fail, those of strangers cost more.
//!
//! The table turns it on; each of its keys has a default. Where it could do nothing, it warns. The [`detector`] judges when
//! the mode begins and ends by [what came of attempts](distinct_outcomes), and by `worst` strangers from
//! [networks](network_outcomes) of which hardly any attempt succeeds pay most. All of that is in the memory of this process.

mod detector;
mod distinct_outcomes;
mod network_outcomes;

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::Uri;
use http::uri::Scheme;
use tollgate_grammar::duration::{DAY, SECOND};
use tollgate_grammar::kind::{Fraction, Free, Given, Key, Lasting, Text};
use tollgate_grammar::rate::RateValue;
use tollgate_grammar::{Findings, Located, RawNamed, Spot, tables};

pub(super) use self::network_outcomes::NetworkOutcomes;

use self::detector::AttackDetector;
use self::distinct_outcomes::DistinctOutcomes;
use self::network_outcomes::NetworkRecord;
use super::{DefenceCheck, DefendedRoute, OWNERS};
use crate::policy::key::PrefixLengths;
use crate::policy::{
    Alarm, AlarmFigures, AlarmWords, AttemptNote, Defence, Needs, ReadAttempt, SettledAttempt,
};
use crate::time::{Span, Time};

tables! {
    pub RawAttack {
        attack: Option<RawNamed<RawAttackRule>> = Common,
    }

    /// Attack mode.
    pub RawAttackRule {
        failures: Key<Text<RateValue>>,
        share: Key<Fraction<10>>,
        scale: Key<Fraction<1>>,
        worst: Key<Fraction<1>> = Example,
        calm: Key<Lasting<SECOND, DAY>>,
        webhook: Key<Free> = Example,
    }
}

/// Attack mode of a route.
#[derive(Debug)]
struct Attack {
    rule: AttackRule,
    state: Arc<AttackState>,
    networks: Arc<NetworkOutcomes>,
}

#[derive(Debug, Clone, PartialEq)]
struct AttackRule {
    /// Failures a minute, at least 1: at this number or more the route may be under attack.
    failures: u64,
    /// Failed share of the attempts, above 0 and at most 1: the route is under attack if it reaches both.
    share: f64,
    /// How many times its cost an attempt of a stranger takes, at least 1.
    cost_factor: u32,
    /// The same for a network of which hardly any attempt succeeds, above `cost_factor`; `None` if networks make no
    /// difference.
    worst_factor: Option<u32>,
    /// The time below the thresholds that ends it.
    calm: Span,
    webhook: Option<Uri>,
}

/// What a route knows, over reloads.
#[derive(Debug, Default)]
struct AttackState {
    is_on: AtomicBool,
    outcomes: DistinctOutcomes,
    detector: Mutex<AttackDetector>,
}

/// Gives a route attack mode.
pub(super) fn check(raw: &RawAttack, check: &DefenceCheck<'_>, to: &mut DefendedRoute<'_>, f: &mut Findings) {
    let Some(table) = raw.attack.as_ref().filter(|_| to.route.is_some()) else { return };
    let rule = rule(&table.value, check, f);
    warn_of_no_effect(&table.name.spot, to, f);
    if let (Some(route), Some(rule)) = (to.route.as_deref_mut(), rule) {
        let networks = Arc::clone(&check.networks);
        route.defences.add(Attack { rule, state: Arc::default(), networks });
    }
}

fn rule(raw: &RawAttackRule, check: &DefenceCheck<'_>, f: &mut Findings) -> Option<AttackRule> {
    let failures = raw.failures.as_ref().map_or(Some(FAILURES), |text| per_minute(text, f));
    let share = raw.share.as_ref().map_or(Some(SHARE), |share| share.checked(f));
    let scale = raw.scale.as_ref().map_or(Some(SCALE), |scale| scale.checked(f));
    let calm = raw.calm.as_ref().map_or(Some(CALM), |calm| calm.checked(f));
    let webhook = raw.webhook.as_ref().filter(|text| !text.value.is_empty());
    let webhook = webhook.map(|text| webhook_of(text, check, f));
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

fn webhook_of(text: &Located<String>, check: &DefenceCheck<'_>, f: &mut Findings) -> Option<Uri> {
    let url: Option<Uri> = text.value.parse().ok();
    let url = url.filter(|url| {
        let is_http = [Some(&Scheme::HTTP), Some(&Scheme::HTTPS)].contains(&url.scheme());
        let has_host =
            url.authority().is_some_and(|host| !host.host().is_empty() && !host.as_str().contains('@'));
        is_http && has_host
    });
    if let (Some((missing, hint)), Some("https")) =
        (&check.shared.missing_tls, url.as_ref().and_then(Uri::scheme_str))
    {
        f.error(&text.spot, missing, *hint);
    }
    if url.is_none() {
        f.error(
            &text.spot,
            "this is not the address of a web server",
            "as in https://alerts.example.org/tollgate",
        );
    }
    url
}

fn warn_of_no_effect(spot: &Spot, to: &DefendedRoute<'_>, f: &mut Findings) {
    let Some(route) = &to.route else { return };
    if !to.knows_failures {
        let message =
            format!("attack mode never begins: route `{}` does not define what a failure is", route.name);
        f.warning(
            spot,
            message,
            "add failure = [{ status = 401 }], or success = [{ location = \"/home*\" }]",
        );
    }
    if !to.refuses_strangers {
        let message =
            format!("attack mode changes nothing: no limit of route `{}` refuses strangers", route.name);
        let hint = format!("a limit whose `key` has no \"{}\", with mode = \"enforce\"", OWNERS.key);
        f.warning(spot, message, hint);
    }
}

impl Defence for Attack {
    fn name(&self) -> &'static str {
        WORDS.event
    }

    fn describe(&self) -> Option<String> {
        let worst = self.rule.worst_factor.map_or_else(String::new, |worst| {
            format!(", up to {worst} times for all strangers from networks whose attempts fail")
        });
        Some(format!(
            "in attack mode an attempt of a stranger costs {} times as much{worst}",
            self.rule.cost_factor
        ))
    }

    fn settings(&self) -> String {
        format!("{:?}", self.rule)
    }

    fn needs(&self) -> Needs {
        Needs { accounts_if_legible: true, ..Needs::default() }
    }

    /// The client, and its network if that matters.
    fn note(&self, attempt: &ReadAttempt<'_>) -> Option<AttemptNote> {
        let network = self.rule.worst_factor.and_then(|_| attempt.network());
        Some(AttemptNote(attempt.any_client(PrefixLengths::default()), network.unwrap_or(NO_NETWORK)))
    }

    fn strangers_factor(&self, AttemptNote(_, network): AttemptNote, now: Time) -> Option<u32> {
        let seen = || match network {
            NO_NETWORK => NetworkRecord::default(),
            network => self.networks.get(network, now),
        };
        self.is_on().then(|| self.rule.factor(seen()))
    }

    fn settled(&self, AttemptNote(client, network): AttemptNote, attempt: SettledAttempt) {
        let SettledAttempt { account, outcome, at, is_told } = attempt;
        self.state.outcomes.count(account, client, outcome, at);
        if network != NO_NETWORK && !is_told {
            self.networks.count(network, outcome, at);
        }
    }

    fn alarm(&self) -> Option<&dyn Alarm> {
        Some(self)
    }

    fn carry_over(&mut self, former: &dyn Defence) {
        if let Some(former) = (former as &dyn Any).downcast_ref::<Self>() {
            self.state = Arc::clone(&former.state);
        }
    }

    fn share(&mut self, former: &dyn Defence) {
        if let Some(former) = (former as &dyn Any).downcast_ref::<Self>() {
            self.networks = Arc::clone(&former.networks);
        }
    }
}

impl Alarm for Attack {
    fn words(&self) -> &'static AlarmWords {
        &WORDS
    }

    fn is_on(&self) -> bool {
        self.state.is_on.load(Ordering::Relaxed)
    }

    fn watch(&self, now: Time) -> Option<AlarmFigures> {
        let mut detector = self.state.detector.lock().unwrap_or_else(PoisonError::into_inner);
        let measured = detector.measure(self.state.outcomes.so_far(), now);
        let is_on = detector.judge(measured, &self.rule, now);
        let was_on = self.state.is_on.swap(is_on, Ordering::Relaxed);
        (is_on != was_on).then(|| measured.figures())
    }

    fn report_to(&self) -> Option<&Uri> {
        self.rule.webhook.as_ref()
    }
}

impl AttackRule {
    /// The factor for a `scale` above 0: 1 / scale, rounded up, so that strangers get at most that share of the rate.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    fn cost_factor_of(scale: f64) -> u32 {
        // Without the tiny part, 1 / 0.1 or its like could be rounded up by an error of the division alone.
        ((1.0 / scale - 1e-9).ceil() as u32).max(1)
    }

    /// The factor for a stranger from a network with these outcomes: people succeed in more than half of their attempts, and
    /// who tries stolen passwords in less than one of fifty. Between the two it grows evenly.
    fn factor(&self, seen: NetworkRecord) -> u32 {
        let attempts = seen.successes.saturating_add(seen.failures);
        let Some(worst) = self.worst_factor.filter(|_| attempts >= MIN_ATTEMPTS) else {
            return self.cost_factor;
        };
        let share = u64::from(seen.successes) * 1000 / u64::from(attempts);
        let missing = OF_PEOPLE - share.clamp(OF_STUFFING, OF_PEOPLE);
        let more = u64::from(worst.saturating_sub(self.cost_factor)) * missing / (OF_PEOPLE - OF_STUFFING);
        self.cost_factor.saturating_add(u32::try_from(more).unwrap_or(u32::MAX))
    }

    /// The highest factor.
    fn highest_factor(&self) -> u32 {
        self.worst_factor.unwrap_or(self.cost_factor)
    }
}

const WORDS: AlarmWords = AlarmWords {
    event: "attack",
    gauge: "tollgate_attack_mode",
    help: "Whether a route is in attack mode",
    begins: "attack mode begins: strangers' attempts cost more",
    ends: "attack mode ends: all attempts cost the same again",
};
const FAILURES: u64 = 60;
const SHARE: f64 = 0.8;
const SCALE: f64 = 0.3;
const CALM: Span = Span::from_secs(600);
const MINUTE: Span = Span::from_secs(60);
/// In a note, for an attempt whose network makes no difference.
const NO_NETWORK: u64 = 0;
/// The share of a network counts from this number of attempts on.
const MIN_ATTEMPTS: u32 = 20;
/// How many of a thousand attempts succeed.
const OF_PEOPLE: u64 = 500;
const OF_STUFFING: u64 = 20;

#[cfg(test)]
mod tests;
