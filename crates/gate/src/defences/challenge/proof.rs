//! Challenges, and proofs that they were solved.
//!
//! A challenge is a text that a MAC binds to a client's prefix, a route and a minute. A proof is that text and a number
//! with which its SHA-256 begins with as many zero bits as the challenge asks for, as in Hashcash
//! (<http://www.hashcash.org/papers/hashcash.pdf>). Nothing is stored for a challenge. That a proof counts once, and how
//! much a client may earn, is left to buckets of the engine.

use std::fmt;
use std::net::IpAddr;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::bucket::Key;
use crate::policy::OfferRecipient;
use crate::policy::key::KeyHasher;
use crate::time::Time;

/// A challenge. Its text has digits, letters and `-` only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Challenge {
    /// Minutes since 1970.
    minute: u64,
    /// Zero bits that the hash of a proof begins with.
    bits: u32,
    mac: [u8; 16],
}

/// A solved challenge, not verified yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WorkProof<'a> {
    challenge: Challenge,
    text: &'a str,
}

/// Why a proof earns nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum ProofError {
    /// It is not a proof.
    #[error("not a proof")]
    Malformed,
    /// Its minute is over.
    #[error("the challenge is too old")]
    Stale,
    /// The challenge is of another client, route or installation.
    #[error("the challenge is not of this client and route")]
    Foreign,
    /// The hash has too few zero bits.
    #[error("the challenge is not solved")]
    Unsolved,
}

impl Challenge {
    /// The challenge of this minute that asks for so many zero bits.
    pub(super) fn new(hasher: &KeyHasher, recipient: &OfferRecipient<'_>, bits: u32, now: Time) -> Self {
        let minute = minute_of(now);
        let mut mac = [0; 16];
        if let Some(full) = hmac(hasher, DOMAIN, recipient, [minute, bits.into()]) {
            mac.iter_mut().zip(full.finalize().into_bytes()).for_each(|(byte, of_full)| *byte = of_full);
        }
        Self { minute, bits, mac }
    }
}

impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { minute, bits, mac } = self;
        write!(f, "{minute}-{bits}-{:032x}", u128::from_be_bytes(*mac))
    }
}

impl<'a> WorkProof<'a> {
    /// Parses the text of a challenge, `-`, and a number of at most ten digits.
    ///
    /// # Errors
    /// [`ProofError::Malformed`].
    pub(super) fn parse(text: &'a str) -> Result<Self, ProofError> {
        let mut parts = text.split('-');
        let [minute, bits, mac, number] = std::array::from_fn(|_| parts.next().unwrap_or_default());
        let are_digits =
            [minute, bits, number].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        let is_hex = mac.len() == 32 && mac.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_number = (1..=MAX_DIGITS).contains(&number.len());
        if text.len() > MAX_LEN || !are_digits || !is_hex || !is_number || parts.next().is_some() {
            return Err(ProofError::Malformed);
        }
        let mac = u128::from_str_radix(mac, 16).map_err(|_| ProofError::Malformed)?.to_be_bytes();
        let number_of = |part: &str| part.parse().map_err(|_| ProofError::Malformed);
        let challenge = Challenge {
            minute: number_of(minute)?,
            bits: bits.parse().map_err(|_| ProofError::Malformed)?,
            mac,
        };
        Ok(Self { challenge, text })
    }

    /// Verifies that this client solved its own challenge in time: one MAC and one hash. Returns what names the
    /// challenge, however it was solved.
    ///
    /// # Errors
    /// See [`ProofError`].
    pub(super) fn verify(
        &self,
        hasher: &KeyHasher,
        recipient: &OfferRecipient<'_>,
        now: Time,
    ) -> Result<Key, ProofError> {
        let Challenge { minute, bits, mac } = self.challenge;
        let now = minute_of(now);
        // Gates that share a store may be a minute apart.
        if now.saturating_sub(minute) > LIFETIME || minute.saturating_sub(now) > 1 {
            return Err(ProofError::Stale);
        }
        let expected = hmac(hasher, DOMAIN, recipient, [minute, bits.into()]).ok_or(ProofError::Foreign)?;
        expected.verify_truncated_left(&mac).map_err(|_| ProofError::Foreign)?;
        let hash: [u8; 32] = Sha256::digest(self.text).into();
        let start = hash.first_chunk().map_or(u32::MAX, |start| u32::from_be_bytes(*start));
        if start.leading_zeros() < bits { Err(ProofError::Unsolved) } else { Ok(hasher.of_voucher(mac)) }
    }
}

