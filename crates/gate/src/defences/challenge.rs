//! `challenge`: a browser that an address limit refuses may earn one attempt by a proof of work, or without scripts by a pause.
//!
//! `proof` defines challenges and proofs, `pause` tickets. Here are the keys, how much work and time a challenge asks for, which
//! limits it lifts, and the part of the page: a button, and the only script of the gate. The script works within the page: it loads
//! no other file, and needs no worker, cookie or storage. Browsers without scripts show the button of the pause.

mod pause;
mod proof;

use http::HeaderName;

use tollgate_grammar::kind::{Checked as _, Key, Text, Word};
use tollgate_grammar::rate::{RateValue, built};
use tollgate_grammar::{Findings, Spot, tables, words};

use self::pause::PauseTicket;
use self::proof::{Challenge, LIFETIME, WorkProof};
use crate::bucket::{Continuous, Key as BucketKey, Spec, SpecError};
use crate::policy::key::{KeyHasher, KeyPart};
use crate::policy::{
    DefenceCounter, GivenSoFar, Limit, LimitKind, Mode, Offer, OfferForm, OfferRecipient, OfferedPause,
    Pardon, Policy, Unit,
};
use crate::time::{Span, Time};

tables! {
    /// What challenges may earn.
    pub RawChallenge {
        challenge: Key<Word<Challenges>>,
        challenge_pause: Key<Word<Pauses>>,
        challenge_rate: Key<Text<RateValue>>,
    }
}

words! {
    /// What a challenge asks for.
    pub Challenges: bool { "off" => false, "work" => true, }
}

words! {
    /// Whether browsers without scripts may pause instead.
    pub Pauses: bool { "on" => true, "off" => false, }
}

/// What challenges may earn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChallengeRule {
    rate: Spec,
    once: Spec,
    /// Whether tickets are offered and count.
    pauses: bool,
}

/// The rule, if anything may be earned. `pages` are those without a place for the challenge.
pub(super) fn check<'p>(
    raw: &RawChallenge,
    policy: &Policy,
    pages: impl Iterator<Item = &'p Spot>,
    f: &mut Findings,
) -> Option<ChallengeRule> {
    let (rate, pauses) = (raw.challenge_rate.checked(f), raw.challenge_pause.checked(f));
    let is_on = raw.challenge.checked(f) == Some(true);
    let Some(word) = raw.challenge.as_ref().filter(|_| is_on) else {
        warn_of_unused(raw, f);
        return None;
    };
    let is_lifted = |limit: &usize| policy.limits.get(*limit).is_some_and(lifts);
    let mut chosen_by_path = policy.routes.iter().filter(|route| !route.is_conditional());
    if !chosen_by_path.any(|route| route.limits.iter().any(is_lifted)) {
        f.warning(&word.spot, "no attempt can be earned: no limit is lifted by one".to_owned(), NO_LIMIT);
    }
    for page in pages {
        let message = "the page does not offer the challenge".to_owned();
        f.warning(page, message, "write {{challenge}} where its button belongs");
    }
    let spot = raw.challenge_rate.as_ref().map_or(&word.spot, |text| &text.spot);
    let rate = rate.unwrap_or(DEFAULT_RATE);
    let rate = built(Continuous::new(rate.count, rate.period, rate.burst), spot, f)?;
    built(ChallengeRule::new(rate, pauses.unwrap_or(true)), spot, f)
}

/// Warns of keys that say more about challenges where the file has none.
fn warn_of_unused(raw: &RawChallenge, f: &mut Findings) {
    let pause = raw.challenge_pause.as_ref().map(|word| ("challenge_pause", &word.spot));
    let rate = raw.challenge_rate.as_ref().map(|text| ("challenge_rate", &text.spot));
    for (key, spot) in [pause, rate].into_iter().flatten().filter(|_| raw.challenge.is_none()) {
        f.warning(spot, format!("`{key}` means nothing without challenge = \"work\""), "");
    }
}

impl ChallengeRule {
    /// A rule by which this rate may be earned, also by pauses or not.
    ///
    /// # Errors
    /// [`SpecError`] never happens with a valid rate.
    pub(super) fn new(rate: Continuous, pauses: bool) -> Result<Self, SpecError> {
        let once = Continuous::new(1, Span::from_secs(ONCE), 1)?;
        Ok(Self { rate: Spec::Continuous(rate), once: Spec::Continuous(once), pauses })
    }
}

