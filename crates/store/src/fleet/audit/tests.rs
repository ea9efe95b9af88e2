use std::sync::Arc;

use super::super::tests::{Ending, Records, fleet, run};
use super::*;
use crate::{CompareAndSwap, FleetKeys, Namespace};

const ONE: AuditLogId = AuditLogId(1);
const TWO: AuditLogId = AuditLogId(2);

/// The line number `number` of a log, with this text.
fn line(number: u8, text: &str) -> NextAuditLine {
    NextAuditLine {
        hash: [number; 32],
        text: Some(text.to_owned()).filter(|text| !text.is_empty()),
        is_whole: true,
        is_after_gap: false,
    }
}

/// What is next in a log after the line of this number; 0 is before the first one.
fn source(id: AuditLogId, after: u8) -> AuditSource {
    let head = (after > 0).then_some([after; 32]);
    AuditSource { id, gate: format!("gate-{}", id.0), head, at: Time::from_nanos(u64::from(after)) }
}

fn texts(audit: &SharedAudit) -> Vec<&str> {
    audit.lines.iter().map(|line| &*line.text).collect()
}

#[test]
fn the_lines_of_two_gates_are_in_one_order_and_each_log_is_followed_to_its_last_line() {
    let records = Arc::default();
    let fleet = fleet(&records, b"secret");
    assert_eq!(run(fleet.audit(Time::default())).unwrap(), SharedAudit::default());
    run(fleet.follow_audit_log(&source(ONE, 0), &[line(1, "a"), line(2, "")])).unwrap();
    run(fleet.follow_audit_log(&source(TWO, 0), &[line(7, "b")])).unwrap();
    run(fleet.follow_audit_log(&source(ONE, 2), &[line(3, "c")])).unwrap();
    let audit = run(fleet.audit(Time::default())).unwrap();
    assert_eq!(texts(&audit), ["a", "b", "c"]);
    let places: Vec<_> = audit.lines.iter().map(|line| (line.sequence, line.number)).collect();
    assert_eq!(places, [(1, 1), (2, 1), (3, 3)]);
    let heads: Vec<_> = audit.logs.iter().map(|log| (log.id, log.head, log.lines)).collect();
    assert_eq!(heads, [(TWO, [7; 32], 1), (ONE, [3; 32], 3)]);
    assert_eq!(run(fleet.followed_audit_log(ONE)).unwrap().unwrap().gate, "gate-1");
}

/// Two processes of one gate share its file during an upgrade.
#[test]
fn a_line_that_another_process_has_added_is_not_added_twice() {
    let records = Arc::default();
    let fleet = fleet(&records, b"secret");
    run(fleet.follow_audit_log(&source(ONE, 0), &[line(1, "a")])).unwrap();
    let late = run(fleet.follow_audit_log(&source(ONE, 0), &[line(1, "a")]));
    assert_eq!(late, Err(FleetError::Conflict));
    assert_eq!(texts(&run(fleet.audit(Time::default())).unwrap()), ["a"]);
}

#[test]
fn the_oldest_lines_make_room_and_leave_nothing_behind() {
    let records: Arc<Records> = Arc::default();
    let fleet = fleet(&records, b"secret");
    let text = "x".repeat(20_000);
    let mut before = 0;
    for number in 1..=40 {
        run(fleet.follow_audit_log(&source(ONE, before), &[line(number, &text)])).unwrap();
        before = number;
    }
    let audit = run(fleet.audit(Time::default())).unwrap();
    let places: Vec<u64> = audit.lines.iter().map(|line| line.sequence).collect();
    assert_eq!(places, (25..=40).collect::<Vec<_>>());
    assert!(audit.lost.is_empty());
    assert_eq!(records.count(), MAX_PAGES + 1, "the pages and the index");
}

