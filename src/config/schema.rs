//! The JSON Schema of the configuration file (draft 7, as editors read it), from the definitions that the parser uses.
//!
//! Keys and types are those of `raw`, descriptions and defaults those of `config.toml`, bounds and words those in
//! `values`. A schema sees one value at a time: what several keys mean together, and what files and variables hold, is
//! left to `tollgate check`.

mod notes;
mod values;

use serde_json::{Map, Value, json};

use self::notes::{Note, Notes};
use super::raw::RawFile;
use super::section::{KeyType, RawTable};

/// The schema of the file as a JSON document.
#[must_use]
pub fn schema() -> Value {
    let notes = Notes::read();
    let mut schema = table("", RawFile::keys(), &notes);
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["$id"] = format!("urn:tollgate:config:{}", env!("CARGO_PKG_VERSION")).into();
    schema["title"] = "The configuration of tollgate".into();
    schema
}

/// A key with its description and default.
fn key(path: &str, kind: KeyType, notes: &Notes) -> Value {
    let is_secret = matches!(kind, KeyType::Secret);
    let mut schema = value(path, kind, notes);
    if let Some(Note { description, line }) = notes.of(path) {
        schema["description"] = description.as_str().into();
        match line {
            Some(shown) if values::is_example(path) => schema["examples"] = json!([shown]),
            // An empty secret in the sample stands for none.
            Some(none) if is_secret && none == "" => {}
            Some(default) => schema["default"] = default.clone(),
            None => {}
        }
    }
    schema
}

fn value(path: &str, kind: KeyType, notes: &Notes) -> Value {
    match kind {
        KeyType::Text => text(path),
        KeyType::TextList => {
            let item = text(path);
            json!({"anyOf": [item, {"type": "array", "items": item}]})
        }
        KeyType::Secret => json!({"type": "string"}),
        KeyType::Integer if values::may_be_list(path) => {
            let items = with_bounds(json!({"type": "integer"}), path);
            with_bounds(json!({"type": ["integer", "array"], "items": items, "minItems": 1}), path)
        }
        KeyType::Integer => with_bounds(json!({"type": "integer"}), path),
        KeyType::Number => with_bounds(json!({"type": "number"}), path),
        KeyType::Boolean => json!({"type": "boolean"}),
        KeyType::Any => values::of_several_types(path),
        KeyType::Table(keys) => table(path, keys, notes),
        KeyType::TableList(keys) => {
            let item = table(path, keys, notes);
            json!({"anyOf": [item, {"type": "array", "items": item, "minItems": 1}]})
        }
        KeyType::Named(kind) => {
            let name = json!({"pattern": values::name(path)});
            let entry = key(&below(path, "*"), *kind, notes);
            json!({"type": "object", "propertyNames": name, "additionalProperties": entry})
        }
    }
}

/// A table of known keys; a limit's candidate is a table of its own keys again.
fn table(path: &str, keys: Vec<(&'static str, KeyType)>, notes: &Notes) -> Value {
    let mut properties = Map::new();
    for (name, kind) in keys.into_iter().filter(|(name, _)| !values::is_misplaced(&below(path, name))) {
        // `attack` and `escalate` are tables that count as present when they are empty.
        properties.insert(name.to_owned(), key(&below(path, name), kind, notes));
    }
    if path == values::LIMIT {
        let own = properties.iter().filter(|(name, _)| !values::NOT_IN_CANDIDATES.contains(&name.as_str()));
        let own: Map<String, Value> = own.map(|(name, schema)| (name.clone(), schema.clone())).collect();
        let candidate = json!({"type": "object", "properties": own, "additionalProperties": false});
        let described = properties.get("candidate").and_then(|schema| schema.get("description")).cloned();
        let mut candidate = candidate;
        candidate["description"] = described.unwrap_or_default();
        properties.insert("candidate".to_owned(), candidate);
    }
    let mut table = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if let Some(required) = values::required(path) {
        table["required"] = json!(required);
    }
    table
}

/// A string; without a grammar of its own it is still no reference to a secret.
fn text(path: &str) -> Value {
    let plain = json!({"type": "string", "not": {"pattern": "^\\$\\{"}});
    values::words(path)
        .map(|words| json!({"type": "string", "enum": words}))
        .or_else(|| values::pattern(path).map(|pattern| json!({"type": "string", "pattern": pattern})))
        .unwrap_or(plain)
}

fn with_bounds(mut schema: Value, path: &str) -> Value {
    if let Some((least, most)) = values::bounds(path) {
        schema["minimum"] = least;
        schema["maximum"] = most;
    }
    schema
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
