//! Typed reads of one table: reports unknown keys, keys that are not built yet, and wrong types.
//!
//! The check of the values is left to [`check`](super::check). A failed read has been reported and looks like an absent
//! key.

use super::diagnostic::{Findings, Spot, suggest};
use super::document::{Located, TomlEntry, TomlTable, TomlValue};
use super::values::Mistake;

/// The keys of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownKeys {
    /// Keys with a meaning.
    pub(super) known: &'static [&'static str],
    /// Keys of the manual that this version refuses.
    pub(super) not_built: &'static [&'static str],
}

/// One table, for reading.
pub(super) struct Section<'t> {
    table: Option<&'t TomlTable>,
}

/// A string or a list of strings, with the spot of the whole.
#[derive(Debug)]
pub(super) struct StringList {
    pub(super) value: Vec<Located<String>>,
    pub(super) spot: Spot,
    /// Whether the list is written empty. A list whose items have a wrong type has been reported already.
    pub(super) is_empty: bool,
}

impl<'t> Section<'t> {
    /// The top of the document.
    pub(super) fn top(table: &'t TomlTable, keys: KnownKeys, findings: &mut Findings) -> Self {
        Self { table: Some(table) }.check_keys(keys, findings)
    }

    /// The table under a key; an absent one has no entries.
    pub(super) fn table(&self, key: &str, keys: KnownKeys, findings: &mut Findings) -> Self {
        match self.entry(key) {
            Some(entry) => Self::of(entry, keys, findings),
            None => Self { table: None },
        }
    }

    /// The table that an entry holds.
    pub(super) fn of(entry: &'t TomlEntry, keys: KnownKeys, findings: &mut Findings) -> Self {
        Self { table: table_of(entry, findings) }.check_keys(keys, findings)
    }

    /// The entries of a table whose keys are names of the user's choice.
    pub(super) fn named(&self, key: &str, findings: &mut Findings) -> &'t [TomlEntry] {
        let table = self.entry(key).and_then(|entry| table_of(entry, findings));
        table.map_or(&[], |table| &table.0)
    }

    /// The tables under a key: one, or a list of them, each with its spot.
    pub(super) fn tables(&self, key: &str, keys: KnownKeys, findings: &mut Findings) -> Vec<(Self, Spot)> {
        let Some(entry) = self.entry(key) else { return Vec::new() };
        let nodes = match &entry.node.value {
            TomlValue::List(nodes) => nodes.as_slice(),
            _ => std::slice::from_ref(&entry.node),
        };
        if nodes.is_empty() {
            findings.error(&entry.node.spot, format!("`{key}` is empty"), "leave it out");
        }
        let tables = nodes.iter().filter_map(|node| match &node.value {
            TomlValue::Table(table) => {
                Some((Self { table: Some(table) }.check_keys(keys, findings), node.spot.clone()))
            }
            other => {
                let message = format!("{} where a table belongs", other.kind());
                findings.error(&node.spot, message, "as in { name = value }, or a list of such");
                None
            }
        });
        tables.collect()
    }

    /// Whether the table has no entries.
    pub(super) fn is_empty(&self) -> bool {
        self.table.is_none_or(|table| table.0.is_empty())
    }

    /// A key's value as written.
    pub(super) fn entry(&self, key: &str) -> Option<&'t TomlEntry> {
        self.table.and_then(|table| table.get(key))
    }

    pub(super) fn string(&self, key: &str, findings: &mut Findings) -> Option<Located<String>> {
        string(&self.entry(key)?.node, findings)
    }

    /// A string that may be `${...}`. In an override it is the text as written: a secret of digits is no number.
    pub(super) fn secret(&self, key: &str, findings: &mut Findings) -> Option<Located<String>> {
        let node = &self.entry(key)?.node;
        let value = match &node.value {
            TomlValue::String(text) => text.clone(),
            _ if !node.spot.is_in_file() => node.spot.text().to_owned(),
            _ => return wrong_type(node, "a string", findings),
        };
        Some(Located { value, spot: node.spot.clone() })
    }

    pub(super) fn strings(&self, key: &str, findings: &mut Findings) -> Option<StringList> {
        Some(strings(&self.entry(key)?.node, findings))
    }

    pub(super) fn integer(&self, key: &str, findings: &mut Findings) -> Option<Located<i64>> {
        let node = &self.entry(key)?.node;
        match node.value {
            TomlValue::Integer(value) => Some(Located { value, spot: node.spot.clone() }),
            _ => wrong_type(node, "an integer", findings),
        }
    }

    pub(super) fn boolean(&self, key: &str, findings: &mut Findings) -> Option<Located<bool>> {
        let node = &self.entry(key)?.node;
        match node.value {
            TomlValue::Boolean(value) => Some(Located { value, spot: node.spot.clone() }),
            _ => wrong_type(node, "true or false", findings),
        }
    }

    pub(super) fn number(&self, key: &str, findings: &mut Findings) -> Option<Located<f64>> {
        let node = &self.entry(key)?.node;
        match node.value {
            TomlValue::Float(value) => Some(Located { value, spot: node.spot.clone() }),
            TomlValue::Integer(value) => {
                // A value beyond 32 bits exceeds the bounds of every key.
                let value = i32::try_from(value).map_or(f64::INFINITY, f64::from);
                Some(Located { value, spot: node.spot.clone() })
            }
            _ => wrong_type(node, "a number", findings),
        }
    }

    fn check_keys(self, keys: KnownKeys, findings: &mut Findings) -> Self {
        for TomlEntry { key, .. } in self.table.map_or(&[][..], |table| &table.0) {
            let name = key.value.as_str();
            if keys.not_built.contains(&name) {
                refuse(&key.spot, &key.value, Mistake::not_built(name, ""), findings);
            } else if !keys.known.contains(&name) {
                let hint = match name {
                    // TOML has no way back to the top level once a table has begun, which surprises most people once.
                    "listen" | "upstream" => MOVE_UP.to_owned(),
                    _ => suggest(name, keys.known.iter().copied()),
                };
                findings.error(&key.spot, format!("unknown key `{name}`"), hint);
            }
        }
        self
    }
}

