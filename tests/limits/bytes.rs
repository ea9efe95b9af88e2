//! Limits that count the bytes of answers: how fast those pass, and who waits for whom.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "these are tests"
)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use support::authority::Authority;
use support::polite::{Polite, request, run};
use support::{Client, Gate, Reply, Upstream, binary, eventually, get_with};

/// An application whose answers have so many bytes as the path says: `/export/1000`.
fn exporting() -> Upstream {
    Upstream::answering(|request, _| {
        let target = String::from_utf8_lossy(request).split(' ').nth(1).unwrap_or_default().to_owned();
        let length = target.rsplit('/').next().unwrap().parse().unwrap_or(2);
        Reply::Bytes(answer(length))
    })
}

fn answer(length: usize) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n");
    [head.into_bytes(), vec![b'x'; length]].concat()
}

/// A limit with these lines on the exports of an application.
fn export(lines: &str) -> String {
    format!("[route.export]\nmatch = \"GET /export/*\"\n[limit.export]\nunit = \"bytes\"\n{lines}\n")
}

fn gate(upstream: &Upstream, lines: &str) -> Gate {
    Gate::start(&upstream.file(&export(lines)))
}

fn get(length: usize) -> String {
    get_with(&format!("/export/{length}"), "")
}

/// How long such an answer takes.
fn time_for(client: &mut Client, request: String, length: usize) -> Duration {
    let begun = Instant::now();
    client.send(request);
    let answer = client.answer();
    assert_eq!((answer.status, answer.body.len()), (200, length));
    begun.elapsed()
}

/// The same on a thread.
fn begin(mut client: Client, length: usize) -> JoinHandle<Duration> {
    std::thread::spawn(move || time_for(&mut client, get(length), length))
}

fn is_within(took: Duration, expected: Duration, percent: u32) -> bool {
    took * 100 >= expected * (100 - percent) && took * 100 <= expected * (100 + percent)
}

