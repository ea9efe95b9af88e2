//! What DynamoDB is asked, by the count of its server: each question costs money there.

use tollgate::bucket::Key;
use tollgate::store::{RecordVersion, StoreRecord, Swap};
use tollgate::time::{Span, Time};

use crate::gate::Gate;
use support::Server;
use support::servers::dynamodb::Dynalite;

#[test]
fn a_load_and_a_swap_are_one_question_each_and_a_probe_is_none() {
    let mut server = support::started::<Dynalite>();
    let gate = Gate::new(&server.url());
    let asked = |server: &mut Dynalite, questions: u64| assert_eq!(server.questions(), questions);
    gate.ask(|store| store.migrate()).unwrap();
    gate.probe().unwrap();
    asked(&mut server, 0);
    gate.load(Key(1));
    asked(&mut server, 1);
    assert!(matches!(gate.swap(Key(1), None, record()), Swap::Done(_)));
    asked(&mut server, 2);
    // dynalite does not say what stands there, so that is asked; DynamoDB does.
    assert!(matches!(gate.swap(Key(1), Some(RecordVersion(1)), record()), Swap::Conflict(Some(_))));
    asked(&mut server, 4);
}

#[test]
fn time_to_live_that_is_off_is_said() {
    let server = support::started::<Dynalite>();
    let gate = Gate::new(&server.url());
    assert_eq!(
        gate.ask(|store| store.inspect()).unwrap(),
        ["there is no table `tollgate-buckets`: run `tollgate migrate`"]
    );
    gate.ask(|store| store.migrate()).unwrap();
    gate.ask(|store| store.migrate()).unwrap();
    let said = gate.ask(|store| store.inspect()).unwrap();
    assert!(matches!(&said[..], [off] if off.contains("`ttl` is off")), "{said:?}");
}

fn record() -> StoreRecord {
    let ttl = Span::from_secs(60);
    StoreRecord { bytes: b"one".to_vec(), ttl, limit: "address".into(), full_at: Time::default() }
}
