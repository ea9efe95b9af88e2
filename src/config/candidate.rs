//! `[limit.NAME.candidate]`: other keys for a limit, judged next to it.
//!
//! A candidate becomes its own limit, `NAME.candidate`, right behind its live limit: the live limit's keys under its
//! own. The expansion puts it into the document before it is read, so the rest of the check sees a limit like any other.
//! What a candidate may refuse is left to the policy: nothing.

use tollgate_grammar::diagnostic::suggest;
use tollgate_grammar::document::{TomlEntry, TomlTable, TomlValue};
use tollgate_grammar::table::KeyTrait;
use tollgate_grammar::{Findings, Located, RawTable as _, Spot};

use super::raw::RawLimit;

/// What follows the name of the live limit in the name of its candidate.
const ENDING: &str = ".candidate";

/// The name of the live limit, if `name` is that of a candidate.
pub(super) fn live_name(name: &str) -> Option<&str> {
    name.strip_suffix(ENDING)
}

/// Puts each candidate behind its live limit. An entry `candidate` that is not a table stays where it is.
pub(super) fn expand(root: &mut TomlTable, f: &mut Findings) {
    let Some(TomlEntry { node: Located { value: TomlValue::Table(limits), .. }, .. }) = root.get_mut("limit")
    else {
        return;
    };
    for entry in std::mem::take(&mut limits.0) {
        if entry.key.value.contains('.') {
            let message = format!("`{}` is not a valid name for a limit", entry.key.value);
            f.error(&entry.key.spot, message, "1 to 64 of: letters, digits, `-`, `_`");
        }
        let (live, candidate) = split(entry, f);
        limits.0.push(live);
        limits.0.extend(candidate);
    }
}

/// The live limit without its candidate, and the candidate as its own limit.
fn split(mut live: TomlEntry, f: &mut Findings) -> (TomlEntry, Option<TomlEntry>) {
    let TomlValue::Table(table) = &mut live.node.value else { return (live, None) };
    let is_candidate =
        |entry: &TomlEntry| entry.key.value == "candidate" && matches!(entry.node.value, TomlValue::Table(_));
    let Some(at) = table.0.iter().position(is_candidate) else { return (live, None) };
    let TomlEntry { key, node } = table.0.remove(at);
    let TomlValue::Table(own) = node.value else { return (live, None) };
    let merged = merge(table, own, &key.spot, f);
    let name = format!("{}{ENDING}", live.key.value);
    let node = Located { value: TomlValue::Table(merged), spot: node.spot };
    (live, Some(TomlEntry { key: key.with(name), node }))
}

/// The candidate's own keys over those of its live limit.
fn merge(live: &TomlTable, own: TomlTable, spot: &Spot, f: &mut Findings) -> TomlTable {
    if own.0.is_empty() {
        f.warning(
            spot,
            "this candidate is the same as its limit",
            "give it a key, as in rate = \"5 per 5m\"",
        );
    }
    let has = |keys: &[&str]| own.0.iter().any(|entry| keys.contains(&entry.key.value.as_str()));
    let has_shape = has(&SHAPES);
    let is_inherited = |entry: &&TomlEntry| {
        let key = entry.key.value.as_str();
        let is_replaced = has(&[key]) || (has_shape && SHAPE_KEYS.contains(&key));
        !is_replaced && key != "candidate"
    };
    let mut merged: Vec<TomlEntry> = live.0.iter().filter(is_inherited).cloned().collect();
    let (of_live, inherited): (Vec<_>, Vec<_>) =
        RawLimit::keys().into_iter().partition(|key| key.traits.contains(&KeyTrait::Own));
    for entry in own.0 {
        let key = entry.key.value.as_str();
        if inherited.iter().any(|known| known.name == key) {
            merged.push(entry);
        } else if of_live.iter().any(|known| known.name == key) {
            let message = format!("a candidate has no `{key}`");
            f.error(&entry.key.spot, message, "it is judged wherever its limit is, and refuses nothing");
        } else {
            f.error(
                &entry.key.spot,
                format!("unknown key `{key}`"),
                suggest(key, inherited.iter().map(|known| known.name)),
            );
        }
    }
    TomlTable(merged)
}

/// Keys that select a shape: a candidate with one of them takes none of [`SHAPE_KEYS`] over.
const SHAPES: [&str; 3] = ["rolling", "refill", "floor"];
const SHAPE_KEYS: [&str; 7] = ["rate", "rolling", "every", "refill", "anchor", "floor", "wait"];
