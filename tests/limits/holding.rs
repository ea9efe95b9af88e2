//! Attempts that are held until they are due, and attempts that are on their way at once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "these are tests"
)]

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use support::{Client, Gate, Reply, Upstream, eventually, free_port, get_with, new_directory, post};

const LOGIN: &str = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\n";

/// A gate whose last limit holds attempts for at most so long.
fn holding(file: &str, hold: Duration) -> Gate {
    Gate::start(&format!("{file}wait = \"{}ms\"\n", hold.as_millis()))
}

/// A connection on which an attempt was sent.
fn send(gate: &Gate) -> Client {
    let mut client = gate.connect();
    client.send(attempt());
    client
}

/// How many attempts were decided on.
fn decided(gate: &Gate) -> f64 {
    gate.metric("tollgate_decisions_total", "")
}

/// An upstream that notes when each attempt came.
fn noting() -> (Upstream, Arc<Mutex<Vec<Instant>>>) {
    let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let shared = Arc::clone(&times);
    let upstream = Upstream::answering(move |_, _| {
        shared.lock().unwrap().push(Instant::now());
        Reply::ok()
    });
    (upstream, times)
}

fn attempt() -> String {
    post("/login", "log=admin")
}

const HALF: Duration = Duration::from_millis(500);

#[test]
fn attempts_that_are_due_soon_are_forwarded_in_order_when_they_are() {
    let (upstream, times) = noting();
    let gate = holding(&upstream.file(&format!("{LOGIN}rate = \"1 per 2s burst 1\"\n")), 8 * HALF);
    let started = Instant::now();
    let mut clients: Vec<Client> = Vec::new();
    for number in 0..3 {
        clients.push(send(&gate));
        // Decided on before the next one is sent.
        assert!(eventually(10 * HALF, || decided(&gate) > f64::from(number) + 0.5));
    }
    let late = send(&gate).answer();
    assert_eq!(late.status, 429, "later than the limit waits");
    assert!((1..=2).contains(&late.retry_after()), "{}", late.retry_after());
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.answer().status, 200);
        let due = 4 * HALF * u32::try_from(number).unwrap();
        // The first token was taken at some time before the first attempt came through.
        let came = times.lock().unwrap()[number] - started;
        assert!(came >= due && came < due + 4 * HALF, "{number} came after {came:?}");
    }
    assert_eq!(times.lock().unwrap().len(), 3);
}

#[test]
fn a_held_attempt_is_in_the_duration_and_not_in_the_time_of_the_gate() {
    let (upstream, _) = noting();
    let gate = holding(&upstream.file(&format!("{LOGIN}rate = \"1/s burst 1\"\n")), 3 * HALF);
    for _ in 0..2 {
        assert_eq!(send(&gate).answer().status, 200);
    }
    assert!(eventually(10 * HALF, || gate.metric("tollgate_request_duration_seconds_count", "") > 1.5));
    assert!(gate.metric("tollgate_request_duration_seconds_sum", "") > 0.8);
    assert!(gate.metric("tollgate_added_seconds_sum", "") < 0.4);
}

#[test]
fn a_client_that_hangs_up_while_held_has_paid_and_is_not_forwarded() {
    let (upstream, times) = noting();
    let gate = holding(&upstream.file(&format!("{LOGIN}rate = \"2/s burst 1\"\n")), 4 * HALF);
    assert_eq!(send(&gate).answer().status, 200);
    let first = times.lock().unwrap()[0];
    drop(send(&gate));
    assert!(eventually(10 * HALF, || decided(&gate) > 1.5));
    assert_eq!(send(&gate).answer().status, 200);
    let times = times.lock().unwrap().clone();
    assert_eq!(times.len(), 2, "the one who left was not forwarded");
    assert!(times[1] - first >= HALF + HALF * 9 / 10, "and its token stays taken: {:?}", times[1] - first);
}

