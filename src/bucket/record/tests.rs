use super::super::trial::Trial;
use super::super::{Op, step};
use super::*;

const S: u64 = 1_000_000_000;
const NOW: u64 = 1_800_000_000 * S;

#[test]
fn what_its_own_rate_would_have_brought_after_its_end_does_not_count() {
    let slow = Spec::Continuous(Continuous::new(1, Span::from_secs(3600), 5).unwrap());
    let fast = Continuous::new(5, Span::from_secs(1), 5).unwrap();
    let (mut header, mut bucket) = (Header::of(slow), Trial::new(slow));
    assert!(bucket.take(NOW, 1).is_admitted());
    let until = Time::from_nanos(NOW + 10 * S);
    header.give_rate(&slow, Some(Own { rate: fast, until }), &mut bucket.state, Time::from_nanos(NOW));
    bucket.spec = header.in_force(&slow, &mut bucket.state, Time::from_nanos(NOW + 10 * S - 1));
    assert_eq!(bucket.spec, Spec::Continuous(fast));
    assert!(bucket.take(NOW + 10 * S - 1, 5).is_admitted());
    bucket.spec = header.in_force(&slow, &mut bucket.state, Time::from_nanos(NOW + 20 * S));
    assert_eq!(
        (bucket.spec, bucket.peek(NOW + 20 * S, 1).left),
        (slow, 0),
        "drained at its end, and slow since"
    );
}

#[test]
fn a_state_is_read_under_a_file_that_its_reader_never_saw() {
    let written = Spec::Interval(Interval::new(10, Span::from_secs(60), Anchor::First).unwrap());
    let mut bucket = Trial::new(written);
    assert!(bucket.take(NOW, 5).is_admitted());
    let mut bytes = [0; LONGEST_RECORD];
    let length = Header::of(written).encode(&bucket.state, &mut bytes);
    let mut state = [0; Spec::MOST_WORDS];
    let mut header = Header::decode(&bytes[..length], &mut state).unwrap();
    let limit = Spec::Interval(Interval::new(4, Span::from_secs(60), Anchor::First).unwrap());
    let now = Time::from_nanos(NOW + S);
    assert_eq!(header.in_force(&limit, &mut state, now), limit);
    assert_eq!(step(&limit, &mut state[..limit.words()], now, Op::Peek(1)).verdict.left, 2);
}
