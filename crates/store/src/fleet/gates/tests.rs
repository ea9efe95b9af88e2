use std::sync::Arc;

use super::super::PolicyNote;
use super::super::tests::{fleet, run};
use super::*;

fn report(host: &str, process: u32, version: u64) -> GateReport {
    let policy = Some(PolicyId { version, hash: "0123456789abcdef".to_owned() });
    let (host, program) = (host.to_owned(), "0.1.0".to_owned());
    GateReport { host, process, program, uptime: 90, policy, refused: None, details: Some(details(20_000)) }
}

fn details(buckets: u64) -> GateDetails {
    GateDetails { buckets, store: StoreHealth { is_up: true, trips: 0, since_trip: None } }
}

/// This many seconds after the tests began.
fn at(seconds: u64) -> Time {
    Time::from_nanos(1_800_000_000_000_000_000).after(Span::from_secs(seconds))
}

fn names(gates: &[ReportedGate]) -> Vec<&str> {
    gates.iter().map(|gate| &*gate.name).collect()
}

#[test]
fn gates_are_listed_by_their_machines_and_by_process_where_a_machine_has_several() {
    let records = Arc::default();
    let fleet = fleet(&records, b"secret");
    assert_eq!(run(fleet.gates(at(0))), Ok(Vec::new()));
    for (host, process) in [("web-2", 20), ("web-1", 10), ("web-2", 7)] {
        run(fleet.report(GateId::random(), &report(host, process, 1), at(0))).unwrap();
    }
    let gates = run(fleet.gates(at(3))).unwrap();
    assert_eq!(names(&gates), ["web-1", "web-2/20", "web-2/7"]);
    assert_eq!((gates[0].age, &gates[0].report), (Span::from_secs(3), &report("web-1", 10, 1)));
}

#[test]
fn a_report_takes_the_place_of_the_last_one_and_a_silent_gate_goes_after_a_minute() {
    let records = Arc::default();
    let fleet = fleet(&records, b"secret");
    let (one, silent) = (GateId::random(), GateId::random());
    run(fleet.report(one, &report("one", 1, 1), at(0))).unwrap();
    run(fleet.report(silent, &report("silent", 1, 1), at(0))).unwrap();
    run(fleet.report(one, &report("one", 1, 2), at(60))).unwrap();
    let gates = run(fleet.gates(at(61))).unwrap();
    assert_eq!(names(&gates), ["one", "silent"]);
    assert_eq!((gates[0].report.policy.as_ref().unwrap().version, gates[0].age), (2, Span::from_secs(1)));
    run(fleet.report(one, &report("one", 1, 2), at(61))).unwrap();
    assert_eq!(names(&run(fleet.gates(at(61))).unwrap()), ["one"]);
}

#[test]
fn a_gate_that_ends_is_out_of_the_list_at_once() {
    let records = Arc::default();
    let fleet = fleet(&records, b"secret");
    let (one, two) = (GateId::random(), GateId::random());
    assert_eq!(run(fleet.sign_off(one)), Ok(()), "there is no list");
    run(fleet.report(one, &report("one", 1, 1), at(0))).unwrap();
    run(fleet.report(two, &report("two", 1, 1), at(0))).unwrap();
    for _ in 0..2 {
        assert_eq!(run(fleet.sign_off(one)), Ok(()));
        assert_eq!(names(&run(fleet.gates(at(0))).unwrap()), ["two"]);
    }
}

#[test]
fn of_two_gates_that_report_at_the_same_time_one_is_told_to_try_again() {
    let records = Arc::default();
    let fleet = fleet(&records, b"secret");
    let LoadedGates { mut list, version, now } = run(fleet.load_gates(at(0))).unwrap();
    list.put(GateId::random(), &report("late", 1, 1), now).unwrap();
    run(fleet.report(GateId::random(), &report("one", 1, 1), at(0))).unwrap();
    assert_eq!(run(fleet.write_gates(&list, version)), Err(FleetError::Conflict));
    assert_eq!(names(&run(fleet.gates(at(0))).unwrap()), ["one"]);
}

/// A gate that was upgraded first must not hide the others, nor lose what it reports of itself.
#[test]
fn reports_of_later_versions_are_read_as_far_as_they_are_known_and_passed_on_as_they_came() {
    let records = Arc::default();
    let fleet = fleet(&records, b"secret");
    let longer = [report("newer", 1, 1).encode(), b"a field of tomorrow".to_vec()].concat();
    let entry = |report: Vec<u8>| GateEntry { id: GateId::random(), at: at(0).as_nanos(), report };
    let list = GateList(vec![entry(longer), entry(b"\xff\xff\xff".to_vec())]);
    run(fleet.write_gates(&list, None)).unwrap();
    assert_eq!(names(&run(fleet.gates(at(0))).unwrap()), ["newer"]);
    run(fleet.report(GateId::random(), &report("older", 1, 1), at(1))).unwrap();
    assert_eq!(names(&run(fleet.gates(at(1))).unwrap()), ["newer", "older"]);
    assert_eq!(run(fleet.load_gates(at(1))).unwrap().list.0[..2], list.0);
}

