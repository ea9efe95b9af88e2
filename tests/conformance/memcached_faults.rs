//! What only memcached can do wrong, at real servers; and at listeners of the test, what no real server does.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::bucket::{Key, MAX_RECORD_LEN};
use tollgate::store::{RecordVersion, StoreError, StoreRecord, Swap};
use tollgate::time::{Span, Time};

use crate::gate::{Gate, done};
use support::servers::memcached::{Memcached, Memcacheds, Node};
use support::{Server, started};

fn at(address: SocketAddr) -> Gate {
    Gate::new(&format!("memcached://{address}"))
}

fn load(gate: &Gate, key: u128) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(gate.ask(|store| store.load(Key(key)))?.map(|stored| stored.bytes))
}

fn swap(gate: &Gate, key: u128, old: Option<RecordVersion>, bytes: &[u8]) -> Result<Swap, StoreError> {
    gate.ask(|store| store.swap(Key(key), old, record(bytes)))
}

fn record(bytes: &[u8]) -> StoreRecord {
    let (ttl, full_at) = (Span::from_secs(600), Time::default());
    StoreRecord { bytes: bytes.to_vec(), ttl, limit: "address".into(), full_at }
}

/// A real one that was started with these arguments.
fn node(arguments: &[&str]) -> Node {
    Node::start(arguments).unwrap()
}

/// A listener of the test: each connection is the script's, which is told how many there were before.
fn listening(script: fn(u32, TcpStream)) -> (SocketAddr, Arc<AtomicU32>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        for stream in listener.incoming().take(1000) {
            let before = counted.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || script(before, stream.unwrap()));
        }
    });
    (address, count)
}

/// Says what a memcached says first, and waits for the first question after it.
fn greet(mut stream: TcpStream) -> TcpStream {
    let mut buffer = [0; 4096];
    assert!(stream.read(&mut buffer).unwrap() > 0);
    let epoch = "HD c1 O0\r\nVA 16 c1 O1\r\n0000000000000001\r\n";
    write!(stream, "{epoch}STAT time 1800000000\r\nEND\r\n").unwrap();
    // It may have gone without asking.
    let _ = stream.read(&mut buffer);
    stream
}

/// The reply to a request for a key where this is the answer.
fn told(script: fn(u32, TcpStream)) -> Result<Option<Vec<u8>>, StoreError> {
    let (address, _) = listening(script);
    load(&at(address), 1)
}

fn is_garbled(answer: &Result<Option<Vec<u8>>, StoreError>) -> bool {
    matches!(answer, Err(StoreError::UnexpectedResponse(_)))
}

#[test]
fn a_swap_that_wins_is_one_question_and_one_that_is_lost_two() {
    let mut server = started::<Memcached>();
    let gate = Gate::new(&server.url());
    let first = done(swap(&gate, 1, None, b"one").unwrap());
    assert_eq!(server.questions(), 1);
    let second = done(swap(&gate, 1, Some(first), b"two").unwrap());
    assert_eq!(server.questions(), 2);
    assert!(matches!(swap(&gate, 1, Some(first), b"three").unwrap(), Swap::Conflict(Some(_))));
    assert_eq!(server.questions(), 4);
    assert!(matches!(swap(&gate, 2, Some(second), b"four").unwrap(), Swap::Conflict(None)));
    assert_eq!(server.questions(), 5);
}

