//! What gates append to a record of memcached amounts to the steps of [`step`](tollgate::bucket::step).

use std::time::Duration;

use tollgate::bucket::{Continuous, Key, Op, Spec};
use tollgate::store::{StepProgram, StoreRecord, Swap};
use tollgate::time::{Span, Time};

use crate::arithmetic::{Case, Shape};
use crate::gate::Gate;
use support::servers::memcached::Memcached;
use support::{Server, started};

#[test]
fn a_continuous_bucket_is_stepped_as_by_the_gate() {
    same_as_step(Shape::Continuous);
}

#[test]
fn an_interval_is_stepped_as_by_the_gate() {
    same_as_step(Shape::Interval);
}

#[test]
fn a_floor_is_stepped_as_by_the_gate() {
    same_as_step(Shape::Floor);
}

fn same_as_step(shape: Shape) {
    let server = started::<Memcached>();
    let gate = Gate::new(&server.url());
    let mut stepped = 0;
    for (number, mut case) in Case::all(shape, 2_000, &[1_800_000_000_000_000]).enumerate() {
        // What never fits is not appended.
        let burst = case.spec.burst();
        case.ops.retain(|op| matches!(op, Op::Take(tokens) if *tokens <= burst));
        // The record of a clock that was set back is decided at a later time, or left to the gate.
        let is_ahead = Time::from_nanos(case.words[0]).since(case.now) > case.spec.max_ttl();
        let Some(program) = case.program().filter(|_| !is_ahead) else { continue };
        let key = Key(number as u128 + 1);
        gate.write(key, None, record(&case, &case.words));
        let what = || format!("case {number}: {:?} {:?} {:?}", case.spec, case.words, case.ops);
        let swap = gate.ask(|store| store.swap_or_step(key, None, record(&case, &case.words), program));
        let Ok(Swap::Stepped { found, now, .. }) = swap else { panic!("{}: {swap:?}", what()) };
        assert_eq!((found, now), (case.record(&case.words), case.now), "{}", what());
        let (words, ..) = case.run();
        assert_eq!(gate.load(key).unwrap().bytes, case.record(&words), "{}", what());
        stepped += 1;
    }
    assert!(stepped > 500, "{stepped}");
}

/// Long enough for whatever stands there, since the server's clock is not the case's.
fn record(case: &Case, words: &[u64]) -> StoreRecord {
    StoreRecord {
        bytes: case.record(words),
        ttl: Span::from_secs(86_400),
        limit: "address".into(),
        full_at: case.now,
    }
}

#[test]
fn takes_of_many_gates_are_all_there_and_their_sum_is_written_now_and_then() {
    let mut server = started::<Memcached>();
    let first = Gate::new(&server.url());
    let gates: Vec<Gate> = (0..4).map(|_| first.beside(&server.url())).collect();
    let case = Case::all(Shape::Continuous, 1, &[1_800_000_000_000_000]).next().unwrap();
    let spec = Spec::Continuous(Continuous::new(1, Span::from_secs(60), 1_000).unwrap());
    let case = Case { spec, words: vec![0], ops: vec![Op::Take(1)], ..case };
    let program =
        || StepProgram::new(&spec, [Op::Take(1)], case.now, case.now.after(Span::from_secs(5))).unwrap();
    let mut refused = 0;
    for round in 0..100 {
        let gate = &gates[round % gates.len()];
        let swap =
            gate.ask(|store| store.swap_or_step(Key(1), None, record(&case, &[0]), program())).unwrap();
        refused += u32::from(!matches!(swap, Swap::Stepped { .. }));
        // No request waits for the sum.
        gate.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
    }
    assert_eq!(refused, 0);
    let all = Case { ops: vec![Op::Take(1); 100], ..case };
    let (words, ..) = all.run();
    assert_eq!(gates[0].load(Key(1)).unwrap().bytes, all.record(&words));
    // A record of 42 bytes and some entries of 24.
    let length = server.nodes()[0].ask(b"lru_crawler metadump all\r\n");
    let size = length.iter().find_map(|line| line.split(" size=").nth(1)?.trim().parse::<usize>().ok());
    assert!(size.is_some_and(|size| size < 42 + 100 + 24 * 32), "{length:?}");
}
