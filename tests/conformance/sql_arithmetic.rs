//! The statements of PostgreSQL and MySQL take the steps of [`step`](tollgate::bucket::step).
//!
//! A statement steps as of the time that it is told, but not long before or after it by the database's own clock, so
//! the times are those of the test.

use std::time::Duration;

use tollgate::bucket::Key;
use tollgate::store::{RecordVersion, StepProgram, StoreError, StoreRecord, Stored, Swap};
use tollgate::time::{Span, Time};

use crate::arithmetic::{Case, Shape, clock};
use crate::gate::Gate;
use support::Server;

pub(crate) fn a_continuous_bucket_is_stepped_as_by_the_gate(server: impl Server) {
    let gate = Gate::ready(&server.url());
    let mut stepped = 0;
    // Not ahead of the database's clock.
    let now = clock(&gate).before(Span::from_secs(2)).as_nanos() / 1000;
    for (number, case) in Case::all(Shape::Continuous, 1_000, &[now]).enumerate() {
        let Some(program) = case.program() else { continue };
        // On a machine that stands still a connection is given up: then the case is tried again, with another key.
        let outcome = (0..10).find_map(|again| {
            let key = Key(u128::try_from(number * 10 + again).unwrap());
            step_once(&gate, key, &case, &program).inspect_err(|_| gate.rest(Duration::from_millis(300))).ok()
        });
        let what =
            || format!("case {number}: {:?} {:?} {:?} at {:?}", case.spec, case.words, case.ops, case.now);
        let (words, changed, all) = case.run();
        let Some((swap, stored)) = outcome else { panic!("{}: no answers", what()) };
        match swap {
            Swap::Stepped { found, now, version } => {
                assert_eq!((found, now), (case.record(&case.words), case.now), "{}", what());
                assert_eq!(stored.version, version);
                assert_eq!(stored.bytes, case.record(&words), "{}: {words:?}", what());
                stepped += 1;
            }
            Swap::Conflict(Some(found)) => {
                assert_eq!(found, stored);
                assert_eq!(found.bytes, case.record(&case.words), "{}", what());
                let is_usual = changed && all && !case.is_unusual() && program.sum().is_some();
                assert!(!is_usual, "{} is usual: {words:?}", what());
            }
            other => panic!("{other:?}: {}", what()),
        }
    }
    assert!(stepped > 100);
}

/// What a step on the case's record is told, and the record after it.
fn step_once(
    gate: &Gate,
    key: Key,
    case: &Case,
    program: &StepProgram,
) -> Result<(Swap, Stored), StoreError> {
    let record = |words: &[u64]| StoreRecord {
        bytes: case.record(words),
        ttl: Span::from_secs(3600),
        limit: "address".into(),
        full_at: Time::from_nanos(1_800_000_000_000_000_000),
    };
    gate.ask(|store| store.swap(key, None, record(&case.words)))?;
    let old = Some(RecordVersion(7));
    let swap = gate.ask(|store| store.swap_or_step(key, old, record(&[1]), program.clone()))?;
    Ok((swap, gate.ask(|store| store.load(key))?.expect("it lives for an hour")))
}
