//! Who is there at a running gate: lists of clients and of rates of their own, and buckets named by any key.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use crate::buckets::{ask, limit, raw, said, tollgate};
use support::application;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::time::Duration;

use application::{ROUTE, application, right, sign_in_with, status_from};
use serde_json::{Value, json};
use support::{Client, Gate, binary, eventually};

const LIMITS: &str = r#"
[limit.address]
rate = "4 per 1h"

[limit.subnet]
rate = "2 per 1h"
ipv4 = 24
mode = "observe"

[limit.account]
key = "user"
rate = "100 per 1h"
"#;

/// The status and the body of this page.
fn page(gate: &Gate, path: &str) -> (u16, Value) {
    let (status, _, body) = raw(gate, format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
    (status, serde_json::from_str(&body).unwrap())
}

fn clients(gate: &Gate, query: &str) -> Vec<Value> {
    let (status, list) = page(gate, &format!("/api/v1/clients{query}"));
    assert_eq!(status, 200, "{list}");
    list["clients"].as_array().unwrap().clone()
}

/// Sign-ins with a wrong password from 127.0.0.`last`.
fn knock(gate: &Gate, last: u8, user: &str, times: usize) {
    for _ in 0..times {
        status_from(gate, Ipv4Addr::new(127, 0, 0, last), user, "wrong");
    }
}

/// Whether so many attempts under the limit `address` are counted: that is done when their responses have ended.
fn are_counted(gate: &Gate, attempts: u64) -> bool {
    let count = || {
        clients(gate, "?by=attempts&limit=address")
            .iter()
            .map(|row| row["attempts"].as_u64().unwrap())
            .sum::<u64>()
    };
    eventually(Duration::from_secs(5), || attempts == count())
}

/// The columns of each line.
fn columns(table: &str) -> Vec<Vec<&str>> {
    table
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect()
}

#[test]
fn the_busiest_and_the_most_refused_clients_are_listed_with_their_tokens() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{ROUTE}{LIMITS}")));
    knock(&gate, 2, "alice", 7);
    knock(&gate, 3, "bob", 5);
    assert!(are_counted(&gate, 12));
    let refused = clients(&gate, "?limit=address");
    let seen: Vec<_> =
        refused.iter().map(|row| (&row["client"], &row["attempts"], &row["refused"])).collect();
    assert_eq!(
        seen,
        [(&json!("127.0.0.2"), &json!(7), &json!(3)), (&json!("127.0.0.3"), &json!(5), &json!(1)),]
    );
    let first = &refused[0];
    assert_eq!(
        (&first["limit"], &first["account"], &first["error"]),
        (&json!("address"), &Value::Null, &json!(0))
    );
    assert_eq!((&first["tokens"], &first["burst"]), (&json!(0), &json!(4)));
    let next = first["next"].as_f64().unwrap();
    assert!(next > 800.0 && next <= 900.0 && first["full_at"].as_str().unwrap().ends_with('Z'), "{first}");
    assert!(first["last"].as_str().unwrap().ends_with(".000Z"));
    let observed = clients(&gate, "?limit=subnet&minutes=1");
    assert_eq!((&observed[0]["client"], &observed[0]["attempts"]), (&json!("127.0.0.0/24"), &json!(12)));
    assert_eq!(
        (&observed[0]["refused"], &observed[0]["tokens"]),
        (&json!(10), &json!(0)),
        "it would have refused"
    );
    let accounts = clients(&gate, "?by=attempts&limit=account&minutes=60");
    assert_eq!((accounts.len(), &accounts[0]["client"]), (2, &Value::Null));
    // Attempts that were refused before their body was read name no account.
    assert_eq!((&accounts[0]["attempts"], &accounts[0]["refused"]), (&json!(4), &json!(0)));
    assert!(accounts[0]["account"].as_str().unwrap().len() == 12 && accounts[0].get("tokens").is_none());
    let all = clients(&gate, "?by=attempts&n=2");
    assert_eq!(all.iter().map(|row| &row["limit"]).collect::<Vec<_>>(), ["subnet", "address"]);
    let text = page(&gate, "/api/v1/clients").1;
    assert_eq!((&text["minutes"], &text["by"]), (&json!(10), &json!("refused")));
    assert!(text["since"].as_str().unwrap().ends_with(":00.000Z") && !text.to_string().contains("alice"));
}

