//! Tokens with roles: what each may see and change, and that none sees more than its sites.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use support::{Gate, Launch, Upstream, post_with};
use tollgate::observe::admin::openapi::document;

use crate::caller::{attempts, call, tollgate_with_token};

/// Two sites: `address` counts attempts at `blog` alone, `shop` those at the other, and `everyone` all.
const SITES: &str = r#"
[route.blog]
match = "POST /login"
[route.shop]
match = "POST /shop"
[limit.address]
rate = "2 per 1000h"
routes = ["blog"]
[limit.shop]
rate = "2 per 1000h"
routes = ["shop"]
[limit.everyone]
rate = "100 per 1000h"
"#;

const TOKENS: &str = r#"
tokens = [
  { name = "eye", role = "read", token = "read-0123456789abcdef" },
  { name = "desk", role = "unlock", token = "unlock-0123456789abcdef" },
  { name = "blogger", role = "operate", token = "blog-0123456789abcdef", sites = ["blog"] },
  { name = "reader", role = "read", token = "reader-0123456789abcdef", sites = ["blog"] },
  { name = "chief", role = "operate", token = "chief-0123456789abcdef" },
]
"#;

const ROLES: [&str; 3] = ["read", "unlock", "operate"];

fn gate(upstream: &Upstream) -> Gate {
    Launch::new(&upstream.file(SITES)).with_admin(TOKENS).start()
}

/// Status and value for the caller with this token.
fn ask(gate: &Gate, token: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
    let lines = format!(
        "Authorization: Bearer {token}-0123456789abcdef\r\nX-Tollgate-Request: 1\r\nContent-Type: application/json\r\n"
    );
    let lines = if path == "/api/v1/check" { lines.replace("/json", "/toml") } else { lines };
    let answer = call(gate, method, path, &lines, body);
    (answer.status, serde_json::from_str(&answer.text()).unwrap_or_default())
}

/// Method, path, body, role, and whether it is about all sites, of each operation of the document, `drain` as the last.
fn operations() -> Vec<(String, String, String, String, bool)> {
    let document = serde_json::to_value(document()).unwrap();
    let paths: BTreeMap<String, BTreeMap<String, Value>> =
        serde_json::from_value(document["paths"].clone()).unwrap();
    let mut all = Vec::new();
    for (path, methods) in paths {
        for (method, operation) in methods {
            let mut place = format!("/api/v1{path}");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let example = parameter["schema"]["examples"][0].as_str().unwrap_or_default();
                let example = example.replace('/', "%2F");
                place = place.replace(&format!("{{{}}}", parameter["name"].as_str().unwrap()), &example);
            }
            let content =
                operation["requestBody"]["content"].as_object().and_then(|kinds| kinds.values().next());
            let body = match content.map(|media| &media["example"]) {
                None => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
            };
            let role = operation["x-role"].as_str().expect("each operation names its role").to_owned();
            all.push((method.to_uppercase(), place, body, role, operation["x-all-sites"] == true));
        }
    }
    all.sort_by_key(|(_, path, ..)| path.ends_with("/drain"));
    all
}

/// A page that nobody thought of fails here, because the document has it.
#[test]
fn every_page_of_the_document_is_for_its_role_and_no_lesser_one() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let operations = operations();
    assert!(operations.len() > 25, "{operations:?}");
    for (token, role, narrowed) in [
        ("read", "read", false),
        ("unlock", "unlock", false),
        ("reader", "read", true),
        ("blog", "operate", true),
        ("chief", "operate", false),
    ] {
        let rank = |role: &str| ROLES.iter().position(|known| *known == role).unwrap();
        for (method, path, body, needed, is_of_all) in &operations {
            let may = rank(role) >= rank(needed) && !(narrowed && *is_of_all);
            let (status, problem) = ask(&gate, token, method, path, body);
            assert_eq!(status != 403, may, "{token}: {method} {path}: {status} {problem}");
            assert_ne!(status, 401, "{token}: {method} {path}");
            if !may {
                let detail = problem["detail"].as_str().unwrap();
                assert!(detail.contains("token"), "{detail}");
            }
        }
        if narrowed {
            assert_eq!(ask(&gate, token, "GET", "/api/v1/events", "").0, 403, "{token}: events");
        }
        if token != "chief" {
            assert_eq!(ask(&gate, token, "GET", "/", "").0, 200, "{token}: the dashboard");
        }
    }
}