/// The report of a program that knew nothing of buckets and trips, and that program's look at one that does.
#[test]
fn what_a_later_version_added_is_missing_in_earlier_reports_and_does_not_hinder_earlier_programs() {
    let full = report("one", 1, 1);
    let earlier = GateReport { details: None, ..full.clone() };
    assert_eq!(GateReport::decode(&earlier.encode()), Some(earlier.clone()));
    assert_eq!(GateReport::decode(&full.encode()), Some(full.clone()));
    assert!(full.encode().starts_with(&earlier.encode()));
    // Half of it is as good as nothing.
    let torn = &full.encode()[..earlier.encode().len() + 1];
    assert_eq!(GateReport::decode(torn), Some(earlier));
}

#[test]
fn the_longest_reports_of_all_gates_fit_into_a_record_and_one_more_gate_is_refused() {
    let records = Arc::default();
    let fleet = fleet(&records, b"secret");
    let mut longest = report(&"ö".repeat(500), u32::MAX, u64::MAX);
    longest.program = "9".repeat(500);
    longest.uptime = u64::MAX;
    let store = StoreHealth { is_up: false, trips: u32::MAX, since_trip: Some(u64::MAX) };
    longest.details = Some(GateDetails { buckets: u64::MAX, store });
    longest.refused =
        Some(PolicyRefusal { policy: longest.policy.clone().unwrap(), why: "why\u{1b}".repeat(500) });
    let first = GateId::random();
    run(fleet.report(first, &longest, at(0))).unwrap();
    for _ in 1..MAX_GATES {
        run(fleet.report(GateId::random(), &longest, at(0))).unwrap();
    }
    let one_more = run(fleet.report(GateId::random(), &longest, at(0)));
    assert_eq!(one_more, Err(FleetError::Full));
    assert_eq!(run(fleet.report(first, &longest, at(1))), Ok(()));
    let gates = run(fleet.gates(at(1))).unwrap();
    assert_eq!(gates.len(), MAX_GATES);
    let GateReport { host, refused, details, .. } = &gates[0].report;
    assert_eq!((host.len(), details), (MAX_HOST_LEN, &longest.details));
    let why = &refused.as_ref().unwrap().why;
    assert!(why.len() > 100 && why.starts_with("whywhy"), "{why}");
    let whole = MAX_REPORT_LEN - LEN_OF_LEN..=MAX_REPORT_LEN;
    assert!(whole.contains(&longest.encode().len()), "{}", longest.encode().len());
}

#[test]
fn fifty_gates_make_a_record_of_four_kilobytes() {
    let mut list = GateList::default();
    for process in 0..50 {
        list.put(GateId::random(), &report("gate-12.example", process, 12), at(0)).unwrap();
    }
    assert!((3_000..4_000).contains(&bytes_of(&list).len()), "{}", bytes_of(&list).len());
}

/// Without the secret, writers of the database do not hide a gate that refuses a policy.
#[test]
fn a_list_of_another_secret_is_neither_read_nor_replaced() {
    let records = Arc::default();
    let id = GateId::random();
    run(fleet(&records, b"secret").report(id, &report("one", 1, 1), at(0))).unwrap();
    let other = fleet(&records, b"Secret");
    let foreign = Err(FleetError::Foreign("list of gates"));
    assert_eq!(run(other.gates(at(0))).map(drop), foreign);
    assert_eq!(run(other.report(GateId::random(), &report("two", 1, 1), at(0))), foreign);
    assert_eq!(names(&run(fleet(&records, b"secret").gates(at(0))).unwrap()), ["one"]);
}

#[test]
fn a_list_that_cannot_be_read_ends_with_the_policy_that_is_replaced() {
    let records = Arc::default();
    run(fleet(&records, b"lost").report(GateId::random(), &report("one", 1, 1), at(0))).unwrap();
    let fleet = fleet(&records, b"secret");
    let id = GateId::random();
    run(fleet.replace("a = 1", PolicyNote::default())).unwrap();
    // The database of these tests keeps what has expired.
    records.expire();
    run(fleet.report(id, &report("two", 1, 1), at(0))).unwrap();
    run(fleet.replace("a = 2", PolicyNote::default())).unwrap();
    assert_eq!(names(&run(fleet.gates(at(0))).unwrap()), ["two"], "one that can be read stays");
}

#[test]
fn a_gate_answers_for_the_policy_with_this_number_and_this_text() {
    let policy = |version, hash: &str| PolicyId { version, hash: hash.to_owned() };
    let refusal = PolicyRefusal { policy: policy(2, "b"), why: String::new() };
    let gate =
        GateReport { policy: Some(policy(1, "a")), refused: Some(refusal.clone()), ..report("one", 1, 1) };
    assert_eq!(gate.answer(&policy(1, "a")), PolicyAnswer::Taken);
    assert_eq!(gate.answer(&policy(2, "b")), PolicyAnswer::Refused(&refusal));
    for other in [policy(3, "c"), policy(1, "c"), policy(2, "c")] {
        assert_eq!(gate.answer(&other), PolicyAnswer::Untried);
    }
    let alone = GateReport { policy: None, ..gate };
    assert_eq!(alone.answer(&policy(1, "a")), PolicyAnswer::NotFollowing);
}

#[test]
fn gates_report_every_ten_seconds_and_not_all_at_once() {
    let intervals: Vec<Span> = (0..100).map(|_| GateId::random().report_interval()).collect();
    assert!(intervals.iter().all(|span| (Span::from_secs(8)..Span::from_secs(12)).contains(span)));
    let early = intervals.iter().filter(|span| **span < Span::from_secs(10)).count();
    assert!((20..80).contains(&early), "{early}");
}