#[test]
fn with_hashed_clients_a_list_shows_hashes_alone() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{ROUTE}{LIMITS}[log]\nclients = \"hash\"\n")));
    knock(&gate, 2, "alice", 2);
    assert!(are_counted(&gate, 2));
    for row in clients(&gate, "?by=attempts") {
        let client = row["client"].as_str().unwrap_or("0123456789abcdef");
        assert!(client.len() == 16 && !client.contains('.') && row.get("tokens").is_none(), "{row}");
    }
}

/// K4: only the owner of the socket sees who is there.
#[test]
fn a_list_that_makes_no_sense_is_refused_and_over_tcp_there_is_none() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{ROUTE}{LIMITS}")));
    for query in ["by=tokens", "limit=adress", "n=0", "n=1001", "minutes=2", "top=5", "n=5&n=6", "limit=%ff"]
    {
        let (status, problem) = page(&gate, &format!("/api/v1/clients?{query}"));
        assert!(status == 422 && problem["detail"].is_string(), "{query}: {status} {problem}");
    }
    assert_eq!(page(&gate, "/api/v1/rates?n=5").0, 422);
    assert_eq!(page(&gate, "/api/v1/clients/").0, 404);
    let (status, head, _) = raw(&gate, b"DELETE /api/v1/clients HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(status == 405 && head.contains("allow: get, head\r\n"), "{head}");
    for path in ["clients", "rates"] {
        let mut client = Client::connect(gate.admin);
        client.send(format!("GET /api/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
        assert_eq!(client.answer().status, 403);
    }
}

#[test]
fn the_command_lists_clients_and_draws_them_again() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{ROUTE}{LIMITS}")));
    let list = |words: &[&str]| said(&tollgate(&gate, &[&["list"][..], words].concat()));
    let (code, out, err) = list(&["--refused"]);
    assert!((code, &*err) == (Some(0), "") && out.starts_with("no client since 2"), "{out}{err}");
    knock(&gate, 2, "alice", 6);
    assert!(are_counted(&gate, 6));
    let (_, out, _) = list(&["--refused", "--limit", "address", "--top", "5", "--minutes", "1"]);
    let table = columns(&out);
    assert_eq!(table[0], ["LIMIT", "CLIENT", "ATTEMPTS", "REFUSED", "TOKENS", "NEXT", "LAST"]);
    assert_eq!(table[1][..5], ["address", "127.0.0.2", "6", "2", "0 of 4"]);
    assert!(list(&[]).1.contains("\naccount  user:#"), "the busiest, whether refused or not");
    let (_, out, _) = list(&["--format", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["by"], "attempts");
    for wrong in [&["--top", "0"][..], &["--minutes", "5"], &["--own", "--refused"], &["address"]] {
        assert_eq!(list(wrong).0, Some(2), "{wrong:?}");
    }
    let (code, _, err) = list(&["--limit", "adress"]);
    assert_eq!((code, &*err), (Some(1), "tollgate: there is no limit `adress`\n"));
    let mut watch = Command::new(binary());
    watch.args(["buckets", "list", "--watch", "--socket"]).arg(gate.admin_socket());
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut tables = String::new();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(watch.stdout.take().unwrap()));
    while tables.matches("LIMIT").count() < 2 && tables.len() < 10_000 {
        let _ = writeln!(tables, "{}", lines.next().unwrap().unwrap());
    }
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn rates_of_their_own_are_listed_until_their_end() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{ROUTE}{LIMITS}")));
    let rate = |words: &[&str]| said(&tollgate(&gate, &[&["rate"][..], words].concat()));
    let (code, out, err) = rate(&["127.0.0.9", "ip:127.0.0.8", "address", "60/min burst 9", "--for", "1d"]);
    assert_eq!((code, &*err), (Some(0), ""));
    assert!(out.starts_with("127.0.0.9\nLIMIT") && out.contains("\n\nip:127.0.0.8\nLIMIT"), "{out}");
    assert_eq!(rate(&["user:alice", "account", "2/min", "--for", "1h"]).0, Some(0));
    let (_, listed) = page(&gate, "/api/v1/rates");
    let rows = listed["rates"].as_array().unwrap();
    assert_eq!((rows.len(), &listed["total"]), (3, &json!(3)));
    assert!(rows[0]["account"].as_str().unwrap().len() == 12, "the first to end: {listed}");
    let mut named: Vec<_> = rows[1..].iter().map(|row| row["client"].as_str().unwrap()).collect();
    named.sort_unstable();
    assert_eq!(named, ["127.0.0.8", "127.0.0.9"]);
    assert_eq!((&rows[1]["burst"], &rows[1]["seconds_per_token"]), (&json!(9), &json!(1.0)));
    let own = || said(&tollgate(&gate, &["list", "--own"])).1;
    assert_eq!(columns(&own())[1][..1], ["account"]);
    assert_eq!(rate(&["127.0.0.9", "127.0.0.8", "address", "--end"]).0, Some(0));
    assert_eq!(rate(&["user:alice", "account", "--end"]).0, Some(0));
    assert_eq!(own(), "no bucket has a temporary rate\n");
}

const KEYS: &str = r#"
[device]
secret = "planted-planted-planted-planted-planted"
[limit.account]
key = "user"
rate = "90 per 1h"
[limit.device]
key = "device"
rate = "91 per 1h"
routes = ["login"]
mode = "observe"
[limit.pair]
key = "user+ip"
rate = "92 per 1h"
[limit.host]
key = "host"
rate = "93 per 1h"
[limit.all]
key = "all"
rate = "94 per 1h"
[limit.header]
key = "header:X-Api-Key"
rate = "95 per 1h"
[limit.cookie]
key = "cookie:SID+ip"
rate = "96 per 1h"
"#;

#[test]
fn a_bucket_of_any_key_is_shown_credited_and_reset() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{ROUTE}{KEYS}")));
    let lines = "X-Api-Key: a,b\r\nCookie: SID=s=1\r\n";
    let body = |password: &str| application::form("alice", password);
    let answer = gate.ask(sign_in_with(lines, &body(&right("alice"))));
    let token = answer.headers.iter().find_map(|(name, cookie)| {
        let rest = cookie.strip_prefix("tollgate_device=").filter(|_| name == "set-cookie")?;
        rest.split(';').next()
    });
    let token = token.expect("a device cookie").to_owned();
    let lines = format!("X-Api-Key: a,b\r\nCookie: SID=s=1; tollgate_device={token}\r\n");
    assert_eq!(gate.ask(sign_in_with(&lines, &body("wrong"))).status, 200);
    for (name, key, left) in [
        ("account", "user:Alice".to_owned(), 89),
        ("account", format!("user+device:alice,{token}"), 89),
        ("device", format!("device:{token}"), 90),
        ("pair", "user+ip:alice,127.0.0.1".to_owned(), 90),
        ("host", "host:app.test".to_owned(), 91),
        ("all", "all:all".to_owned(), 92),
        ("header", "header:X-Api-Key=a,b".to_owned(), 93),
        ("cookie", "cookie+ip:SID=s=1,127.0.0.1".to_owned(), 94),
    ] {
        let (code, out, err) = said(&tollgate(&gate, &["show", &key, "--format", "json"]));
        assert_eq!((code, &*err), (Some(0), ""), "{key}");
        let shown: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(limit(&shown, name)["tokens"], left, "{key}: {shown}");
        let words = ["credit", &key, "1", "--limit", name, "--format", "json"];
        let shown: Value = serde_json::from_str(&said(&tollgate(&gate, &words)).1).unwrap();
        assert_eq!(limit(&shown, name)["tokens"], left + 1, "{key}");
        let shown: Value =
            serde_json::from_str(&said(&tollgate(&gate, &["reset", &key, "--format", "json"])).1).unwrap();
        let bucket = limit(&shown, name);
        assert_eq!(bucket["tokens"], bucket["burst"], "{key}");
    }
    let (_, shown) = ask(&gate, "GET", "127.0.0.1", "");
    assert_eq!(shown["not_shown"], json!(["device", "pair", "host", "all", "cookie"]), "{shown}");
    let (status, problem) = ask(&gate, "GET", "all:account", "");
    assert!(status == 404 && problem["detail"].as_str().unwrap().contains("key = \"all\""), "{problem}");
    assert_eq!(ask(&gate, "GET", "device:alice", "").0, 422);
    let secrets = ["planted", "s=1", "a,b", &token];
    assert!(!secrets.iter().any(|secret| gate.messages().contains(secret)), "{}", gate.messages());
}

