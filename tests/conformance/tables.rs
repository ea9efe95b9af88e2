//! Promises of the SQL databases alone: names that are no statements, cleaning, and messages for their operators.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate::bucket::Key;
use tollgate::store::{CompareAndSwap, StoreError, StoreFuture, StoreRecord, Swap};
use tollgate::time::{Span, Time};

use crate::gate::Gate;
use support::eventually;
use support::servers::Tables;

const MISSING: &str =
    "the table `tollgate_buckets` is missing or older than this gate: run `tollgate migrate`";

pub(crate) fn record(bytes: &[u8]) -> StoreRecord {
    let full_at = Time::from_nanos(1_800_000_000_123_456_000);
    StoreRecord { bytes: bytes.to_vec(), ttl: Span::from_secs(60), limit: "address".into(), full_at }
}

/// Asks, and goes away after looking for the answer so many times.
fn give_up<T>(
    gate: &Gate,
    looks: u64,
    question: impl FnOnce(&dyn CompareAndSwap) -> StoreFuture<'_, T>,
) -> Option<Result<T, StoreError>> {
    let asking = question(&*gate.store);
    let patience = async {
        for _ in 0..looks {
            tokio::task::yield_now().await;
        }
    };
    gate.block_on(async {
        tokio::select! {
            biased;
            answer = asking => Some(answer.map(|answer| answer.value)),
            () = patience => None,
        }
    })
}

/// G17: values are bound.
pub(crate) fn a_limits_name_is_no_statement(server: impl Tables) {
    let gate = Gate::ready(&server.url());
    let names =
        ["'; DROP TABLE tollgate_buckets; --", "\\'; DELETE FROM tollgate_buckets; #", "\"`$1 ? %s ü"];
    for (at, name) in names.iter().enumerate() {
        let new = StoreRecord { limit: (*name).into(), ..record(b"one") };
        let swap = gate.ask(|store| store.swap(Key(at as u128), None, new)).unwrap();
        assert!(matches!(swap, Swap::Done(_)), "{swap:?}");
    }
    assert_eq!(server.sql("SELECT COUNT(*) FROM tollgate_buckets"), "3");
    let first = format!(
        "SELECT COUNT(*) FROM tollgate_buckets WHERE limit_name = '{}'",
        names[0].replace('\'', "''")
    );
    assert_eq!(server.sql(&first), "1");
    let odd = StoreRecord { limit: format!("a\0b{}", "x".repeat(1000)).into(), ..record(b"one") };
    assert!(gate.ask(|store| store.swap(Key(9), None, odd)).is_ok());
}

pub(crate) fn a_person_can_read_whose_bucket_it_is_and_when_it_is_full(server: impl Tables) {
    let gate = Gate::ready(&server.url());
    gate.write(Key(7), None, record(b"one"));
    let full_at = server.sql("SELECT full_at FROM tollgate_buckets WHERE limit_name = 'address'");
    assert!(full_at.starts_with("2027-01-15 08:00:00.123456"), "{full_at}");
}

pub(crate) fn the_usual_questions_are_one_statement_each(mut server: impl Tables) {
    let gate = Gate::ready(&server.url());
    let before = server.questions();
    let mut version = None;
    for _ in 0..10 {
        assert_eq!(gate.load(Key(7)).map(|stored| stored.version), version);
        version = Some(gate.write(Key(7), version, record(b"one")));
        gate.probe().unwrap();
    }
    let counted = eventually(Duration::from_secs(5), || server.questions() - before == 20);
    assert!(counted, "{} questions", server.questions() - before);
}

pub(crate) fn a_late_answer_goes_to_no_other_caller(mut server: impl Tables) {
    let gate = Gate::ready(&server.url());
    for key in 0..20 {
        gate.write(Key(key), None, record(&[u8::try_from(key).unwrap()]));
    }
    let mut late = 0;
    for round in 0..MOST_ROUNDS {
        let dropped = give_up(&gate, round % 30, |store| store.load(Key(1)));
        late += u32::from(dropped.is_none());
        let key = 2 + u128::from(round % 18);
        assert_eq!(gate.load(Key(key)).unwrap().bytes, [u8::try_from(key).unwrap()], "round {round}");
        if round >= 300 && late > 50 {
            break;
        }
    }
    assert!(late > 50, "only {late} were dropped");
    server.pause();
    assert!(gate.within(Duration::from_millis(100), |store| store.load(Key(1))).is_none());
    server.resume();
    assert_eq!(gate.load(Key(2)).unwrap().bytes, [2]);
}