/// A machine with other work may be late; nothing is ever early.
fn within_five_percent(expected: Duration, measure: impl Fn() -> Duration) {
    let mut seen = Vec::new();
    for _ in 0..8 {
        let took = measure();
        assert!(took * 100 >= expected * 95, "too fast: {took:?} and not {expected:?}");
        if is_within(took, expected, 5) {
            return;
        }
        seen.push(took);
    }
    panic!("{seen:?} and not {expected:?}");
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn an_answer_passes_at_its_rate_within_five_percent() {
    let upstream = exporting();
    within_five_percent(3 * SECOND, || {
        let gate = gate(&upstream, "rate = \"1MB/s burst 500KB\"\ndirection = \"answer\"");
        time_for(&mut gate.connect(), get(3_500_000), 3_500_000)
    });
}

#[test]
fn an_answer_over_http_2_passes_at_its_rate_within_five_percent() {
    let (upstream, authority) = (exporting(), Authority::new());
    within_five_percent(3 * SECOND, || {
        let file = upstream.file(&export("rate = \"1MB/s burst 500KB\""));
        let gate = authority.gate(&["app.test"], &file);
        run(async {
            let mut client = Polite::connect(&authority, gate.tls).await;
            let begun = Instant::now();
            let answer = client.ask(request("GET", "/export/3500000"), "").await.unwrap();
            assert_eq!(answer.body().len(), 3_500_000);
            begun.elapsed()
        })
    });
}

#[test]
fn transfers_of_one_client_share_its_rate_evenly() {
    let upstream = exporting();
    within_five_percent(2 * SECOND, || {
        let gate = gate(&upstream, "rate = \"2MB/s burst 200KB\"");
        let begun = Instant::now();
        let all: Vec<_> = (0..4).map(|_| begin(gate.connect(), 1_050_000)).collect();
        let times: Vec<Duration> = all.into_iter().map(|one| one.join().unwrap()).collect();
        let all = begun.elapsed();
        let first = times.iter().min().unwrap();
        // An uneven try counts as one that took too long.
        if *first * 10 >= all * 7 { all } else { 2 * all }
    });
}

#[test]
fn short_answers_count_like_long_ones_and_none_is_refused() {
    let upstream = exporting();
    within_five_percent(2 * SECOND, || {
        let gate = gate(&upstream, "rate = \"200KB/s burst 100KB\"");
        let mut client = gate.connect();
        (0..100).map(|_| time_for(&mut client, get(5_000), 5_000)).sum()
    });
}

#[test]
fn another_client_has_a_bucket_for_itself_and_another_route_has_none() {
    let upstream = exporting();
    let gate = gate(&upstream, "rate = \"100KB/s burst 1MB\"");
    let slow = begin(gate.connect(), 1_300_000);
    std::thread::sleep(SECOND / 2);
    let mut other = gate.connect_from(Ipv4Addr::new(127, 0, 0, 2));
    assert!(time_for(&mut other, get(900_000), 900_000) < 2 * SECOND, "it waits for nobody");
    let elsewhere = get_with("/other/2000000", "");
    assert!(time_for(&mut gate.connect(), elsewhere, 2_000_000) < 2 * SECOND);
    assert!(slow.join().unwrap() > 5 * SECOND / 2);
}

#[test]
fn addresses_of_one_account_share_its_bucket() {
    let upstream = exporting();
    let file =
        export("key = \"user\"\nrate = \"50KB/s burst 200KB\"").replace("[limit", "user = \"basic\"\n[limit");
    let gate = Gate::start(&upstream.file(&file));
    let as_user = |pair: &str| get_with("/export/200000", &format!("Authorization: Basic {pair}\r\n"));
    // "alice:x", "Alice:y" and "bob:x".
    let [alice, again, bob] = ["YWxpY2U6eA==", "QWxpY2U6eQ==", "Ym9iOng="].map(as_user);
    let mut first = gate.connect();
    assert!(time_for(&mut first, alice, 200_000) < SECOND);
    assert!(time_for(&mut first, bob, 200_000) < SECOND);
    let mut second = gate.connect_from(Ipv4Addr::new(127, 0, 0, 2));
    assert!(time_for(&mut second, again, 200_000) > SECOND);
}

/// Otherwise whoever sends what nobody can read downloads without a limit.
#[test]
fn a_body_that_hides_its_account_is_refused_where_accounts_have_a_limit() {
    let upstream = exporting();
    let lines = "user = \"form:user\"\n[limit";
    let file = |mode: &str| {
        let file = export(&format!("key = \"user\"\nrate = \"50KB/s burst 200KB\"\n{mode}"));
        file.replace("GET /export", "POST /export").replace("[limit", lines)
    };
    let gate = Gate::start(&upstream.file(&file("")));
    let export = |kind: &str, body: &str| {
        format!(
            "POST /export/10 HTTP/1.1\r\nHost: app.test\r\nContent-Type: application/x-www-form-urlencoded{kind}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let unreadable = [
        (export("", "user=alice"), 200),
        (export("; charset=iso-2022-jp", "user=alice"), 415),
        (export("\r\nContent-Encoding: compress", "user=alice"), 415),
        (export("", &format!("more={}&user=alice", "x".repeat(70_000))), 413),
    ];
    for (request, status) in &unreadable {
        assert_eq!(gate.ask(request.clone()).status, *status, "{request:.150}");
    }
    assert!(gate.reload(&upstream.file(&file("mode = \"observe\""))));
    for (request, _) in unreadable {
        assert_eq!(gate.ask(request).status, 200, "what only observes refuses nothing");
    }
}

/// It is no "rapid reset": the client waited for the gate.
#[test]
fn a_person_may_stop_downloads_over_http_2_as_often_as_it_pleases() {
    let (upstream, authority) = (exporting(), Authority::new());
    let gate = authority.gate(&["app.test"], &upstream.file(&export("rate = \"1KB/s burst 1KB\"")));
    run(async {
        let mut client = Polite::connect(&authority, gate.tls).await;
        for number in 0..150 {
            let answer = client.begin(request("GET", "/export/100000"), "").await.unwrap().await;
            let answer = answer.unwrap_or_else(|error| panic!("download {number}: {error}"));
            assert_eq!(answer.status(), 200);
            // Dropped, the body resets its stream.
        }
        assert!(client.ask(request("GET", "/other/1"), "").await.is_ok());
    });
}

#[test]
fn a_client_that_leaves_is_soon_gone_and_waits_in_nobodys_way() {
    let upstream = exporting();
    let gate = gate(&upstream, "rate = \"1KB/s burst 10KB\"");
    for _ in 0..40 {
        let mut client = gate.connect();
        client.send(get(10_000_000));
        drop(client.take(50));
    }
    assert!(eventually(5 * SECOND, || gate.metric("tollgate_connections", "") < 0.5), "all are gone");
    // Forty pieces of 256 bytes that nobody took would be ten seconds more.
    let took = time_for(&mut gate.connect(), get(500), 500);
    assert!(took < 3 * SECOND, "{took:?}");
}

#[test]
fn no_time_out_sees_the_pause_of_the_gate() {
    let (upstream, authority) = (exporting(), Authority::new());
    // A piece of 256 bytes every two and a half seconds.
    let lines = "rate = \"100B/s burst 1KB\"\n[proxy]\nidle_timeout = \"1s\"\nreply_timeout = \"1s\"\n\
                 header_timeout = \"1s\"";
    let gate = authority.gate(&["app.test"], &upstream.file(&export(lines)));
    let other = begin(gate.connect_from(Ipv4Addr::new(127, 0, 0, 2)), 1500);
    run(async {
        let mut client = Polite::connect(&authority, gate.tls).await;
        let begun = Instant::now();
        let answer = client.ask(request("GET", "/export/1500"), "").await.unwrap();
        assert_eq!(answer.body().len(), 1500);
        assert!(begun.elapsed() > 4 * SECOND, "{:?}", begun.elapsed());
    });
    assert!(other.join().unwrap() > 4 * SECOND);
}

#[test]
fn a_client_that_reads_nothing_still_ends() {
    let upstream = exporting();
    let gate = gate(&upstream, "rate = \"50MB/s\"\n[proxy]\nidle_timeout = \"1s\"");
    let mut client = gate.connect();
    client.send(get(300_000_000));
    drop(client.take(1000));
    assert!(eventually(20 * SECOND, || gate.metric("tollgate_connections", "") < 0.5));
    drop(client);
}

/// An application that writes one endless answer, and counts what it got rid of.
fn endless() -> (SocketAddr, Arc<AtomicUsize>) {
    let (listener, written) = (TcpListener::bind("127.0.0.1:0").unwrap(), Arc::<AtomicUsize>::default());
    let (address, count) = (listener.local_addr().unwrap(), Arc::clone(&written));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let count = Arc::clone(&count);
            std::thread::spawn(move || write_on(stream, &count));
        }
    });
    (address, written)
}