/// A flood of refusals: the list has who sends most, and memory does not grow with the number of clients.
#[test]
fn a_flood_from_many_addresses_is_counted_in_flat_memory() {
    let application = application();
    let limits =
        "[client]\ntrust = \"127.0.0.1\"\n[limit.address]\nrate = \"1 per 1h\"\n[store]\ncapacity = 1000\n";
    let gate = Gate::start(&application.file(&format!("{ROUTE}{limits}")));
    let mut truth: HashMap<String, u64> = HashMap::new();
    let mut flood = |first: u32| {
        let mut client = gate.connect();
        for batch in 0..100 {
            let mut requests = String::new();
            for number in 0..50 {
                // Every second request is from one of ten, the others are all different.
                let address = if number % 2 == 0 { number / 5 } else { first + batch * 50 + number };
                let address = Ipv4Addr::from_bits(0x0a00_0000 + address);
                *truth.entry(address.to_string()).or_default() += 1;
                requests.push_str(&sign_in_with(&format!("X-Forwarded-For: {address}\r\n"), "log=a&pwd=b"));
            }
            client.send(requests);
            (0..50).for_each(|_| drop(client.answer()));
        }
    };
    flood(1_000);
    let before = gate.memory();
    flood(100_000);
    flood(200_000);
    let grown = gate.memory().saturating_sub(before);
    assert!(grown < 1_024, "{grown} KiB more after 10,000 requests from 5,000 other addresses");
    let mut truth: Vec<_> = truth.into_iter().collect();
    truth.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    let listed: HashMap<String, u64> = clients(&gate, "?by=attempts&n=20&minutes=10")
        .iter()
        .map(|row| (row["client"].as_str().unwrap().to_owned(), row["attempts"].as_u64().unwrap()))
        .collect();
    for (address, times) in &truth[..10] {
        let counted = listed.get(address).copied().unwrap_or(0);
        assert!(counted <= *times && times - counted <= times / 20, "{address}: {counted} of {times}");
    }
}

