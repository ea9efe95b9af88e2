//! A gate and an application of axum with the layer of tower: one store, one bucket.

#[path = "../layer/program.rs"]
mod program;

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::{get, post};

use self::program::{Program, layer};
use crate::table;
use support::application::{FIVE, ROUTE, application, right, sign_in};
use support::servers::redis::Redis;
use support::{Gate, Server, eventually, get_with, started};

/// The application behind a layer.
fn program(policy: &str) -> Program {
    let app = Router::new().route("/login", post(check)).route("/", get(open));
    Program::serve(app.layer(layer(policy)))
}

async fn check(form: Bytes) -> (StatusCode, [(&'static str, &'static str); 1]) {
    let is_right = form.ends_with(b"pwd=right-of-alice");
    let status = if is_right { StatusCode::FOUND } else { StatusCode::OK };
    (status, [("location", "/home")])
}

async fn open() -> &'static str {
    "open"
}

/// How many of 100 wrong passwords at once, at both by turns, are not refused.
fn passed_of_100_at_once(gate: &Gate, program: &Program) -> usize {
    let (threads, each) = (10, 10);
    let ready = &Barrier::new(threads);
    thread::scope(|scope| {
        let guess = move |thread: usize| {
            let mut clients = [gate.connect(), program.connect()];
            ready.wait();
            let guess = |number: usize| {
                let client = &mut clients[number % 2];
                client.send(sign_in("alice", &format!("wrong{thread}-{number}")));
                client.answer().status
            };
            (0..each).map(guess).filter(|&status| status != 429).count()
        };
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || guess(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

#[test]
fn a_gate_and_a_layer_with_one_store_admit_exactly_one_bucket() {
    let server = started::<Redis>();
    let application = application();
    let policy = format!("{ROUTE}{FIVE}{}", table(&server));
    let gate = Gate::start(&application.file(&policy));
    let program = program(&policy);
    for number in 0..50 {
        let sign_in = sign_in("alice", &right("alice"));
        assert_eq!((gate.ask(&sign_in).status, program.ask(&sign_in).status), (302, 302), "sign-in {number}");
    }
    // Refunds are on their way to the store for a moment.
    let is_full = || {
        let stored = std::process::Command::new(support::binary())
            .args(["buckets", "show", "ip:127.0.0.1", "--format", "json", "--socket"])
            .arg(gate.admin_socket())
            .output()
            .unwrap();
        let shown: serde_json::Value = serde_json::from_slice(&stored.stdout).unwrap_or_default();
        shown["buckets"][0]["tokens"] == 5
    };
    assert!(eventually(Duration::from_secs(10), is_full), "right passwords cost nothing");
    assert_eq!(passed_of_100_at_once(&gate, &program), 5);
    let refused = program.ask(sign_in("alice", &right("alice")));
    assert_eq!(refused.status, 429);
    assert!((1..=3600).contains(&refused.retry_after()));
}

#[test]
fn while_an_attempt_waits_for_the_store_the_program_serves_other_requests() {
    let mut server = started::<Redis>();
    let program = program(&format!("{ROUTE}{FIVE}{}", table(&server).replace("5s", "10s")));
    assert_eq!(program.ask(sign_in("alice", "wrong")).status, 200);
    server.pause();
    let mut waiting = program.connect();
    waiting.send(sign_in("alice", "wrong"));
    let began = Instant::now();
    for _ in 0..20 {
        assert_eq!(program.ask(get_with("/", "Connection: close\r\n")).status, 200);
    }
    assert!(began.elapsed() < Duration::from_secs(9), "none waits for the store, which has ten seconds");
    server.resume();
    assert_eq!(waiting.answer().status, 200);
}
