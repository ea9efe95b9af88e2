//! What decisions cost that need a store: the time that they add, how many a second one core makes, and how many
//! requests they take; beside a fixed window of INCRBY and EXPIRE on the same Redis, as other limiters keep it.
//!
//! It starts real servers as the tests do, on core 1, and calls them from processes of its own (`stores/worker.rs`) on
//! core 0, the stores in turn, round after round. It prints Markdown. No gate and no HTTP take part: measured is the
//! library that a gate decides with, so the figures are what a store adds.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a bench that cannot be set up has nothing to measure, and it is its own clock"
)]

#[path = "stores/worker.rs"]
mod worker;

use std::any::Any;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use support::servers::Tables;
use support::servers::dynamodb::Dynalite;
use support::servers::memcached::Memcached;
use support::servers::mysql::MariaDb;
use support::servers::postgres::Postgres;
use support::servers::redis::Redis;
use support::{Server, started};
use tollgate::store::{Namespace, StoreAddress};

/// A store, or a fixed window, that is measured.
struct Peer {
    name: &'static str,
    url: String,
    /// The kind of client that the worker uses.
    client: &'static str,
    /// Kept running.
    _server: Option<Box<dyn Any>>,
}

/// The figures of each round by their names, by load and then by peer.
type Found = BTreeMap<(&'static str, &'static str), Vec<BTreeMap<String, f64>>>;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if let Some((first, rest)) = words.split_first()
        && first == "worker"
    {
        return worker::run(rest);
    }
    let chosen = |name: &str, usual: u32| {
        let at = words.iter().position(|word| word == name);
        at.map_or(usual, |at| words[at + 1].parse().unwrap())
    };
    let (rounds, millis) = (chosen("--rounds", 5), chosen("--millis", 2000));
    worker::pin(1);
    let peers = peers();
    let mut found = Found::new();
    for round in 1..=rounds {
        for load in LOADS.into_iter().filter(|&load| load != "back" || round == 1) {
            for peer in peers.iter().filter(|peer| peer.client == "store" || !load_counts(load)) {
                let figures = measure(peer, load, millis);
                eprintln!("{round}/{rounds} {load:4} {:9} {figures:.1?}", peer.name);
                found.entry((load, peer.name)).or_default().push(figures);
            }
        }
    }
    let names: Vec<&str> = peers.iter().map(|peer| peer.name).collect();
    for load in LOADS {
        println!("{}", table(load, &names, &found));
    }
}

/// Whether a load counts requests only, of which a fixed window has one.
fn load_counts(load: &str) -> bool {
    load == "trips" || load == "back"
}

fn peers() -> Vec<Peer> {
    let redis = started::<Redis>();
    let window = Peer { name: "INCRBY", url: redis.url(), client: "window", _server: None };
    let (postgres, mariadb) = (started::<Postgres>(), started::<MariaDb>());
    // The tests count requests in the server's log, which costs the server more than the requests.
    postgres.sql("ALTER ROLE tollgate SET log_statement = 'none'");
    mariadb.sql("SET GLOBAL general_log = 0");
    vec![
        window,
        peer("redis", redis),
        peer("memcached", started::<Memcached>()),
        peer("postgres", postgres),
        peer("mariadb", mariadb),
        peer("dynalite", started::<Dynalite>()),
    ]
}

fn peer<S: Server + 'static>(name: &'static str, server: S) -> Peer {
    let url = server.url();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let address: StoreAddress = url.parse().unwrap();
        address.open(&Namespace::default()).unwrap().unwrap().migrate().await.unwrap();
    });
    Peer { name, url, client: "store", _server: Some(Box::new(server)) }
}

/// Puts this load on a peer, from a process of its own.
fn measure(peer: &Peer, load: &str, millis: u32) -> BTreeMap<String, f64> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["worker", load, peer.client, &peer.url, &millis.to_string()]).stderr(Stdio::inherit());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{load} on {}", peer.name);
    let lines = String::from_utf8(output.stdout).unwrap();
    let pairs = lines.lines().map(|line| line.rsplit_once(' ').unwrap());
    pairs.map(|(name, figure)| (name.to_owned(), figure.parse().unwrap())).collect()
}

fn table(load: &'static str, peers: &[&'static str], found: &Found) -> String {
    let rounds = |name| found.get(&(load, name));
    let columns: Vec<&String> = peers
        .iter()
        .find_map(|&name| rounds(name))
        .map(|rounds| rounds[0].keys().collect())
        .unwrap_or_default();
    let names: String =
        columns.iter().map(|name| format!(" {} |", name.split_once(' ').unwrap().1)).collect();
    let mut lines =
        vec![format!("### {load}\n\n| store |{names}\n| :-- |{}", " --: |".repeat(columns.len()))];
    for &name in peers {
        let Some(rounds) = rounds(name) else { continue };
        let cells = columns.iter().map(|&column| {
            let mut all: Vec<f64> = rounds.iter().map(|figures| figures[column]).collect();
            all.sort_by(f64::total_cmp);
            format!(" {} |", spread(&all))
        });
        lines.push(format!("| {name} |{}", cells.collect::<String>()));
    }
    lines.join("\n") + "\n"
}

/// The median, and the range.
fn spread(sorted: &[f64]) -> String {
    let [least, .., most] = sorted else { return shown(sorted[0]) };
    let middle = shown(sorted[sorted.len() / 2]);
    if least == most { middle } else { format!("{middle} ({}–{})", shown(*least), shown(*most)) }
}

fn shown(figure: f64) -> String {
    match figure {
        0.0 => "0".to_owned(),
        1000.0.. => format!("{figure:.0}"),
        10.0.. => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

const LOADS: [&str; 5] = ["many", "one", "hot", "trips", "back"];
