//! `preset = "NAME"` on a route: the profile of a known application, written in the file's own grammar.
//!
//! A preset is a small file, `presets/NAME.toml`, with a route for each door through which one can sign in. It is put
//! into the document before anything is read, so that no rule knows about it. The surprising thing: one route becomes
//! several; `blog` has the main door and `blog.xmlrpc` another, and where the file names `blog` it means all of them.

use std::collections::HashMap;
use std::sync::Arc;

use super::diagnostic::{Findings, SourceKind, SourceText, Spot, suggest};
use super::document::{Located, TomlEntry, TomlTable, TomlValue};

/// The profile of one application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// What the file calls it: letters, digits and `-`.
    pub name: &'static str,
    /// The file as it is, comments included.
    pub text: &'static str,
}

impl Preset {
    /// What it protects, in a few words: its first line.
    #[must_use]
    pub fn about(&self) -> &'static str {
        self.comment(0).unwrap_or_default()
    }

    /// `verified: PRODUCT VERSION` or `from documentation: TITLE`: its second line.
    #[must_use]
    pub fn origin(&self) -> &'static str {
        self.comment(1).unwrap_or_default()
    }

    /// Its routes as a document; `None` if it is broken, which is a mistake of this program and reported.
    fn routes(&self, findings: &mut Findings) -> Option<Vec<TomlEntry>> {
        let name = format!("preset {}", self.name);
        let source = Arc::new(SourceText { kind: SourceKind::Preset, name, text: self.text.to_owned() });
        let root = TomlTable::parse(&source, findings)?;
        Some(table(root.get("route")?)?.0.clone())
    }

    fn comment(&self, line: usize) -> Option<&'static str> {
        self.text.lines().nth(line)?.strip_prefix("# ")
    }
}

/// All of them, by name.
#[must_use]
pub fn presets() -> &'static [Preset] {
    &PRESETS
}

/// The preset of that name.
///
/// # Errors
/// What might have been meant.
pub fn named(name: &str) -> Result<&'static Preset, String> {
    let found = PRESETS.iter().find(|preset| preset.name == name);
    found.ok_or_else(|| suggest(name, PRESETS.iter().map(|preset| preset.name)))
}

/// The routes that came from presets, each with the name that the file has for all doors of its application.
pub(super) type Applications = HashMap<String, String>;

/// Puts the doors of every preset in the place of the route that names it. A route whose preset is a mistake stays as
/// it is, `preset` included.
pub(super) fn expand(root: &mut TomlTable, f: &mut Findings) -> Applications {
    let mut applications = Applications::new();
    let Some(routes) = root.get_mut("route").and_then(table_mut) else { return applications };
    let written: HashMap<String, Spot> =
        routes.0.iter().map(|route| (route.key.value.clone(), route.key.spot.clone())).collect();
    let mut expanded = Vec::new();
    for route in std::mem::take(&mut routes.0) {
        let Some(doors) = routes_of(&route, f) else {
            expanded.push(route);
            continue;
        };
        for door in doors {
            let name = &door.key.value;
            if let Some(spot) = written.get(name).filter(|_| *name != route.key.value) {
                let message = format!("`{name}` is a door of route `{}` already", route.key.value);
                f.error(spot, message, "give this route another name");
                continue;
            }
            applications.insert(name.clone(), route.key.value.clone());
            expanded.push(door);
        }
    }
    routes.0 = expanded;
    name_all_routes(root, &applications);
    applications
}

/// The doors of a route with a preset, with what the file says beside it.
fn routes_of(route: &TomlEntry, f: &mut Findings) -> Option<Vec<TomlEntry>> {
    let written = table(route)?;
    let preset = preset_of(&written.get("preset")?.node, f)?;
    let mut doors = preset.routes(f)?;
    let several = doors.len() > 1;
    for entry in written.0.iter().filter(|entry| entry.key.value != "preset") {
        put(entry, preset, several, &mut doors, f);
    }
    for door in &mut doors {
        let ending = door.key.value.strip_prefix(preset.name).unwrap_or(&door.key.value);
        let ending = ending.trim_start_matches('-');
        let name = &route.key.value;
        let value = if ending.is_empty() { name.clone() } else { format!("{name}.{ending}") };
        door.key = Located { value, spot: route.key.spot.clone() };
    }
    Some(doors)
}

fn preset_of(node: &Located<TomlValue>, f: &mut Findings) -> Option<&'static Preset> {
    let TomlValue::String(name) = &node.value else {
        f.error(&node.spot, format!("{} where a string belongs", node.value.kind()), "name one preset");
        return None;
    };
    match named(name) {
        Ok(preset) => Some(preset),
        Err(hint) => {
            f.error(&node.spot, format!("unknown preset `{name}`"), hint);
            None
        }
    }
}

