//! The simulation of `benches/scale` in small, so that it does not rot: 20 gates, 10,000 clients, four shards that fail.
//!
//! It checks itself that nothing was admitted beyond what is promised; here it is seen to that something happened, and that
//! the check can fail.

#![allow(clippy::unwrap_used, reason = "these are tests")]

#[path = "../../benches/scale/simulation.rs"]
mod simulation;

use simulation::{Admissions, Routing, Settings, run};
use tollgate::time::{Span, Time};

#[test]
fn a_small_world_keeps_its_promises_and_everything_happens_in_it() {
    let report = run(&Settings::tiny(1));
    let all = |what: fn(&simulation::Phase) -> u64| report.phases.iter().map(what).sum::<u64>();
    assert!(all(|phase| phase.mirrored) > 1000, "{report}");
    assert!(all(|phase| phase.lost) > 100, "{report}");
    assert!(all(|phase| phase.timeouts) > 100, "{report}");
    assert!(all(|phase| phase.alone) > 100, "{report}");
    let [by_store, forgotten, alone] = &report.fates;
    assert!(by_store.buckets > 100 && by_store.over == 0, "{report}");
    assert!(forgotten.buckets > 0, "{report}");
    assert!(alone.over > 0 && alone.most_alone > 10, "{report}");
    assert_eq!(report.shut_at_end, 0, "all gates ask again\n{report}");
}

#[test]
fn whatever_fails_alone_the_promises_are_kept() {
    for (number, settings) in Settings::tiny(2).failing().iter().enumerate() {
        let report = run(settings);
        let alone = report.phases.iter().map(|phase| phase.alone).sum::<u64>();
        assert_eq!(alone > 0, number > 0, "gates decide alone only if something fails\n{report}");
        assert_eq!(report.fates[0].over, 0, "{report}");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let told = |seed| run(&Settings::tiny(seed)).to_string();
    assert_eq!(told(7), told(7));
    assert_ne!(told(7).split_once('\n'), told(8).split_once('\n'));
}

#[test]
fn who_always_comes_to_the_same_gate_is_answered_by_its_mirror() {
    let share = |routing| {
        let report = run(&Settings { routing, ..Settings::tiny(3) });
        let attack = &report.phases[1];
        (attack.mirrored * 100 / attack.attempts, attack.questions)
    };
    let (any, home) = (share(Routing::Any), share(Routing::Home));
    assert!(home.0 > any.0 && home.1 < any.1, "{any:?}, {home:?}");
}

#[test]
#[should_panic(expected = "the store gave 1 more than the limit")]
fn one_admission_too_many_is_noticed() {
    let mut admissions = Admissions::default();
    let start = Time::from_nanos(1_800_000_000_000_000_000);
    (0..6).for_each(|second| admissions.add(start.after(Span::from_secs(second)), None));
    let _ = admissions.judge(&Settings::address(), 0);
}

#[test]
#[should_panic(expected = "gate 3 alone gave 1 more than the limit")]
fn a_gate_that_gives_more_than_its_own_bucket_is_noticed() {
    let mut admissions = Admissions::default();
    let start = Time::from_nanos(1_800_000_000_000_000_000);
    (0..6).for_each(|_| admissions.add(start, Some(3)));
    let _ = admissions.judge(&Settings::address(), 0);
}
