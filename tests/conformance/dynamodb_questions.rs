//! What DynamoDB is asked, by the count of its server: each question costs money there.

use std::sync::Arc;

use tollgate::bucket::Key;
use tollgate::store::{Address, Asking, CompareAndSwap, Namespace, Record, Swap, Version};
use tollgate::time::{Span, Time};

use crate::support::Server;
use crate::support::servers::dynamodb::Dynalite;

#[test]
fn a_load_and_a_swap_are_one_question_each_and_a_probe_is_none() {
    let Some(mut server) = crate::support::started::<Dynalite>() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let address: Address = server.url().parse().unwrap();
    let store = {
        let _within = runtime.enter();
        address.open(&Namespace::default()).unwrap().unwrap()
    };
    let asked = |server: &mut Dynalite, questions: u64| assert_eq!(server.questions(), questions);
    ask(&runtime, store.migrate());
    ask(&runtime, store.probe());
    asked(&mut server, 0);
    ask(&runtime, store.load(Key(1)));
    asked(&mut server, 1);
    assert!(matches!(swap(&runtime, &store, None), Swap::Done(_)));
    asked(&mut server, 2);
    // dynalite does not say what stands there, so that is asked; DynamoDB does.
    assert!(matches!(swap(&runtime, &store, Some(Version(1))), Swap::Lost(Some(_))));
    asked(&mut server, 4);
}

#[test]
fn time_to_live_that_is_off_is_said() {
    let Some(server) = crate::support::started::<Dynalite>() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let address: Address = server.url().parse().unwrap();
    let store = {
        let _within = runtime.enter();
        address.open(&Namespace::default()).unwrap().unwrap()
    };
    assert_eq!(
        ask(&runtime, store.inspect()),
        ["there is no table `tollgate-buckets`: run `tollgate migrate`"]
    );
    ask(&runtime, store.migrate());
    ask(&runtime, store.migrate());
    let said = ask(&runtime, store.inspect());
    assert!(matches!(&said[..], [off] if off.contains("`ttl` is off")), "{said:?}");
}

fn ask<T>(runtime: &tokio::runtime::Runtime, asking: Asking<'_, T>) -> T {
    runtime.block_on(asking).unwrap().value
}

fn swap(runtime: &tokio::runtime::Runtime, store: &Arc<dyn CompareAndSwap>, old: Option<Version>) -> Swap {
    let ttl = Span::from_secs(60);
    let new = Record { bytes: b"one".to_vec(), ttl, limit: "address".into(), full_at: Time::default() };
    ask(runtime, store.swap(Key(1), old, new))
}