/// One key that the file says beside `preset`.
fn put(entry: &TomlEntry, preset: &Preset, several: bool, doors: &mut [TomlEntry], f: &mut Findings) {
    let key = entry.key.value.as_str();
    if several && KEYS_OF_ONE_ROUTE.contains(&key) {
        let message = format!("`{key}` cannot stand beside a preset with several doors");
        let hint = format!("copy what `tollgate presets {}` prints, and edit it", preset.name);
        f.error(&entry.key.spot, message, hint);
        return;
    }
    // A bound on bodies says something only where one is read; if no door reads any, it is doubtful at all of them.
    let any_reads = doors.iter().any(reads_body);
    let (first, others) = doors.split_at_mut(1.min(doors.len()));
    let others = others.iter_mut().filter(|_| KEYS_OF_ALL_ROUTES.contains(&key));
    for door in first.iter_mut().chain(others) {
        if key != "body" || !any_reads || reads_body(door) {
            set(door, entry.clone());
        }
    }
}

fn reads_body(door: &TomlEntry) -> bool {
    let mut texts = Vec::new();
    for entry in table(door).map_or(&[][..], |table| &table.0) {
        match (entry.key.value.as_str(), &entry.node.value) {
            ("cost" | "when" | "user" | "password", TomlValue::List(items)) => {
                texts.extend(items.iter().map(|item| &item.value));
            }
            ("cost" | "when" | "user" | "password", value) => texts.push(value),
            _ => {}
        }
    }
    let in_body = |text: &str| ["form:", "json:", "count:"].iter().any(|kind| text.starts_with(kind));
    texts.into_iter().any(|value| matches!(value, TomlValue::String(text) if in_body(text)))
}

fn set(door: &mut TomlEntry, entry: TomlEntry) {
    let TomlValue::Table(table) = &mut door.node.value else { return };
    table.0.retain(|known| known.key.value != entry.key.value);
    table.0.push(entry);
}

/// Where a limit names a route with a preset, it means all doors.
fn name_all_routes(root: &mut TomlTable, applications: &Applications) {
    let Some(limits) = root.get_mut("limit").and_then(table_mut) else { return };
    let routes = limits.0.iter_mut().filter_map(table_mut).filter_map(|limit| limit.get_mut("routes"));
    for TomlEntry { node, .. } in routes {
        let names = match &node.value {
            TomlValue::List(items) => items.clone(),
            _ => vec![node.clone()],
        };
        let mut all = Vec::new();
        for name in names {
            let doors = routes_by_name(&name.value, applications);
            all.push(name.clone());
            all.extend(
                doors
                    .into_iter()
                    .map(|door| Located { value: TomlValue::String(door), spot: name.spot.clone() }),
            );
        }
        if all.len() > 1 {
            node.value = TomlValue::List(all);
        }
    }
}

/// The doors beside the main one, which has the name itself.
fn routes_by_name(name: &TomlValue, applications: &Applications) -> Vec<String> {
    let TomlValue::String(name) = name else { return Vec::new() };
    let doors = applications.iter().filter(|(door, application)| *application == name && *door != name);
    let mut doors: Vec<String> = doors.map(|(door, _)| door.clone()).collect();
    doors.sort();
    doors
}

fn table(entry: &TomlEntry) -> Option<&TomlTable> {
    match &entry.node.value {
        TomlValue::Table(table) => Some(table),
        _ => None,
    }
}

fn table_mut(entry: &mut TomlEntry) -> Option<&mut TomlTable> {
    match &mut entry.node.value {
        TomlValue::Table(table) => Some(table),
        _ => None,
    }
}

/// Keys that say the same of every door; those that are in neither list are unknown and reported at the main door.
const KEYS_OF_ALL_ROUTES: [&str; 7] =
    ["host", "host_default", "upstream", "limits", "in_flight", "case", "body"];
/// Keys that are true of one door only.
const KEYS_OF_ONE_ROUTE: [&str; 9] =
    ["match", "when", "user", "password", "success", "failure", "neutral", "otherwise", "cost"];

macro_rules! preset {
    ($name:literal) => {
        Preset { name: $name, text: include_str!(concat!("../../presets/", $name, ".toml")) }
    };
}

const PRESETS: [Preset; 18] = [
    preset!("basic"),
    preset!("django-admin"),
    preset!("drupal"),
    preset!("gitea"),
    preset!("gitlab"),
    preset!("grafana"),
    preset!("jenkins"),
    preset!("joomla"),
    preset!("keycloak"),
    preset!("mediawiki"),
    preset!("moodle"),
    preset!("nextcloud"),
    preset!("owa"),
    preset!("phpmyadmin"),
    preset!("roundcube"),
    preset!("synapse"),
    preset!("tomcat"),
    preset!("wordpress"),
];

#[cfg(test)]
mod tests;
