use super::super::tests::TestBucket;
use super::super::{Admission, Receipt, Spec, Verdict};
use super::*;

const S: u64 = 1_000_000_000;
const NOW: u64 = 1_800_000_000 * S;

/// One token a second.
fn test_bucket(burst: u32, repeats: Option<u32>) -> TestBucket {
    let bucket = Continuous::new(1, Span::from_secs(1), burst).unwrap();
    TestBucket::new(Spec::Distinct(Distinct::new(bucket, repeats).unwrap()))
}

fn once(bucket: &mut TestBucket, nanos: u64, tag: u64) -> Verdict {
    bucket.run(nanos, Op::TakeOnce { tokens: 1, tag }).verdict
}

#[test]
fn what_was_paid_for_costs_nothing_even_when_nothing_is_left() {
    let mut bucket = test_bucket(2, None);
    assert_eq!([once(&mut bucket, NOW, 7).left, once(&mut bucket, NOW, 8).left], [1, 0]);
    let repeated = once(&mut bucket, NOW, 7);
    assert_eq!(
        (repeated.admission, repeated.left, repeated.receipt),
        (Admission::Admitted, 0, Receipt::default())
    );
    assert_eq!(once(&mut bucket, NOW, 9).admission, Admission::Refused { wait: Span::from_secs(1) });
}

#[test]
fn a_refused_thing_is_not_remembered() {
    let mut bucket = test_bucket(1, None);
    assert!(once(&mut bucket, NOW, 7).is_admitted());
    assert!(!once(&mut bucket, NOW, 8).is_admitted());
    assert!(!once(&mut bucket, NOW, 8).is_admitted());
}

#[test]
fn sixteen_are_remembered_and_the_one_that_came_longest_ago_is_forgotten() {
    let mut bucket = test_bucket(100, None);
    (1..=16).for_each(|tag| assert!(once(&mut bucket, NOW, tag).is_admitted()));
    assert_eq!(once(&mut bucket, NOW, 1).left, 84, "it comes to the front");
    assert_eq!(once(&mut bucket, NOW, 17).left, 83, "and the next longest is forgotten");
    assert_eq!((3..=17).chain([1]).map(|tag| once(&mut bucket, NOW, tag).left).min(), Some(83));
    assert_eq!(once(&mut bucket, NOW, 2).left, 82);
}

#[test]
fn repeats_beyond_the_bound_cost_like_something_new_until_the_bucket_is_full() {
    let mut bucket = test_bucket(3, Some(2));
    let left: Vec<u32> = (0..5).map(|_| once(&mut bucket, NOW, 7).left).collect();
    assert_eq!(left, [2, 2, 2, 1, 0]);
    assert_eq!(once(&mut bucket, NOW, 7).admission, Admission::Refused { wait: Span::from_secs(1) });
    let full = NOW + 3 * S;
    let left: Vec<u32> = (0..4).map(|_| once(&mut bucket, full, 7).left).collect();
    assert_eq!(left, [2, 2, 2, 1]);
}

#[test]
fn a_full_bucket_remembers_nothing() {
    let mut bucket = test_bucket(3, None);
    assert_eq!(once(&mut bucket, NOW, 7).left, 2);
    assert_eq!(once(&mut bucket, NOW + S - 1, 7).left, 2);
    assert_eq!(once(&mut bucket, NOW + S, 7).left, 2, "paid for again: a full bucket had three");
}

#[test]
fn a_plain_attempt_always_costs() {
    let mut bucket = test_bucket(3, None);
    assert_eq!([bucket.take(NOW, 1).left, bucket.take(NOW, 1).left], [2, 1]);
    assert_eq!(once(&mut bucket, NOW, 0).left, 0, "a plain attempt leaves no tag, not even an empty one");
}

#[test]
fn what_was_paid_for_and_given_back_is_still_known() {
    let mut bucket = test_bucket(3, Some(9));
    assert!(bucket.take(NOW, 1).is_admitted());
    let paid = once(&mut bucket, NOW, 7).receipt;
    assert_eq!(bucket.run(NOW, Op::Refund(paid)).verdict.left, 2);
    assert_eq!(once(&mut bucket, NOW, 7).left, 2);
    let free = once(&mut bucket, NOW, 7).receipt;
    assert!(!bucket.run(NOW, Op::Refund(free)).changed, "nothing was paid");
}

#[test]
fn a_look_says_what_an_attempt_would_be_told_and_changes_nothing() {
    let mut bucket = test_bucket(1, Some(1));
    assert!(once(&mut bucket, NOW, 7).is_admitted());
    for tag in [7, 8] {
        let peeked = bucket.run(NOW, Op::PeekOnce { tokens: 1, tag });
        assert_eq!((peeked.changed, peeked.verdict.is_admitted()), (false, tag == 7));
    }
    assert!(once(&mut bucket, NOW, 7).is_admitted() && !once(&mut bucket, NOW, 7).is_admitted());
}

#[test]
fn uncounted_repeats_are_not_written() {
    let mut bucket = test_bucket(3, None);
    for (tag, changed) in [(7, true), (7, false), (8, true), (7, true), (7, false)] {
        assert_eq!(bucket.run(NOW, Op::TakeOnce { tokens: 1, tag }).changed, changed, "{tag}");
    }
}

#[test]
fn both_halves_of_a_tag_tell_things_apart() {
    let mut bucket = test_bucket(9, None);
    let tags = [0, 2, 2 << 32, u64::MAX, u64::MAX << 32];
    let left: Vec<u32> = tags.map(|tag| once(&mut bucket, NOW, tag).left).into();
    assert_eq!(left, [8, 7, 7, 7, 6], "a half that is like the other is none, and none is one");
}

#[test]
fn too_few_words_are_no_memory_and_no_harm() {
    let spec =
        Spec::Distinct(Distinct::new(Continuous::new(1, Span::from_secs(1), 1).unwrap(), None).unwrap());
    for words in 0..Distinct::WORDS {
        let mut state = vec![0; words];
        let op = Op::TakeOnce { tokens: 1, tag: 7 };
        assert!(super::super::step(&spec, &mut state, Time::from_nanos(NOW), op).verdict.is_admitted());
    }
}
