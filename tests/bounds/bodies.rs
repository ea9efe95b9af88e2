//! Memory for bodies that are read for their fields: bounded, shared fairly, and given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::Builder;
use http::Request;

use support::authority::{Authority, TABLE};
use support::polite::Polite;
use support::{Client, Gate, Launch, Upstream, eventually};

const FORM: &str = "application/x-www-form-urlencoded";

fn file(body: &str, proxy: &str) -> String {
    format!(
        "[route.login]\nmatch = \"POST /login\"\nuser = \"form:name\"\nbody = \"{body}\"\n\
         [limit.account]\nkey = \"user\"\nrate = \"1000/s\"\n[store]\ncapacity = 1000\n[proxy]\n{proxy}\n"
    )
}

/// The head of a sign-in with a body of this length.
fn head(length: usize) -> String {
    format!("POST /login HTTP/1.1\r\nHost: a\r\nContent-Type: {FORM}\r\nContent-Length: {length}\r\n\r\n")
}

fn sign_in(gate: &Gate, from: [u8; 4]) -> u16 {
    let mut client = gate.connect_from(from.into());
    client.send(head(15) + "name=a&pass=abc");
    client.answer().status
}

/// 100 streams, each with as much of a body as the gate takes.
async fn unfinished_bodies(
    authority: Arc<Authority>,
    gate: std::net::SocketAddr,
    length: usize,
    is_over: Arc<AtomicBool>,
) {
    let mut polite = Polite::connect_by(&authority, gate, &Builder::new()).await;
    let mut streams = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let request = Request::post("https://app.test/login").header("content-type", FORM).body(()).unwrap();
        let Ok(mut ready) = polite.send.clone().ready().await else { break };
        let Ok((response, mut body)) = ready.send_request(request, false) else { break };
        polite.send = ready;
        let is_over = Arc::clone(&is_over);
        streams.spawn(async move {
            let mut left = length;
            while left > 0 && !is_over.load(Ordering::Relaxed) {
                body.reserve_capacity(left.min(16 * 1024));
                let Some(Ok(count)) = std::future::poll_fn(|cx| body.poll_capacity(cx)).await else { break };
                if body.send_data(Bytes::from(vec![b'x'; count]), false).is_err() {
                    break;
                }
                left -= count;
            }
            while !is_over.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            drop((response, body));
        });
    }
    while !is_over.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    streams.abort_all();
}

/// The most that a gate has in memory, in KiB, while connections of one address send 100 bodies each and finish none;
/// what it had before; and what others are answered meanwhile.
fn under_attack(
    file: &str,
    connections: usize,
    length: usize,
    enough: u64,
) -> (u64, u64, Vec<u16>, Gate, Upstream) {
    let (upstream, authority) = (Upstream::start(), Arc::new(Authority::new()));
    let pair = authority.issue(&["app.test"]);
    let gate =
        Launch::new(&upstream.file(&format!("{file}{TABLE}"))).on_tls_too().with(&pair, "server").start();
    assert_eq!(sign_in(&gate, [127, 0, 6, 1]), 200);
    let (before, is_over) = (gate.memory(), Arc::new(AtomicBool::new(false)));
    let attack = std::thread::spawn({
        let (is_over, address) = (Arc::clone(&is_over), gate.tls);
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let one = || unfinished_bodies(Arc::clone(&authority), address, length, Arc::clone(&is_over));
                let tasks = tokio::task::LocalSet::new();
                (0..connections).for_each(|_| drop(tasks.spawn_local(one())));
                tasks.await;
            })
        }
    });
    let (started, mut most, mut answers) = (Instant::now(), before, Vec::new());
    while started.elapsed() < Duration::from_secs(4) && most < before + enough {
        most = most.max(gate.memory());
        let host = u8::try_from(answers.len() % 200).unwrap();
        answers.push(sign_in(
            &gate,
            if host.is_multiple_of(2) { [127, 0, 6, host + 2] } else { [127, 0, 0, 1] },
        ));
        std::thread::sleep(Duration::from_millis(20));
    }
    is_over.store(true, Ordering::Relaxed);
    attack.join().unwrap();
    (before, most, answers, gate, upstream)
}