impl Pardon for ChallengeRule {
    fn name(&self) -> &'static str {
        "refuse.challenge"
    }

    fn rate(&self) -> Spec {
        self.rate
    }

    fn once(&self) -> Spec {
        self.once
    }

    fn lifts(&self, limit: &Limit) -> bool {
        lifts(limit)
    }

    fn demand(&self) -> Option<HeaderName> {
        Some(HeaderName::from_static(HEADER))
    }

    fn offer(
        &self,
        hasher: &KeyHasher,
        to: &OfferRecipient<'_>,
        so_far: &GivenSoFar<'_>,
        now: Time,
    ) -> Offer {
        let task = Challenge::new(hasher, to, zero_bits(so_far), now).to_string();
        let pause = self.pauses.then(|| offered_pause(hasher, to, so_far, now)).flatten();
        Offer { task, pause }
    }

    fn redeem(
        &self,
        hasher: &KeyHasher,
        of: &OfferRecipient<'_>,
        voucher: &str,
        now: Time,
    ) -> Option<BucketKey> {
        match PauseTicket::of(hasher, of, voucher) {
            Ok(ticket) => self.pauses.then(|| ticket.redeem(hasher, of, now).ok()).flatten(),
            Err(_) => WorkProof::parse(voucher).ok()?.verify(hasher, of, now).ok(),
        }
    }

    fn pause_voucher(&self, hasher: &KeyHasher, of: &OfferRecipient<'_>) -> Option<BucketKey> {
        self.pauses.then(|| PauseTicket::voucher(hasher, of)).flatten()
    }

    fn describe(&self) -> &'static str {
        "challenges earn more"
    }

    fn exception(&self) -> &'static str {
        "attempts that are earned by challenges aside"
    }
}

/// Whether an earned token lifts this limit: one of addresses that counts attempts. Debts are paid, and accounts are not
/// for sale.
fn lifts(limit: &Limit) -> bool {
    let is_of_address = limit.key.contains(&KeyPart::Ip)
        && limit.key.iter().all(|part| matches!(part, KeyPart::Ip | KeyPart::Host));
    let is_plain = limit.kind == LimitKind::Rate && limit.unit == Unit::Attempts && !limit.spec.has_debt();
    is_of_address && is_plain && limit.mode == Mode::Enforce
}

/// Each earned attempt doubles the work for the next one, and so does each fourfold of the load.
fn zero_bits(so_far: &GivenSoFar<'_>) -> u32 {
    BASE_BITS.saturating_add(so_far.tokens).saturating_add(doublings(so_far.load)).min(MAX_BITS)
}

/// By a load: one, and one more for each fourfold.
fn doublings(load: u32) -> u32 {
    load.checked_div(BUSY).and_then(u32::checked_ilog2).map_or(0, |doublings| 1 + doublings / 2)
}

/// A ticket, unless the refusal is over before; the same one as before for a client that came too early, unless another one was
/// used meanwhile.
fn offered_pause(
    hasher: &KeyHasher,
    to: &OfferRecipient<'_>,
    so_far: &GivenSoFar<'_>,
    now: Time,
) -> Option<OfferedPause> {
    let presented = so_far.voucher.and_then(|voucher| PauseTicket::of(hasher, to, voucher).ok());
    let early = presented.and_then(|ticket| Some((ticket, ticket.left(now)?)));
    let early = early.filter(|(_, left)| *left >= so_far.used_for);
    let (ticket, left) = match early {
        Some(early) => early,
        None => {
            let ticket = PauseTicket::new(hasher, to, pause(so_far), now);
            (ticket, ticket.left(now)?)
        }
    };
    (left < so_far.wait?).then(|| OfferedPause { ticket: ticket.to_string(), left })
}

/// Nobody pauses in vain: after a pause that was used, the next one is over when its voucher counts again.
fn pause(GivenSoFar { used_for, load, .. }: &GivenSoFar<'_>) -> Span {
    let seconds = BASE_PAUSE << doublings(*load).min(MAX_BITS - BASE_BITS);
    let used = used_for.as_secs_ceil();
    Span::from_secs(if used == 0 { seconds } else { seconds.max(used.saturating_add(CLOCKS_DIFFER)) })
}

/// The part of the page. Its script writes the parameter, too.
pub(super) const FORM: OfferForm = OfferForm {
    placeholder: "challenge",
    html: include_str!("../../assets/challenge.html"),
    pause: include_str!("../../assets/pause.html"),
    script: include_str!("../../assets/challenge.js"),
    parameter: "tollgate-proof=",
};

pub(super) const COUNTER: DefenceCounter =
    DefenceCounter { name: "tollgate_challenges", help: "Challenges by result" };

/// In an answer of the application, with the value 1: the client has to earn its next attempt.
pub(super) const HEADER: &str = "x-tollgate-challenge";

/// Half a million hashes on average: about two seconds of a phone, half a second of a desktop computer.
const BASE_BITS: u32 = 19;
/// Eight million hashes on average: half a minute of a phone, which a challenge outlives.
const MAX_BITS: u32 = 23;
/// Seconds of the shortest pause, in which a core could find sixty proofs. An attacker with many addresses pauses at all of them at
/// once, so that a pause also counts once in [`ONCE`] for each, however many tickets it requests.
const BASE_PAUSE: u64 = 30;
/// Seconds of a next pause after its voucher counts again: for gates whose clocks differ.
const CLOCKS_DIFFER: u64 = 60;
/// Seconds for which a voucher is remembered.
const ONCE: u64 = 2 * 60 * LIFETIME;
/// Refusals each second from which work and pause grow.
const BUSY: u32 = 64;
/// One more attempt each twelve minutes: 125 guesses a day at most from one address.
const DEFAULT_RATE: RateValue = RateValue { count: 5, period: Span::from_secs(3600), burst: 5 };
const NO_LIMIT: &str = "a proof lifts limits that enforce, count attempts by `ip` without `debt`, and apply to a route \
                        without `when`";

#[cfg(test)]
mod tests;