#[test]
fn no_more_than_32_are_held_and_one_more_costs_nothing() {
    let (upstream, _) = noting();
    let gate = holding(&upstream.file(&format!("{LOGIN}rate = \"10/s burst 1\"\n")), 20 * HALF);
    let mut clients: Vec<Client> = (0..33).map(|_| send(&gate)).collect();
    assert!(eventually(Duration::from_secs(2), || decided(&gate) > 32.5));
    let mut more: Vec<Client> = (0..20).map(|_| send(&gate)).collect();
    let answers: Vec<_> = more.iter_mut().map(Client::answer).collect();
    assert!(answers.iter().all(|answer| answer.status == 200 || answer.retry_after() == 1));
    let busy = answers.iter().filter(|answer| answer.status == 503).count();
    assert!(busy >= 10, "{busy}");
    assert!(clients.iter_mut().all(|client| client.answer().status == 200));
    // Had they kept their tokens, this one would be held for two seconds.
    let started = Instant::now();
    assert_eq!(send(&gate).answer().status, 200);
    assert!(started.elapsed() < 7 * HALF / 2, "{:?}", started.elapsed());
}

#[test]
fn in_flight_counts_those_that_are_held() {
    let (upstream, _) = noting();
    let tables = format!("{}rate = \"1/s burst 1\"\n", LOGIN.replace("[limit", "in_flight = 2\n[limit"));
    let gate = holding(&upstream.file(&tables), 100 * HALF);
    assert_eq!(send(&gate).answer().status, 200);
    let mut held = [send(&gate), send(&gate)];
    assert!(eventually(10 * HALF, || decided(&gate) > 2.5));
    let answer = send(&gate).answer();
    assert_eq!((answer.status, answer.retry_after()), (503, 1));
    assert!(held.iter_mut().all(|client| client.answer().status == 200));
}

#[test]
fn a_gate_that_stops_still_forwards_what_it_holds() {
    let (upstream, times) = noting();
    let gate = holding(&upstream.file(&format!("{LOGIN}rate = \"1/s burst 1\"\n")), 4 * HALF);
    assert_eq!(send(&gate).answer().status, 200);
    let mut held = send(&gate);
    assert!(eventually(10 * HALF, || decided(&gate) > 1.5));
    gate.signal("TERM");
    assert_eq!(held.answer().status, 200);
    assert_eq!(times.lock().unwrap().len(), 2);
}

/// Two on their way at most, and three attempts an hour.
const TWO: &str =
    "[route.login]\nmatch = \"POST /login\"\nin_flight = 2\n[limit.address]\nrate = \"3 per 1h\"\n";

/// An upstream that begins its answers and never ends them.
fn dawdling() -> Upstream {
    Upstream::answering(|_, _| Reply::text("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"))
}

/// Connections on which attempts are on their way.
fn on_their_way(gate: &Gate, upstream: &Upstream, count: usize) -> Vec<Client> {
    let before = upstream.requests().len();
    let send = |_| {
        let mut client = gate.connect();
        client.send(attempt());
        client
    };
    let clients = (0..count).map(send).collect();
    upstream.wait_for(before + count);
    clients
}

#[test]
fn more_than_in_flight_is_a_503_that_costs_nothing() {
    let upstream = dawdling();
    let gate = Gate::start(&upstream.file(TWO));
    let clients = on_their_way(&gate, &upstream, 2);
    for _ in 0..5 {
        let answer = gate.ask(attempt());
        assert_eq!((answer.status, answer.retry_after()), (503, 1));
    }
    assert_eq!(upstream.requests().len(), 2);
    drop(clients);
    assert!(eventually(Duration::from_secs(5), || gate.metric("tollgate_connections", "") < 0.5));
    let _third = on_their_way(&gate, &upstream, 1);
    assert_eq!(gate.ask(attempt()).status, 429, "three were there, and three were taken");
}

#[test]
fn slow_requests_of_one_address_leave_places_to_the_others() {
    let upstream = dawdling();
    let tables = "[route.login]\nmatch = \"POST /login\"\nin_flight = 5\n\
                  [limit.address]\nrate = \"30 per 1h\"\nin_flight = 2\n";
    let gate = Gate::start(&upstream.file(tables));
    let _slow = on_their_way(&gate, &upstream, 2);
    let answer = gate.ask(attempt());
    assert_eq!((answer.status, answer.retry_after()), (503, 1));
    let mut other = gate.connect_from(Ipv4Addr::new(127, 0, 0, 9));
    other.send(attempt());
    upstream.wait_for(3);
}

