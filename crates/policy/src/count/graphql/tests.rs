use http::header::CONTENT_TYPE;
use proptest::prelude::*;

use super::*;

fn fields() -> Vec<String> {
    vec!["login".to_owned()]
}

fn count(kind: &str, query: Option<&str>, body: &str) -> Result<u32, UnreadableBody> {
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_str(kind).unwrap())]);
    super::count(&fields(), &headers, query, body.as_bytes())
}

fn json(document: &str) -> Result<u32, UnreadableBody> {
    count("application/json", None, &serde_json::json!({ "query": document, "variables": {} }).to_string())
}

#[test]
fn each_occurrence_of_the_field_counts_and_nothing_else_does() {
    for (document, expected) in [
        ("mutation { login(name: \"a\", password: \"b\") { token } }", 1),
        ("mutation { a: login(p: 1) b: login(p: 2) login(p: 3) }", 3),
        (
            "mutation login($login: String = \"login\") @login { a: signIn(login: $login) { login: token } }",
            0,
        ),
        ("{ login: a, a: login, b : login , login :login}", 3),
        ("{ viewer { ...on Guest { login } ... @include(if: true) { login } ... { login } } }", 3),
        (
            "# login\n{ a(x: \"login } \\\" login\", y: \"\"\"login } \\\"\"\" login\"\"\", z: {login: [login]}) }",
            0,
        ),
        ("query A { login } query B { a: login b: login } { loginA _login login_ }", 2),
        ("{ ...F ...F a { ...F } } fragment F on T @login { login b: login }", 6),
        ("{ ...A } fragment A on T { ...B ...B } fragment B on T { ...C ...C } fragment C on T { login }", 4),
        ("{ ...F } fragment F on fragment { login } fragment F on T { login }", 2),
        ("extend type T @a fragment F on T { login } query fragment { ...F ...F }", 2),
        ("{ a(x: [\"\"\" \" ]) b: login(p: 1) c: a(x: [\" \"\"\"]) }", 1),
        ("\u{feff},,query\u{a0}{ login,login }", 2),
        ("{ ...Missing a }", 0),
    ] {
        assert_eq!(json(document), Ok(expected), "{document}");
        assert_eq!(count("application/graphql", None, document), Ok(expected), "{document}");
    }
}

#[test]
fn what_is_no_document_is_unreadable() {
    for document in [
        "",
        "login",
        "{ login",
        "{ login }}",
        "{ login( }",
        "{ login(] }",
        "{ a(x: \"login }",
        "{ \"login\" }",
        "{ ...F } fragment F on T { login ...F }",
        "{ ...A } fragment A on T { a { ...B } } fragment B on T { ...A }",
    ] {
        assert_eq!(json(document), Err(UnreadableBody), "{document}");
    }
}

