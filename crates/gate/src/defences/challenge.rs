//! `challenge`: a browser that an address limit refuses may earn one attempt by a proof of work.
//!
//! `proof` defines challenges and proofs. Here are the keys, how much work a challenge asks for, which limits a proof lifts,
//! and the part of the page: a button, and the only script of the gate. The script works within the page: it loads no
//! other file, and needs no worker, cookie or storage. Browsers without scripts do not show this part.

mod proof;

use tollgate_grammar::kind::{Checked as _, Key, Text, Word};
use tollgate_grammar::rate::{RateValue, built};
use tollgate_grammar::{Findings, Spot, tables, words};

use self::proof::{Challenge, LIFETIME, WorkProof};
use crate::bucket::{Continuous, Key as BucketKey, Spec, SpecError};
use crate::policy::key::{KeyHasher, KeyPart};
use crate::policy::{
    DefenceCounter, GivenSoFar, Limit, LimitKind, Mode, OfferForm, OfferRecipient, Pardon, Policy, Unit,
};
use crate::time::{Span, Time};

tables! {
    /// What proofs of work may earn.
    pub RawChallenge {
        challenge: Key<Word<Challenges>>,
        challenge_rate: Key<Text<RateValue>>,
    }
}

words! {
    /// What a challenge asks for.
    pub Challenges: bool { "off" => false, "work" => true, }
}

/// What proofs of work may earn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChallengeRule {
    rate: Spec,
    once: Spec,
}

/// The rule, if anything may be earned. `pages` are those without a place for the challenge.
pub(super) fn check<'p>(
    raw: &RawChallenge,
    policy: &Policy,
    pages: impl Iterator<Item = &'p Spot>,
    f: &mut Findings,
) -> Option<ChallengeRule> {
    let rate = raw.challenge_rate.checked(f);
    let is_on = raw.challenge.checked(f) == Some(true);
    let Some(word) = raw.challenge.as_ref().filter(|_| is_on) else {
        if let Some(rate) = raw.challenge_rate.as_ref().filter(|_| raw.challenge.is_none()) {
            let message = "`challenge_rate` means nothing without challenge = \"work\"";
            f.warning(&rate.spot, message.to_owned(), "");
        }
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
    built(ChallengeRule::new(rate), spot, f)
}

impl ChallengeRule {
    /// A rule by which this rate may be earned.
    ///
    /// # Errors
    /// [`SpecError`] never happens with a valid rate.
    pub(super) fn new(rate: Continuous) -> Result<Self, SpecError> {
        let once = Continuous::new(1, Span::from_secs(2 * 60 * LIFETIME), 1)?;
        Ok(Self { rate: Spec::Continuous(rate), once: Spec::Continuous(once) })
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

    fn offer(&self, hasher: &KeyHasher, to: &OfferRecipient<'_>, so_far: GivenSoFar, now: Time) -> String {
        Challenge::new(hasher, to, zero_bits(so_far), now).to_string()
    }

    fn redeem(
        &self,
        hasher: &KeyHasher,
        of: &OfferRecipient<'_>,
        voucher: &str,
        now: Time,
    ) -> Option<BucketKey> {
        WorkProof::parse(voucher).ok()?.verify(hasher, of, now).ok()
    }

    fn describe(&self) -> &'static str {
        "proofs of work earn more"
    }

    fn exception(&self) -> &'static str {
        "attempts that are earned by proofs of work aside"
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
fn zero_bits(GivenSoFar { tokens, load }: GivenSoFar) -> u32 {
    let of_load =
        load.checked_div(BUSY).and_then(u32::checked_ilog2).map_or(0, |doublings| 1 + doublings / 2);
    BASE_BITS.saturating_add(tokens).saturating_add(of_load).min(MAX_BITS)
}

/// The part of the page. Its script writes the parameter, too.
pub(super) const FORM: OfferForm = OfferForm {
    placeholder: "challenge",
    html: include_str!("../../assets/challenge.html"),
    script: include_str!("../../assets/challenge.js"),
    parameter: "tollgate-proof=",
};

pub(super) const COUNTER: DefenceCounter =
    DefenceCounter { name: "tollgate_challenges", help: "Challenges by result" };

/// Half a million hashes on average: about two seconds of a phone, half a second of a desktop computer.
const BASE_BITS: u32 = 19;
/// Eight million hashes on average: half a minute of a phone, which a challenge outlives.
const MAX_BITS: u32 = 23;
/// Refusals each second from which the work grows.
const BUSY: u32 = 64;
/// One more attempt each twelve minutes: 125 guesses a day at most from one address.
const DEFAULT_RATE: RateValue = RateValue { count: 5, period: Span::from_secs(3600), burst: 5 };
const NO_LIMIT: &str = "a proof lifts limits that enforce, count attempts by `ip` without `debt`, and apply to a route \
                        without `when`";

#[cfg(test)]
mod tests;