/// M8: one client had all places for as long as it liked, and everybody else 503.
#[test]
fn one_client_leaves_half_of_the_places_to_others_who_find_none() {
    let upstream = dawdling();
    let tables = TWO.replace("in_flight = 2", "in_flight = 4").replace("3 per", "30 per");
    let gate = Gate::start(&upstream.file(&tables));
    let mut slow = on_their_way(&gate, &upstream, 4);
    let other = |host| {
        let mut client = gate.connect_from(Ipv4Addr::new(127, 0, 0, host));
        client.send(attempt());
        client
    };
    assert_eq!(other(8).answer().status, 503);
    drop(slow.pop());
    assert!(eventually(Duration::from_secs(5), || gate.metric("tollgate_connections", "") < 3.5));
    assert_eq!(gate.ask(attempt()).status, 503, "it has more than its half");
    let _other = other(9);
    upstream.wait_for(5);
}

#[test]
fn a_place_is_free_again_when_the_answer_has_ended() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&TWO.replace("= 2", "= 1").replace("3 per", "300 per")));
    let mut client = gate.connect();
    for _ in 0..100 {
        client.send(attempt());
        assert_eq!(client.answer().status, 200);
    }
}

#[test]
fn a_place_is_free_again_when_the_upstream_fails() {
    let port = free_port();
    let gate = Gate::start(&format!("upstream = \"http://127.0.0.1:{port}\"\n{}", TWO.replace("= 2", "= 1")));
    for status in [502, 502, 502, 429] {
        assert_eq!(gate.ask(attempt()).status, status);
    }
}

#[test]
fn in_flight_bounds_all_workers_together_and_is_never_exceeded() {
    let (now, most) = (Arc::new(Mutex::new(0_u32)), Arc::new(Mutex::new(0_u32)));
    let (inside, highest) = (Arc::clone(&now), Arc::clone(&most));
    let upstream = Upstream::answering(move |_, _| {
        let here = {
            let mut here = inside.lock().unwrap();
            *here += 1;
            *here
        };
        let mut highest = highest.lock().unwrap();
        *highest = here.max(*highest);
        drop(highest);
        std::thread::sleep(Duration::from_millis(20));
        *inside.lock().unwrap() -= 1;
        Reply::ok()
    });
    let file = TWO.replace("= 2", "= 3").replace("3 per 1h", "100000 per 1h") + "[proxy]\nthreads = 4\n";
    let gate = Gate::start(&upstream.file(&file));
    let forwarded: usize = std::thread::scope(|scope| {
        let client = |_| scope.spawn(|| (0..20).filter(|_| gate.ask(attempt()).status == 200).count());
        let clients: Vec<_> = (0..12).map(client).collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(*most.lock().unwrap(), 3);
    assert_eq!(upstream.requests().len(), forwarded);
    assert!(forwarded < 240, "some were turned away");
}

#[test]
fn those_on_their_way_stay_counted_when_the_rules_change() {
    let upstream = dawdling();
    let list = new_directory().join("list.txt");
    std::fs::write(&list, "192.0.2.1\n").unwrap();
    let listed = format!("[networks]\nlist = \"@{}\"\n", list.display());
    let gate = Gate::start(&upstream.file(&(TWO.to_owned() + "exempt = \"list\"\n" + &listed)));
    let clients = on_their_way(&gate, &upstream, 2);
    std::fs::write(&list, "192.0.2.2 # another one\n").unwrap();
    let reloaded = || gate.metric("tollgate_config_reloads_total", "result=\"ok\"") > 0.5;
    assert!(eventually(Duration::from_secs(10), reloaded));
    assert_eq!(gate.ask(attempt()).status, 503);
    drop(clients);
    assert!(eventually(Duration::from_secs(5), || gate.metric("tollgate_connections", "") < 0.5));
    let _next = on_their_way(&gate, &upstream, 1);
}

#[test]
fn a_tunnel_keeps_its_place_as_long_as_it_stands() {
    let switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let upstream = Upstream::answering(|_, _| Reply::Echo(switching.into()));
    let gate = Gate::start(&upstream.file(&TWO.replace("= 2", "= 1")));
    // Credentials in the query make an attempt of it, and only a GET may become a tunnel.
    let ask = get_with("/login?pwd=guess", "Connection: Upgrade\r\nUpgrade: websocket\r\n");
    let mut tunnel = gate.connect();
    tunnel.send(&ask);
    assert_eq!(tunnel.answer().status, 101);
    assert_eq!(gate.ask(&ask).status, 503);
    drop(tunnel);
    assert!(eventually(Duration::from_secs(5), || gate.ask(&ask).status == 101));
}