#[test]
fn documents_are_found_wherever_servers_look() {
    let batch = r#"[{"query": "{ login }"}, {"id": "1", "query": "{ login b: login }"}, {"query": "{ a }"}]"#;
    let parts = "--x\r\nContent-Disposition: form-data; name=\"operations\"\r\n\r\n\
                 [{\"query\":\"{ login a: login }\"}]\r\n\
                 --x\r\nContent-Disposition: form-data; name=\"0\"; filename=\"a\"\r\n\
                 Content-Type: text/plain\r\n\r\nlogin\r\n--x--\r\n";
    for (kind, query, body, expected) in [
        ("application/json", None, batch, 3),
        ("text/plain", None, batch, 3),
        ("application/json", None, "[]", 0),
        (
            "application/json",
            None,
            r#"{"query": "{ a }", "QUERY": "{ login }", "qu\u0065ry": "{ login }"}"#,
            2,
        ),
        ("application/json", Some("query={login%20a:login}"), r#"{"query": "{ login }"}"#, 2),
        ("application/x-www-form-urlencoded", None, "a=1&query=%7B+login+%7D&qu%65ry={login}", 2),
        ("application/x-www-form-urlencoded", None, "operations={\"query\":\"{login}\"}", 1),
        ("multipart/form-data; boundary=x", None, parts, 2),
        ("text/plain", Some("variables={}&query=%7Blogin%7D"), "", 1),
        ("text/plain", Some("id=3&query={a}"), "", 0),
        ("text/plain", Some("page=login"), "", 0),
        ("text/plain", None, "", 0),
    ] {
        assert_eq!(count(kind, query, body), Ok(expected), "{query:?} {body}");
    }
}

#[test]
fn a_document_that_the_server_has_and_the_gate_does_not_see_is_unreadable() {
    for (query, body) in [
        (Some("extensions={\"persistedQuery\":{}}"), ""),
        (Some("documentId=3"), ""),
        (None, r#"{"id": 3, "variables": {}}"#),
        (None, r#"{"extensions": {"persistedQuery": {"sha256Hash": "0"}}, "x": "&query={a}&"}"#),
        (None, r#"{"extensions": {"persistedQuery": {"sha256Hash": "0"}}, "query": "{ a }"}"#),
        (None, r#"[{"query": "{ a }"}, {"query": null}]"#),
        (None, r#"{"query": "{ login }", "x": "\ud800", "y": "&query={a}&", }"#),
        (None, "{\"query\": \"{ login \u{7}}\", \"y\": \"&query={a}&\"}"),
        (None, "operations={\"id\": 3}&query={a}"),
        (None, "[[{\"query\": \"{ login }\"}]]"),
        (None, "id=3"),
    ] {
        assert_eq!(count("application/json", query, body), Err(UnreadableBody), "{query:?} {body}");
    }
}

#[test]
fn deep_and_wide_documents_cost_no_stack_and_no_more_than_their_bytes() {
    let depth = 100_000;
    let nested = format!("{}login{}", "{a ".repeat(depth), "}".repeat(depth));
    assert_eq!(count("", None, &nested), Ok(1));
    let values = format!("{{login(x: {}{})}}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(count("", None, &values), Ok(1));
    let doubled = |times: usize| {
        let all = (0..times).map(|n| format!("fragment F{n} on T {{ ...F{} ...F{} }} ", n + 1, n + 1));
        format!("{{ ...F0 }} {} fragment F{times} on T {{ login }}", all.collect::<String>())
    };
    assert_eq!([doubled(10), doubled(900)].map(|text| count("", None, &text)), [Ok(1024), Ok(u32::MAX)]);
    for many in [doubled(1000), format!("{{ {} }}", "...F ".repeat(10_001))] {
        assert_eq!(count("", None, &many), Err(UnreadableBody));
    }
    assert_eq!(json(&"{".repeat(depth)), Err(UnreadableBody));
}

/// A selection, and how often it resolves the field.
fn selection() -> impl Strategy<Value = (String, u32)> {
    let leaf = prop_oneof![
        Just(("login(a: \"}\") ".to_owned(), 1)),
        Just(("x: login ".to_owned(), 1)),
        Just(("login: a ".to_owned(), 0)),
        Just(("a(login: {login: \"login\"}), ".to_owned(), 0)),
        Just(("...F ".to_owned(), 2)),
        Just(("#login\n b ".to_owned(), 0)),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let all = prop::collection::vec(inner, 1..5);
        let head =
            prop::sample::select(&["a", "a: b(x: [1])", "...", "... on login", "c @login(if: true)"][..]);
        (head, all).prop_map(|(head, all)| {
            let text: String = all.iter().map(|(text, _)| text.as_str()).collect();
            (format!("{head} {{ {text}}} "), all.iter().map(|(_, count)| count).sum())
        })
    })
}

proptest! {
    #[test]
    fn a_document_counts_as_it_was_built((text, expected) in selection()) {
        let document = format!("fragment F on login {{ login b: login }} query {{ {text}}}");
        prop_assert_eq!(json(&document), Ok(expected.max(2)));
    }
}
