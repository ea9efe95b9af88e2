//! What operators change for a while holds on all gates of a store within a second, and outlives each of them.

use std::process::Command;
use std::time::Duration;

use crate::{table, two_gates};
use support::servers::memcached::Memcached;
use support::servers::postgres::Postgres;
use support::servers::redis::Redis;
use support::{Gate, Launch, Server, Upstream, binary, eventually, mount, post};

mount!(redis, super::Redis, overrides:
    exemptions_and_modes_hold_on_all_gates_and_outlive_them
    a_mode_without_an_end_ends_with_the_reload_of_any_gate
    a_ban_holds_on_all_gates_until_it_ends
    a_banned_prefix_is_refused_on_all_gates
    an_exempt_account_is_refused_by_no_gate
    a_change_while_the_store_is_away_is_refused);
mount!(postgres, super::Postgres, overrides:
    exemptions_and_modes_hold_on_all_gates_and_outlive_them
    a_ban_holds_on_all_gates_until_it_ends);
mount!(memcached, super::Memcached, overrides:
    exemptions_and_modes_hold_on_all_gates_and_outlive_them
    a_banned_prefix_is_refused_on_all_gates);

/// A second is promised.
const SOON: Duration = Duration::from_secs(1);

fn file(upstream: &Upstream) -> String {
    upstream.file(
        "[route.login]\nmatch = \"POST /login\"\nuser = \"form:user\"\n\
         [limit.address]\nrate = \"1 per 1h\"\n[limit.subnet]\nrate = \"1000/s\"\nipv4 = 24\n\
         [limit.account]\nkey = \"user\"\nrate = \"1000/s\"\n",
    )
}

/// What the command says, which has to work.
fn tollgate(gate: &Gate, words: &[&str]) -> String {
    let output =
        Command::new(binary()).args(words).arg("--socket").arg(gate.admin_socket()).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn login(gate: &Gate) -> u16 {
    gate.ask(post("/login", "user=alice")).status
}

fn becomes(gate: &Gate, status: u16) {
    assert!(eventually(SOON, || login(gate) == status), "not {status} within a second: {}", gate.messages());
}

fn exemptions_and_modes_hold_on_all_gates_and_outlive_them(server: impl Server) {
    let upstream = Upstream::start();
    let [one, other] = two_gates(&server, &file(&upstream));
    assert_eq!([login(&one), login(&one), login(&other)], [200, 429, 429]);
    tollgate(&one, &["buckets", "exempt", "127.0.0.1", "--for", "1h", "--why", "audit"]);
    assert_eq!(login(&one), 200, "at once where it was said");
    becomes(&other, 200);
    assert!(tollgate(&other, &["buckets", "exempt"]).ends_with(": audit\n"));
    drop(one);
    let again = Launch::new(&format!("{}{}", file(&upstream), table(&server))).start();
    becomes(&again, 200);
    tollgate(&again, &["buckets", "exempt", "127.0.0.1", "--end"]);
    becomes(&other, 429);
    tollgate(&other, &["mode", "observe", "--for", "1h"]);
    becomes(&again, 200);
}

fn a_mode_without_an_end_ends_with_the_reload_of_any_gate(server: impl Server) {
    let upstream = Upstream::start();
    let [one, other] = two_gates(&server, &file(&upstream));
    assert_eq!([login(&one), login(&other)], [200, 429]);
    tollgate(&one, &["mode", "observe", "--limit", "address"]);
    becomes(&other, 200);
    tollgate(&other, &["reload"]);
    assert_eq!(login(&other), 429);
    becomes(&one, 429);
}

fn a_ban_holds_on_all_gates_until_it_ends(server: impl Server) {
    let upstream = Upstream::start();
    let generous = file(&upstream).replace("1 per 1h", "1000/s");
    let [one, other] = two_gates(&server, &generous);
    assert_eq!([login(&one), login(&other)], [200, 200]);
    let said = tollgate(&one, &["buckets", "ban", "127.0.0.1", "--for", "1h"]);
    assert!(
        said.contains("banned until ")
            && !said.lines().any(|line| line.starts_with("subnet") && line.contains("banned")),
        "{said}"
    );
    becomes(&other, 429);
    let answer = other.ask(post("/login", "user=alice"));
    assert!((3_590..=3_600).contains(&answer.retry_after()), "{}", answer.retry_after());
    let neighbour = |gate: &Gate| {
        let mut client = gate.connect_from([127, 0, 0, 2].into());
        client.send(post("/login", "user=bob"));
        client.answer().status
    };
    assert_eq!([neighbour(&one), neighbour(&other)], [200, 200]);
    tollgate(&other, &["buckets", "ban", "127.0.0.1", "--end"]);
    becomes(&one, 200);
    // An account, from everywhere; it ends by itself.
    tollgate(&one, &["buckets", "ban", "user:alice", "--for", "3s"]);
    becomes(&other, 429);
    assert_eq!(neighbour(&other), 200);
    assert!(eventually(Duration::from_secs(5), || login(&other) == 200), "it ends");
}

fn a_banned_prefix_is_refused_on_all_gates(server: impl Server) {
    let upstream = Upstream::start();
    let generous = file(&upstream).replace("1 per 1h", "1000/s");
    let [one, other] = two_gates(&server, &generous);
    assert_eq!([login(&one), login(&other)], [200, 200]);
    tollgate(&one, &["buckets", "ban", "127.0.0.0/31", "--for", "1h"]);
    assert_eq!(login(&one), 429, "at once where it was said");
    becomes(&other, 429);
    let refused = other.ask(post("/login", "user=alice"));
    assert!((3_590..=3_600).contains(&refused.retry_after()), "{}", refused.retry_after());
    let mut neighbour = other.connect_from([127, 0, 0, 2].into());
    neighbour.send(post("/login", "user=bob"));
    assert_eq!(neighbour.answer().status, 200);
    drop(one);
    let again = Launch::new(&format!("{generous}{}", table(&server))).start();
    becomes(&again, 429);
    tollgate(&again, &["buckets", "ban", "127.0.0.0/31", "--end"]);
    becomes(&other, 200);
}

fn an_exempt_account_is_refused_by_no_gate(server: impl Server) {
    let upstream = Upstream::start();
    let strict = file(&upstream).replace("1 per 1h", "1000/s");
    let strict = strict.replace("key = \"user\"\nrate = \"1000/s\"", "key = \"user\"\nrate = \"1 per 1h\"");
    let [one, other] = two_gates(&server, &strict);
    assert_eq!([login(&one), login(&other)], [200, 429]);
    assert!(tollgate(&one, &["buckets", "exempt", "user:alice", "--for", "1h"]).contains("exempt until "));
    becomes(&other, 200);
    assert_eq!([login(&one), login(&one), login(&other)], [200; 3]);
    tollgate(&other, &["buckets", "exempt", "user:alice", "--end"]);
    assert!(tollgate(&one, &["buckets", "show", "user:alice"]).contains("of 1"));
}

fn a_change_while_the_store_is_away_is_refused(mut server: impl Server) {
    let upstream = Upstream::start();
    let [one, _other] = two_gates(&server, &file(&upstream));
    server.kill();
    let mut command = Command::new(binary());
    command.args(["buckets", "exempt", "127.0.0.1", "--for", "1h", "--socket"]).arg(one.admin_socket());
    let output = command.output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(
        err.contains("the store cannot be reached: ") && err.contains("no gate has changed its rules"),
        "{err}"
    );
}
