//! The schema and `check` agree: over every word, bound and default. That they judge every file alike is shown by a
//! validator in `tests/programs`.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use tollgate::config::{Config, Loaded, Sources, load, schema};

/// A key with its schema, and a path by which `--set` reaches it.
fn keys() -> Vec<(String, Value)> {
    let mut found = Vec::new();
    walk("", &schema(), &mut found);
    assert!(found.len() > 90, "{}", found.len());
    found
}

fn walk(path: &str, schema: &Value, found: &mut Vec<(String, Value)>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for (name, key) in schema["properties"].as_object().into_iter().flatten() {
        // A candidate has the keys of its limit, a template those of a route.
        if name == "candidate" || name == "template" {
            continue;
        }
        let path = below(name);
        if key["additionalProperties"]["type"] == "object" {
            walk(&format!("{path}.NAME"), &key["additionalProperties"], found);
        } else if key["type"] == "object" {
            walk(&path, key, found);
        } else {
            found.push((path, key.clone()));
        }
    }
}

/// The smallest file with a key, whose path names the only route or limit as NAME, and with what the key goes beside.
fn with(path: &str, value: Option<&Value>) -> Loaded {
    let named = |path: &str| path.replace("route.NAME", "route.login").replace("limit.NAME", "limit.address");
    let text = fs::read_to_string("examples/minimal.toml").unwrap();
    let value = value.map(|value| match value {
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    });
    let beside = [
        ("limit.NAME.anchor", "limit.NAME.refill", "\"interval\""),
        ("limit.NAME.escalate.", "limit.NAME.escalate", "{}"),
        ("tls.acme.", "listen", "\"https://127.0.0.1:443\""),
        ("tls.acme.", "tls.acme.domains", "[\"app.test\"]"),
        ("tls.acme.on_demand.", "tls.acme.on_demand.allow", "[\"app.test\"]"),
        ("endpoint.NAME.", "endpoint.NAME.kind", "\"forward-auth\""),
        ("endpoint.NAME.", "endpoint.NAME.listen", "\"http://127.0.0.1:9181\""),
        ("otel.sample", "otel.endpoint", "\"http://127.0.0.1:4318\""),
        ("route.NAME.otherwise", "route.NAME.failure", "{ status = 401 }"),
        ("route.NAME.attack.", "route.NAME.attack", "{}"),
    ];
    let beside = beside.iter().filter(|(begins, ..)| path.starts_with(begins));
    let beside = beside.map(|(_, key, value)| (named(key), (*value).to_owned()));
    let pairs = beside.chain(value.map(|value| (named(path), value)));
    load(&Sources::from_text("file.toml", &text).with_set(pairs))
}

fn messages(loaded: &Loaded) -> String {
    loaded.diagnostics.iter().map(|found| found.render(false)).collect()
}

#[test]
fn the_words_of_the_schema_are_those_of_check() {
    let mut compared = 0;
    for (path, key) in keys().iter().filter(|(path, _)| !path.ends_with("preset")) {
        let wrong = messages(&with(path, Some(&Value::from("quite-another-word-than-any"))));
        let Some(words) = key["enum"].as_array() else {
            assert!(!wrong.contains("unknown value"), "the schema has no words for {path}: {wrong}");
            continue;
        };
        let listed: Vec<String> = words.iter().map(|word| format!("`{}`", word.as_str().unwrap())).collect();
        let listed = listed.join(", ");
        assert!(wrong.contains(&format!("known: {listed}")), "{path}: {listed} in\n{wrong}");
        compared += 1;
    }
    assert!(compared >= 18, "{compared}");
}

#[test]
fn the_bounds_of_the_schema_are_those_of_check() {
    let mut compared = 0;
    for (path, key) in keys() {
        let (Some(least), Some(most)) = (key["minimum"].as_i64(), key["maximum"].as_i64()) else { continue };
        for (inside, outside) in [(least, least - 1), (most, most + 1)] {
            let out_of_range =
                |number: i64| messages(&with(&path, Some(&number.into()))).contains("is out of range");
            assert!(out_of_range(outside), "check takes {outside} for {path}");
            assert!(!out_of_range(inside), "check refuses {inside} for {path}");
        }
        compared += 1;
    }
    assert!(compared >= 15, "{compared}");
}

#[test]
fn the_defaults_of_the_schema_are_those_of_check() {
    let (mut compared, mut wrong) = (0, Vec::new());
    for (path, key) in keys() {
        let Some(default) = key.get("default") else { continue };
        let plain = fields(&with(&path, None).config.unwrap());
        let loaded = with(&path, Some(default));
        match &loaded.config {
            None => wrong.push(format!("{path} = {default}: {}", messages(&loaded))),
            Some(config) => {
                let fields = fields(config);
                let changed = fields.difference(&plain);
                wrong.extend(changed.map(|field| format!("{path} = {default} is not the default: {field}")));
            }
        }
        compared += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared >= 50, "{compared}");
}

/// The pieces of a configuration, without the order of its hash tables.
fn fields(config: &Config) -> BTreeSet<String> {
    format!("{config:?}").split([',', '{', '}']).map(|field| field.trim().to_owned()).collect()
}

#[test]
fn every_key_of_the_schema_is_described() {
    let silent = keys().into_iter().filter(|(_, key)| !key["description"].is_string()).map(|(path, _)| path);
    let silent: Vec<String> = silent.collect();
    assert!(silent.is_empty(), "{silent:?}");
}
