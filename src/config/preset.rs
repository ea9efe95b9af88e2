//! `preset = "NAME"` on a route: the profile of a known application, written in the file's own grammar.
//!
//! A preset is a small file, `presets/NAME.toml`, with a route for each way to sign in. The expansion puts these routes
//! into the document before it is read, so the rest of the check knows no presets. One route becomes several: `blog` is
//! the main one and `blog.xmlrpc` another, and where the file names `blog` it means all of them. `blog.mail` is the one
//! that sends messages: it is not a sign-in, so keys of a single sign-in may be set next to a preset that has one.

mod markers;

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_grammar::diagnostic::suggest;
use tollgate_grammar::document::{TomlEntry, TomlTable, TomlValue};
use tollgate_grammar::table::{KeyDeclaration, KeyTrait};
use tollgate_grammar::{Findings, Located, SourceKind, SourceText, Spot};

pub use self::markers::PresetMarkers;
use super::secrets::DIALECT;

/// The profile of one application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Its name in the file: letters, digits and `-`.
    pub name: &'static str,
    /// All of its file.
    file: &'static str,
}

/// There is no preset of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown preset: {hint}")]
pub struct UnknownPreset {
    /// The likely name, or all names.
    pub hint: String,
}

impl Preset {
    /// The preset with its comments, as a piece of a configuration: what only [`markers`](Self::markers) reads is left out.
    #[must_use]
    pub fn text(&self) -> &'static str {
        self.file.split_once(DETECT).map_or(self.file, |(text, _)| text)
    }

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

    /// Whether some answer of the application proves that a password was right.
    #[must_use]
    pub fn tells_successes(&self) -> bool {
        self.has_line("success = ")
    }

    /// Whether it names accounts: some applications have one password for all.
    #[must_use]
    pub fn names_accounts(&self) -> bool {
        self.has_line("user = ")
    }

    /// Whether an answer can make a client known as the owner of an account.
    #[must_use]
    pub fn knows_owners(&self) -> bool {
        self.tells_successes() && self.names_accounts()
    }

    /// Whether it names the fields of passwords.
    #[must_use]
    pub fn names_passwords(&self) -> bool {
        self.has_line("password = ")
    }

    /// Whether it has a route for forms that send a message to a recipient: `NAME-mail`.
    #[must_use]
    pub fn sends_messages(&self) -> bool {
        self.has_line(&format!("[route.{}-mail]", self.name))
    }

    fn is_of_messages(&self, route: &TomlEntry) -> bool {
        route.key.value.strip_prefix(self.name) == Some("-mail")
    }

    fn has_line(&self, start: &str) -> bool {
        self.text().lines().any(|line| line.starts_with(start))
    }

    /// Its routes as a document; `None` if the preset is broken, which is a bug of this program and reported.
    fn routes(&self, findings: &mut Findings) -> Option<Vec<TomlEntry>> {
        let name = format!("preset {}", self.name);
        let source = Arc::new(SourceText {
            kind: SourceKind::Preset,
            name,
            text: self.text().to_owned(),
            dialect: &DIALECT,
        });
        let root = TomlTable::parse(&source, findings)?;
        Some(table(root.get("route")?)?.0.clone())
    }

    fn comment(&self, line: usize) -> Option<&'static str> {
        self.text().lines().nth(line)?.strip_prefix("# ")
    }
}

/// All presets, by name.
#[must_use]
pub fn presets() -> &'static [Preset] {
    &PRESETS
}

/// The preset of that name.
///
/// # Errors
/// See [`UnknownPreset`].
pub fn named(name: &str) -> Result<&'static Preset, UnknownPreset> {
    let found = PRESETS.iter().find(|preset| preset.name == name);
    let hint = || suggest(name, PRESETS.iter().map(|preset| preset.name));
    found.ok_or_else(|| UnknownPreset { hint: hint() })
}

/// The routes that come from presets, each with the name that the file has for the whole application.
pub(super) type Applications = HashMap<String, String>;

/// The routes of presets, each of which is read once.
type ReadPresets = HashMap<&'static str, Option<Vec<TomlEntry>>>;