fn write_on(mut stream: TcpStream, count: &AtomicUsize) {
    let mut buffer = [b'x'; 16 * 1024];
    if stream.read(&mut buffer).is_ok_and(|length| length > 0) {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        while let Ok(length) = stream.write(&[b'x'; 16 * 1024]) {
            count.fetch_add(length, Ordering::Relaxed);
        }
    }
}

#[test]
fn nothing_is_buffered_and_the_application_waits() {
    let (address, written) = endless();
    let file = format!("upstream = \"http://{address}\"\n{}", export("rate = \"100KB/s burst 100KB\""));
    let gate = Gate::start(&file);
    let before = gate.memory();
    let mut clients: Vec<Client> = (0..10).map(|_| gate.connect()).collect();
    clients.iter_mut().for_each(|client| client.send(get(0)));
    let mut latest = 0;
    // Until the sockets of the kernel are full.
    assert!(eventually(30 * SECOND, || {
        std::thread::sleep(2 * SECOND);
        let now = written.load(Ordering::Relaxed);
        let is_at_rate = now.saturating_sub(latest) < 600_000;
        latest = now;
        is_at_rate
    }));
    assert!(gate.memory() < before + 4 * 1024, "{} KiB more", gate.memory() - before);
}

#[test]
fn a_limit_that_observes_holds_nothing_and_counts() {
    let upstream = exporting();
    let gate = gate(&upstream, "rate = \"100KB/s burst 100KB\"\nmode = \"observe\"");
    assert!(time_for(&mut gate.connect(), get(1_000_000), 1_000_000) < 2 * SECOND);
    let bytes = |result: &str| gate.metric("tollgate_answer_bytes_total", &format!("\"{result}\""));
    assert!((900_000.0..1_100_000.0).contains(&(bytes("passed") + bytes("held"))));
    assert!(bytes("held") > 600_000.0, "{} of a million were more than the rate", bytes("held"));
}

