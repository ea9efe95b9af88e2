//! When the certificate of one name is ordered: a function of the time, of the certificate and of what failed.
//!
//! Authorities bound failures of a name to about five an hour. So five tries take forty minutes, the sixth comes after two
//! hours, and later ones four times a day.

use crate::time::{Span, Time};

/// How long a certificate is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) begins: Time,
    pub(super) expires: Time,
}

/// When the authority wants a certificate to be renewed (RFC 9773).
#[derive(Debug, Clone, Copy)]
pub(super) struct Suggestion {
    /// A time within the suggested window.
    pub(super) renew_at: Time,
    /// When to ask the authority again.
    pub(super) ask_again: Span,
}

/// The next try for one name.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    in_use: Option<Validity>,
    /// The validity of the newest certificate.
    validity: Option<Validity>,
    failures: u32,
    not_before: Time,
    suggested: Option<Time>,
    ask_at: Time,
}

impl Schedule {
    /// Takes note of the certificate in use. One that was issued counts even if it is not in use yet, until another one is.
    pub(super) fn knows(&mut self, in_use: Option<Validity>) {
        if self.in_use != in_use {
            // A suggestion was about the former one. The new one may be for a shorter time.
            *self = Self { in_use, validity: in_use, suggested: None, ask_at: Time::default(), ..*self };
        }
    }

    /// Whether this is the newest certificate, about which a suggestion may be asked for.
    pub(super) fn is_about(&self, in_use: Validity) -> bool {
        self.validity == Some(in_use)
    }

    /// When the next order is due.
    pub(super) fn next_try(&self) -> Time {
        let due = self.validity.map_or(Time::default(), |Validity { begins, expires }| {
            let whole = expires.since(begins);
            let latest = expires.before(part(whole, LATEST));
            let early = if whole < SHORT { part(whole, EARLY_OF_SHORT) } else { part(whole, EARLY) };
            self.suggested.map_or_else(|| expires.before(early), |at| at.min(latest))
        });
        due.max(self.not_before)
    }

    /// Whether it is time to ask the authority when to renew.
    pub(super) fn wants_advice(&self, now: Time) -> bool {
        self.ask_at <= now
    }

    /// Whether the authority has ever suggested a time.
    pub(super) fn is_advised(&self) -> bool {
        self.suggested.is_some()
    }

    /// Takes note of a suggestion, or of an authority that has none.
    pub(super) fn advised(&mut self, suggestion: Option<Suggestion>, now: Time) {
        self.suggested = suggestion.map(|suggestion| suggestion.renew_at).or(self.suggested);
        let ask_again = suggestion.map_or(ASK_AGAIN, |suggestion| suggestion.ask_again);
        self.ask_at = now.after(ask_again.clamp(ASK_AT_MOST, ASK_AT_LEAST));
    }

    /// An order gave a certificate. The next one is never ordered at once: an authority may suggest that by mistake, of each
    /// new one.
    pub(super) fn issued(&mut self, validity: Validity, now: Time) {
        let pause = part(validity.expires.since(validity.begins), EARLIEST).min(MAX_EARLIEST);
        let (in_use, validity, not_before) = (self.in_use, Some(validity), now.after(pause));
        *self = Self { in_use, validity, not_before, ..Self::default() };
    }

    /// An order failed. The authority may want a longer pause.
    pub(super) fn failed(&mut self, now: Time, retry_after: Option<Span>) {
        let growth = (0..self.failures).fold(FIRST_PAUSE, |pause, _| pause.times(GROWTH).min(MAX_PAUSE));
        let wanted = retry_after.unwrap_or_default().min(MAX_RETRY_AFTER);
        self.not_before = now.after(growth.max(wanted));
        self.failures = self.failures.saturating_add(1);
    }

    /// Whether it pauses, or the pause after a failure has ended less than the longest pause ago.
    pub(super) fn is_remembered(&self, now: Time) -> bool {
        now < self.not_before || self.failures > 0 && now < self.not_before.after(MAX_PAUSE)
    }

    /// Failures since the last certificate.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }
}

/// A certificate is renewed this part of its time before its end ...
const EARLY: u64 = 3;
/// ... and a short one this part, so that days are left for further tries, ...
const EARLY_OF_SHORT: u64 = 2;
const SHORT: Span = Span::from_secs(10 * 86_400);
/// ... and at the latest this part, whatever the authority suggests.
const LATEST: u64 = 6;
/// A suggestion may be followed when this part of the time has gone, or this time.
const EARLIEST: u64 = 4;
const MAX_EARLIEST: Span = Span::from_secs(3600);
const FIRST_PAUSE: Span = Span::from_secs(60);
const GROWTH: u64 = 3;
const MAX_PAUSE: Span = Span::from_secs(6 * 3600);
/// An authority may count by the week.
const MAX_RETRY_AFTER: Span = Span::from_secs(7 * 86_400);
const ASK_AGAIN: Span = Span::from_secs(6 * 3600);
const ASK_AT_MOST: Span = Span::from_secs(60);
const ASK_AT_LEAST: Span = Span::from_secs(86_400);

