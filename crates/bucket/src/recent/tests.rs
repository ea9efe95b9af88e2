use super::super::tests::TestBucket;
use super::super::{Spec, convert, join};
use super::*;

const S: u64 = 1_000_000_000;
/// The beginning of a minute.
const NOW: u64 = 1_800_000_000 * S;
const DAY: Span = Span::from_secs(86_400);

fn recent(ttl: Span) -> TestBucket {
    TestBucket::new(Spec::Recent(Recent::new(ttl).unwrap()))
}

/// Whether it was written.
fn see(set: &mut TestBucket, nanos: u64, tag: u64) -> bool {
    set.run(nanos, Op::TakeOnce { tokens: 1, tag }).changed
}

fn knows(set: &TestBucket, nanos: u64, tag: u64) -> bool {
    let mut copy = *set;
    let step = copy.run(nanos, Op::PeekOnce { tokens: 1, tag });
    assert!(!step.changed);
    step.verdict.is_admitted()
}

#[test]
fn what_was_seen_is_known_until_its_time_is_over_and_nothing_else_is() {
    let mut set = recent(DAY);
    assert!(!knows(&set, NOW, 7));
    assert!(see(&mut set, NOW, 7));
    assert!(knows(&set, NOW + 86_399 * S, 7) && !knows(&set, NOW + 86_400 * S, 7));
    assert!(!knows(&set, NOW, 8));
}

#[test]
fn each_thing_has_its_own_time_and_seeing_it_again_begins_it_anew() {
    let mut set = recent(DAY);
    see(&mut set, NOW, 7);
    see(&mut set, NOW + 3600 * S, 8);
    see(&mut set, NOW + 80_000 * S, 8);
    assert!(!knows(&set, NOW + 86_400 * S, 7) && knows(&set, NOW + 160_000 * S, 8));
}

#[test]
fn seeing_a_thing_twice_in_a_minute_writes_nothing() {
    let mut set = recent(DAY);
    see(&mut set, NOW, 7);
    assert!(!see(&mut set, NOW + 59 * S, 7) && see(&mut set, NOW + 60 * S, 7));
}

#[test]
fn the_seventeenth_takes_the_place_of_the_one_that_was_seen_longest_ago() {
    let mut set = recent(DAY);
    (1..=16).for_each(|tag| _ = see(&mut set, NOW, tag));
    assert!(see(&mut set, NOW, 1), "it comes to the front");
    see(&mut set, NOW, 17);
    assert!(knows(&set, NOW, 1) && !knows(&set, NOW, 2));
    assert_eq!((1..=20).filter(|tag| knows(&set, NOW, *tag)).count(), 16);
}

#[test]
fn an_operator_has_it_forget_all() {
    let mut set = recent(DAY);
    see(&mut set, NOW, 7);
    assert!(set.run(NOW, Op::Give(u32::MAX)).changed && !knows(&set, NOW, 7));
}

#[test]
fn two_sets_become_one_that_knows_the_latest_of_both() {
    let (mut one, mut two) = (recent(DAY), recent(DAY));
    (1..=10).for_each(|tag| _ = see(&mut one, NOW + tag * 60 * S, tag));
    (8..=20).for_each(|tag| _ = see(&mut two, NOW + tag * 60 * S, tag));
    let words = one.spec.words();
    let now = Time::from_nanos(NOW + 3600 * S);
    let mut joined = one;
    assert!(join(&one.spec, &mut joined.state[..words], &mut two.state[..words], now));
    assert_eq!(
        (1..=30).filter(|tag| knows(&joined, NOW + 3600 * S, *tag)).collect::<Vec<_>>(),
        (5..=20).collect::<Vec<_>>()
    );
    let before = joined;
    assert!(!join(&one.spec, &mut joined.state[..words], &mut one.state[..words], now));
    assert_eq!(joined.state, before.state, "what was displaced stays away");
}

#[test]
fn a_changed_time_to_live_is_in_force_for_what_is_known_already() {
    let mut set = recent(DAY);
    see(&mut set, NOW, 7);
    let mut longer = recent(Span::from_secs(2 * 86_400));
    let words = set.spec.words();
    convert(
        &set.spec,
        &mut set.state[..words],
        &longer.spec,
        &mut longer.state[..words],
        Time::from_nanos(NOW),
    );
    assert!(knows(&longer, NOW + 2 * 86_400 * S - 1, 7));
    assert_eq!(longer.state[0], NOW + 2 * 86_400 * S);
}

#[test]
fn a_clock_that_is_set_back_forgets_nothing() {
    let mut set = recent(DAY);
    see(&mut set, NOW, 7);
    see(&mut set, NOW - 3600 * S, 8);
    assert!(knows(&set, NOW, 7) && knows(&set, NOW, 8));
}