#[test]
fn an_account_is_found_by_its_name_and_a_list_says_what_only_would_be_refused() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{ROUTE}{LIMITS}")));
    knock(&gate, 2, "alice", 3);
    knock(&gate, 3, "bob", 1);
    assert!(are_counted(&gate, 4));
    let (_, shown, _) = said(&tollgate(&gate, &["show", "user:alice"]));
    let hash = shown.lines().next().unwrap().strip_prefix("user:alice is ").unwrap();
    let hash = hash.strip_suffix(" in lists and logs").unwrap();
    let (code, list, error) = said(&tollgate(&gate, &["list", "user:alice"]));
    assert_eq!(code, Some(0), "{error}");
    let rows = columns(&list);
    assert_eq!(rows[1..].iter().map(|row| row[..3].to_vec()).collect::<Vec<_>>(), [["account", hash, "3"]]);
    let (_, list, _) = said(&tollgate(&gate, &["list", "127.0.0.3", "--limit", "subnet"]));
    assert!(list.contains("127.0.0.0/24") && list.contains("2 would be"), "{list}");
    assert_eq!(clients(&gate, "?by=attempts&key=ip:127.0.0.3&limit=address").len(), 1);
    assert_eq!(page(&gate, "/api/v1/clients?key=nothing").0, 422);
}