/// L20: four connections of HTTP/2 of one client, with 100 unfinished bodies of 8 MB each.
#[test]
fn bodies_that_one_client_does_not_finish_take_a_bounded_memory_and_delay_no_other_client() {
    let enough = 200 * 1024;
    let (before, most, answers, gate, _upstream) = under_attack(&file("8MiB", ""), 4, 8_000_000, enough);
    std::thread::sleep(Duration::from_millis(500));
    let after = gate.memory();
    eprintln!("{before} KiB before, at most {most}, {after} afterwards; {} answers", answers.len());
    assert!(most < before + 64 * 1024, "{before} to {most} KiB");
    assert!(after < before + 40 * 1024, "{before} to {after} KiB");
    assert!(answers.len() > 5 && answers.iter().all(|&status| status == 200), "{answers:?}");
    assert!(gate.metric("tollgate_bodies_refused_total", "") > 0.0);
}

/// L20: the same with bodies of the length that is read where a file says nothing, over 40 connections. What else belongs to
/// 4,000 requests is a third of it.
#[test]
fn bodies_of_the_usual_length_have_the_same_bound() {
    let (before, most, answers, _gate, _upstream) = under_attack(&file("64KiB", ""), 40, 60_000, 200 * 1024);
    eprintln!("{before} KiB before, at most {most}; {} answers", answers.len());
    assert!(most < before + 128 * 1024, "{before} to {most} KiB");
    assert!(answers.len() > 5 && answers.iter().all(|&status| status == 200), "{answers:?}");
}

/// L20: a client that needs more memory than is left is told to come again; clients that need less are not affected.
#[test]
fn a_body_for_which_there_is_no_memory_is_a_503_that_says_when() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&file("64KiB", "body_memory = \"256KiB\"")));
    let mut first = gate.connect();
    first.send(head(60_000));
    first.send(vec![b'x'; 40_000]);
    let refused = || gate.metric("tollgate_bodies_refused_total", "") > 0.0;
    // Wherever it stands by now, both cannot be read at the same time.
    let mut second = gate.connect();
    second.send(head(60_000));
    second.send(vec![b'x'; 40_000]);
    assert!(eventually(Duration::from_secs(10), refused));
    let mut answers = Vec::new();
    for client in [&mut first, &mut second] {
        client.send_what_goes(&[b'x'; 20_000]);
        answers.push(client.answer());
    }
    answers.sort_by_key(|answer| answer.status);
    assert_eq!([answers[0].status, answers[1].status], [200, 503], "{answers:?}");
    assert!(answers[1].retry_after() >= 1);
    assert_eq!(sign_in(&gate, [127, 0, 0, 1]), 200, "and then all of it is there again");
}

/// L20: bodies that come slowly, from as many clients as hold all that there is.
#[test]
fn bodies_that_never_end_do_not_keep_anybody_from_signing_in() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&file("256KiB", "body_memory = \"1MiB\"")));
    let mut held: Vec<Client> = Vec::new();
    for number in 0..40 {
        let mut client = gate.connect_from([127, 0, 7, number % 8 + 1].into());
        client.send(head(250_000));
        client.send_what_goes(&vec![b'x'; 200_000]);
        held.push(client);
    }
    for host in 1..=20 {
        assert_eq!(sign_in(&gate, [127, 0, 9, host]), 200);
        assert_eq!(sign_in(&gate, [127, 0, 7, 1]), 200, "a neighbour of theirs");
    }
    drop(held);
    let all_of_it = || {
        let mut client = gate.connect();
        client.send(head(250_000));
        client.send_what_goes(&vec![b'x'; 250_000]);
        client.try_answer().is_some_and(|answer| answer.status == 200)
    };
    assert!(eventually(Duration::from_secs(10), all_of_it), "the memory comes back");
}
