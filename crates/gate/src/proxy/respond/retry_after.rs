//! The wait shown in a refusal, in `Retry-After` and in words: whole seconds, rounded up, with optional jitter; coarse for
//! account limits.
//!
//! A client that waits and shares its buckets with no other client is admitted. Configured jitter only adds. The wait
//! of an account limit is rounded up coarsely, because the exact one would show how often others tried that account.
//! The engine computes the exact waits.

use super::escape::push_number;
use crate::bucket::Admission;
use crate::engine::Refusal;
use crate::policy::Policy;
use crate::time::Span;

/// The wait shown in a refusal: the longest of all limits that refused, with those of hidden limits made coarse; `None`
/// if waiting does not help.
pub(super) fn shown_wait(policy: &Policy, refusal: &Refusal) -> Option<Span> {
    refusal.wait?;
    let waits = refusal.violated().map(|status| {
        let is_hidden = policy.limits.get(status.charge.limit).is_some_and(|limit| limit.is_hidden());
        match status.verdict.admission {
            Admission::Refused { wait } if is_hidden => Some(coarse(wait)),
            Admission::Refused { wait } => Some(wait),
            Admission::NeverFits => None,
            Admission::Admitted | Admission::Held { .. } => Some(Span::ZERO),
        }
    });
    waits.reduce(|one, other| Some(one?.max(other?))).unwrap_or(refusal.wait)
}

/// Rounds up to 1, 2, 5, 10, 15 or 30 minutes, to 1, 2, 3, 6 or 12 hours, or to whole days. The steps are few, so that
/// they reveal little, and close enough that a wait of a minute or more grows by a factor of two and a half at most.
fn coarse(wait: Span) -> Span {
    let step = STEPS.iter().map(|&secs| Span::from_secs(secs)).find(|&step| wait <= step);
    step.unwrap_or_else(|| Span::from_secs(wait.as_secs_ceil().div_ceil(DAY).saturating_mul(DAY)))
}

/// The seconds of `Retry-After` (RFC 9110, section 10.2.3): rounded up, at least 1, plus up to `jitter` thousandths
/// of the wait.
///
/// The share is drawn from the request id, which differs from client to client. A client that chooses its own id gains
/// nothing, since jitter only adds.
pub(super) fn seconds(wait: Span, jitter: u32, request_id: &[u8]) -> u64 {
    let extra = match jitter {
        0 => Span::ZERO,
        permille => {
            let max = u128::from(wait.as_nanos()) * u128::from(permille) / 1000;
            let drawn = (max * u128::from(draw(request_id))) >> 32;
            Span::from_nanos(u64::try_from(drawn).unwrap_or(u64::MAX))
        }
    };
    wait.plus(extra).as_secs_ceil().max(1)
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

/// 32 bits that differ between request ids: FNV-1a, folded, because its low bits depend most on the last bytes.
fn draw(request_id: &[u8]) -> u32 {
    let hash = request_id.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    u32::try_from(mixed >> 32).unwrap_or(u32::MAX)
}

const STEPS: [u64; 11] = [60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200];
const DAY: u64 = 86_400;

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
        for (nanos, expected) in table {
            assert_eq!(seconds(Span::from_nanos(nanos), 0, b"id"), expected, "{nanos} ns");
        }
    }

    #[test]
    fn jitter_only_adds_and_spreads_a_herd() {
        let wait = Span::from_secs(100);
        let waits: Vec<u64> = (0..1000_u32).map(|id| seconds(wait, 200, id.to_string().as_bytes())).collect();
        assert!(waits.iter().all(|seconds| (100..=120).contains(seconds)), "{waits:?}");
        for third in [100..107, 107..114, 114..121] {
            let count = waits.iter().filter(|&seconds| third.contains(seconds)).count();
            assert!((230..450).contains(&count), "{count} of 1000 in {third:?}");
        }
    }

    #[test]
    fn the_longest_wait_with_the_largest_jitter_does_not_overflow() {
        let longest = Span::from_nanos(u64::MAX);
        assert_eq!(seconds(longest, u32::MAX, b"x"), longest.as_secs_ceil());
    }

    #[test]
    fn coarse_waits_are_few_and_never_shorter() {
        let table = [
            (0, 60),
            (1, 60),
            (60, 60),
            (61, 120),
            (121, 300),
            (301, 600),
            (601, 900),
            (901, 1_800),
            (1_801, 3_600),
            (3_601, 7_200),
            (7_201, 10_800),
            (10_801, 21_600),
            (21_601, 43_200),
            (43_201, DAY),
            (DAY, DAY),
            (DAY + 1, 2 * DAY),
            (9 * DAY, 9 * DAY),
        ];
        for (wait, shown) in table {
            assert_eq!(coarse(Span::from_secs(wait)), Span::from_secs(shown), "{wait} s");
        }
        assert_eq!(coarse(Span::from_nanos(60_000_000_001)), Span::from_secs(120));
        assert_eq!(
            coarse(Span::from_nanos(u64::MAX)),
            Span::from_nanos(u64::MAX),
            "the longest does not overflow"
        );
        for seconds in (0..200_000).step_by(7) {
            let (wait, shown) = (Span::from_secs(seconds), coarse(Span::from_secs(seconds)));
            assert!(shown >= wait, "{seconds} s");
            assert_eq!(coarse(shown), shown, "{seconds} s");
        }
    }
}