fn part(whole: Span, of: u64) -> Span {
    Span::from_nanos(whole.as_nanos() / of)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Span = Span::from_secs(86_400);
    const HOUR: Span = Span::from_secs(3600);

    fn at(span: Span) -> Time {
        Time::default().after(span)
    }

    fn good(begins: Span, whole: Span) -> Validity {
        Validity { begins: at(begins), expires: at(begins.plus(whole)) }
    }

    /// All tries from `from` to `to`, each of which fails.
    fn failing(schedule: &mut Schedule, from: Time, to: Time) -> Vec<Time> {
        let mut tries = Vec::new();
        loop {
            let next = schedule.next_try().max(from);
            if next > to {
                return tries;
            }
            tries.push(next);
            schedule.failed(next, None);
        }
    }

    #[test]
    fn a_name_without_a_certificate_is_ordered_at_once_and_one_with_it_by_its_own_time() {
        let mut schedule = Schedule::default();
        assert_eq!(schedule.next_try(), Time::default());
        schedule.knows(Some(good(DAY, DAY.times(90))));
        assert_eq!(schedule.next_try(), at(DAY.times(61)));
        schedule.issued(good(DAY.times(61), DAY.times(6)), at(DAY.times(61)));
        assert_eq!(schedule.next_try(), at(DAY.times(64)), "of a short one half");
        schedule.knows(Some(good(DAY, DAY.times(90))));
        assert_eq!(schedule.next_try(), at(DAY.times(64)), "the former one is still in use");
        schedule.knows(Some(good(DAY.times(61), DAY.times(6))));
        assert_eq!(schedule.next_try(), at(DAY.times(64)), "a shorter one counts");
        schedule.knows(Some(good(DAY.times(2), DAY.times(90))));
        assert_eq!(schedule.next_try(), at(DAY.times(62)), "one that someone else put there");
        schedule.knows(None);
        assert_eq!(schedule.next_try(), at(DAY.times(61).plus(HOUR)), "a file that was removed");
    }

    /// The authority is away for a week; certificates are good for 90 days.
    #[test]
    fn a_week_without_the_authority_costs_few_tries_and_ends_within_hours_of_its_return() {
        let mut schedule = Schedule::default();
        schedule.knows(Some(good(Span::ZERO, DAY.times(90))));
        let (gone, back) = (at(DAY.times(60)), at(DAY.times(67)));
        let tries = failing(&mut schedule, Time::default(), back);
        assert_eq!(tries[0], gone, "the first try is when it is due");
        let within = |hours| tries.iter().filter(|at| at.since(gone) < HOUR.times(hours)).count();
        assert_eq!((within(1), within(2), tries.len()), (5, 5, 33), "what authorities allow");
        let next = schedule.next_try();
        assert!(next > back && next.since(back) <= HOUR.times(6), "{next:?}");
        assert!(next < at(DAY.times(90)), "three weeks before the end of the present one");
        schedule.issued(good(DAY.times(67), DAY.times(90)), at(DAY.times(67)));
        assert_eq!((schedule.next_try(), schedule.failures()), (at(DAY.times(127)), 0));
    }

    #[test]
    fn a_pause_that_the_authority_wants_is_kept_up_to_a_week() {
        let mut schedule = Schedule::default();
        schedule.failed(at(DAY), Some(HOUR.times(30)));
        assert_eq!(schedule.next_try(), at(DAY.plus(HOUR.times(30))));
        schedule.failed(at(DAY), Some(Span::from_secs(1)));
        assert_eq!(schedule.next_try(), at(DAY.plus(Span::from_secs(180))), "a shorter one is not");
        schedule.failed(at(DAY), Some(DAY.times(1000)));
        assert_eq!(schedule.next_try(), at(DAY.times(8)));
    }

    #[test]
    fn a_suggestion_is_followed_unless_it_is_too_late() {
        let mut schedule = Schedule::default();
        let suggest = |at| Some(Suggestion { renew_at: at, ask_again: HOUR });
        schedule.knows(Some(good(Span::ZERO, DAY.times(90))));
        assert!(schedule.wants_advice(at(DAY)));
        schedule.advised(suggest(at(DAY.times(2))), at(DAY));
        assert!(!schedule.wants_advice(at(DAY)) && schedule.wants_advice(at(DAY.plus(HOUR))));
        assert_eq!(schedule.next_try(), at(DAY.times(2)), "as after a mistake of the authority");
        schedule.advised(suggest(at(DAY.times(89))), at(DAY));
        assert_eq!(schedule.next_try(), at(DAY.times(75)));
        schedule.advised(None, at(DAY));
        assert_eq!(schedule.next_try(), at(DAY.times(75)), "one that is away has not changed its mind");
    }

    #[test]
    fn an_authority_that_wants_each_new_certificate_replaced_at_once_gets_an_order_an_hour() {
        let mut schedule = Schedule::default();
        for hour in 1..=3 {
            let (now, new) = (at(HOUR.times(hour)), good(HOUR.times(hour - 1), DAY.times(90)));
            schedule.issued(new, now);
            assert!(schedule.is_about(new) && schedule.wants_advice(now));
            schedule.advised(Some(Suggestion { renew_at: Time::default(), ask_again: HOUR }), now);
            assert_eq!(schedule.next_try(), at(HOUR.times(hour + 1)));
        }
        schedule.issued(good(DAY, Span::from_secs(40)), at(DAY));
        schedule.advised(Some(Suggestion { renew_at: Time::default(), ask_again: HOUR }), at(DAY));
        assert_eq!(schedule.next_try(), at(DAY.plus(Span::from_secs(10))), "one for seconds");
        schedule.knows(Some(good(DAY, DAY.times(90))));
        assert_eq!(
            schedule.next_try(),
            at(DAY.times(61)),
            "one that someone else put there has no suggestion yet"
        );
    }
}