#[test]
fn exempt_clients_are_not_held_and_too_many_values_of_a_key_are_refused() {
    let upstream = exporting();
    let lines = "rate = \"50KB/s burst 100KB\"\nexempt = \"127.0.0.2\"\nkey = \"header:X-Key\"";
    let gate = gate(&upstream, lines);
    let mut exempt = gate.connect_from(Ipv4Addr::new(127, 0, 0, 2));
    assert!(time_for(&mut exempt, get(1_000_000), 1_000_000) < 2 * SECOND);
    let with = |keys: &[usize]| {
        let lines: String = keys.iter().map(|key| format!("X-Key: {key}\r\n")).collect();
        get_with("/export/100000", &lines)
    };
    assert!(time_for(&mut gate.connect(), with(&[1]), 100_000) < SECOND);
    assert!(time_for(&mut gate.connect(), with(&[2, 1]), 100_000) > SECOND, "both pay");
    assert_eq!(gate.ask(with(&[1, 2, 3, 4, 5, 6, 7, 8, 9])).status, 400);
}

#[test]
fn a_gate_that_stops_lets_held_answers_end() {
    let upstream = exporting();
    let mut gate = gate(&upstream, "rate = \"100KB/s burst 100KB\"");
    let transfer = begin(gate.connect(), 300_000);
    assert!(eventually(5 * SECOND, || gate.metric("tollgate_answer_bytes_total", "") > 100_000.0));
    gate.signal("TERM");
    let took = transfer.join().unwrap();
    assert!(took > 3 * SECOND / 2 && took < 4 * SECOND, "{took:?}");
    assert!(gate.exit_status(5 * SECOND).is_some_and(|status| status.success()));
}

#[test]
fn a_reload_keeps_what_a_bucket_lacks_and_takes_the_new_rate() {
    let upstream = exporting();
    let gate = gate(&upstream, "rate = \"1KB/s burst 100KB\"");
    assert!(time_for(&mut gate.connect(), get(100_000), 100_000) < SECOND);
    assert!(gate.reload(&upstream.file(&export("rate = \"20KB/s burst 100KB\""))));
    let took = time_for(&mut gate.connect(), get(100_000), 100_000);
    assert!(took > SECOND && took < 8 * SECOND, "{took:?}");
}

#[test]
fn an_answer_under_way_takes_the_new_rate_of_a_reload() {
    let upstream = exporting();
    let gate = gate(&upstream, "rate = \"1KB/s burst 100KB\"");
    let transfer = begin(gate.connect(), 300_000);
    assert!(eventually(5 * SECOND, || gate.metric("tollgate_answer_bytes_total", "") > 100_000.0));
    assert!(gate.reload(&upstream.file(&export("rate = \"100KB/s burst 100KB\""))));
    let took = transfer.join().unwrap();
    assert!(took < 60 * SECOND, "at the former rate it would take 200 seconds: {took:?}");
}

#[test]
fn operators_see_the_limit_and_can_lift_it_for_a_while() {
    let upstream = exporting();
    let gate = gate(&upstream, "rate = \"1KB/s burst 10KB\"");
    let run = |arguments: &[&str]| {
        let output =
            Command::new(binary()).args(arguments).arg("--socket").arg(gate.admin_socket()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let explained = run(&["explain", "--live", "GET", "/export/1"]);
    assert!(explained.contains("export: at most 10KB at once, then 1KB a second"), "{explained}");
    run(&["mode", "observe", "--limit", "export"]);
    assert!(time_for(&mut gate.connect(), get(1_000_000), 1_000_000) < SECOND);
    assert_eq!(gate.metric("tollgate_buckets", "\"export\""), 1.0);
    assert!(run(&["status"]).contains("limit `export`: observe"));
}