/// Reports a text that does not fit its grammar.
pub(super) fn refuse(spot: &Spot, text: &str, mistake: Mistake, findings: &mut Findings) {
    let spot = mistake.part.map_or_else(|| spot.clone(), |part| spot.part(text, part));
    findings.error(&spot, mistake.message, mistake.hint);
}

pub(super) fn string(node: &Located<TomlValue>, findings: &mut Findings) -> Option<Located<String>> {
    let TomlValue::String(text) = &node.value else { return wrong_type(node, "a string", findings) };
    if text.starts_with("${") {
        findings.error(&node.spot, "only a secret may be `${...}`", NO_SECRET);
        return None;
    }
    Some(Located { value: text.clone(), spot: node.spot.clone() })
}

/// A single value may stand where a list is allowed.
pub(super) fn strings(node: &Located<TomlValue>, findings: &mut Findings) -> StringList {
    let items = match &node.value {
        TomlValue::List(items) => items.as_slice(),
        TomlValue::String(_) => std::slice::from_ref(node),
        _ => {
            wrong_type::<()>(node, "a string or a list of strings", findings);
            &[]
        }
    };
    let value = items.iter().filter_map(|item| string(item, findings)).collect();
    let is_empty = matches!(&node.value, TomlValue::List(items) if items.is_empty());
    StringList { value, spot: node.spot.clone(), is_empty }
}

fn table_of<'t>(entry: &'t TomlEntry, findings: &mut Findings) -> Option<&'t TomlTable> {
    match &entry.node.value {
        TomlValue::Table(table) => Some(table),
        other => {
            let message = format!("`{}` is {} where a table belongs", entry.key.value, other.kind());
            findings.error(&entry.node.spot, message, "");
            None
        }
    }
}

fn wrong_type<T>(node: &Located<TomlValue>, wanted: &str, findings: &mut Findings) -> Option<T> {
    findings.error(
        &node.spot,
        format!("{} where {wanted} belongs", node.value.kind()),
        hint_for(node, wanted),
    );
    None
}

fn hint_for(node: &Located<TomlValue>, wanted: &str) -> &'static str {
    match node.value {
        TomlValue::Integer(_) | TomlValue::Float(_) | TomlValue::Boolean(_)
            if wanted.starts_with("a string") =>
        {
            "put it in quotes"
        }
        TomlValue::String(_) if !wanted.starts_with("a string") => "write it without quotes",
        _ => "",
    }
}

const NO_SECRET: &str = "write the value itself: secrets are `device.secret`, `store.secret` and `store.url`";
const MOVE_UP: &str = "it belongs at the top of the file, before the first table";
