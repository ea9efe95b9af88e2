//! What only PostgreSQL does: real serialization failures, faults on the wire by a seed, and updates that touch no index.
//!
//! YugabyteDB answers like this all day.

use std::sync::Arc;
use std::time::Duration;

use tollgate::bucket::Key;
use tollgate::store::{RecordVersion, StoreError, Swap};

use crate::gate::Gate;
use crate::tables::record;
use support::servers::Tables as _;
use support::servers::postgres::{Postgres, PostgresSerializable};
use support::servers::wire::Wire;
use support::{Server as _, eventually, started};

const KEY: Key = Key(7);

/// What came of one rival's round.
#[derive(Debug, Clone, PartialEq)]
enum Came {
    Won(RecordVersion),
    Lost,
    /// The write may have happened or not.
    Unknown,
}

/// Every gate swaps at once; a gate that is told to try again does, up to a bound.
fn round(gates: &[Gate], old: Option<RecordVersion>, round: u32) -> Vec<Came> {
    let asking = gates.iter().enumerate().map(|(rival, gate)| {
        let store = Arc::clone(&gate.store);
        gate.spawn(async move {
            for _ in 0..200 {
                match store.swap(KEY, old, record(format!("{round} {rival}").as_bytes())).await {
                    Err(StoreError::WriteConflict) => {}
                    Err(StoreError::NotConnected(_) | StoreError::Unreachable(_)) => return Came::Unknown,
                    Err(error) => panic!("{error}"),
                    Ok(answer) => match answer.value {
                        Swap::Done(version) => return Came::Won(version),
                        Swap::Conflict(_) | Swap::Stepped { .. } => return Came::Lost,
                    },
                }
            }
            panic!("told to come again 200 times")
        })
    });
    let asking: Vec<_> = asking.collect();
    asking.into_iter().zip(gates).map(|(task, gate)| gate.wait(task)).collect()
}

fn gates(count: usize, url: &str) -> Vec<Gate> {
    let first = Gate::ready(url);
    let mut gates: Vec<_> = (1..count).map(|_| first.beside(url)).collect();
    gates.push(first);
    // A gate that has no connection yet would fail its first round on a busy machine.
    for gate in &gates {
        assert!(eventually(Duration::from_secs(10), || gate.ask(|store| store.load(KEY)).is_ok()));
    }
    gates
}

/// G11: SQLSTATE 40001.
#[test]
fn real_serialization_failures_are_given_and_survived() {
    let server = started::<PostgresSerializable>();
    let gates = gates(16, &server.url());
    let mut old = None;
    let failures = || server.log().matches("ERROR:  could not serialize access").count();
    for at in 0..30 {
        let won: Vec<_> = round(&gates, old, at).into_iter().filter(|came| *came != Came::Lost).collect();
        let [Came::Won(version)] = won[..] else { panic!("{won:?} in round {at}") };
        assert_eq!(gates[0].load(KEY).unwrap().version, version);
        old = Some(version);
    }
    assert!(eventually(Duration::from_secs(5), || failures() > 0), "no rival was ever refused");
}

#[test]
fn one_wins_each_round_though_statements_are_refused_on_the_way() {
    let server = started::<Postgres>();
    let wire = Wire::before(server.port(), 5);
    let gates = gates(8, &server.url().replace(&server.port().to_string(), &wire.port().to_string()));
    wire.faults(40, 0);
    let mut old = None;
    for at in 0..40 {
        let won: Vec<_> = round(&gates, old, at).into_iter().filter(|came| *came != Came::Lost).collect();
        let [Came::Won(version)] = won[..] else { panic!("{won:?} in round {at}") };
        old = Some(version);
    }
    let (refusals, losses) = wire.done();
    assert!(refusals > 50 && losses == 0, "{refusals} refusals, {losses} losses");
}

