//! `cost = "count:{login}"`: guesses in GraphQL documents.

use serde_json::json;

use support::Gate;
use support::application::application;

const TABLES: &str = "[route.graphql]\nmatch = \"POST /graphql\"\ncost = \"count:{login}\"\n\
                      [limit.address]\nrate = \"5 per 1h\"\n";

fn post(kind: &str, target: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {target} HTTP/1.1\r\nHost: app.test\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

fn of(document: &str) -> String {
    post("application/json", "/graphql", &json!({ "query": document }).to_string())
}

#[test]
fn each_alias_costs_a_token_and_requests_without_the_field_cost_none() {
    let application = application();
    let gate = Gate::start(&application.file(TABLES));
    assert_eq!(gate.ask(of("mutation { a: login(p: 1) b: login(p: 2) c: login(p: 3) }")).status, 200);
    assert_eq!(gate.ask(of("mutation { a: login(p: 4) b: login(p: 5) c: login(p: 6) }")).status, 429);
    let fragments = "{ ...F a { ...F } } fragment F on Query { login }";
    assert_eq!(gate.ask(post("application/graphql", "/graphql", fragments)).status, 200, "two were left");
    for _ in 0..3 {
        assert_eq!(gate.ask(of("query login { login: me { name } }")).status, 200, "no attempt");
        assert_eq!(gate.ask(of("mutation { login }")).status, 429);
    }
    let many: String = (0..6).map(|number| format!("a{number}: login ")).collect();
    let never = gate.ask(of(&format!("{{ {many} }}")));
    assert_eq!((never.status, never.header("retry-after")), (429, None), "more than a bucket holds");
    assert_eq!(gate.metric("tollgate_decisions_total", "decision=\"admit\""), 2.0);
}

#[test]
fn a_document_is_found_in_the_query_and_one_that_is_not_seen_is_refused() {
    let application = application();
    let gate = Gate::start(&application.file(TABLES));
    let get = |query: &str| format!("GET /graphql{query} HTTP/1.1\r\nHost: app.test\r\n\r\n");
    assert_eq!(gate.ask(get("?query=%7Ba:login%20b:login%7D")).status, 200);
    assert_eq!(gate.ask(get("")).status, 200, "a page about the interface");
    assert_eq!(gate.ask(get("?extensions=%7B%22persistedQuery%22:%7B%7D%7D")).status, 400);
    assert_eq!(gate.ask(post("application/json", "/graphql", "{\"id\": \"7\"}")).status, 400);
    let batch = json!([{"query": "{ login }"}, {"query": "{ me }"}, {"query": "{ login }"}]).to_string();
    let both = post("application/json", "/graphql?query=%7Blogin%7D", &batch);
    assert_eq!(gate.ask(both).status, 200, "the larger of the two");
    assert_eq!(gate.ask(of("{ a: login b: login }")).status, 429, "one is left");
    assert_eq!(gate.ask(of("{ login }")).status, 200);
    assert_eq!(gate.ask(get("?query=%7Blogin%7D")).status, 429);
}
