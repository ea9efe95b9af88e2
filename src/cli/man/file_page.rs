//! `tollgate.toml(5)`: every key of the file, from its JSON Schema.

use clap_mangen::roff::{Inline, Roff, bold, roman};
use serde_json::Value;

use super::{entry, titled};
use crate::config::schema;

pub(super) fn page() -> Roff {
    let mut page = titled("tollgate.toml", "5", "the configuration of tollgate(1)");
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(ABOUT)]);
    page.control("SH", ["KEYS"]);
    let schema = schema();
    keys(&mut page, &schema);
    for (name, table) in tables("", &schema) {
        page.control("SS", [format!("[{name}]").as_str()]);
        if let Some(words) = table["description"].as_str() {
            page.text([roman(words)]);
        }
        keys(&mut page, table);
    }
    page.control("SH", ["FILES"]);
    page.text([roman("./config.toml, /etc/tollgate/config.toml")]);
    page.control("SH", ["SEE ALSO"]);
    page.text([roman("tollgate(1), tollgate-check(1), tollgate-presets(1), tollgate(8)")]);
    page
}

/// The plain keys of a table.
fn keys(page: &mut Roff, table: &Value) {
    for (name, key) in properties(table).filter(|(_, key)| key["type"] != "object") {
        let mut term: Vec<Inline> = vec![bold(name)];
        if let Some(default) = key.get("default") {
            term.push(roman(format!(" = {default}")));
        }
        entry(page, term, &meaning(key));
    }
}

fn meaning(key: &Value) -> String {
    let mut words = key["description"].as_str().unwrap_or_default().to_owned();
    if let Some(choices) = key["enum"].as_array() {
        let choices: Vec<String> = choices.iter().map(ToString::to_string).collect();
        words.push_str(&format!(" One of {}.", choices.join(", ")));
    }
    if let (Some(least), Some(most)) = (key.get("minimum"), key.get("maximum")) {
        words.push_str(&format!(" From {least} to {most}."));
    }
    if let Some(example) = key["examples"].get(0) {
        words.push_str(&format!(" Example: {}", as_written(example)));
    }
    words
}

/// A value as in the file: a list with blanks between its items, where a line may break.
fn as_written(value: &Value) -> String {
    let Some(items) = value.as_array() else { return value.to_string() };
    let items: Vec<String> = items.iter().map(as_written).collect();
    format!("[{}]", items.join(", "))
}

/// All tables below this one, each with its name in the file.
fn tables<'s>(path: &str, table: &'s Value) -> Vec<(String, &'s Value)> {
    let mut found = Vec::new();
    for (name, inner) in properties(table).filter(|(_, inner)| inner["type"] == "object") {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match inner.get("additionalProperties").filter(|named| named["type"] == "object") {
            Some(named) => {
                let path = format!("{path}.NAME");
                found.push((path.clone(), named));
                found.extend(tables(&path, named));
            }
            None => {
                found.push((path.clone(), inner));
                found.extend(tables(&path, inner));
            }
        }
    }
    found
}

fn properties(table: &Value) -> impl Iterator<Item = (&String, &Value)> {
    table["properties"].as_object().into_iter().flatten()
}

const ABOUT: &str = "\
The file is TOML. Unknown keys are errors. Durations are written \"250ms\", \"30s\", \"5m\", \"1h30m\", \"7d\", sizes \
\"64KiB\", rates \"10 per 5m burst 10\" or \"10/min\". A list of one item can be written as that item alone. Each key can be \
set by the environment, with two underscores between levels (TOLLGATE_STORE__CAPACITY=5000), and above that by the \
command line (--set store.capacity=5000). Secrets may be \"${NAME}\", a variable, or \"${file:PATH}\", a file. \
tollgate-check(1) lists all mistakes of a file, and what its limits let through at worst.";