pub(crate) fn a_swap_without_a_caller_is_written_once_or_not_at_all(server: impl Tables) {
    let gate = Gate::ready(&server.url());
    let mut version = gate.write(Key(7), None, record(b"0"));
    let (mut written, mut late) = (0, 0);
    for round in 1..MOST_ROUNDS {
        let new = record(round.to_string().as_bytes());
        let dropped = give_up(&gate, round % 30, |store| store.swap(Key(7), Some(version), new));
        late += u32::from(dropped.is_none());
        // What was sent is carried to its end, at the latest while another caller asks.
        match gate.ask(|store| store.swap(Key(7), Some(version), record(b"next"))) {
            Ok(Swap::Done(next)) => {
                assert!(!matches!(dropped, Some(Ok(Swap::Done(_)))), "both have won in round {round}");
                version = next;
            }
            Ok(Swap::Conflict(Some(stored))) => {
                assert_eq!(stored.bytes, round.to_string().as_bytes());
                version = stored.version;
                written += 1;
            }
            Err(StoreError::WriteConflict) => version = gate.load(Key(7)).unwrap().version,
            other => panic!("{other:?} in round {round}"),
        }
        if round >= 200 && late > 50 && written > 10 {
            break;
        }
    }
    assert!(late > 50 && written > 10, "{late} were dropped, {written} written");
}

pub(crate) fn expired_rows_are_tidied_in_batches(server: impl Tables) {
    let gate = Gate::ready(&server.url());
    gate.write(Key(7), None, record(b"stays"));
    server.fill(2500, 480);
    server.fill(10, 30);
    let mut removed = Vec::new();
    for _ in 0..5 {
        removed.push(gate.ask(|store| store.purge()).unwrap());
    }
    assert_eq!(removed, [1000, 1000, 500, 0, 0]);
    assert_eq!(server.sql("SELECT COUNT(*) FROM tollgate_buckets"), "11");
    assert_eq!(gate.load(Key(7)).unwrap().bytes, b"stays");
}

pub(crate) fn one_gate_tidies_at_a_time(server: impl Tables) {
    let gate = Gate::ready(&server.url());
    let other = gate.beside(&server.url());
    server.fill(1500, 480);
    // The gate that tidies waits for the rows, which are locked.
    let mut holder = server.hold_all(Duration::from_secs(4));
    let both = [&gate, &other].map(|gate| Arc::clone(&gate.store));
    let [mut one, mut another] =
        both.map(|store| gate.spawn(async move { store.purge().await.map(|answer| answer.value) }));
    let (told, tidying) = gate.block_on(async {
        tokio::select! {
            told = &mut one => (told.unwrap(), another),
            told = &mut another => (told.unwrap(), one),
        }
    });
    assert_eq!((told, holder.try_wait().unwrap()), (Ok(0), None), "it waits for the one that tidies");
    let removed = match gate.wait(tidying) {
        // The rows were locked for longer than a store waits.
        Err(StoreError::WriteConflict) => 0,
        removed => removed.unwrap(),
    };
    holder.wait().unwrap();
    let rest = [(); 2].map(|()| other.ask(|store| store.purge()).unwrap());
    assert_eq!(removed + rest[0] + rest[1], 1500);
}

pub(crate) fn a_locked_row_is_contended_and_blocks_no_other(server: impl Tables) {
    let gate = Gate::ready(&server.url());
    let version = gate.write(Key(7), None, record(b"one"));
    let mut holder = server.hold_all(Duration::from_secs(3));
    let asked = Instant::now();
    let swap = gate.ask(|store| store.swap(Key(7), Some(version), record(b"two")));
    assert_eq!(swap, Err(StoreError::WriteConflict));
    assert!(asked.elapsed() < Duration::from_secs(2), "it waited {:?}", asked.elapsed());
    let other = gate.beside(&server.url());
    assert_eq!(other.load(Key(7)).unwrap().version, version);
    other.write(Key(8), None, record(b"other"));
    holder.wait().unwrap();
    assert_eq!(gate.load(Key(7)).unwrap().version, version, "what was refused was written");
}

