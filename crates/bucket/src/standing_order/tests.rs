use super::super::{Own, RecordHeader, Spec};
use super::*;

const S: u64 = 1_000_000_000;
const NOW: Time = Time::from_nanos(1_800_000_000 * S);

fn at(seconds: u64) -> Time {
    NOW.after(Span::from_secs(seconds))
}

fn limit() -> Spec {
    Spec::Continuous(Continuous::new(1_000, Span::from_secs(3600), 1_000).unwrap())
}

fn run(header: &RecordHeader, state: &mut [u64; Spec::MAX_WORDS], now: Time, op: Op) -> Verdict {
    header.step(state, now, op).verdict
}

/// A bucket of which a hundred tokens are on their way, and its ban for an hour.
fn banned() -> (RecordHeader, [u64; Spec::MAX_WORDS], Receipt) {
    let (mut header, mut state) = (RecordHeader::of(limit()), [0; Spec::MAX_WORDS]);
    let receipt = run(&header, &mut state, NOW, Op::Take(100)).receipt;
    header.ban(Own::ban(NOW, at(3600)).unwrap(), &mut state);
    (header, state, receipt)
}

#[test]
fn nothing_that_attempts_give_back_ends_a_ban_earlier() {
    let (header, mut state, receipt) = banned();
    let ops = [Op::Refund(receipt), Op::Give(u32::MAX), Op::Take(0), Op::Strike, Op::Take(7), Op::Give(1)];
    for (seconds, op) in (1..).zip(ops) {
        let _ = run(&header, &mut state, at(seconds), op);
        for tokens in [1, 2, 1_000] {
            let refused = run(&header, &mut state, at(seconds), Op::Take(tokens)).admission;
            assert_eq!(refused, Admission::Refused { wait: Span::from_secs(3600 - seconds) }, "{op:?}");
        }
    }
}

#[test]
fn a_bucket_is_full_when_its_ban_ends() {
    let (mut header, mut state, _) = banned();
    assert_eq!(run(&header, &mut state, at(3599), Op::Peek(1)).full_at, at(3600));
    header.effective_spec(&limit(), &mut state, at(3600));
    assert_eq!(run(&header, &mut state, at(3600), Op::Peek(1)).left, 1_000);
}

/// Gates of earlier versions let a refund shorten the ban, and wrote it without a mark.
#[test]
fn a_ban_that_an_earlier_version_wrote_or_shortened_is_one() {
    let (header, mut state, _) = banned();
    state[0] -= 600 * S;
    let step = header.step(&mut state, NOW, Op::Take(1));
    assert_eq!((step.changed, state[0]), (true, at(3600).as_nanos()), "it has its whole length again");
    let unmarked = Own { rate: Continuous::new(1, Span::from_secs(3600), 1).unwrap(), until: at(3600) };
    let (mut header, mut state, receipt) = banned();
    header.ban(unmarked, &mut state);
    let _ = run(&header, &mut state, at(1), Op::Refund(receipt));
    assert!(!run(&header, &mut state, at(3599), Op::Take(1)).is_admitted());
}

#[test]
fn an_exempt_bucket_refuses_nothing_and_writes_nothing() {
    let (mut header, mut state) = (RecordHeader::of(limit()), [0; Spec::MAX_WORDS]);
    let _ = run(&header, &mut state, NOW, Op::Take(1_000));
    header.give_rate(&limit(), Some(Own::exemption(at(60)).unwrap()), &mut state, NOW);
    for _ in 0..10 {
        let step = header.step(&mut state, NOW, Op::Take(1_000_000));
        assert!(step.verdict.is_admitted() && !step.changed);
    }
}

#[test]
fn a_slow_rate_of_one_token_is_no_ban() {
    let (mut header, mut state) = (RecordHeader::of(limit()), [0; Spec::MAX_WORDS]);
    let rate = Continuous::new(1, Span::from_secs(60), 1).unwrap();
    header.give_rate(&limit(), Some(Own { rate, until: at(3600) }), &mut state, NOW);
    assert!(run(&header, &mut state, NOW, Op::Take(1)).is_admitted());
    assert!(!run(&header, &mut state, at(1), Op::Take(1)).is_admitted());
    assert!(run(&header, &mut state, at(60), Op::Take(1)).is_admitted());
}
