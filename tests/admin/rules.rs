//! Temporary exemptions and modes: in force at once, over a reload, until their end.

use std::time::Duration;

use serde_json::{Value, json};

use crate::caller::{LOGIN, ask, attempts, gate, tollgate};
use support::{Client, Gate, Upstream, eventually};

fn limit(gate: &Gate, name: &str) -> Value {
    let (status, page) = ask(gate, "GET", "/api/v1/limits", "");
    assert_eq!(status, 200);
    let limits = page["limits"].as_array().unwrap();
    limits.iter().find(|limit| limit["name"] == name).unwrap().clone()
}

#[test]
fn an_exempt_prefix_is_not_limited_until_it_ends() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    let office = [127, 1, 2, 3];
    assert_eq!(attempts(&gate, office, 3), [200, 200, 429]);
    let (status, made) =
        ask(&gate, "PUT", "/api/v1/exemptions/127.1.2.9%2F24", r#"{"for":"1h","why":"audit"}"#);
    assert_eq!((status, &made["prefix"], &made["why"]), (200, &json!("127.1.2.0/24"), &json!("audit")));
    assert_eq!(attempts(&gate, office, 5), [200; 5]);
    assert_eq!(attempts(&gate, [127, 1, 3, 3], 3), [200, 200, 429], "others are limited");
    assert_eq!(ask(&gate, "GET", "/api/v1/exemptions", "").1["exemptions"], json!([made]));
    assert!(gate.reload(&upstream.file(&LOGIN.replace("1000h", "999h"))));
    assert_eq!(attempts(&gate, office, 3), [200; 3], "it survives a reload");
    let (status, ended) = ask(&gate, "DELETE", "/api/v1/exemptions/127.1.2.0/24", "");
    assert_eq!((status, &ended["ended"]), (200, &json!(true)));
    assert_eq!(attempts(&gate, office, 1), [429], "its bucket is as it was");
    assert_eq!(ask(&gate, "DELETE", "/api/v1/exemptions/127.1.2.0/24", "").0, 404);
    assert_eq!(limit(&gate, "address")["decisions"]["exempt"], 8);
}

