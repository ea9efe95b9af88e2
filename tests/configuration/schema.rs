//! The schema and `check` agree: over every sample and golden file by a JSON Schema validator, and over every word,
//! bound and default.
//!
//! A schema sees the file alone and one value at a time. So a file that it refuses has to be refused by `check`, and a
//! mistake of `check` that is about one value in the file has to be refused by the schema.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tollgate::config::{Config, Loaded, Sources, load, schema};

use crate::file::sources;
use support::new_directory;

#[test]
fn every_file_is_judged_alike_by_a_validator_and_by_check() {
    let files = files();
    assert!(files.len() > 150, "{}", files.len());
    let Some(refused) = refused_by_a_validator(&files) else { return };
    for (file, why) in &refused {
        let loaded = load(&sources(file));
        assert!(has_errors(&loaded), "check takes {}, the schema does not: {why}", file.display());
    }
    for file in files.iter().filter(|file| !refused.contains_key(*file)) {
        let expected = mistakes_a_schema_can_see(file, &load(&sources(file)));
        assert!(expected.is_empty(), "the schema takes {}: {expected:?}", file.display());
    }
}

/// All samples, examples and golden files that are TOML at all.
fn files() -> Vec<PathBuf> {
    let folders = ["tests/config", "contrib/docker", "examples"].map(PathBuf::from);
    let below =
        fs::read_dir("examples").unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let entries = folders.into_iter().chain(below).flat_map(|folder| fs::read_dir(folder).unwrap());
    let files = entries.map(|entry| entry.unwrap().path());
    let toml = files.filter(|file| file.extension().is_some_and(|end| end == "toml"));
    let mut toml: Vec<PathBuf> = toml.filter(|file| !is_broken(file)).collect();
    toml.push("config.toml".into());
    toml.sort();
    toml
}

fn is_broken(file: &Path) -> bool {
    toml::de::DeTable::parse(&fs::read_to_string(file).unwrap()).is_err()
}

/// The files that python's `jsonschema` refuses, each with its first reason; `None` if that package is not there.
#[allow(clippy::print_stderr, reason = "a test that is skipped says why")]
fn refused_by_a_validator(files: &[PathBuf]) -> Option<BTreeMap<PathBuf, String>> {
    let folder = new_directory();
    let path = folder.join("schema.json");
    fs::write(&path, schema().to_string()).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", root.join("target/tools/schemas"));
    command.arg(root.join("tests/configuration/validate.py")).arg(&path).args(files);
    let output = command.stderr(Stdio::inherit()).output();
    fs::remove_dir_all(&folder).unwrap();
    let output = output.ok().filter(|output| output.status.success());
    let Some(output) = output else {
        let missing = "no python3 with tomllib and jsonschema: scripts/fetch-schemas fetches it";
        assert!(std::env::var_os("REQUIRE_STORES").is_none(), "{missing}");
        eprintln!("skipped: {missing}");
        return None;
    };
    let refused: Value = serde_json::from_slice(&output.stdout).unwrap();
    let refused = refused.as_object().unwrap().iter();
    Some(refused.map(|(file, why)| (file.into(), why.to_string())).collect())
}

fn has_errors(loaded: &Loaded) -> bool {
    loaded.config.is_none()
}

/// Mistakes about one value, or about a key, in the file itself.
fn mistakes_a_schema_can_see(file: &Path, loaded: &Loaded) -> Vec<String> {
    let errors =
        loaded.diagnostics.iter().filter(|found| found.is_error() && Path::new(found.file()) == file);
    let texts = errors.map(|found| found.to_json()["message"].as_str().unwrap().to_owned());
    let seen = [
        "unknown key",
        "unknown value",
        "unknown preset",
        "is not a duration",
        "is not a size",
        "is not a rate",
    ];
    let of_types = ["a string where", "an integer where", "a boolean where", "a list where", "a date where"];
    let is_seen = |text: &String| seen.iter().chain(&of_types).any(|words| text.contains(words));
    texts.filter(is_seen).collect()
}

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
        // A candidate has the keys of its limit.
        if name == "candidate" {
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
