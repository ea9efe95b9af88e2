//! No file and no function grows past a glance, nothing may panic by a shortcut, and every file says what it is for.
//!
//! Tests are left out. Clippy knows some of these rules too, but it can be told to look away.

#![allow(clippy::unwrap_used, clippy::unreachable, reason = "these are tests")]

use crate::source;

use std::collections::{BTreeMap, BTreeSet};

use source::{Source, closing};

const LINES_OF_A_FILE: usize = 500;
const LINES_OF_A_FUNCTION: usize = 60;

#[test]
fn every_file_says_first_what_it_is_for() {
    demand_none(|source| {
        let silent = !source.opens_with_its_purpose;
        silent.then(|| format!("{} does not open with `//!`", source.place(0))).into_iter().collect()
    });
}

#[test]
fn no_file_is_too_long() {
    demand_none(|source| {
        let long = source.lines > LINES_OF_A_FILE;
        long.then(|| format!("src/{}.rs has {} lines", source.module, source.lines)).into_iter().collect()
    });
}

#[test]
fn no_function_is_too_long() {
    demand_none(|source| {
        let functions =
            source.positions(&["fn"]).into_iter().filter_map(|at| Some((at, lines_of_function(source, at)?)));
        let long = functions.filter(|&(_, lines)| lines > LINES_OF_A_FUNCTION);
        long.map(|(at, lines)| {
            format!("{}: `{}` has {lines} lines", source.place(at), source.tokens[at + 1].text)
        })
        .collect()
    });
}

#[test]
fn nothing_unwraps() {
    demand_none(|source| {
        let shortcuts = ["unwrap", "expect"].map(|name| source.positions(&[".", name, "("]));
        shortcuts.concat().into_iter().map(|at| format!("{} unwraps or expects", source.place(at))).collect()
    });
}

/// A newcomer who searches for a name finds one thing.
#[test]
fn every_type_has_a_name_of_its_own() {
    let mut places: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // A stand-in for what a build leaves out has the names of what it stands for.
    for source in Source::all().iter().filter(|source| !source.module.ends_with("/absent")) {
        for at in ["struct", "enum", "trait", "union"].iter().flat_map(|kind| source.positions(&[kind])) {
            let name = &source.tokens[at + 1].text;
            if name.starts_with(char::is_uppercase) {
                places.entry(name.clone()).or_default().insert(source.module.clone());
            }
        }
    }
    let several: Vec<_> = places.into_iter().filter(|(_, places)| places.len() > 1).collect();
    assert!(several.is_empty(), "{several:#?}");
}

/// How long the function is whose `fn` stands there; `None` for a type and for a declaration.
fn lines_of_function(source: &Source, at: usize) -> Option<usize> {
    let tokens = &source.tokens;
    if matches!(&tokens[at + 1].text[..], "(" | "<") {
        return None;
    }
    let body = (at..tokens.len()).find(|&at| matches!(&tokens[at].text[..], "{" | ";"))?;
    (tokens[body].text == "{").then(|| tokens[closing(tokens, body)].line - tokens[at].line + 1)
}

fn demand_none(faults: impl Fn(&Source) -> Vec<String>) {
    let found: Vec<String> = Source::all().iter().flat_map(faults).collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}