#[test]
fn one_of_three_servers_away_leaves_the_keys_of_the_others() {
    let mut servers = started::<Memcacheds>();
    let gate = Gate::new(&servers.url());
    for key in 0..60 {
        done(swap(&gate, key, None, &key.to_be_bytes()).unwrap());
    }
    servers.nodes()[1].kill();
    gate.rest(Duration::from_millis(300));
    let lost = || -> Vec<u128> { (0..60).filter(|key| load(&gate, *key).is_err()).collect() };
    let before = lost();
    assert!((5..40).contains(&before.len()), "{before:?}");
    for key in (0..60).filter(|key| !before.contains(key)) {
        assert_eq!(load(&gate, key).unwrap().unwrap(), key.to_be_bytes());
    }
    let names = servers.nodes()[1].address().to_string();
    let refused = swap(&gate, before[0], None, b"elsewhere").unwrap_err().to_string();
    assert!(refused.contains(&names), "{refused}");
    let all = gate.store.servers();
    let down: Vec<_> =
        all.iter().filter(|server| gate.ask(|store| store.probe(server.id)).is_err()).collect();
    assert_eq!((all.len(), down.len(), &*down[0].name), (3, 1, &names[..]));
    servers.nodes()[1].run().unwrap();
    gate.rest(Duration::from_millis(500));
    assert_eq!(lost(), [0; 0]);
    assert_eq!(load(&gate, before[0]), Ok(None), "no other server took its keys");
}

#[test]
fn a_server_that_numbers_nothing_is_refused() {
    let server = node(&["-C"]);
    let refused = swap(&at(server.address()), 1, None, b"one").unwrap_err();
    assert!(matches!(&refused, StoreError::Refused(why) if why.contains("-C")), "{refused}");
}

#[test]
fn a_full_memory_is_a_refusal_and_reading_goes_on() {
    let server = node(&["-M", "-m", "2"]);
    let gate = at(server.address());
    let refused = (0..5000).find_map(|key| swap(&gate, key, None, &[7; MAX_RECORD_LEN]).err()).unwrap();
    assert!(matches!(&refused, StoreError::Refused(why) if why.contains("out of memory")), "{refused}");
    assert_eq!(load(&gate, 0).unwrap().unwrap(), [7; MAX_RECORD_LEN]);
}

#[test]
fn a_small_memory_and_what_it_dropped_are_shown_to_the_operator() {
    let server = node(&["-m", "4"]);
    let gate = at(server.address());
    let said = gate.ask(|store| store.inspect()).unwrap();
    assert!(said.len() == 1 && said[0].contains("only 4 MB"), "{said:?}");
    for key in 0..3000 {
        done(swap(&gate, key, None, &[7; MAX_RECORD_LEN]).unwrap());
    }
    let said = gate.ask(|store| store.inspect()).unwrap();
    assert!(said.len() == 2 && said[0].contains("dropped"), "{said:?}");
}

#[test]
fn a_usual_server_gives_nothing_to_say() {
    let servers = started::<Memcacheds>();
    let gate = Gate::new(&servers.url());
    assert_eq!(gate.ask(|store| store.inspect()), Ok(Vec::new()));
}

#[test]
fn a_gate_with_a_spoiled_epoch_agrees_with_itself_and_loses_against_others() {
    let mut server = started::<Memcached>();
    let early = Gate::new(&server.url());
    let first = done(swap(&early, 1, None, b"one").unwrap());
    server.spoil(b"not ours");
    let late = Gate::new(&server.url());
    assert!(matches!(swap(&late, 1, Some(first), b"two").unwrap(), Swap::Conflict(Some(_))));
    let stored = late.ask(|store| store.load(Key(1))).unwrap().unwrap();
    let second = done(swap(&late, 1, Some(stored.version), b"two").unwrap());
    done(swap(&late, 1, Some(second), b"three").unwrap());
    assert!(matches!(swap(&early, 1, Some(first), b"four").unwrap(), Swap::Conflict(Some(_))));
}

#[test]
fn the_answer_to_a_caller_that_gave_up_is_dropped() {
    let mut server = started::<Memcached>();
    let gate = Gate::new(&server.url());
    done(swap(&gate, 1, None, b"one").unwrap());
    done(swap(&gate, 2, None, b"two").unwrap());
    server.pause();
    for _ in 0..100 {
        assert!(gate.within(Duration::from_millis(2), |store| store.load(Key(1))).is_none());
    }
    server.resume();
    assert_eq!(load(&gate, 2).unwrap().unwrap(), b"two");
}