/// HMAC-SHA-256 (RFC 2104) under the secret of bucket keys: gates that share buckets accept each other's challenges.
/// `domain` is what the numbers mean.
pub(super) fn hmac(
    hasher: &KeyHasher,
    domain: &[u8],
    recipient: &OfferRecipient<'_>,
    numbers: [u64; 2],
) -> Option<Hmac<Sha256>> {
    let [one, two] = hasher.secret().map(u64::to_be_bytes);
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&[one, two].concat()).ok()?;
    let client = match recipient.client {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    mac.update(domain);
    numbers.iter().for_each(|number| mac.update(&number.to_be_bytes()));
    mac.update(&client.octets());
    mac.update(recipient.route.as_bytes());
    Some(mac)
}

fn minute_of(now: Time) -> u64 {
    now.as_nanos() / 60_000_000_000
}

/// Whole minutes after which a challenge is stale.
pub(super) const LIFETIME: u64 = 3;
/// A proof fits into one block of SHA-256: 8 digits of minutes, 2 of bits, 32 of the MAC, 10 of the number.
const MAX_LEN: usize = 55;
const DOMAIN: &[u8] = b"tollgate challenge";
/// Digits of the number.
const MAX_DIGITS: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);
    const RECIPIENT: OfferRecipient<'static> =
        OfferRecipient { client: IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7)), route: "login" };

    fn hasher() -> KeyHasher {
        KeyHasher::seeded(7)
    }

    fn solve(challenge: Challenge) -> String {
        let proofs = (0_u64..).map(|number| format!("{challenge}-{number}"));
        let is_solved =
            |proof: &String| WorkProof::parse(proof).unwrap().verify(&hasher(), &RECIPIENT, NOW).is_ok();
        proofs.take(1_000_000).find(is_solved).unwrap()
    }

    fn verify(proof: &str, recipient: &OfferRecipient<'_>, now: Time) -> Result<Key, ProofError> {
        WorkProof::parse(proof)?.verify(&hasher(), recipient, now)
    }

    #[test]
    fn a_solved_challenge_counts_for_its_client_and_route_within_its_minutes() {
        let proof = solve(Challenge::new(&hasher(), &RECIPIENT, 8, NOW));
        let later = |minutes: u64| NOW.after(Span::from_secs(60 * minutes));
        assert!((0..=3).all(|minutes| verify(&proof, &RECIPIENT, later(minutes)).is_ok()));
        assert_eq!(verify(&proof, &RECIPIENT, later(4)), Err(ProofError::Stale));
        assert!(verify(&proof, &RECIPIENT, NOW.before(Span::from_secs(60))).is_ok());
        assert_eq!(verify(&proof, &RECIPIENT, NOW.before(Span::from_secs(120))), Err(ProofError::Stale));
        let neighbour = OfferRecipient { client: IpAddr::from([192, 0, 2, 8]), ..RECIPIENT };
        let elsewhere = OfferRecipient { route: "admin", ..RECIPIENT };
        for other in [neighbour, elsewhere] {
            assert_eq!(verify(&proof, &other, NOW), Err(ProofError::Foreign));
        }
        assert_eq!(
            WorkProof::parse(&proof).unwrap().verify(&KeyHasher::seeded(8), &RECIPIENT, NOW),
            Err(ProofError::Foreign)
        );
    }

    #[test]
    fn a_challenge_that_is_not_solved_or_made_easier_earns_nothing() {
        let challenge = Challenge::new(&hasher(), &RECIPIENT, 30, NOW);
        assert_eq!(verify(&format!("{challenge}-1"), &RECIPIENT, NOW), Err(ProofError::Unsolved));
        let easier = challenge.to_string().replace("-30-", "-0-");
        assert_eq!(verify(&format!("{easier}-1"), &RECIPIENT, NOW), Err(ProofError::Foreign));
    }

    #[test]
    fn another_solution_of_the_same_challenge_names_the_same_one() {
        let challenge = Challenge::new(&hasher(), &RECIPIENT, 0, NOW);
        let keys = ["1", "2", "02"].map(|number| verify(&format!("{challenge}-{number}"), &RECIPIENT, NOW));
        assert!(keys[0].is_ok() && keys[1] == keys[0] && keys[2] == keys[0]);
    }

    #[test]
    fn a_text_that_is_no_proof_is_malformed() {
        let challenge = Challenge::new(&hasher(), &RECIPIENT, 0, NOW).to_string();
        let upper = challenge.to_ascii_uppercase();
        assert!(
            WorkProof::parse(&format!("{challenge}-0000000001")).is_ok()
                && WorkProof::parse(&format!("{upper}-1")).is_ok()
        );
        let long = format!("{challenge}-00000000001");
        let broken = [
            format!("{challenge}-"),
            format!("{challenge}-+1"),
            format!("{challenge}-1-1"),
            format!("+{challenge}-1"),
        ];
        for text in ["", "-", "---", "0-0-0-0", &challenge, &long]
            .into_iter()
            .chain(broken.iter().map(String::as_str))
        {
            assert_eq!(WorkProof::parse(text), Err(ProofError::Malformed), "{text:?}");
        }
    }
}
