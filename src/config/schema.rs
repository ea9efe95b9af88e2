//! The JSON Schema of the configuration file (draft 7, as editors read it), from the declarations that the parser uses.
//!
//! Keys, types, bounds and words are those of `raw`, descriptions and defaults those of `config.toml`. A schema sees one value
//! at a time: what several keys mean together, and what files and variables hold, is left to `tollgate check`.

mod notes;

use std::collections::BTreeMap;

use serde_json::Value;
use tollgate_grammar::schema::{Others, Schema};
use tollgate_grammar::table::{KeyDeclaration, KeyTrait, KeyType, TableType};

use self::notes::{Note, Notes};
use super::raw::RawFile;

/// The schema of the file as a JSON document.
#[must_use]
pub fn schema() -> Value {
    let whole = Schema {
        dialect: Some("http://json-schema.org/draft-07/schema#"),
        id: Some(format!("urn:tollgate:config:{}", env!("CARGO_PKG_VERSION"))),
        title: Some("The configuration of tollgate"),
        ..table("", TableType::of::<RawFile>(), &Notes::read())
    };
    serde_json::to_value(whole).unwrap_or_default()
}

/// A key with its description and default.
fn key(path: &str, declaration: KeyDeclaration, notes: &Notes) -> Schema {
    let KeyDeclaration { kind, about, traits, .. } = declaration;
    let is_secret = matches!(kind, KeyType::Secret);
    let about = match &kind {
        KeyType::Table(table) if about.is_empty() => table.about,
        _ => about,
    };
    let note = notes.of(path);
    let mut schema = value(path, kind, about, traits, notes);
    let (described, line) = match note {
        Some(Note { description, line }) => (description.as_str(), line.as_ref()),
        None => (about.trim(), None),
    };
    schema.description = (!described.is_empty()).then(|| described.to_owned());
    match line {
        Some(shown) if traits.contains(&KeyTrait::Example) => schema.examples = vec![shown.clone()],
        // An empty secret in the sample stands for none.
        Some(none) if is_secret && none == "" => {}
        Some(default) => schema.default = Some(default.clone()),
        None => {}
    }
    schema
}

/// What a key holds. `about` and `traits` are those of the key, and of its entries if they have names.
fn value(
    path: &str,
    kind: KeyType,
    about: &'static str,
    traits: &'static [KeyTrait],
    notes: &Notes,
) -> Schema {
    match kind {
        KeyType::Value(schema) => *schema,
        KeyType::Secret => Schema::string(),
        KeyType::Table(of) => table(path, of, notes),
        KeyType::TableList(of) => {
            let is_basic = traits.contains(&KeyTrait::Basic);
            let is_there = |key: &KeyDeclaration| !(is_basic && key.traits.contains(&KeyTrait::Extra));
            let keys = of.keys.into_iter().filter(is_there).collect();
            Schema::one_or_more(table(path, TableType { keys, ..of }, notes))
        }
        KeyType::Named { names, entry } => {
            let about = match &*entry {
                KeyType::Table(of) => of.about,
                _ => about,
            };
            let entry = KeyDeclaration { name: "*", kind: *entry, about, traits };
            Schema::named(names, key(&below(path, "*"), entry, notes))
        }
    }
}

/// A table of known keys. If it has a `candidate`, that table has the same keys, but for those that are `Own`. If it has
/// templates, they have the keys of routes, too.
fn table(path: &str, TableType { keys, required, .. }: TableType, notes: &Notes) -> Schema {
    let (mut properties, mut inherited) = (BTreeMap::new(), BTreeMap::new());
    for declaration in keys {
        let (name, is_own) = (declaration.name, declaration.traits.contains(&KeyTrait::Own));
        let schema = key(&below(path, name), declaration, notes);
        if !is_own {
            inherited.insert(name, schema.clone());
        }
        properties.insert(name, schema);
    }
    if let Some(candidate) = properties.get_mut(CANDIDATE) {
        *candidate = Schema { description: candidate.description.take(), ..Schema::table(inherited) };
    }
    if let Some(routes) = properties.get(ROUTE).cloned()
        && let Some(templates) = properties.get_mut(TEMPLATE)
    {
        share_keys(&routes, templates);
    }
    Schema { required: (!required.is_empty()).then(|| required.to_vec()), ..Schema::table(properties) }
}

/// Gives templates the keys of routes.
fn share_keys(routes: &Schema, templates: &mut Schema) {
    let (Some(Others::Fit(route)), Some(Others::Fit(template))) =
        (&routes.additional_properties, &mut templates.additional_properties)
    else {
        return;
    };
    let own = template.properties.get_or_insert_default();
    let shared = route.properties.iter().flatten().filter(|(name, _)| **name != "host");
    own.extend(shared.map(|(name, schema)| (*name, schema.clone())));
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

const CANDIDATE: &str = "candidate";
const ROUTE: &str = "route";
const TEMPLATE: &str = "template";
