//! What is counted in a request, beside what a GraphQL server makes of it: never less.
//!
//! The documents are what an attacker would write: aliases, fragments within fragments, texts and comments that look like
//! fields, batches, and requests in every format that the server takes. Seeded: a failure names its request. Needs node and
//! what `scripts/fetch-graphql` gets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "these are tests")]

use std::io::Write;
use std::process::Stdio;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use support::{installed, root};
use tollgate::policy::count::{Count, UnreadableBody};

use super::ixr::Dice;

#[derive(Debug)]
struct Sent {
    method: &'static str,
    query: String,
    kind: &'static str,
    body: String,
}

#[test]
#[ignore = "needs node and graphql-yoga"]
fn a_server_never_resolves_more_fields_than_are_charged() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut dice = Dice(seed);
    let requests: Vec<Sent> = (0..4_000).map(|_| request(&mut dice)).collect();
    let (mut several, mut exact) = (0, 0);
    for (request, resolved) in requests.iter().zip(resolved_by_a_server(&requests)) {
        let counted = counted(request);
        several += u32::from(resolved > 1 && counted.is_ok());
        exact += u32::from(resolved > 1 && counted == Ok(resolved));
        // A batch with a broken document is unreadable, although a server resolves the others.
        let is_batch = request.body.starts_with('[');
        let is_charged = counted.map_or(is_batch || resolved == 0, |counted| counted >= resolved);
        assert!(is_charged, "seed {seed}: {resolved}, not {counted:?}, of {request:?}");
    }
    println!("{several} requests with several fields, {exact} of them counted exactly");
    // Servers merge fields that are selected twice under one name; the gate counts both.
    assert!(several > 1_000 && exact > several / 5, "{several}, {exact}");
}

fn counted(request: &Sent) -> Result<u32, UnreadableBody> {
    let mut headers = HeaderMap::new();
    if request.method == "POST" {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(request.kind));
    }
    let body = if request.method == "POST" { request.body.as_bytes() } else { b"" };
    Count::Fields(vec!["login".to_owned()]).of_request(&headers, Some(&request.query), body)
}

fn resolved_by_a_server(requests: &[Sent]) -> Vec<u32> {
    // Modules are looked up beside the program that asks for them.
    let program = root().join("target/tools/graphql/server.mjs");
    std::fs::copy(root().join("tests/programs/readers/graphql.mjs"), &program)
        .expect("scripts/fetch-graphql");
    let mut node = installed("node", "nodejs")
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = requests.iter().map(|Sent { method, query, kind, body }| {
        json!({"method": method, "query": query, "kind": kind, "body": body}).to_string() + "\n"
    });
    let (mut input, lines) = (node.stdin.take().unwrap(), lines.collect::<String>());
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = node.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let found: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(found.len(), requests.len());
    found
}

fn request(dice: &mut Dice) -> Sent {
    let text = document(dice);
    let escaped = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let (mut method, mut query) = ("POST", String::new());
    let (kind, body) = match dice.below(8) {
        0 => ("application/graphql", text),
        1 => ("application/x-www-form-urlencoded", format!("a=1&query={}", escaped(&text))),
        2 => {
            let operations = json!({ "query": text });
            let part = "--x\r\nContent-Disposition: form-data; name=";
            let body =
                format!("{part}\"operations\"\r\n\r\n{operations}\r\n{part}\"map\"\r\n\r\n{{}}\r\n--x--\r\n");
            ("multipart/form-data; boundary=x", body)
        }
        3 => {
            (method, query) = ("GET", format!("query={}", escaped(&text)));
            ("", String::new())
        }
        4 => {
            let requests: Vec<Value> =
                (0..dice.below(4)).map(|_| json!({ "query": document(dice) })).collect();
            ("application/json", Value::from(requests).to_string())
        }
        5 => {
            query = format!("query={}", escaped(&document(dice)));
            ("application/json", json!({ "query": text }).to_string())
        }
        _ => (
            "application/json",
            json!({"query": text, "operationName": dice.pick(&[None, Some("A")])}).to_string(),
        ),
    };
    Sent { method, query, kind, body }
}

/// A document that may be broken, and often is not.
fn document(dice: &mut Dice) -> String {
    let name = dice.pick(&["", "query", "query A", "mutation", "mutation login", "query login($p: String) "]);
    let mut text = format!("{name} {{ {} }}", selections(dice, 3));
    if name.is_empty() || !text.contains('{') {
        text = format!("{{ {} }}", selections(dice, 3));
    }
    for (fragment, more) in [("F", "G"), ("G", "H"), ("H", "a { login }")] {
        if text.contains(&format!("...{fragment}")) {
            let spread =
                if more.len() == 1 { format!("...{more} b {{ ...{more} }}") } else { more.to_owned() };
            text.push_str(&format!(" fragment {fragment} on Node {{ x{}: login {spread} }}", dice.below(9)));
        }
    }
    if dice.below(6) == 0 {
        text.push_str(dice.pick(&[
            " query B { login }",
            " #",
            "\n# }",
            " {",
            " }",
            "\u{feff}",
            ",,",
            " \"login\"",
        ]));
    }
    if dice.below(12) == 0 {
        let at = dice.below(text.len());
        if text.is_char_boundary(at) {
            text.insert_str(
                at,
                dice.pick(&["\"", "#", "{", "}", "\"\"\"", "\\", ":", "...", "@", "(", " login "]),
            );
        }
    }
    text
}

fn selections(dice: &mut Dice, depth: usize) -> String {
    let all = (0..=dice.below(4)).map(|number| {
        let alias = format!("{}{number}_{depth}: ", dice.pick(&["x", "login", "q"]));
        match dice.below(if depth == 0 { 6 } else { 10 }) {
            0 => format!("{alias}login(p: \"{number}\") "),
            1 => format!("{alias}login "),
            2 => format!("{alias}login(p: \"}} b: login {{ \\\" # \") "),
            3 => format!("{alias}login(p: \"\"\" b: login \\\"\"\" }} \"\"\") "),
            4 => "login ".to_owned(),
            5 => format!("# login {{\n {alias}login, "),
            6 => format!("{alias}a(l: [\"login\", \"]\"]) {{ ...F {} }} ", selections(dice, depth - 1)),
            7 => format!("{alias}b {{ {} }} ", selections(dice, depth - 1)),
            8 => format!(
                "{alias}a {{ ... on Node @include(if: true) {{ {} }} }} ",
                selections(dice, depth - 1)
            ),
            _ => format!("{alias}a {{ ...G ...G ... {{ {} }} }} ", selections(dice, depth - 1)),
        }
    });
    all.collect()
}
