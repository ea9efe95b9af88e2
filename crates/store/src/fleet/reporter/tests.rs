#[cfg(test)]
mod rolling_change;

use super::super::GateDetails;
use super::*;
use crate::{StoreError, StoreHealth};
use tollgate_bucket::Span;

const START: Time = Time::from_nanos(1_800_000_000_000_000_000);

fn report(version: u64, details: GateDetails) -> GateReport {
    GateReport {
        host: "a".to_owned(),
        process: 1,
        program: "1".to_owned(),
        uptime: 0,
        policy: Some(PolicyId { version, hash: String::new() }),
        refused: None,
        details: Some(details),
    }
}

fn details(buckets: u64, is_up: bool, trips: u32) -> GateDetails {
    GateDetails { buckets, store: StoreHealth { is_up, trips, since_trip: None } }
}

#[test]
fn a_gate_reports_at_its_start_when_there_is_news_and_every_ten_seconds() {
    let mut reporter = GateReporter::new(START);
    let first = report(1, details(0, true, 0));
    assert!(reporter.is_due(&first, START), "it starts");
    assert_eq!(reporter.note(first.clone(), Ok(()), START), Ok(()));
    assert!(!reporter.is_due(&first, START.after(Span::from_secs(7))));
    let soon = START.after(Span::from_millis(1));
    assert!(reporter.is_due(&report(2, details(0, true, 0)), soon), "another policy");
    let down = report(1, details(0, false, 1));
    assert!(!reporter.is_due(&down, soon), "the store may come and go");
    assert!(reporter.is_due(&down, START.after(Span::from_secs(2))), "the store is down");
    assert!(!reporter.is_due(&report(1, details(9, true, 1)), soon), "what changes all the time");
    assert!(reporter.is_due(&first, START.after(Span::from_secs(12))));
    assert_eq!(reporter.uptime(START.after(Span::from_millis(2_900))), 2);
}

#[test]
fn a_report_that_did_not_reach_the_list_is_due_again_and_one_that_it_cannot_take_is_not() {
    let first = report(1, details(0, true, 0));
    let mut reporter = GateReporter::new(START);
    assert_eq!(reporter.note(first.clone(), Err(FleetError::Conflict), START), Ok(()));
    assert!(reporter.is_due(&first, START) && !reporter.has_reported());
    let down = FleetError::Store(StoreError::Unreachable("unplugged".to_owned()));
    assert_eq!(reporter.note(first.clone(), Err(down.clone()), START), Err(down));
    assert!(reporter.is_due(&first, START));
    assert_eq!(reporter.note(first.clone(), Err(FleetError::Full), START), Err(FleetError::Full));
    assert!(!reporter.is_due(&first, START));
}