#[test]
fn an_exemption_ends_by_itself() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    let (code, out, error) =
        tollgate(&gate, &["buckets", "exempt", "127.1.2.3", "--for", "3s", "--why", "moving in"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(out.starts_with("127.1.2.3/32: exempt until ") && out.ends_with(": moving in\n"), "{out}");
    assert_eq!(attempts(&gate, [127, 1, 2, 3], 5), [200; 5]);
    let is_over = || tollgate(&gate, &["buckets", "exempt"]).1 == "no temporary exemptions\n";
    assert!(eventually(Duration::from_secs(10), is_over));
    assert_eq!(attempts(&gate, [127, 1, 2, 3], 3), [200, 200, 429]);
    assert!(gate.messages().contains("a temporary exemption, ban or mode has ended"));
}

#[test]
fn exemptions_are_bounded_and_no_one_exempts_everyone() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    let put = |prefix: &str| ask(&gate, "PUT", &format!("/api/v1/exemptions/{prefix}"), r#"{"for":"1h"}"#).0;
    for wrong in ["0.0.0.0/0", "::/0", "office", "10.0.0.0/33", "", "%zz", "%ff"] {
        assert_eq!(put(wrong), 422, "{wrong}");
    }
    for body in ["{}", r#"{"for":"0s"}"#, r#"{"for":3}"#, r#"{"for":"1h","why":"a\nb"}"#] {
        assert_eq!(ask(&gate, "PUT", "/api/v1/exemptions/10.0.0.1", body).0, 422, "{body}");
    }
    let statuses: Vec<u16> = (0..1_001).map(|at| put(&format!("10.0.{}.{}", at / 256, at % 256))).collect();
    assert!(statuses[..1_000].iter().all(|status| *status == 200), "{statuses:?}");
    assert_eq!(statuses[1_000], 409);
    assert_eq!(put("10.0.0.0"), 200, "one that is there may be prolonged");
}

#[test]
fn a_limit_observes_until_the_next_reload() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    assert_eq!(attempts(&gate, [127, 1, 1, 1], 3), [200, 200, 429]);
    let (status, changed) = ask(&gate, "PUT", "/api/v1/limits/address/mode", r#"{"mode":"observe"}"#);
    assert_eq!((status, changed), (200, json!({"limit": "address", "mode": "observe", "until": null})));
    assert_eq!(attempts(&gate, [127, 1, 1, 1], 3), [200; 3]);
    let address = limit(&gate, "address");
    assert_eq!((&address["mode"], &address["configured_mode"]), (&json!("observe"), &json!("enforce")));
    assert_eq!((&address["decisions"]["observe"], &address["decisions"]["refuse"]), (&json!(3), &json!(1)));
    assert!(gate.reload(&upstream.file(LOGIN)));
    assert_eq!(attempts(&gate, [127, 1, 1, 1], 1), [429]);
    assert_eq!(ask(&gate, "PUT", "/api/v1/limits/adress/mode", r#"{"mode":"observe"}"#).0, 404);
    assert_eq!(ask(&gate, "PUT", "/api/v1/limits/address/mode", r#"{"mode":"off"}"#).0, 422);
}

#[test]
fn all_limits_observe_for_a_time_that_outlasts_a_reload() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    let (code, out, error) = tollgate(&gate, &["mode", "observe", "--for", "4s"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(out.starts_with("all limits: observe until 2"), "{out}");
    let (_, status, _) = tollgate(&gate, &["status"]);
    assert!(status.contains("\nmode         observe: no limit refuses anything\n"), "{status}");
    assert!(status.contains("\nmode         all limits: observe until 2"), "{status}");
    assert!(gate.reload(&upstream.file(LOGIN)));
    assert_eq!(attempts(&gate, [127, 1, 1, 1], 4), [200; 4]);
    assert!(eventually(Duration::from_secs(10), || attempts(&gate, [127, 1, 1, 1], 1) == [429]));
    let (code, out, _) = tollgate(&gate, &["mode", "observe", "--limit", "address"]);
    assert_eq!((code, out.as_str()), (Some(0), "limit `address`: observe until the next reload\n"));
    let (code, _, error) = tollgate(&gate, &["mode", "observe", "--limit", "nothing"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("there is no limit `nothing`"), "{error}");
}

#[test]
fn limits_are_listed_with_what_they_did() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    attempts(&gate, [127, 1, 1, 1], 3);
    let address = limit(&gate, "address");
    assert_eq!((&address["key"], &address["routes"]), (&json!("ip"), &json!(["login"])));
    assert_eq!((&address["buckets"], &address["forgotten"]), (&json!(1), &json!(0)));
    assert_eq!(address["decisions"], json!({"admit": 2, "refuse": 1, "observe": 0, "exempt": 0}));
    assert!(address["spec"].as_str().unwrap().starts_with("at most 2 at once"), "{address}");
    assert_eq!((&address["candidate_of"], &address["mode_until"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_ban_refuses_an_address_and_spares_its_neighbours_until_it_ends() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    let (code, out, error) = tollgate(&gate, &["buckets", "ban", "127.1.1.1", "--for", "3s"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(out.contains("banned until "), "{out}");
    assert_eq!(attempts(&gate, [127, 1, 1, 1], 2), [429, 429]);
    assert_eq!(attempts(&gate, [127, 1, 1, 2], 1), [200]);
    assert!(eventually(Duration::from_secs(10), || attempts(&gate, [127, 1, 1, 1], 1) == [200]));
    assert_eq!(attempts(&gate, [127, 1, 1, 1], 2), [200, 429], "the bucket is full after the ban");
    let too_long = ask(&gate, "PUT", "/api/v1/buckets/ip:127.1.1.1/ban", r#"{"for":"36500d"}"#);
    assert_eq!((too_long.0, &too_long.1["detail"]), (422, &json!("a ban lasts 73 years at most")));
}

#[test]
fn a_banned_prefix_is_refused_by_every_limit_until_it_ends() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    let (code, out, error) =
        tollgate(&gate, &["buckets", "ban", "127.1.2.0/24", "--for", "1h", "--why", "scan"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(out.starts_with("127.1.2.0/24: banned until ") && out.ends_with(": scan\n"), "{out}");
    assert_eq!(attempts(&gate, [127, 1, 2, 3], 2), [429, 429]);
    assert_eq!(attempts(&gate, [127, 1, 3, 3], 3), [200, 200, 429], "others have their buckets");
    let (_, shown, _) = tollgate(&gate, &["buckets", "show", "127.1.2.3"]);
    assert!(shown.contains("banned until "), "{shown}");
    let explain = ["explain", "--live", "--from", "127.1.2.3", "POST", "/login"];
    let explained = tollgate(&gate, &explain).1;
    assert!(explained.contains("an operator banned the client's prefix"), "{explained}");
    assert!(explained.contains("answer    429 Too Many Requests: try again in "), "{explained}");
    assert_eq!(tollgate(&gate, &["buckets", "ban"]).1, out);
    assert!(gate.reload(&upstream.file(&LOGIN.replace("1000h", "999h"))));
    assert_eq!(attempts(&gate, [127, 1, 2, 3], 1), [429], "it survives a reload");
    let (code, out, _) = tollgate(&gate, &["buckets", "ban", "127.1.2.0/24", "--end"]);
    assert_eq!((code, out.as_str()), (Some(0), "127.1.2.0/24: no longer banned\n"));
    assert_eq!(attempts(&gate, [127, 1, 2, 3], 3), [200, 200, 429], "nothing was taken meanwhile");
    assert_eq!(ask(&gate, "DELETE", "/api/v1/bans/127.1.2.0/24", "").0, 404);
    assert_eq!(tollgate(&gate, &["buckets", "ban"]).1, "no banned prefixes\n");
    assert_eq!(ask(&gate, "PUT", "/api/v1/bans/0.0.0.0/0", r#"{"for":"1h"}"#).0, 422);
    assert_eq!(tollgate(&gate, &["buckets", "ban", "127.1.2.0/24", "127.1.1.1", "--for", "1h"]).0, Some(2));
}

#[test]
fn a_ban_of_everything_refuses_requests_that_no_route_counts() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    let get = || {
        let mut client = Client::connect_from([127, 1, 2, 3].into(), gate.address);
        client.send("GET /about HTTP/1.1\r\nHost: x\r\n\r\n");
        client.answer().status
    };
    let ban = |all: &[&str]| {
        let words = ["buckets", "ban", "127.1.2.3", "--for", "1h", "--why", "scan"];
        tollgate(&gate, &[&words[..], all].concat())
    };
    assert_eq!(get(), 200);
    let (code, out, error) = ban(&["--all"]);
    assert_eq!(code, Some(0), "{error}");
    let by = if rustix::process::getuid().is_root() { ", by root since 2" } else { ", by " };
    assert!(out.starts_with("127.1.2.3/32: banned from everything until 2") && out.contains(by), "{out}");
    assert_eq!((get(), attempts(&gate, [127, 1, 2, 3], 1)), (403, vec![403]));
    let explained = tollgate(&gate, &["explain", "--live", "--from", "127.1.2.3", "GET", "/about"]).1;
    assert!(
        explained.contains("answer    403: an operator banned the client's prefix from everything"),
        "{explained}"
    );
    assert_eq!(attempts(&gate, [127, 1, 2, 4], 1), [200], "a neighbour is not banned");
    let banned = &ask(&gate, "GET", "/api/v1/bans", "").1["bans"][0];
    assert_eq!((&banned["all"], &banned["why"]), (&json!(true), &json!("scan")));
    assert_eq!(tollgate(&gate, &["buckets", "ban", "127.1.2.3/32", "--end"]).0, Some(0));
    assert_eq!(get(), 200);
    let with_limit = ["buckets", "ban", "127.1.2.3", "--for", "1h", "--all", "--limit", "address"];
    assert_eq!(tollgate(&gate, &with_limit).0, Some(2));
    assert_eq!(tollgate(&gate, &["buckets", "ban", "user:a", "--for", "1h", "--all"]).0, Some(2));
}

#[test]
fn a_reset_says_what_it_fills_and_leaves_the_subnet_if_asked() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    let tokens = |limit: &str| {
        let page = ask(&gate, "GET", "/api/v1/buckets/ip:127.1.2.3", "").1;
        let buckets = page["buckets"].as_array().unwrap().clone();
        buckets.iter().find(|bucket| bucket["limit"] == limit).unwrap()["tokens"].clone()
    };
    attempts(&gate, [127, 1, 2, 3], 2);
    let (code, out, error) = tollgate(&gate, &["buckets", "reset", "127.1.2.3", "--only"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(out.starts_with("filled: address (127.1.2.3/32)\n"), "{out}");
    assert_eq!((tokens("address"), tokens("subnet")), (json!(2), json!(98)));
    let (_, out, _) = tollgate(&gate, &["buckets", "reset", "127.1.2.3"]);
    assert!(out.starts_with("filled: address (127.1.2.3/32), subnet (127.1.2.0/24)\n"), "{out}");
    assert_eq!(tokens("subnet"), json!(100));
    attempts(&gate, [127, 1, 2, 3], 1);
    assert_eq!(ask(&gate, "DELETE", "/api/v1/buckets/ip:127.1.2.3?only=true", "").0, 200);
    assert_eq!((tokens("address"), tokens("subnet")), (json!(2), json!(99)));
    assert_eq!(ask(&gate, "DELETE", "/api/v1/buckets/ip:127.1.2.3?only=yes", "").0, 422);
}
