//! What a question of Envoy's filters (rate limit, external authorization, external processing) costs, beside a plain HTTP/2 echo
//! by hyper: the wait of a question alone, and how many a second one core answers.
//!
//! Gate and echo are processes with one worker thread each. Questions alone are asked of both in turn, so what else the
//! machine does meets both; answers a second are those of a second of the process's own time. It prints Markdown.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench that cannot be set up has nothing to measure, and it is its own clock"
)]

#[path = "../tests/endpoint/calls.rs"]
#[allow(dead_code, unreachable_pub, reason = "tests use the rest")]
mod calls;
#[path = "../tests/endpoint/envoy.rs"]
#[allow(dead_code, unreachable_pub, reason = "tests use the rest")]
mod envoy;

use std::convert::Infallible;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use rustix::thread::{CpuSet, sched_setaffinity};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use calls::{Caller, METHOD, descriptor, framed, question};
use envoy::{CHECK, Head, NO_BODIES, PROCESS, Part, check, request, response};
use support::{Launch, Upstream, free_port, time_of_threads};

/// A process that is measured.
struct Peer {
    name: &'static str,
    asks: Asks,
    process: u32,
    address: SocketAddr,
    waits: Vec<Duration>,
    answers_a_second: Vec<f64>,
}

/// How it is asked.
#[derive(Clone, Copy)]
enum Asks {
    /// By a descriptor.
    Limits,
    /// By a request.
    Authorizes,
    /// By a stream with a request and its answer.
    Processes,
}

fn main() {
    if std::env::args().any(|word| word == "echo") {
        block_on(echo());
    }
    // What is started from now on stays there: on which core the scheduler puts it would decide the wait of a question alone.
    pin_to(1);
    let upstream = Upstream::start();
    let kinds = [("envoy-rls", Asks::Limits), ("ext-authz", Asks::Authorizes), ("ext-proc", Asks::Processes)];
    let kinds = kinds.map(|(kind, asks)| (kind, asks, SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()))));
    let endpoints = kinds.map(|(kind, _, address)| {
        format!(
            "[endpoint.{kind}]\nkind = \"{kind}\"\nlisten = \"http://{address}\"\noutcome_timeout = \"1s\"\n"
        )
    });
    let gate = Launch::new(&upstream.file(&format!("{POLICY}{}", endpoints.concat()))).start();
    let (mut other, echo) = start_echo();
    pin_to(0);
    let peer = |name, asks, process, address| Peer {
        name,
        asks,
        process,
        address,
        waits: vec![],
        answers_a_second: vec![],
    };
    let mut peers: Vec<_> =
        kinds.iter().map(|&(kind, asks, address)| peer(kind, asks, gate.process_id(), address)).collect();
    peers.push(peer("hyper", Asks::Limits, other.id(), echo));
    peers.push(peer("hyper, asked as ext-authz", Asks::Authorizes, other.id(), echo));
    for _ in 0..ROUNDS {
        block_on(ask_in_turn(&mut peers));
        peers.iter_mut().for_each(|peer| block_on(flood(peer)));
    }
    other.kill().unwrap();
    other.wait().unwrap();
    print(&mut peers);
}

/// Keeps this thread, and what it starts from now on, on one core.
fn pin_to(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).unwrap();
}

/// One question at a time, of each peer in turn.
async fn ask_in_turn(peers: &mut [Peer]) {
    let mut callers = Vec::new();
    for peer in &*peers {
        callers.push(Caller::connect(peer.address).await);
    }
    for number in 0..ALONE {
        for (peer, caller) in peers.iter_mut().zip(&mut callers) {
            let asked = Instant::now();
            ask(caller, peer.asks, number).await;
            peer.waits.push(asked.elapsed());
        }
    }
}

/// Many questions at once, for the answers in a second of the process's own time.
async fn flood(peer: &mut Peer) {
    let before = time_of_threads(peer.process, |_| true);
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let caller = Caller::connect(peer.address).await;
        for _ in 0..AT_ONCE {
            let (mut caller, asks) = (caller.clone(), peer.asks);
            tasks.spawn(async move {
                for number in 0..IN_A_ROW {
                    ask(&mut caller, asks, number).await;
                }
            });
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let answers = f64::from(CONNECTIONS * AT_ONCE * IN_A_ROW);
    peer.answers_a_second.push(answers / (time_of_threads(peer.process, |_| true) - before).as_secs_f64());
}

/// As Envoy asks for a sign-in.
async fn ask(caller: &mut Caller, asks: Asks, number: u32) {
    let client = format!("203.0.113.{}", number % 250);
    let (method, body) = match asks {
        Asks::Limits => {
            let entries =
                [("remote_address", &*client), ("method", "POST"), ("path", "/login"), ("host", "app.test")];
            (METHOD, question("edge", &[descriptor(&entries)]).encode_to_vec())
        }
        Asks::Authorizes => (CHECK, check(&client, "POST", "/login", HEADERS, "").encode_to_vec()),
        Asks::Processes => {
            let mut call = caller.open(PROCESS).await;
            let head = Head { is_end: true, ..request(&client, "POST", "/login", HEADERS) };
            let passed = call.process(Part::RequestHeaders(head), Some(NO_BODIES)).await.unwrap();
            assert_eq!(passed.verdict(), 200);
            call.process(response("302", &[("location", "/home")]), None).await.unwrap();
            return drop(call.end().await);
        }
    };
    let called = caller.call(method, "application/grpc", framed(&body)).await;
    assert!(called.http == 200 && called.status.is_none_or(|status| status == "0"));
}

fn start_echo() -> (Child, SocketAddr) {
    let program = std::env::current_exe().unwrap();
    let mut child = Command::new(program).arg("echo").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().parse().unwrap())
}

/// Answers each request with its own body, until it is killed.
async fn echo() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let service = service_fn(async |request: http::Request<hyper::body::Incoming>| {
            Ok::<_, Infallible>(http::Response::new(request.into_body()))
        });
        let http2 = http2::Builder::new(TokioExecutor::new());
        tokio::spawn(http2.serve_connection(TokioIo::new(stream), service));
    }
}

fn print(peers: &mut [Peer]) {
    println!("| | p50 of a question alone | answers in a second of one core |\n|---|---|---|");
    for peer in &mut *peers {
        peer.waits.sort();
        peer.answers_a_second.sort_by(f64::total_cmp);
        println!("| {} | {:?} | {:.0} |", peer.name, median(&peer.waits), median(&peer.answers_a_second));
    }
    let waits: Vec<_> = peers.iter().map(|peer| median(&peer.waits).as_secs_f64()).collect();
    println!("\np50: {:.2} of the echo's, {:.2} as ext-authz", waits[0] / waits[3], waits[1] / waits[4]);
}

fn median<T: Copy>(sorted: &[T]) -> T {
    sorted[sorted.len() / 2]
}

fn block_on<T>(story: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(story)
}

const HEADERS: &[(&str, &str)] =
    &[("accept", "text/html"), ("user-agent", "Mozilla/5.0"), ("cookie", "session=1")];
const POLICY: &str = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"100000 per 1s\"\n\
                      [proxy]\nthreads = 1\n";
const ROUNDS: usize = 5;
const ALONE: u32 = 4_000;
const CONNECTIONS: u32 = 4;
const AT_ONCE: u32 = 16;
const IN_A_ROW: u32 = 500;
