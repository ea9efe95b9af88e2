//! SIGUSR2: what another process takes over, and what becomes of those who are connected.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use crate::generations::{Generations, is_alive};
use support::{Client, Reply, Upstream, eventually, get_with, post, post_with};

const LIMIT: &str = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"3 per 1000h\"\n";

fn admitted(gate: &Generations, attempts: usize) -> usize {
    let ask = |_: &usize| {
        let mut client = Client::connect(gate.address);
        client.send(post_with("/login", "Connection: close\r\n"));
        client.answer().status == 200
    };
    (0..attempts).filter(ask).count()
}

/// I7: another binary, the same sockets.
#[test]
fn a_new_process_takes_over_sockets_and_buckets_and_the_old_one_ends_with_0() {
    let upstream = Upstream::start();
    let mut gate = Generations::start(&upstream.file(LIMIT));
    assert_eq!(admitted(&gate, 2), 2);
    let first = gate.process();
    assert!(gate.hand_over());
    assert_eq!(admitted(&gate, 3), 1, "without a file for snapshots");
    assert_eq!(gate.first_ends(Duration::from_secs(5)), Some(0), "{}", gate.messages());
    assert_ne!(gate.process(), first);
    assert_eq!(gate.readiness().unwrap().0, 200);
    let mut by_file = UnixStream::connect(gate.directory.join("gate.sock")).unwrap();
    by_file.write_all(get_with("/", "Connection: close\r\n").as_bytes()).unwrap();
    assert!(std::io::read_to_string(by_file).unwrap().starts_with("HTTP/1.1 200"));
    let admin = gate.directory.join("admin.sock");
    assert_eq!(std::fs::metadata(admin).unwrap().permissions().mode() & 0o777, 0o600);
    let mut earlier = Vec::new();
    for _ in 0..3 {
        earlier.push(gate.process());
        assert!(gate.hand_over());
        assert_eq!(admitted(&gate, 1), 0);
    }
    // A process that still drains keeps the file of the socket in use.
    let is_alone = || !earlier.iter().any(|process| is_alive(*process));
    assert!(eventually(Duration::from_secs(10), is_alone), "the earlier ones end");
    gate.signal("TERM");
    assert!(eventually(Duration::from_secs(5), || !is_alive(gate.process())));
    assert!(!gate.directory.join("gate.sock").exists(), "the last one takes its socket along");
}

/// I7: the name of the file leads to another one by now.
#[test]
fn a_binary_that_was_replaced_is_what_runs_next() {
    let upstream = Upstream::start();
    let gate = Generations::start(&upstream.file(LIMIT));
    let (binary, new) = (gate.directory.join("tollgate"), gate.directory.join("new"));
    support::copy_program(&binary, &new);
    std::fs::rename(&new, &binary).unwrap();
    assert!(gate.hand_over());
    let runs = std::fs::read_link(format!("/proc/{}/exe", gate.process())).unwrap();
    assert_eq!(runs, binary, "and not one that is deleted");
}

#[test]
fn a_new_process_reads_the_included_files_as_they_are_now() {
    let upstream = Upstream::start();
    let gate = Generations::start(&upstream.file(&format!("include = \"*.site\"\n{LIMIT}")));
    let site = "[route.shop]\nmatch = \"POST /shop\"\n";
    std::fs::write(gate.directory.join("shop.site"), site).unwrap();
    assert!(gate.hand_over(), "{}", gate.messages());
    let ask = || {
        let mut client = Client::connect(gate.address);
        client.send(post_with("/shop", "Connection: close\r\n"));
        client.answer().status
    };
    assert_eq!([ask(), ask(), ask(), ask()], [200, 200, 200, 429]);
}

/// E20: no client gets a burst, by any number of threads.
#[test]
fn another_number_of_threads_leaves_no_socket_alone_and_no_token() {
    let upstream = Upstream::start();
    let file = |threads: u8| upstream.file(&format!("[proxy]\nthreads = {threads}\n{LIMIT}"));
    let mut gate = Generations::start(&file(3));
    assert_eq!(admitted(&gate, 5), 3);
    for threads in [1, 4, 2] {
        gate.write(&file(threads));
        assert!(gate.hand_over());
        // The kernel gives connections to all sockets: with one left alone some of these would wait for ever.
        assert_eq!(admitted(&gate, 60), 0, "{threads} threads");
    }
    assert!(gate.first_ends(Duration::from_secs(5)).is_some());
}

#[test]
fn a_request_in_flight_is_answered_by_the_old_process_and_new_ones_by_the_new_one() {
    let (release, held) = mpsc::channel();
    let held = Mutex::new(held);
    let upstream = Upstream::answering(move |bytes, _| {
        if bytes.starts_with(b"GET /slow") {
            held.lock().unwrap().recv().unwrap();
        }
        Reply::ok()
    });
    let mut gate = Generations::start(&upstream.file(LIMIT));
    let mut slow = Client::connect(gate.address);
    slow.send(get_with("/slow", ""));
    upstream.wait_for(1);
    assert!(gate.hand_over());
    let mut new = Client::connect(gate.address);
    new.send(get_with("/", ""));
    assert_eq!(new.answer().status, 200);
    assert!(gate.first_ends(Duration::ZERO).is_none(), "it waits for the slow one");
    release.send(()).unwrap();
    let answer = slow.answer();
    assert_eq!((answer.status, answer.closes()), (200, true));
    assert_eq!(gate.first_ends(Duration::from_secs(5)), Some(0));
}

/// I6: a request on a keep-alive connection is answered.
#[test]
fn a_kept_connection_gets_one_more_answer_and_is_told_that_it_is_the_last() {
    let upstream = Upstream::start();
    let gate = Generations::start(&upstream.file(LIMIT));
    let mut kept = Client::connect(gate.address);
    kept.send(get_with("/", ""));
    assert!(!kept.answer().closes());
    let mut refused = Client::connect(gate.address);
    for _ in 0..4 {
        refused.send(post_with("/login", ""));
        assert!(!refused.answer().closes());
    }
    gate.signal("USR2");
    let mut last = None;
    // Until the gate has noticed, they are answered as before.
    assert!(eventually(Duration::from_secs(10), || {
        for client in [&mut kept, &mut refused] {
            client.send(post_with("/login", ""));
            let answer = client.answer();
            assert_eq!(answer.status, 429);
            if answer.closes() {
                last = Some(());
                return true;
            }
        }
        false
    }));
    assert!(last.is_some());
}

/// I7: an attempt whose body comes too late is not decided by the old process, whose buckets are no longer in use.
#[test]
fn an_attempt_whose_body_comes_too_late_is_sent_away_for_a_second() {
    let upstream = Upstream::start();
    let rules = "[route.login]\nmatch = \"POST /login\"\nuser = \"form:name\"\n[limit.account]\nkey = \"user\"\nrate = \"3 per 1000h\"\n";
    let gate = Generations::start(&upstream.file(rules));
    let whole = post("/login", "name=ann")
        .replace("Content-Length", "Content-Type: application/x-www-form-urlencoded\r\nContent-Length");
    let (head, body) = whole.split_at(whole.len() - 4);
    let mut late = Client::connect(gate.address);
    late.send(head);
    // It has been read up to there.
    std::thread::sleep(Duration::from_millis(200));
    assert!(gate.hand_over());
    late.send(body);
    let answer = late.answer();
    assert_eq!((answer.status, answer.retry_after(), answer.closes()), (503, 1, true));
    assert_eq!(upstream.requests().len(), 0);
}