/// Replaces each route that names a preset by the preset's routes. A route with an invalid preset stays as it is,
/// `preset` included. `keys` are those of a route.
pub(super) fn expand(root: &mut TomlTable, keys: &[KeyDeclaration], f: &mut Findings) -> Applications {
    let mut applications = Applications::new();
    let Some(table) = root.get_mut("route").and_then(table_mut) else { return applications };
    let written: HashMap<String, Spot> =
        table.0.iter().map(|route| (route.key.value.clone(), route.key.spot.clone())).collect();
    let (mut expanded, mut read) = (Vec::new(), ReadPresets::new());
    for entry in std::mem::take(&mut table.0) {
        let Some(routes) = routes_of(&entry, keys, &mut read, f) else {
            expanded.push(entry);
            continue;
        };
        for route in routes {
            let name = &route.key.value;
            if let Some(spot) = written.get(name).filter(|_| *name != entry.key.value) {
                let message = format!("`{name}` is a route of the preset of `{}` already", entry.key.value);
                f.error(spot, message, "give this route another name");
                continue;
            }
            applications.insert(name.clone(), entry.key.value.clone());
            expanded.push(route);
        }
    }
    table.0 = expanded;
    name_all_routes(root, &applications);
    applications
}

/// The routes of an entry with a preset, with the entry's other keys merged in.
fn routes_of(
    entry: &TomlEntry,
    keys: &[KeyDeclaration],
    read: &mut ReadPresets,
    f: &mut Findings,
) -> Option<Vec<TomlEntry>> {
    let written = table(entry)?;
    let preset = preset_of(&written.get("preset")?.node, f)?;
    let mut routes = read.entry(preset.name).or_insert_with(|| preset.routes(f)).clone()?;
    let several = routes.iter().filter(|route| !preset.is_of_messages(route)).count() > 1;
    for key in written.0.iter().filter(|key| key.key.value != "preset") {
        let name = key.key.value.as_str();
        if several && KEYS_OF_ONE_ROUTE.contains(&name) {
            let message = format!("`{name}` cannot be set next to a preset with several routes");
            let hint = format!("copy what `tollgate presets {}` prints, and edit it", preset.name);
            f.error(&key.key.spot, message, hint);
            continue;
        }
        let is_common =
            |known: &KeyDeclaration| known.name == name && known.traits.contains(&KeyTrait::Common);
        put(key, preset, keys.iter().any(is_common), &mut routes);
    }
    for route in &mut routes {
        let ending = route.key.value.strip_prefix(preset.name).unwrap_or(&route.key.value);
        let ending = ending.trim_start_matches('-');
        let name = &entry.key.value;
        let value = if ending.is_empty() { name.clone() } else { format!("{name}.{ending}") };
        route.key = Located { value, spot: entry.key.spot.clone() };
    }
    Some(routes)
}

fn preset_of(node: &Located<TomlValue>, f: &mut Findings) -> Option<&'static Preset> {
    let TomlValue::String(name) = &node.value else {
        f.error(&node.spot, format!("{} where a string belongs", node.value.kind()), "name one preset");
        return None;
    };
    match named(name) {
        Ok(preset) => Some(preset),
        Err(UnknownPreset { hint }) => {
            f.error(&node.spot, format!("unknown preset `{name}`"), hint);
            None
        }
    }
}

/// Merges one key that is next to `preset`, into all routes or into those that it is for.
fn put(entry: &TomlEntry, preset: &Preset, is_for_all: bool, routes: &mut [TomlEntry]) {
    let key = entry.key.value.as_str();
    // `body` goes to routes that read one. If no route does, it goes to all, and each gets the usual warning.
    let any_reads = routes.iter().any(reads_body);
    let is_main = |route: &TomlEntry| route.key.value == preset.name;
    // `match` confines a preset for all addresses to some, and its messages with it.
    let main = routes.iter().find(|route| key == "match" && is_main(route));
    let everywhere = main.and_then(pattern).map(str::to_owned);
    let moves = |route: &TomlEntry| everywhere.is_some() && pattern(route) == everywhere.as_deref();
    for route in routes.iter_mut().filter(|route| is_for_all || is_main(route) || moves(route)) {
        if key != "body" || !any_reads || reads_body(route) {
            set(route, entry.clone());
        }
    }
}

