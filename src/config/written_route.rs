//! The routes and templates as the file has them, before a preset makes several of one: for commands that list sites or
//! add one.

use tollgate_grammar::Findings;
use tollgate_grammar::document::{TomlEntry, TomlTable, TomlValue};

use super::Sources;
use super::stored_policy;

/// A `[route.NAME]` or a `[template.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenRoute {
    /// Its name.
    pub name: String,
    /// The preset that it names.
    pub preset: Option<String>,
    /// Whether it is a template.
    pub is_template: bool,
    /// As in `sites/shop.toml:1:8`.
    pub place: String,
}

impl WrittenRoute {
    /// All of these sources, in the order of their files. Mistakes are left to [`load`](super::load).
    #[must_use]
    pub fn all(sources: &Sources) -> Vec<Self> {
        let mut findings = Findings::default();
        let Some((mut root, _)) = stored_policy::merged(sources, &mut findings) else { return Vec::new() };
        sources.set_keys(&mut root, &mut findings);
        let of_table = |table: &str, is_template: bool| -> Vec<Self> {
            let entries = root.get(table).and_then(table_of).map_or(&[][..], |table| &table.0);
            entries.iter().map(|entry| Self::of(entry, is_template)).collect()
        };
        [of_table("route", false), of_table("template", true)].concat()
    }

    fn of(entry: &TomlEntry, is_template: bool) -> Self {
        let preset = table_of(entry).and_then(|table| table.get("preset"));
        let preset = preset.and_then(|preset| match &preset.node.value {
            TomlValue::String(name) => Some(name.clone()),
            _ => None,
        });
        Self { name: entry.key.value.clone(), preset, is_template, place: entry.key.spot.place() }
    }
}

fn table_of(entry: &TomlEntry) -> Option<&TomlTable> {
    match &entry.node.value {
        TomlValue::Table(table) => Some(table),
        _ => None,
    }
}
