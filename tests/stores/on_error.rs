//! `on_error` of a limit, a route and the store, while the store is gone.

use std::time::Duration;

use support::servers::redis::Redis;
use support::{Gate, Server, Upstream, eventually, post, started};

/// Each route with the limits that it has; the limits are named after what they say.
const TABLES: &str = r#"
[route.plain]
match = "POST /plain"
limits = "silent"

[route.strict]
match = "POST /strict"
limits = "silent"
on_error = "deny"

[route.own]
match = "POST /own"
limits = "allow"
on_error = "deny"

[route.mixed]
match = "POST /mixed"
limits = ["allow", "local"]

[route.strictest]
match = "POST /strictest"
limits = ["allow", "local", "deny"]

[route.watched]
match = "POST /watched"
limits = ["allow", "watching"]

[route.mild]
match = "POST /both"
when = "query:mild"
limits = "silent"
on_error = "allow"

[route.both]
match = "POST /both"
limits = "silent"
on_error = "deny"

[limit.silent]
rate = "100 per 1h"

[limit.allow]
rate = "2 per 1h"
on_error = "allow"

[limit.local]
rate = "3 per 1h"
on_error = "local"

[limit.deny]
rate = "100 per 1h"
on_error = "deny"

[limit.watching]
rate = "100 per 1h"
on_error = "deny"
mode = "observe"
"#;

fn gate(upstream: &Upstream, server: &Redis, of_store: &str) -> Gate {
    let store =
        format!("[store]\nurl = \"{}\"\ntimeout = \"500ms\"\non_error = \"{of_store}\"\n", server.url());
    Gate::start(&upstream.file(&format!("{store}{TABLES}")))
}

fn statuses(gate: &Gate, target: &str) -> [u16; 4] {
    [(); 4].map(|()| gate.ask(post(target, "")).status)
}

fn is_gone(gate: &Gate) -> bool {
    eventually(Duration::from_secs(10), || {
        gate.ask(post("/plain", ""));
        gate.metric("tollgate_store_up", "") == 0.0
    })
}

#[test]
fn a_limit_says_it_before_its_route_and_a_route_before_the_store() {
    let mut server = started::<Redis>();
    let upstream = Upstream::start();
    let [allowing, denying] = ["allow", "deny"].map(|of_store| gate(&upstream, &server, of_store));
    for target in ["/plain", "/strict", "/both?mild=1"] {
        assert_eq!(statuses(&allowing, target), [200; 4], "{target} while the store is there");
    }
    server.kill();
    assert!(is_gone(&allowing) && is_gone(&denying));
    assert_eq!(statuses(&allowing, "/plain"), [200; 4], "the store");
    assert_eq!(statuses(&denying, "/plain"), [503; 4], "the store");
    for gate in [&allowing, &denying] {
        assert_eq!(statuses(gate, "/strict"), [503; 4], "the route");
        assert_eq!(statuses(gate, "/own"), [200; 4], "the limit");
        assert_eq!(statuses(gate, "/mixed"), [200, 200, 429, 429], "the strictest of them is local");
        assert_eq!(statuses(gate, "/strictest"), [503; 4]);
        assert_eq!(statuses(gate, "/watched"), [200; 4], "one that observes has no say");
        assert_eq!(
            statuses(gate, "/both?mild=1"),
            [503; 4],
            "a client can make the milder route count as well"
        );
    }
}
