//! A store that lost all it had and is up again: gates notice, say so, and write back what they know.

use std::process::Command;
use std::time::Duration;

use crate::two_gates;
use support::servers::memcached::Memcached;
use support::servers::redis::Redis;
use support::{Gate, Server, Upstream, binary, eventually, mount, post};

mount!(redis, super::Redis, emptied: drained_buckets_and_words_come_back_to_an_emptied_store);
mount!(memcached, super::Memcached, emptied: drained_buckets_and_words_come_back_to_an_emptied_store);

const FILE: &str = "[route.login]\nmatch = \"POST /login\"\nuser = \"form:user\"\n\
                    [limit.address]\nrate = \"3 per 1h\"\n[limit.account]\nkey = \"user\"\nrate = \"1000/s\"\n";

fn tollgate(gate: &Gate, words: &[&str]) {
    let output =
        Command::new(binary()).args(words).arg("--socket").arg(gate.admin_socket()).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The status of an attempt by the client with this number.
fn attempt(gate: &Gate, client: u8, user: &str) -> u16 {
    let mut connection = gate.connect_from([127, 0, 3, client].into());
    connection.send(post("/login", &format!("user={user}")));
    connection.answer().status
}

/// M11: Redis without persistence and memcached come back empty.
pub(crate) fn drained_buckets_and_words_come_back_to_an_emptied_store(mut server: impl Server) {
    let upstream = Upstream::start();
    let [one, other] = two_gates(&server, &upstream.file(FILE));
    // Five clients are drained at each gate, and no other gate has seen them.
    let clients = 1..=10;
    for client in clients.clone() {
        let gate = if client % 2 == 0 { &one } else { &other };
        while attempt(gate, client, "somebody") == 200 {}
    }
    tollgate(&one, &["buckets", "ban", "user:mallory", "--for", "1h"]);
    tollgate(&other, &["buckets", "exempt", "127.0.3.99", "--for", "1h"]);
    tollgate(&one, &["buckets", "ban", "127.0.3.100/31", "--for", "1h"]);
    let words_hold = |gate: &Gate| {
        attempt(gate, 50, "mallory") == 429
            && attempt(gate, 101, "bob") == 429
            && (0..4).all(|_| attempt(gate, 99, "eve") == 200)
    };
    assert!(eventually(Duration::from_secs(1), || words_hold(&one) && words_hold(&other)));
    server.kill();
    server.start_again();
    let told = |gate: &Gate| gate.messages().contains("has lost its records");
    assert!(eventually(Duration::from_secs(8), || told(&one) && told(&other)), "{}", one.messages());
    std::thread::sleep(Duration::from_millis(700));
    let admitted =
        |gate: &Gate| clients.clone().filter(|client| attempt(gate, *client, "somebody") == 200).count();
    assert_eq!([admitted(&other), admitted(&one)], [0, 0], "{}", one.messages());
    assert!(words_hold(&one) && words_hold(&other), "{}", one.messages());
    let is_told =
        |gate: &Gate| gate.messages().contains("has lost the policy and the temporary changes of operators");
    assert!(is_told(&one) || is_told(&other), "{}", one.messages());
    // They are in the store again: a gate that has seen none of it is told by it.
    drop(one);
    let fresh = support::Launch::new(&format!("{}{}", upstream.file(FILE), crate::table(&server))).start();
    assert!(eventually(Duration::from_secs(2), || words_hold(&fresh)), "{}", fresh.messages());
    assert_eq!(admitted(&fresh), 0);
}