/// The only pattern of a route.
fn pattern(route: &TomlEntry) -> Option<&str> {
    match &table(route)?.get("match")?.node.value {
        TomlValue::String(pattern) => Some(pattern),
        _ => None,
    }
}

fn reads_body(route: &TomlEntry) -> bool {
    let mut texts = Vec::new();
    for entry in table(route).map_or(&[][..], |table| &table.0) {
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

fn set(route: &mut TomlEntry, entry: TomlEntry) {
    let TomlValue::Table(table) = &mut route.node.value else { return };
    table.0.retain(|known| known.key.value != entry.key.value);
    table.0.push(entry);
}

/// A limit that names an application means all its routes.
fn name_all_routes(root: &mut TomlTable, applications: &Applications) {
    let Some(limits) = root.get_mut("limit").and_then(table_mut) else { return };
    let mut further: HashMap<&str, Vec<&str>> = HashMap::new();
    for (route, application) in applications.iter().filter(|(route, application)| route != application) {
        further.entry(application).or_default().push(route);
    }
    further.values_mut().for_each(|routes| routes.sort_unstable());
    let routes = limits.0.iter_mut().filter_map(table_mut).filter_map(|limit| limit.get_mut("routes"));
    for TomlEntry { node, .. } in routes {
        let names = match &node.value {
            TomlValue::List(items) => items.clone(),
            _ => vec![node.clone()],
        };
        let mut all = Vec::new();
        for name in names {
            let others = match &name.value {
                TomlValue::String(name) => further.get(&**name).map_or(&[][..], |routes| routes),
                _ => &[],
            };
            all.push(name.clone());
            all.extend(others.iter().map(|&route| name.with(TomlValue::String(route.to_owned()))));
        }
        if all.len() > 1 {
            node.value = TomlValue::List(all);
        }
    }
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

/// Keys that differ between the routes of a preset. One that is neither here nor `Common` is of the main route, which also
/// reports it if it is unknown.
const KEYS_OF_ONE_ROUTE: [&str; 12] = [
    "match",
    "when",
    "user",
    "password",
    "user_length",
    "success",
    "failure",
    "neutral",
    "otherwise",
    "cost",
    "step",
    "step_cookie",
];

/// Where the markers begin.
const DETECT: &str = "\n# For `tollgate init --detect`; a gate does not read it.\n[detect]\n";

macro_rules! preset {
    ($name:literal) => {
        Preset { name: $name, file: include_str!(concat!("../../presets/", $name, ".toml")) }
    };
}

const PRESETS: [Preset; 49] = [
    preset!("adminer"),
    preset!("airflow"),
    preset!("allauth"),
    preset!("authelia"),
    preset!("authentik"),
    preset!("basic"),
    preset!("cacti"),
    preset!("calibre-web"),
    preset!("django-admin"),
    preset!("dokuwiki"),
    preset!("drupal"),
    preset!("flask-security"),
    preset!("gitea"),
    preset!("gitlab"),
    preset!("grafana"),
    preset!("home-assistant"),
    preset!("icingaweb2"),
    preset!("jenkins"),
    preset!("joomla"),
    preset!("jupyter"),
    preset!("jupyterhub"),
    preset!("kanboard"),
    preset!("keycloak"),
    preset!("lam"),
    preset!("mediawiki"),
    preset!("moodle"),
    preset!("nextcloud"),
    preset!("node-red"),
    preset!("octoprint"),
    preset!("owa"),
    preset!("pgadmin"),
    preset!("phpldapadmin"),
    preset!("phpmyadmin"),
    preset!("postfixadmin"),
    preset!("qbittorrent"),
    preset!("redmine"),
    preset!("roundcube"),
    preset!("roundup"),
    preset!("shaarli"),
    preset!("simplesamlphp"),
    preset!("snappymail"),
    preset!("synapse"),
    preset!("tomcat"),
    preset!("tt-rss"),
    preset!("wagtail"),
    preset!("webmin"),
    preset!("wordpress"),
    preset!("zabbix"),
    preset!("zoneminder"),
];

#[cfg(test)]
mod tests;
