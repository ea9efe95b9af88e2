//! How long a wait is said to be: whole seconds, never less than the truth.
//!
//! Whoever obeys and is alone on its buckets is admitted. Jitter, where the file asks for it, only ever adds.

use crate::time::Span;

use super::escape::push_number;

/// The seconds of `Retry-After` (RFC 9110, section 10.2.3): rounded up, at least 1, plus up to `jitter` thousandths
/// of the wait.
///
/// The share is drawn from the identity of the request, which differs from one client of a herd to the next; a client
/// that chooses its own identity gains nothing, since nothing is ever taken off.
pub(super) fn retry_after(wait: Span, jitter: u32, request_id: &[u8]) -> u64 {
    let extra = match jitter {
        0 => Span::ZERO,
        permille => {
            let most = u128::from(wait.as_nanos()) * u128::from(permille) / 1000;
            let drawn = (most * u128::from(draw(request_id))) >> 32;
            Span::from_nanos(u64::try_from(drawn).unwrap_or(u64::MAX))
        }
    };
    wait.plus(extra).as_secs_ceil().max(1)
}

/// Appends a wait in words, exact to the second: `3 minutes 20 seconds`.
pub(super) fn push_words(out: &mut String, seconds: u64) {
    let start = out.len();
    let mut rest = seconds;
    for (unit, length) in UNITS {
        let count = rest / length;
        rest %= length;
        if count == 0 {
            continue;
        }
        if out.len() > start {
            out.push(' ');
        }
        push_count(out, count, unit);
    }
}

/// Appends a count with its unit: `1 second`, `21 seconds`.
pub(super) fn push_count(out: &mut String, count: u64, unit: &str) {
    push_number(out, count);
    out.push(' ');
    out.push_str(unit);
    if count != 1 {
        out.push('s');
    }
}

/// 32 bits that differ between identities: FNV-1a, folded, since its low bits know the last bytes best.
fn draw(request_id: &[u8]) -> u32 {
    let hash = request_id.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    u32::try_from(mixed >> 32).unwrap_or(u32::MAX)
}

const UNITS: [(&str, u64); 4] = [("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up_and_never_zero() {
        let table = [
            (0, 1),
            (1, 1),
            (200_000_000, 1),
            (1_000_000_000, 1),
            (1_000_000_001, 2),
            (20_000_000_001, 21),
            (30_000_000_000, 30),
        ];
        for (nanos, seconds) in table {
            assert_eq!(retry_after(Span::from_nanos(nanos), 0, b"id"), seconds, "{nanos} ns");
        }
    }

    #[test]
    fn jitter_only_adds_and_spreads_a_herd() {
        let wait = Span::from_secs(100);
        let said: Vec<u64> =
            (0..1000_u32).map(|id| retry_after(wait, 200, id.to_string().as_bytes())).collect();
        assert!(said.iter().all(|seconds| (100..=120).contains(seconds)), "{said:?}");
        for third in [100..107, 107..114, 114..121] {
            let count = said.iter().filter(|&seconds| third.contains(seconds)).count();
            assert!((230..450).contains(&count), "{count} of 1000 in {third:?}");
        }
    }

    #[test]
    fn the_longest_wait_with_the_largest_jitter_does_not_overflow() {
        let longest = Span::from_nanos(u64::MAX);
        assert_eq!(retry_after(longest, u32::MAX, b"x"), longest.as_secs_ceil());
    }

    #[test]
    fn words_are_exact_to_the_second() {
        let table = [
            (1, "1 second"),
            (21, "21 seconds"),
            (60, "1 minute"),
            (200, "3 minutes 20 seconds"),
            (90_061, "1 day 1 hour 1 minute 1 second"),
        ];
        for (seconds, words) in table {
            let mut out = String::new();
            push_words(&mut out, seconds);
            assert_eq!(out, words);
        }
    }
}
