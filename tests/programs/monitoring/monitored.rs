//! A gate on which something of everything has happened, so that all of its metrics show something.

use support::authority::Authority;
use support::servers::redis::Redis;
use support::{Gate, Launch, Server, Upstream, free_port, post, started};

/// The gate, with what it needs.
pub(crate) struct Monitored {
    pub(crate) gate: Gate,
    _store: Redis,
    _upstream: Upstream,
}

/// With buckets in a real Redis, a certificate, and one of two upstreams that does not exist.
pub(crate) fn monitored() -> Monitored {
    let mut store = started::<Redis>();
    let upstream = Upstream::start();
    let pair = Authority::new().issue(&["app.test"]);
    let tables = TABLES.replace("STORE", &store.url()).replace("PORT", &free_port().to_string());
    let gate = Launch::new(&upstream.file(&tables)).on_tls_too().with(&pair, "server").start();
    make_history(&gate);
    store.kill();
    // Of another client: the refusals of the first one need no store any more.
    let mut client = gate.connect_from([127, 0, 0, 2].into());
    client.send(post("/login", "user=someone"));
    assert_eq!(client.answer().status, 200);
    store.start_again();
    Monitored { gate, _store: store, _upstream: upstream }
}

/// Admissions, refusals, what an observing limit and a candidate would have refused, a broken upstream and a reload.
pub(crate) fn make_history(gate: &Gate) {
    for _ in 0..4 {
        gate.ask(post("/login", "user=someone"));
    }
    assert_eq!(gate.ask(post("/broken", "")).status, 502);
    gate.signal("HUP");
}

const TABLES: &str = r#"
[route.login]
match = "POST /login"
user = "form:user"
limits = ["address", "watched", "account"]

[route.broken]
match = "POST /broken"
upstream = "http://127.0.0.1:PORT"
limits = ["watched"]

[limit.address]
rate = "3 per 1h"

[limit.address.candidate]
rate = "1 per 1h"

[limit.watched]
rate = "1 per 1h"
mode = "observe"

[limit.account]
key = "user"
rate = "100 per 1h"
count = "failures"
max_failures = 100

[store]
url = "STORE"
secret = "one secret for all of these gates together"

[tls]
certificates = [{ cert = "server.pem", key = "server.key" }]
"#;