#[test]
fn a_log_that_was_not_heard_of_for_longest_makes_room() {
    let mut index = AuditIndex::default();
    for id in 0..=MAX_LOGS as u64 {
        index.follow(&source(AuditLogId(id), 0), &[line(1, "")]);
    }
    index.follow(&AuditSource { gate: "ä".repeat(99), ..source(AuditLogId(1), 1) }, &[]);
    assert_eq!((index.logs.len(), index.log(AuditLogId(0))), (MAX_LOGS, None));
    assert_eq!(index.log(AuditLogId(1)).unwrap().gate, "ä".repeat(32));
    assert!(bytes_of(&index).len() < super::super::MAX_TEXT_LEN / 2);
}

#[test]
fn what_names_a_person_gets_another_text_in_every_page() {
    let records: Arc<Records> = Arc::default();
    let fleet = fleet(&records, b"secret");
    let long = "x".repeat(20_000);
    let lines = [line(1, "alice"), line(2, &long)];
    run(fleet.follow_audit_log(&source(ONE, 0), &lines)).unwrap();
    run(fleet.follow_audit_log(&source(ONE, 2), &[line(3, &long), line(4, "alice again")])).unwrap();
    let other = |text: &str| text.starts_with("alice").then(|| "-".to_owned());
    assert_eq!(run(fleet.rewrite_audit(other, true)).unwrap(), 2);
    assert_eq!(texts(&run(fleet.audit(Time::default())).unwrap())[0], "alice", "a dry run changes nothing");
    assert_eq!(run(fleet.rewrite_audit(other, false)).unwrap(), 2);
    let audit = run(fleet.audit(Time::default())).unwrap();
    assert_eq!(texts(&audit), ["-", &*long, &*long, "-"]);
    assert_eq!(audit.lines.iter().map(|line| line.is_whole).collect::<Vec<_>>(), [false, true, true, false]);
    assert_eq!((audit.lines[0].hash, records.count()), ([1; 32], 3));
    assert_eq!(run(fleet.rewrite_audit(other, false)).unwrap(), 0);
}

#[test]
fn lines_that_the_database_has_lost_are_told_of_and_later_ones_are_taken() {
    let records: Arc<Records> = Arc::default();
    let fleet = fleet(&records, b"secret");
    run(fleet.follow_audit_log(&source(ONE, 0), &[line(1, "a"), line(2, "b")])).unwrap();
    let page = run(fleet.load_audit()).unwrap().0.pages[0].name;
    run(fleet.remove(fleet.keys.text(page))).unwrap();
    records.expire();
    assert_eq!(run(fleet.audit(Time::default())).unwrap().lost, [(1, 2)]);
    run(fleet.follow_audit_log(&source(ONE, 2), &[line(3, "c")])).unwrap();
    let audit = run(fleet.audit(Time::default())).unwrap();
    assert_eq!((texts(&audit), &*audit.lost), (vec!["c"], &[(1, 2)][..]));
}

/// A store that is slow, or a gate that ends: what is asked for again is done.
#[test]
fn a_person_who_is_forgotten_twice_is_in_no_record_wherever_the_first_time_ended() {
    let long = "x".repeat(20_000);
    let lines = [line(1, "alice"), line(2, &long)];
    let other = |text: &str| text.starts_with("alice").then(|| "-".to_owned());
    for requests in 0..18 {
        let records: Arc<Records> = Arc::default();
        let fleet = fleet(&records, b"secret");
        run(fleet.follow_audit_log(&source(ONE, 0), &lines)).unwrap();
        run(fleet.follow_audit_log(&source(ONE, 2), &[line(3, &long), line(4, "alice again")])).unwrap();
        let backend: Arc<dyn CompareAndSwap> = Arc::new(Ending(Arc::clone(&records), requests.into()));
        let ending = Fleet::new(backend, FleetKeys::new(&Namespace::default(), &[b"secret"]));
        let first = run(ending.rewrite_audit(other, false));
        assert_eq!(first.is_ok(), requests > 15, "{requests}: {first:?}");
        run(fleet.rewrite_audit(other, false)).unwrap();
        assert!(!records.have(b"alice"), "after {requests} requests");
        assert_eq!(texts(&run(fleet.audit(Time::default())).unwrap()), ["-", &*long, &*long, "-"]);
    }
}

