//! The tables of included files: they count as if they stood at the end of the main file.
//!
//! The rest of the check knows of one file only; each key and value keeps its spot in its own. Such a file holds what an
//! application needs. How the gate runs, and where clients connect, is said in one place.

use tollgate_grammar::diagnostic::suggest;
use tollgate_grammar::document::{TomlEntry, TomlTable, TomlValue};
use tollgate_grammar::table::table_of;
use tollgate_grammar::{Findings, Located, RawTable as _};

use super::super::raw::RawFile;
use super::{KEY, Sources};

/// Adds the tables of the included files. A file that cannot be read as TOML is left out, so that its mistakes hide no
/// others.
pub(in crate::config) fn merge(root: &mut TomlTable, sources: &Sources, f: &mut Findings) {
    let Some(included) = sources.clone().with_included().included else { return };
    f.extend(&included.findings);
    for source in &included.texts {
        let table = TomlTable::parse(source, f).unwrap_or_default();
        table.0.into_iter().for_each(|entry| add(root, entry, f));
    }
}

fn add(root: &mut TomlTable, entry: TomlEntry, f: &mut Findings) {
    match NAMED.iter().find(|(table, _)| *table == entry.key.value) {
        Some((_, noun)) => add_named(root, entry, noun, f),
        None if entry.key.value == "tls" => add_certificates(root, entry, f),
        None if entry.key.value == "refuse" => add_texts(root, entry, f),
        None => refuse(&entry.key, f),
    }
}

/// Adds the entries of a table of names, each of which may be in one file only. One that is there twice stays, so that
/// its mistakes are reported, too.
fn add_named(root: &mut TomlTable, entry: TomlEntry, noun: &str, f: &mut Findings) {
    let Some(entries) = table_of(&entry, f).cloned() else { return };
    let Some(known) = root.get_mut(&entry.key.value) else {
        root.0.push(entry);
        return;
    };
    let TomlValue::Table(known) = &mut known.node.value else { return };
    for named in entries.0 {
        if let Some(other) = known.get(&named.key.value) {
            let message = format!("{noun} `{}` is there twice", named.key.value);
            f.error(&named.key.spot, message, format!("it is at {} already", other.key.spot.place()));
        }
        known.0.push(named);
    }
}

/// Adds what an application may say of TLS: its own certificates, and the names to order some for.
fn add_certificates(root: &mut TomlTable, mut entry: TomlEntry, f: &mut Findings) {
    let TomlValue::Table(tls) = &mut entry.node.value else {
        table_of(&entry, f);
        return;
    };
    keep(tls, &["certificates", "acme"], "tls.", f);
    if let Some(TomlEntry { node: Located { value: TomlValue::Table(acme), .. }, .. }) = tls.get_mut("acme") {
        keep(acme, &["domains"], "tls.acme.", f);
    }
    join(root, TomlTable(vec![entry]));
}

/// Adds texts of the refusal page: a further language may have its file.
fn add_texts(root: &mut TomlTable, mut entry: TomlEntry, f: &mut Findings) {
    let TomlValue::Table(refuse) = &mut entry.node.value else {
        table_of(&entry, f);
        return;
    };
    keep(refuse, &["texts"], "refuse.", f);
    join(root, TomlTable(vec![entry]));
}

/// Leaves only these keys, and reports the others.
fn keep(table: &mut TomlTable, keys: &[&str], path: &str, f: &mut Findings) {
    table.0.retain(|entry| {
        let is_kept = keys.contains(&entry.key.value.as_str());
        if !is_kept {
            refuse(&entry.key.with(format!("{path}{}", entry.key.value)), f);
        }
        is_kept
    });
}

/// Joins tables key by key, and lists one after the other.
fn join(before: &mut TomlTable, behind: TomlTable) {
    for entry in behind.0 {
        let Some(known) = before.get_mut(&entry.key.value) else {
            before.0.push(entry);
            continue;
        };
        match (&mut known.node.value, entry.node) {
            (TomlValue::Table(known), Located { value: TomlValue::Table(table), .. }) => join(known, table),
            (_, node) => {
                known.node.value = TomlValue::List([items(known.node.clone()), items(node)].concat())
            }
        }
    }
}

/// A list of one item can be written as that item alone.
pub(super) fn items(node: Located<TomlValue>) -> Vec<Located<TomlValue>> {
    match node.value {
        TomlValue::List(items) => items,
        _ => vec![node],
    }
}

fn refuse(key: &Located<String>, f: &mut Findings) {
    let name = key.value.as_str();
    let own = ["tls", "refuse"].into_iter().chain(NAMED.iter().map(|(table, _)| *table));
    match name {
        KEY => f.error(&key.spot, "an included file includes no others", "name them in the main file"),
        _ if name.contains('.') || RawFile::key_names().contains(&name) => {
            f.error(&key.spot, format!("an included file has no `{name}`"), HOLDS);
        }
        _ => f.error(&key.spot, format!("unknown key `{name}`"), suggest(name, own)),
    }
}

/// Reports a policy of the store that includes files: it is one text, and gates have no file of it.
pub(in crate::config) fn refuse_in_policy(policy: &mut TomlTable, f: &mut Findings) {
    if let Some(at) = policy.0.iter().position(|entry| entry.key.value == KEY) {
        let entry = policy.0.remove(at);
        f.error(
            &entry.key.spot,
            "a policy of the store includes no files",
            "write their tables into the policy",
        );
    }
}

/// Tables of an included file whose entries have names, and what an entry is called.
const NAMED: [(&str, &str); 6] = [
    ("route", "route"),
    ("template", "template"),
    ("limit", "limit"),
    ("networks", "network"),
    ("lists", "list"),
    ("endpoint", "endpoint"),
];
const HOLDS: &str = "it may have `route`, `template`, `limit`, `networks`, `lists`, `endpoint`, `tls.certificates`, `tls.acme.domains` and `refuse.texts`";
