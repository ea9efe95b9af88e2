//! Connections to an upstream: a waiting request gets the next free one, of any worker.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use support::{Client, Gate, Reply, Upstream, eventually, get_with};

fn clients(gate: &Gate, count: u8) -> Vec<Client> {
    (1..=count).map(|host| gate.connect_from(Ipv4Addr::new(127, 0, 5, host))).collect()
}

/// H9: a connection that is kept for the next request is there for the one that waits.
#[test]
fn requests_that_wait_for_one_connection_have_it_one_after_the_other() {
    let upstream = Upstream::answering(|_, _| Reply::ok().after(Duration::from_millis(50)));
    let gate = Gate::start(&upstream.file("[proxy]\nupstream_max = 1\nthreads = 1\n"));
    let mut clients = clients(&gate, 10);
    for client in &mut clients {
        client.send(get_with("/", ""));
        // In this order.
        std::thread::sleep(Duration::from_millis(5));
    }
    let started = Instant::now();
    for client in &mut clients {
        assert_eq!(client.answer().status, 200, "after {:?}", started.elapsed());
    }
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(upstream.connections().len(), 1, "over one connection");
}

/// H9: those who ask again and again are no quicker than those who wait.
#[test]
fn no_connection_overtakes_those_that_wait() {
    let upstream = Upstream::answering(|_, _| Reply::ok().after(Duration::from_millis(20)));
    let gate = Gate::start(&upstream.file("[proxy]\nupstream_max = 2\nthreads = 1\n"));
    let mut clients = clients(&gate, 8);
    clients.iter_mut().for_each(|client| client.send(get_with("/", "")));
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        for client in &mut clients {
            let since = Instant::now();
            assert_eq!(client.answer().status, 200);
            longest = longest.max(since.elapsed());
            client.send(get_with("/", ""));
        }
    }
    assert!(longest < Duration::from_secs(1), "{longest:?} for a turn of eight");
}

/// H9: a place that one worker keeps for its next request is wanted by another.
#[test]
fn a_connection_that_rests_with_one_worker_makes_room_for_another_worker() {
    let upstream = Upstream::start();
    let table = "[proxy]\nupstream_max = 1\nthreads = 2\nupstream_idle = \"1m\"\n";
    let gate = Gate::start(&upstream.file(table));
    let mut longest = Duration::ZERO;
    for client in &mut clients(&gate, 40) {
        let since = Instant::now();
        client.send(get_with("/", ""));
        assert_eq!(client.answer().status, 200);
        longest = longest.max(since.elapsed());
    }
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    assert!(upstream.connections().len() > 1, "both workers were asked");
}

/// H9: and while both have more to do than places.
#[test]
fn two_busy_workers_share_what_there_is() {
    let upstream = Upstream::answering(|_, _| Reply::ok().after(Duration::from_millis(5)));
    let gate = Gate::start(&upstream.file("[proxy]\nupstream_max = 3\nthreads = 2\n"));
    let mut clients = clients(&gate, 30);
    clients.iter_mut().for_each(|client| client.send(get_with("/", "")));
    for round in 0..30 {
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.answer().status, 200, "client {number} in round {round}");
            client.send(get_with("/", ""));
        }
    }
    let connections = upstream.connections().len();
    assert!(connections < 450, "{connections} connections for 900 answers");
}

/// H9: the bound on one client's share of an upstream leaves every upstream usable.
#[test]
fn a_slow_upstream_works_on_all_that_one_client_wants_at_once() {
    let upstream = Upstream::answering(|_, _| Reply::ok().after(Duration::from_secs(2)));
    let gate = Gate::start(&upstream.file("[proxy]\nthreads = 1\n"));
    let mut clients: Vec<_> = (0..200).map(|_| gate.connect_from(Ipv4Addr::new(127, 0, 6, 1))).collect();
    clients.iter_mut().for_each(|client| client.send(get_with("/", "")));
    for client in &mut clients {
        assert_eq!(client.answer().status, 200);
    }
    let connections = upstream.connections().len();
    assert!(connections > 100, "{connections}: the upstream worked on one after the other");
}

/// H9: a server accepts hundreds of new connections one by one, and another client's request would be the last.
#[test]
fn a_client_that_wants_much_leaves_a_connection_that_rests_to_others() {
    let slow = |request: &[u8], _| {
        Reply::ok().after(Duration::from_secs(if request.starts_with(b"GET /slow") { 6 } else { 0 }))
    };
    let upstream = Upstream::answering(slow);
    let gate = Gate::start(&upstream.file("[proxy]\nthreads = 1\n"));
    let mut other = gate.connect_from(Ipv4Addr::new(127, 0, 7, 2));
    let mut many: Vec<_> = (0..60).map(|_| gate.connect_from(Ipv4Addr::new(127, 0, 7, 1))).collect();
    let mut ask = |name: &str| {
        other.send(get_with(&format!("/{name}"), ""));
        assert_eq!(other.answer().status, 200);
    };
    let arrived =
        |count| assert!(eventually(Duration::from_secs(5), || upstream.connections().len() >= count));
    many[..40].iter_mut().for_each(|client| client.send(get_with("/slow", "")));
    arrived(40);
    ask("one");
    many[40..].iter_mut().for_each(|client| client.send(get_with("/slow", "")));
    arrived(61);
    ask("two");
    let connections = upstream.connections();
    // The upstream may not have read yet what one of these clients sent.
    let others = connections.iter().filter(|bytes| !bytes.is_empty() && !bytes.starts_with(b"GET /slow"));
    let asked: Vec<_> = others.map(|bytes| String::from_utf8_lossy(bytes).matches("GET /").count()).collect();
    assert_eq!(asked, [2], "both over one connection that no other client has used");
}