#[test]
fn a_lost_answer_is_an_error_that_is_not_asked_again() {
    let server = started::<Postgres>();
    let wire = Wire::before(server.port(), 6);
    let gate = Gate::ready(&server.url().replace(&server.port().to_string(), &wire.port().to_string()));
    let watcher = Gate::new(&server.url());
    wire.faults(0, 100);
    let swap = gate.ask(|store| store.swap(KEY, None, record(b"one")));
    assert!(matches!(swap, Err(StoreError::Unreachable(_))), "{swap:?}");
    let stored = watcher.load(KEY).expect("the server did it");
    assert_eq!((stored.bytes, wire.done()), (b"one".to_vec(), (0, 1)));
    wire.faults(0, 0);
    let found = eventually(Duration::from_secs(10), || gate.probe().is_ok());
    assert!(found, "it is not connected again");
    let again = gate.ask(|store| store.swap(KEY, None, record(b"two"))).unwrap();
    assert!(matches!(again, Swap::Conflict(Some(found)) if found.version == stored.version));
}

#[test]
fn never_do_two_win_a_round_though_answers_are_lost() {
    let server = started::<Postgres>();
    let wire = Wire::before(server.port(), 7);
    let gates = gates(8, &server.url().replace(&server.port().to_string(), &wire.port().to_string()));
    let watcher = Gate::new(&server.url());
    let mut old = None;
    let mut unknown = 0;
    for at in 0..40 {
        wire.faults(20, 10);
        let came = round(&gates, old, at);
        let won: Vec<_> = came.iter().filter(|came| matches!(came, Came::Won(_))).collect();
        unknown += came.iter().filter(|came| **came == Came::Unknown).count();
        let stored = watcher.load(KEY);
        assert!(won.len() <= 1, "{won:?} in round {at}");
        if let [Came::Won(version)] = won[..] {
            assert_eq!(stored.as_ref().map(|stored| stored.version), Some(*version), "round {at}");
        } else {
            assert!(
                came.contains(&Came::Unknown),
                "no swap won round {at}, and every caller knows: {came:?}"
            );
        }
        old = stored.map(|stored| stored.version);
        // Connections come back one by one, a tenth of a second apart.
        wire.faults(0, 0);
        for gate in &gates {
            assert!(eventually(Duration::from_secs(10), || gate.probe().is_ok()));
        }
    }
    assert!(unknown > 5, "only {unknown} answers were lost");
}

#[test]
fn swaps_touch_no_index() {
    let server = started::<Postgres>();
    let gate = Gate::ready(&server.url());
    let mut version = None;
    for _ in 0..300 {
        version = Some(gate.write(KEY, version, record(&[7; 64])));
    }
    let shares = "SELECT n_tup_hot_upd || ' of ' || n_tup_upd FROM pg_stat_user_tables";
    // A session hands in its counts a second late.
    drop(gate);
    // `due` may change once meanwhile, and has an index.
    let is_told = || ["299 of 299", "298 of 299"].contains(&&server.sql(shares)[..]);
    let told = eventually(Duration::from_secs(10), is_told);
    assert!(told, "{}", server.sql(shares));
    let kilobytes: u32 = server.sql("SELECT pg_relation_size('tollgate_buckets') / 1024").parse().unwrap();
    assert!(kilobytes <= 16, "300 swaps of one bucket made {kilobytes} KiB");
}

#[test]
fn tls_is_spoken_to_trusted_servers_only() {
    let server = Postgres::with(&["ssl=on"]).unwrap();
    let address = |host: &str, options: &str| {
        format!("postgres://tollgate:secret@{host}:{}/tollgate?{options}", server.port())
    };
    let own = format!("sslmode=verify-full&sslrootcert={}", server.root().display());
    let gate = Gate::ready(&address("localhost", &own));
    gate.write(KEY, None, record(b"one"));
    assert_eq!(
        server.sql("SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl"),
        "1"
    );
    for (host, options) in [("localhost", "sslmode=require"), ("127.0.0.1", &own[..])] {
        let told = Gate::new(&address(host, options)).probe();
        assert!(
            matches!(&told, Err(StoreError::NotConnected(why)) if why.contains("certificate")),
            "{told:?}"
        );
    }
}