/// The page that a gate had replaced when it ended is named nowhere else.
#[test]
fn a_page_that_a_gate_could_not_remove_is_removed_by_the_next_one() {
    let records: Arc<Records> = Arc::default();
    let fleet = fleet(&records, b"secret");
    run(fleet.follow_audit_log(&source(ONE, 0), &[line(1, "a")])).unwrap();
    // Up to the swap of the index.
    let backend: Arc<dyn CompareAndSwap> = Arc::new(Ending(Arc::clone(&records), 4.into()));
    let ending = Fleet::new(backend, FleetKeys::new(&Namespace::default(), &[b"secret"]));
    assert!(run(ending.follow_audit_log(&source(ONE, 1), &[line(2, "b")])).is_err());
    assert_eq!(records.count(), 3);
    run(fleet.follow_audit_log(&source(ONE, 2), &[line(3, "c")])).unwrap();
    assert_eq!(records.count(), 2, "the page and the index");
    assert_eq!(texts(&run(fleet.audit(Time::default())).unwrap()), ["a", "b", "c"]);
}

#[test]
fn lines_of_more_than_a_year_ago_are_not_kept() {
    let records: Arc<Records> = Arc::default();
    let fleet = fleet(&records, b"secret");
    run(fleet.follow_audit_log(&source(ONE, 0), &[line(1, "a")])).unwrap();
    let now = Time::default().after(KEPT).after(Span::from_secs(1));
    let audit = run(fleet.audit(now)).unwrap();
    assert_eq!((texts(&audit), &*audit.lost), (vec![], &[][..]));
    run(fleet.follow_audit_log(&AuditSource { at: now, ..source(ONE, 1) }, &[line(2, "b")])).unwrap();
    assert_eq!(texts(&run(fleet.audit(now)).unwrap()), ["b"]);
    assert_eq!(records.count(), 2, "the page and the index");
}

/// A quiet installation fills no page in a year.
#[test]
fn a_line_of_yesterday_does_not_go_with_one_of_a_year_ago() {
    let records: Arc<Records> = Arc::default();
    let fleet = fleet(&records, b"secret");
    let day = |day: u64| Time::default().after(Span::from_secs(day * 86_400));
    run(fleet.follow_audit_log(&source(ONE, 0), &[line(1, "a")])).unwrap();
    run(fleet.follow_audit_log(&AuditSource { at: day(364), ..source(ONE, 1) }, &[line(2, "b")])).unwrap();
    assert_eq!(texts(&run(fleet.audit(day(366))).unwrap()), ["b"]);
}

/// A gate that adds a line takes the page away; some databases show for a while that it was removed.
#[test]
fn a_page_that_cannot_be_read_may_have_a_person() {
    let records: Arc<Records> = Arc::default();
    let fleet = fleet(&records, b"secret");
    run(fleet.follow_audit_log(&source(ONE, 0), &[line(1, "alice")])).unwrap();
    let page = run(fleet.load_audit()).unwrap().0.pages[0].name;
    run(fleet.remove(fleet.keys.text(page))).unwrap();
    let rewritten = run(fleet.rewrite_audit(|_| None, false));
    assert_eq!(rewritten, Err(FleetError::Foreign(PAGE)));
    records.expire();
    assert_eq!(run(fleet.rewrite_audit(|_| None, false)), Ok(0));
}

/// Who can write to the database and has not the secret adds no line and alters none.
#[test]
fn an_audit_of_another_secret_is_refused_until_a_policy_replaces_it() {
    let records: Arc<Records> = Arc::default();
    run(fleet(&records, b"lost").follow_audit_log(&source(ONE, 0), &[line(1, "a")])).unwrap();
    let fleet = fleet(&records, b"secret");
    assert!(matches!(run(fleet.audit(Time::default())), Err(FleetError::Foreign(_))));
    let added = run(fleet.follow_audit_log(&source(ONE, 0), &[line(1, "a")]));
    assert!(matches!(added, Err(FleetError::Foreign(_))));
    run(fleet.replace("a = 1", Default::default())).unwrap();
    records.expire();
    run(fleet.follow_audit_log(&source(ONE, 0), &[line(1, "a")])).unwrap();
}
