//! A store that answers and refuses what attempts ask, and one whose connection is gone for a moment.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use support::servers::dynamodb::Dynalite;
use support::servers::memcached::Node;
use support::servers::mysql::MariaDb;
use support::servers::postgres::Postgres;
use support::servers::redis::Redis;
use support::servers::{Tables, found};
use support::{Gate, Server, Upstream, eventually, post, started};

use super::migrate;

/// A limit that is never reached here: what is answered 503 was not decided.
const ROUTE: &str = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"1000 per 1h\"\n";

fn file(url: &str) -> String {
    format!("[store]\nurl = \"{url}\"\ntimeout = \"5s\"\non_error = \"deny\"\n{ROUTE}")
}

fn gate(upstream: &Upstream, url: &str) -> Gate {
    Gate::start(&upstream.file(&file(url)))
}

fn attempt(gate: &Gate) -> u16 {
    gate.ask(post("/login", "")).status
}

/// Waits until the gate has noticed, by its probes alone, that the store is usable or not.
fn is_shown_as(gate: &Gate, up: bool) {
    let shown = || (gate.metric("tollgate_store_up", "") == 1.0) == up;
    assert!(eventually(Duration::from_secs(10), shown), "store_up {up}: {}", gate.messages());
}

/// The error lines about the store.
fn errors(gate: &Gate) -> Vec<String> {
    let is_error = |line: &&str| line.contains("ERROR") && line.contains("store");
    gate.messages().lines().filter(is_error).map(str::to_owned).collect()
}

/// Takes something away from a working store and gives it back.
fn shows_what_is_refused(url: &str, why: &str, take: impl FnOnce(), give: impl FnOnce()) {
    let upstream = Upstream::start();
    let gate = &gate(&upstream, url);
    assert_eq!(attempt(gate), 200, "{why}: {}", gate.messages());
    take();
    is_shown_as(gate, false);
    let refused = (0..20).map(|_| attempt(gate)).filter(|status| *status == 503).count();
    assert_eq!(refused, 20, "as on_error says");
    let told = errors(gate);
    assert!(told.iter().any(|line| line.contains("unavailable") && line.contains(why)), "{why}: {told:?}");
    assert!(told.len() <= 2, "once a minute, whatever is refused: {told:?}");
    give();
    is_shown_as(gate, true);
    assert!(eventually(Duration::from_secs(10), || attempt(gate) == 200), "{}", gate.messages());
}

#[test]
fn redis_without_a_right_is_down_from_the_start_and_when_it_is_taken_away() {
    let (server, upstream) = (started::<Redis>(), Upstream::start());
    let user = |rights: &[&str]| {
        assert_eq!(server.cli(&[&["ACL", "SETUSER", "gate"][..], rights].concat()), "OK");
    };
    user(&["on", ">any", "~tollgate:*", "+@all"]);
    let url = format!("redis://gate:any@127.0.0.1:{}", server.port());
    for right in ["evalsha", "get", "set"] {
        let (without, with) = (format!("-{right}"), format!("+{right}"));
        user(&[&without]);
        let late = gate(&upstream, &url);
        is_shown_as(&late, false);
        assert_eq!(attempt(&late), 503, "without {right} from the start");
        user(&[&with]);
        shows_what_is_refused(&url, "refused", || user(&[&without]), || user(&[&with]));
    }
}

#[test]
fn redis_that_is_full_is_down() {
    let server = started::<Redis>();
    let memory = |bytes: &str| assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", bytes]), "OK");
    shows_what_is_refused(&server.url(), "OOM", || memory("1"), || memory("0"));
}

#[test]
fn memcached_that_is_full_is_down() {
    let server = found("memcached", Node::start(&["-M", "-m", "8"]));
    let upstream = Upstream::start();
    let gate = gate(&upstream, &format!("memcached://{}", server.address()));
    assert_eq!(attempt(&gate), 200);
    // More than a page in every class of sizes that a bucket may have; what finds no room is told in no reply.
    let mut stream = TcpStream::connect(server.address()).unwrap();
    for size in (1..400).step_by(20) {
        let value = "x".repeat(size);
        let lines =
            (0..40_000).map(|number| format!("set {size}-{number} 0 0 {size} noreply\r\n{value}\r\n"));
        stream.write_all(lines.collect::<String>().as_bytes()).unwrap();
    }
    assert!(eventually(Duration::from_secs(10), || attempt(&gate) == 503), "{}", gate.messages());
    is_shown_as(&gate, false);
    assert!(errors(&gate).iter().any(|line| line.contains("out of memory")), "{:?}", errors(&gate));
}

#[test]
fn postgres_without_a_right_or_read_only_is_down() {
    let (server, upstream) = (started::<Postgres>(), Upstream::start());
    migrate(&upstream.file(&file(&server.url())));
    for right in ["SELECT", "INSERT", "UPDATE"] {
        let sql = |words: &str| drop(server.sql(words));
        shows_what_is_refused(
            &server.url(),
            "permission denied",
            || sql(&format!("REVOKE {right} ON tollgate_buckets FROM tollgate")),
            || sql(&format!("GRANT {right} ON tollgate_buckets TO tollgate")),
        );
    }
}

#[test]
fn mariadb_without_a_right_or_read_only_is_down() {
    let (server, upstream) = (started::<MariaDb>(), Upstream::start());
    migrate(&upstream.file(&file(&server.url())));
    let sql = |words: &str| drop(server.sql(words));
    shows_what_is_refused(
        &server.url(),
        "read-only",
        || sql("SET GLOBAL read_only = 1"),
        || sql("SET GLOBAL read_only = 0"),
    );
    shows_what_is_refused(
        &server.url(),
        "denied",
        // A right holds as long as a connection that had it.
        || sql("REVOKE SELECT ON tollgate.* FROM tollgate; KILL CONNECTION USER tollgate"),
        || sql("GRANT SELECT ON tollgate.* TO tollgate"),
    );
}

#[test]
fn dynamodb_without_its_table_is_down() {
    let (server, upstream) = (started::<Dynalite>(), Upstream::start());
    migrate(&upstream.file(&file(&server.url())));
    let gate = gate(&upstream, &server.url());
    assert_eq!(attempt(&gate), 200);
    server.drop_table();
    is_shown_as(&gate, false);
    assert!(errors(&gate).iter().any(|line| line.contains("there is no table")), "{:?}", errors(&gate));
}

#[test]
fn attempts_after_their_connections_were_cut_wait_for_the_next_ones() {
    let (server, upstream) = (started::<Redis>(), Upstream::start());
    let gate = gate(&upstream, &server.url());
    // The question at the start has a connection of its own, and is asked once.
    let has_asked = || gate.messages().contains("the store (redis) answers");
    assert!(eventually(Duration::from_secs(10), has_asked), "{}", gate.messages());
    for _ in 0..10 {
        server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        assert_eq!([(); 4].map(|()| attempt(&gate)), [200; 4], "{}", gate.messages());
    }
    assert_eq!(errors(&gate), [""; 0]);
}

#[test]
fn attempts_while_the_store_restarts_wait_for_it() {
    let (mut server, upstream) = (started::<Redis>(), Upstream::start());
    let gate = gate(&upstream, &server.url());
    assert_eq!(attempt(&gate), 200);
    for _ in 0..3 {
        server.kill();
        let statuses = std::thread::scope(|scope| {
            let attempts = [(); 4].map(|()| scope.spawn(|| attempt(&gate)));
            server.start_again();
            attempts.map(|attempt| attempt.join().unwrap())
        });
        assert_eq!(statuses, [200; 4], "{}", gate.messages());
    }
}
