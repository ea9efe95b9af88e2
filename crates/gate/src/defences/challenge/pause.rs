//! Tickets that a pause makes good: the way of browsers that cannot calculate.
//!
//! A ticket is a second that a MAC binds to a client's prefix and a route, and it counts from then on for some minutes. Nothing is
//! stored for one. All tickets of a client and route are one voucher, which counts once in twice the lifetime of a challenge: who
//! asks for a thousand tickets waits for one.

use std::fmt;

use hmac::Mac;

use super::proof::{ProofError, hmac};
use crate::bucket::Key;
use crate::policy::OfferRecipient;
use crate::policy::key::KeyHasher;
use crate::time::{Span, Time};

/// A ticket. Its text has digits, letters and `-` only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PauseTicket {
    /// Seconds since 1970, from which it counts.
    from: u64,
    mac: [u8; 16],
}

impl PauseTicket {
    /// The ticket that counts after this pause, from the beginning of that second.
    pub(super) fn new(hasher: &KeyHasher, recipient: &OfferRecipient<'_>, pause: Span, now: Time) -> Self {
        let from = now.after(pause).as_nanos() / SECOND;
        let full = hmac(hasher, DOMAIN, recipient, [from, 0]).map(|mac| mac.finalize().into_bytes());
        let mac = full.and_then(|full| full.first_chunk().copied()).unwrap_or_default();
        Self { from, mac }
    }

    /// The ticket of this text, if it is one of this client and route.
    pub(super) fn of(
        hasher: &KeyHasher,
        recipient: &OfferRecipient<'_>,
        text: &str,
    ) -> Result<Self, ProofError> {
        let (from, mac) =
            text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-')).ok_or(ProofError::Malformed)?;
        let is_number =
            (1..=MAX_DIGITS).contains(&from.len()) && from.bytes().all(|byte| byte.is_ascii_digit());
        let is_mac = mac.len() == 32 && mac.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_number || !is_mac {
            return Err(ProofError::Malformed);
        }
        let from = from.parse().map_err(|_| ProofError::Malformed)?;
        let mac = u128::from_str_radix(mac, 16).map_err(|_| ProofError::Malformed)?.to_be_bytes();
        let expected = hmac(hasher, DOMAIN, recipient, [from, 0]).ok_or(ProofError::Foreign)?;
        expected.verify_truncated_left(&mac).map_err(|_| ProofError::Foreign)?;
        Ok(Self { from, mac })
    }

    /// What is left of its pause; `None` if it is over.
    pub(super) fn left(self, now: Time) -> Option<Span> {
        let left = Time::from_nanos(self.from.saturating_mul(SECOND)).since(now);
        (left > Span::ZERO).then_some(left)
    }

    /// What names the voucher, if its pause is over, and not for long.
    ///
    /// # Errors
    /// [`ProofError::Unsolved`] if it came too early, [`ProofError::Stale`] if too late.
    pub(super) fn redeem(
        self,
        hasher: &KeyHasher,
        recipient: &OfferRecipient<'_>,
        now: Time,
    ) -> Result<Key, ProofError> {
        if self.left(now).is_some() {
            return Err(ProofError::Unsolved);
        }
        if (now.as_nanos() / SECOND).saturating_sub(self.from) > PAUSE_LIFETIME {
            return Err(ProofError::Stale);
        }
        Self::voucher(hasher, recipient).ok_or(ProofError::Foreign)
    }

    /// What names the voucher that all tickets of this client and route are.
    pub(super) fn voucher(hasher: &KeyHasher, recipient: &OfferRecipient<'_>) -> Option<Key> {
        let one = hmac(hasher, DOMAIN, recipient, [0, 1])?;
        let name = one.finalize().into_bytes().first_chunk().copied().unwrap_or_default();
        Some(hasher.of_voucher(name))
    }
}

impl fmt::Display for PauseTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}-{:032x}", self.from, u128::from_be_bytes(self.mac))
    }
}