pub(crate) fn a_missing_table_says_what_to_run(server: impl Tables) {
    let gate = Gate::new(&server.url());
    let said = Err(StoreError::Refused(MISSING.to_owned()));
    assert_eq!(gate.ask(|store| store.load(Key(7))).map(|_| ()), said);
    assert_eq!(gate.ask(|store| store.swap(Key(7), None, record(b"one"))).map(|_| ()), said);
    assert_eq!(gate.ask(|store| store.inspect()), Ok(vec![MISSING.to_owned()]));
    gate.ask(|store| store.migrate()).unwrap();
    gate.ask(|store| store.migrate()).unwrap();
    assert_eq!(gate.ask(|store| store.inspect()), Ok(Vec::new()));
}

/// Otherwise the probe would take the database for available.
pub(crate) fn a_probe_fails_while_the_table_is_away_or_not_as_it_should_be(server: impl Tables) {
    let gate = Gate::ready(&server.url());
    let missing = Err(StoreError::Refused(MISSING.to_owned()));
    let probe = || gate.probe();
    assert_eq!(probe(), Ok(()));
    server.sql("DROP TABLE tollgate_buckets");
    assert_eq!(probe(), missing);
    assert_eq!(probe(), missing, "asked again");
    gate.ask(|store| store.migrate()).unwrap();
    assert_eq!(probe(), Ok(()));
    server.sql("ALTER TABLE tollgate_buckets RENAME COLUMN full_at TO emptied_at");
    assert_eq!(probe(), missing);
    server.sql("ALTER TABLE tollgate_buckets RENAME COLUMN emptied_at TO full_at");
    assert_eq!(probe(), Ok(()));
    gate.write(Key(7), None, record(b"one"));
}

pub(crate) fn a_wrong_password_is_refused_without_repeating_it(server: impl Tables) {
    let gate = Gate::new(&server.url().replace("secret", "hunter2"));
    // A busy server may not answer in time. No message holds the password, whatever it says.
    let is_refused = || {
        let error = gate.probe().unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
        matches!(error, StoreError::Refused(_))
    };
    for _ in 0..2 {
        assert!(eventually(Duration::from_secs(20), is_refused), "{:?}", gate.probe());
    }
}

pub(crate) fn a_database_that_may_only_be_read_is_told(server: impl Tables) {
    let gate = Gate::ready(&server.url());
    server.read_only();
    let gate = gate.beside(&server.url());
    let found = gate.ask(|store| store.inspect()).unwrap();
    assert!(found.iter().any(|said| said.contains("read-only") || said.contains("read_only")), "{found:?}");
    let swap = gate.ask(|store| store.swap(Key(7), None, record(b"one")));
    assert!(matches!(swap, Err(StoreError::ReadOnly(_))), "{swap:?}");
}

pub(crate) fn missing_rights_are_told(server: impl Tables) {
    drop(Gate::ready(&server.url()));
    server.take_rights();
    let found = Gate::new(&server.url()).ask(|store| store.inspect()).unwrap();
    assert!(found.iter().any(|said| said.contains("denied")), "{found:?}");
}

/// G14: a bounded number.
pub(crate) fn a_connection_is_attempted_ten_times_a_second_at_most(mut server: impl Tables) {
    let gate = Gate::ready(&server.url());
    server.kill();
    let listener = std::net::TcpListener::bind(("127.0.0.1", server.port())).unwrap();
    listener.set_nonblocking(true).unwrap();
    let (begun, mut attempts) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(1) {
        let answer = gate.within(Duration::from_millis(5), |store| store.load(Key(7)));
        assert!(!matches!(answer, Some(Ok(_))));
        // Accepted and closed at once.
        attempts += u32::from(listener.accept().is_ok());
    }
    assert!((3..=11).contains(&attempts), "{attempts} attempts in a second");
}

/// How many it takes until some fifty are given up in time depends on how fast the machine is just now.
const MOST_ROUNDS: u64 = 5000;