#[test]
fn a_token_for_a_site_sees_its_own_limits_alone() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    use_both_sites(&gate);
    for token in ["blog", "reader"] {
        let page = |path: &str| ask(&gate, token, "GET", path, "").1;
        assert_eq!(names(&page("/api/v1/limits"), "limits", "name"), ["address"]);
        assert_eq!(names(&page("/api/v1/routes"), "routes", "name"), ["blog"]);
        for query in ["by=attempts", "by=attempts&n=1"] {
            let page = page(&format!("/api/v1/clients?{query}"));
            assert_eq!(names(&page, "clients", "limit"), ["address"]);
        }
        assert_eq!(names(&page(BUCKETS), "buckets", "limit"), ["address"]);
        for foreign in ["shop", "everyone", "nothing"] {
            for path in [format!("/api/v1/clients?limit={foreign}"), format!("/api/v1/buckets/all:{foreign}")]
            {
                let (status, problem) = ask(&gate, token, "GET", &path, "");
                let detail = format!("`{foreign}` is no limit of your sites alone");
                assert_eq!((status, &problem["detail"]), (403, &json!(detail)));
            }
        }
    }
}

#[test]
fn a_token_for_a_site_changes_its_own_limits_alone() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    use_both_sites(&gate);
    let tokens = || {
        let (_, page) = ask(&gate, "chief", "GET", BUCKETS, "");
        let buckets = page["buckets"].as_array().unwrap().iter();
        buckets.map(|bucket| bucket["tokens"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(tokens(), [0, 0, 96]);
    let (status, page) = ask(&gate, "blog", "DELETE", BUCKETS, "");
    assert_eq!((status, names(&page, "filled", "limit")), (200, vec!["address".to_owned()]));
    assert_eq!(tokens(), [2, 0, 96], "the other site's bucket stays as it is");
    let rate = |limit: &str| format!(r#"{{"limit":"{limit}","rate":"9/min","for":"1h"}}"#);
    let own_rate = format!("{BUCKETS}/rate");
    for (method, path, body) in [
        ("DELETE", BUCKETS, r#"{"limit":"shop"}"#),
        ("PUT", &own_rate, &rate("everyone")),
        ("PUT", "/api/v1/limits/shop/mode", r#"{"mode":"observe"}"#),
    ] {
        assert_eq!(ask(&gate, "blog", method, path, body).0, 403, "{path}");
    }
    assert_eq!(ask(&gate, "blog", "PUT", &own_rate, &rate("address")).0, 200);
    assert_eq!(ask(&gate, "chief", "PUT", &own_rate, &rate("shop")).0, 200);
    let (_, rates) = ask(&gate, "reader", "GET", "/api/v1/rates", "");
    assert_eq!((names(&rates, "rates", "limit"), &rates["total"]), (vec!["address".to_owned()], &json!(1)));
}

/// Uses up both sites' buckets of 127.3.4.5.
fn use_both_sites(gate: &Gate) {
    let mut client = gate.connect_from([127, 3, 4, 5].into());
    for (path, status) in
        ["/login", "/shop"].into_iter().flat_map(|path| [200, 200, 429].map(|status| (path, status)))
    {
        client.send(post_with(path, ""));
        assert_eq!(client.answer().status, status, "{path}");
    }
}

/// The names of the parts of a page.
fn names(page: &Value, list: &str, name: &str) -> Vec<String> {
    let parts = page[list].as_array().unwrap_or_else(|| panic!("{page}"));
    parts.iter().map(|part| part[name].as_str().unwrap().to_owned()).collect()
}

const BUCKETS: &str = "/api/v1/buckets/ip:127.3.4.5";

/// An exemption is the bucket's only rate of its own: without care it would replace what an operator decided.
#[test]
fn a_desk_lets_people_in_but_lifts_no_ban() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let from = [127, 3, 4, 6];
    let (bucket, hour) = ("/api/v1/buckets/ip:127.3.4.6", r#"{"for":"1h"}"#);
    let exemption = format!("{bucket}/exemption");
    assert_eq!(attempts(&gate, from, 3), [200, 200, 429]);
    assert_eq!(ask(&gate, "unlock", "DELETE", bucket, "").0, 200);
    assert_eq!(attempts(&gate, from, 3), [200, 200, 429]);
    assert_eq!(ask(&gate, "unlock", "POST", &format!("{bucket}/credit"), r#"{"tokens":1}"#).0, 200);
    assert_eq!(attempts(&gate, from, 2), [200, 429]);
    assert_eq!(ask(&gate, "unlock", "PUT", &exemption, hour).0, 200);
    assert_eq!(attempts(&gate, from, 3), [200; 3]);
    assert_eq!(ask(&gate, "unlock", "DELETE", &exemption, "").0, 200);
    assert_eq!(ask(&gate, "chief", "PUT", &format!("{bucket}/ban"), hour).0, 200);
    for method in ["PUT", "DELETE"] {
        let body = if method == "PUT" { hour } else { "" };
        let (status, problem) = ask(&gate, "unlock", method, &exemption, body);
        assert_eq!(status, 403, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("only the role `operate`"), "{problem}");
    }
    assert_eq!(ask(&gate, "unlock", "DELETE", bucket, "").0, 200);
    ask(&gate, "unlock", "POST", &format!("{bucket}/credit"), r#"{"tokens":9}"#);
    assert_eq!(attempts(&gate, from, 1), [429], "neither a reset nor tokens lift a ban");
}

#[test]
fn a_desk_exempts_one_person_for_a_day_at_most() {
    let upstream = Upstream::start();
    let shared = "[limit.all]\nkey = \"all\"\nrate = \"100 per 1000h\"\n";
    let gate = Launch::new(&upstream.file(&format!("{SITES}{shared}"))).with_admin(TOKENS).start();
    let exempt = |token: &str, key: &str, lasts: &str| {
        let path = format!("/api/v1/buckets/{key}/exemption");
        ask(&gate, token, "PUT", &path, &format!(r#"{{"for":"{lasts}"}}"#))
    };
    for (key, lasts, by_desk) in [
        ("ip:127.3.4.7", "1d", 200),
        ("ip:127.3.4.7", "25h", 403),
        ("all:all", "1h", 403),
        ("host:blog.example", "1h", 403),
        ("asn:64500", "1h", 403),
    ] {
        let (status, problem) = exempt("unlock", key, lasts);
        assert_eq!(status, by_desk, "{key} {lasts}: {problem}");
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert_eq!(detail.contains("needs a token with the role `operate`"), by_desk == 403, "{detail}");
        assert_eq!(exempt("chief", key, lasts).0, 200, "{key}");
        assert_eq!(ask(&gate, "chief", "DELETE", &format!("/api/v1/buckets/{key}/exemption"), "").0, 200);
    }
}

/// What the dashboard and `tollgate buckets exempt ADDRESS` ask for.
#[test]
fn a_desk_exempts_one_address_by_its_prefix_and_no_network() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let path = |prefix: &str| format!("/api/v1/exemptions/{prefix}");
    for (prefix, lasts, by_desk) in [
        ("127.3.4.8", "1d", 200),
        ("127.3.4.8%2F32", "1h", 200),
        ("2001:db8::7", "1h", 200),
        ("2001%3Adb8%3A%3A%2F64", "1h", 200),
        ("127.3.4.8", "25h", 403),
        ("127.3.4.0%2F24", "1h", 403),
        ("2001:db8::%2F48", "1h", 403),
    ] {
        let body = format!(r#"{{"for":"{lasts}","why":"dashboard"}}"#);
        let (status, problem) = ask(&gate, "unlock", "PUT", &path(prefix), &body);
        assert_eq!(status, by_desk, "{prefix} {lasts}: {problem}");
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert_eq!(detail.contains("needs a token with the role `operate`"), by_desk == 403, "{detail}");
        let is_network = by_desk == 403 && lasts == "1h";
        assert_eq!(ask(&gate, "chief", "PUT", &path(prefix), &body).0, 200, "{prefix}");
        let ended = ask(&gate, "unlock", "DELETE", &path(prefix), "").0;
        assert_eq!(ended, if is_network { 403 } else { 200 }, "{prefix}");
    }
    assert_eq!(ask(&gate, "blog", "PUT", &path("127.3.4.8"), r#"{"for":"1h"}"#).0, 403, "of some sites");
}

#[test]
fn a_desk_exempts_an_address_in_every_spelling_of_the_command() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let (address, from) = (format!("http://{}", gate.admin), [127, 3, 4, 9]);
    let exempt = |key: &str, how: &[&str]| {
        let words = [&["buckets", "exempt", key][..], how, &["--admin", &address]].concat();
        tollgate_with_token(&words, "unlock-0123456789abcdef")
    };
    assert_eq!(attempts(&gate, from, 3), [200, 200, 429]);
    for key in ["127.3.4.9", "127.3.4.9/32", "ip:127.3.4.9"] {
        assert_eq!(attempts(&gate, from, 1), [429], "{key}");
        let (code, _, error) = exempt(key, &["--for", "1h", "--why", "test"]);
        assert_eq!((code, &*error), (Some(0), ""), "{key}");
        assert_eq!(attempts(&gate, from, 1), [200], "{key}");
        let (code, _, error) = exempt(key, &["--end"]);
        assert_eq!((code, &*error), (Some(0), ""), "{key}");
    }
    for (key, lasts) in [("127.3.4.0/24", "1h"), ("127.3.4.9", "2d"), ("ip:127.3.4.9", "2d")] {
        let (code, _, error) = exempt(key, &["--for", lasts]);
        assert_eq!((code, error.contains("role `operate`")), (Some(1), true), "{key}: {error}");
    }
}

/// A limit does not see an exempt client: without care its ban would be gone with it.
#[test]
fn a_desk_exempts_no_address_that_an_operator_banned() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let (hour, exemption) = (r#"{"for":"1h"}"#, "/api/v1/exemptions/127.3.4.10");
    for ban in ["/api/v1/bans/127.3.4.0%2F24", "/api/v1/buckets/ip:127.3.4.10/ban"] {
        assert_eq!(ask(&gate, "chief", "PUT", ban, hour).0, 200);
        let (status, problem) = ask(&gate, "unlock", "PUT", exemption, hour);
        assert_eq!(status, 403, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("only the role `operate`"), "{problem}");
        assert_eq!(attempts(&gate, [127, 3, 4, 10], 1), [429], "{ban}");
        assert_eq!(ask(&gate, "chief", "DELETE", ban, "").0, 200);
    }
    assert_eq!(ask(&gate, "unlock", "PUT", exemption, hour).0, 200);
    let (_, page) = ask(&gate, "read", "GET", "/api/v1/exemptions", "");
    assert_eq!(page["exemptions"][0]["all"], json!(false), "limits of accounts still hold: {page}");
}

#[test]
fn a_reload_takes_tokens_away() {
    let upstream = Upstream::start();
    let gate = Launch::new(&upstream.file(SITES))
        .with_admin("tokens = [{ name = \"eye\", role = \"read\", token = \"${file:eye}\" }]\n");
    let gate = gate.beside("eye", "read-0123456789abcdef\n").start();
    assert_eq!(ask(&gate, "read", "GET", "/api/v1/status", "").0, 200);
    let mut viewer = TcpStream::connect(gate.admin).unwrap();
    viewer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let token = "Authorization: Bearer read-0123456789abcdef";
    write!(viewer, "GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n{token}\r\n\r\n").unwrap();
    let mut begin = [0; 12];
    viewer.read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200");
    std::fs::write(gate.directory.join("eye"), "other-0123456789abcdef\n").unwrap();
    assert!(gate.reload(&upstream.file(SITES)));
    assert_eq!(ask(&gate, "read", "GET", "/api/v1/status", "").0, 401);
    assert_eq!(ask(&gate, "other", "GET", "/api/v1/status", "").0, 200);
    viewer.read_to_string(&mut String::new()).expect("its events have ended");
}
