//! The descriptions and defaults of keys, from the comments of `config.toml`.
//!
//! A comment belongs to the keys right below it, up to the next comment. `#key = value` shows a value; a line such as
//! `#   key = value   words` in a comment describes its own key.

use std::collections::HashMap;

use serde_json::Value;
use toml::de::DeValue;

/// What the sample says about a key.
pub(super) struct Note {
    pub(super) description: String,
    /// The value in the sample.
    pub(super) line: Option<Value>,
}

/// The notes by path, with `*` for names.
pub(super) struct Notes(HashMap<String, Note>);

impl Notes {
    pub(super) fn read() -> Self {
        let mut reader = NoteReader::default();
        SAMPLE.lines().for_each(|line| reader.line(line));
        Self(reader.notes)
    }

    pub(super) fn of(&self, path: &str) -> Option<&Note> {
        let of_pages =
            || self.0.get(path.strip_prefix("route.*.").filter(|path| path.starts_with("refuse."))?);
        self.0.get(path).or_else(of_pages)
    }
}

/// Reads the sample line by line.
#[derive(Default)]
struct NoteReader {
    notes: HashMap<String, Note>,
    table: String,
    comment: Vec<String>,
    /// Whether a key stood below the comment: the next line of a comment begins another one.
    is_used: bool,
}

impl NoteReader {
    fn line(&mut self, line: &str) {
        let bare = line.trim_start_matches('#');
        if line.is_empty() {
            self.comment.clear();
        } else if let Some(table) = bare.strip_prefix('[') {
            self.table = path_of_table(table.split(']').next().unwrap_or_default());
            self.add(self.table.clone(), self.comment.join(" "), None);
            self.is_used = true;
        } else if let Some((key, shown)) = key_line(bare) {
            let value = parsed(shown);
            self.add(self.path(key), self.comment.join(" "), value);
            self.is_used = true;
        } else if let Some((key, shown, words)) = key_in_comment(line) {
            let description = if words.is_empty() { self.comment.join(" ") } else { words.to_owned() };
            self.add(self.path(key), description, parsed(shown));
            self.is_used = true;
        } else {
            if std::mem::take(&mut self.is_used) {
                self.comment.clear();
            }
            self.comment.push(bare.trim().to_owned());
        }
    }

    fn path(&self, key: &str) -> String {
        let key = if key.starts_with('"') || self.table == "networks" { "*" } else { key };
        super::below(&self.table, key)
    }

    /// The first mention is the one that explains.
    fn add(&mut self, path: String, description: String, line: Option<Value>) {
        if !description.is_empty() {
            self.notes.entry(path).or_insert(Note { description, line });
        }
    }
}

/// `route.login.attack` is `route.*.attack`.
fn path_of_table(table: &str) -> String {
    let mut parts: Vec<&str> = table.split('.').collect();
    if let ["route" | "template" | "limit" | "endpoint" | "lists" | "monitor", name, ..]
    | ["refuse", "texts", name] = &mut parts[..]
    {
        *name = "*";
    }
    if let ["route", _, "refuse", "texts", language] = &mut parts[..] {
        *language = "*";
    }
    parts.join(".")
}

/// `key = value` without a blank before it; prose has one.
fn key_line(bare: &str) -> Option<(&str, &str)> {
    let (key, shown) = bare.split_once(" = ")?;
    (!key.starts_with(' ') && !key.contains(' ')).then_some((key, shown))
}

/// `#   key = value      words`.
fn key_in_comment(line: &str) -> Option<(&str, &str, &str)> {
    let (key, rest) = line.strip_prefix("#   ")?.split_once(" = ")?;
    let (shown, words) = rest.split_once("  ").unwrap_or((rest, ""));
    (!key.contains(' ')).then_some((key, shown, words.trim()))
}

fn parsed(shown: &str) -> Option<Value> {
    DeValue::parse(shown).ok().map(|value| json(value.get_ref()))
}

fn json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(integer) => integer.as_str().parse::<i64>().map_or(Value::Null, Value::from),
        DeValue::Float(float) => float.as_str().parse::<f64>().map_or(Value::Null, Value::from),
        DeValue::Boolean(value) => (*value).into(),
        DeValue::Datetime(_) => Value::Null,
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => Value::Object(
            table.iter().map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref()))).collect(),
        ),
    }
}

const SAMPLE: &str = include_str!("../../../config.toml");