#[test]
fn a_thousand_questions_at_once_are_each_told_their_own() {
    let server = started::<Memcached>();
    let gate = Gate::new(&server.url());
    let all = (0..1000_u128).map(|key| {
        let store = Arc::clone(&gate.store);
        gate.spawn(async move {
            store.swap(Key(key), None, record(&key.to_be_bytes())).await.unwrap();
            store.load(Key(key)).await.unwrap().value.unwrap().bytes == key.to_be_bytes()
        })
    });
    for one in all.collect::<Vec<_>>() {
        assert!(gate.wait(one));
    }
}

#[test]
fn attempts_to_connect_are_bounded_while_a_server_is_down() {
    let (address, count) = listening(|_, _| {});
    let gate = at(address);
    for _ in 0..200 {
        assert!(load(&gate, 1).is_err());
        gate.rest(Duration::from_millis(5));
    }
    let attempts = count.load(Ordering::SeqCst);
    assert!((4..=25).contains(&attempts), "{attempts} attempts");
}

#[test]
fn a_server_that_answers_garbage_is_not_believed() {
    let script = |_, mut stream: TcpStream| {
        let _ = stream.write_all(b"\x00\xff garbage\r\n");
        let _ = stream.read(&mut [0; 4096]);
    };
    let answer = told(script);
    assert!(is_garbled(&answer), "{answer:?}");
}

#[test]
fn garbage_after_a_good_beginning_ends_the_connection_and_a_new_one_serves() {
    let (address, count) = listening(|before, stream| {
        let mut stream = greet(stream);
        let answer: &[u8] = if before == 0 { b"+PONG\r\n" } else { b"VA 2 c1 O0\r\nok\r\n" };
        let _ = stream.write_all(answer);
        let _ = stream.read(&mut [0; 4096]);
    });
    let gate = at(address);
    let answer = load(&gate, 1);
    assert!(is_garbled(&answer), "{answer:?}");
    gate.rest(Duration::from_millis(400));
    assert_eq!(load(&gate, 1).unwrap().unwrap(), b"ok");
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[test]
fn the_answer_to_another_question_and_one_too_long_are_not_believed() {
    let scripts: [fn(u32, TcpStream); 3] = [
        |_, stream| drop(greet(stream).write_all(b"VA 2 c1 O9\r\nok\r\n")),
        |_, stream| drop(greet(stream).write_all(b"VA 1000000 c1 O0\r\n")),
        |_, stream| drop(greet(stream).write_all(b"HD c1 O0\r\n")),
    ];
    for script in scripts {
        let answer = told(script);
        assert!(is_garbled(&answer), "{answer:?}");
    }
}

#[test]
fn half_an_answer_is_waited_for_a_second_and_no_longer() {
    let begun = tokio::time::Instant::now();
    let answer = told(|_, stream| {
        let mut stream = greet(stream);
        let _ = stream.write_all(b"VA 2 c1 O0\r\no");
        let _ = stream.read(&mut [0; 4096]);
    });
    assert!(matches!(&answer, Err(StoreError::Unreachable(why)) if why.contains("second")), "{answer:?}");
    let took = begun.elapsed();
    assert!((900..2500).contains(&took.as_millis()), "{took:?}");
}

#[test]
fn an_answer_that_comes_a_byte_at_a_time_is_understood() {
    let answer = told(|_, stream| {
        let mut stream = greet(stream);
        stream.set_nodelay(true).unwrap();
        for byte in b"VA 2 c1 O0\r\nok\r\n" {
            stream.write_all(&[*byte]).unwrap();
            thread::sleep(Duration::from_millis(2));
        }
        let _ = stream.read(&mut [0; 4096]);
    });
    assert_eq!(answer.unwrap().unwrap(), b"ok");
}

#[test]
fn why_a_server_takes_no_more_connections_is_said() {
    let answer = told(|_, mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"ERROR Too many open connections\r\n");
    });
    assert!(matches!(&answer, Err(StoreError::Refused(why)) if why.contains("Too many")), "{answer:?}");
}