/// Seconds for which a ticket counts. Less than a voucher is remembered by a minute, for gates whose clocks differ.
pub(super) const PAUSE_LIFETIME: u64 = 300;
const DOMAIN: &[u8] = b"tollgate pause";
const PREFIX: &str = "pause-";
const MAX_DIGITS: usize = 12;
const SECOND: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const NOW: Time = Time::from_nanos(1_800_000_000_500_000_000);
    const RECIPIENT: OfferRecipient<'static> =
        OfferRecipient { client: IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7)), route: "login" };

    fn hasher() -> KeyHasher {
        KeyHasher::seeded(7)
    }

    fn ticket() -> String {
        PauseTicket::new(&hasher(), &RECIPIENT, Span::from_secs(30), NOW).to_string()
    }

    fn redeem(text: &str, of: &OfferRecipient<'_>, millis: u64) -> Result<Key, ProofError> {
        let now = NOW.after(Span::from_nanos(millis * 1_000_000));
        PauseTicket::of(&hasher(), of, text)?.redeem(&hasher(), of, now)
    }

    #[test]
    fn a_ticket_counts_after_its_pause_and_for_five_minutes() {
        let table = [
            (0, Err(ProofError::Unsolved)),
            (29_499, Err(ProofError::Unsolved)),
            (29_500, Ok(())),
            (330_499, Ok(())),
            (330_500, Err(ProofError::Stale)),
        ];
        for (millis, expected) in table {
            assert_eq!(redeem(&ticket(), &RECIPIENT, millis).map(|_| ()), expected, "{millis}");
        }
        let left = |text: &str| PauseTicket::of(&hasher(), &RECIPIENT, text).unwrap().left(NOW);
        assert_eq!(left(&ticket()), Some(Span::from_nanos(29_500_000_000)));
        let over = PauseTicket::new(&hasher(), &RECIPIENT, Span::ZERO, NOW.before(Span::from_secs(1)));
        assert_eq!(left(&over.to_string()), None);
    }

    #[test]
    fn all_tickets_of_a_client_and_route_are_one_voucher() {
        let later = PauseTicket::new(&hasher(), &RECIPIENT, Span::from_secs(60), NOW).to_string();
        let keys = [ticket(), later].map(|ticket| redeem(&ticket, &RECIPIENT, 100_000).unwrap());
        assert_eq!(keys[0], keys[1]);
        let neighbour = OfferRecipient { client: IpAddr::from([192, 0, 2, 8]), ..RECIPIENT };
        let of_neighbour = PauseTicket::new(&hasher(), &neighbour, Span::ZERO, NOW).to_string();
        assert_ne!(redeem(&of_neighbour, &neighbour, 1_000).unwrap(), keys[0]);
    }

    #[test]
    fn a_ticket_of_another_client_route_or_secret_and_a_changed_one_earn_nothing() {
        let neighbour = OfferRecipient { client: IpAddr::from([192, 0, 2, 8]), ..RECIPIENT };
        let elsewhere = OfferRecipient { route: "admin", ..RECIPIENT };
        for other in [neighbour, elsewhere] {
            assert_eq!(redeem(&ticket(), &other, 31_000), Err(ProofError::Foreign));
        }
        let of_others = PauseTicket::of(&KeyHasher::seeded(8), &RECIPIENT, &ticket());
        assert_eq!(of_others, Err(ProofError::Foreign));
        let earlier = ticket().replace("1800000030", "1800000000");
        assert_eq!(redeem(&earlier, &RECIPIENT, 31_000), Err(ProofError::Foreign));
    }

    #[test]
    fn a_text_that_is_no_ticket_is_malformed() {
        let ticket = ticket();
        let (head, mac) = ticket.rsplit_once('-').unwrap();
        let broken = [
            String::new(),
            "pause-".to_owned(),
            format!("{ticket}-1"),
            format!("{ticket}0"),
            format!("{head}-+{}", &mac[1..]),
            format!("pause-+1-{mac}"),
            format!("pause--{mac}"),
            format!("pause-{}-{mac}", "1".repeat(13)),
            ticket.to_ascii_uppercase(),
            ticket.replacen("pause", "1", 1),
        ];
        for text in broken {
            assert_eq!(redeem(&text, &RECIPIENT, 31_000), Err(ProofError::Malformed), "{text}");
        }
    }
}
