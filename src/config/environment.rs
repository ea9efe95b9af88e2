//! Overrides of the file: `TOLLGATE_STORE__CAPACITY=...` and `--set store.capacity=...`.
//!
//! Merges single values into the tree, each with spots in its own text. A value that is not TOML is a string, so no
//! quotes within quotes are needed. Some variables that begin with `TOLLGATE_` are left alone, because Kubernetes sets
//! them for a service of that name.

use std::sync::Arc;

use tollgate_grammar::diagnostic::nearest;
use tollgate_grammar::document::{TomlEntry, TomlTable, TomlValue, parse_value};
use tollgate_grammar::{Findings, Located, RawTable as _, SourceKind, SourceText, Spot};
use toml::de::{DeTable, DeValue};

use super::Sources;
use super::raw::RawFile;
use super::secrets::DIALECT;
use crate::defences::OWNERS;

impl Sources {
    /// Puts what the environment sets into the file, and then what the command line does.
    pub(super) fn set_keys(&self, root: &mut TomlTable, f: &mut Findings) {
        merge_environment(root, self, f);
        merge_set(root, &self.set, f);
    }

    /// Whether the environment or the command line sets a key.
    #[must_use]
    pub fn set_any_key(&self) -> bool {
        !self.set.is_empty() || self.environment.iter().any(|(name, _)| setting(name).is_some())
    }
}

/// Merges the variables that are settings, and leaves all others alone.
fn merge_environment(root: &mut TomlTable, sources: &Sources, findings: &mut Findings) {
    let settings = sources.environment.iter().filter_map(|(name, value)| Some((name, setting(name)?, value)));
    let mut settings: Vec<_> = settings.filter(|(name, ..)| !holds_the_secret(name, root, sources)).collect();
    // The environment has no order; diagnostics and tables need one.
    settings.sort();
    for (name, setting, value) in settings {
        let source = source(SourceKind::Environment, format!("environment {name}"), value);
        let path: Vec<String> = setting.to_lowercase().split("__").map(str::to_owned).collect();
        if path.iter().any(String::is_empty) {
            findings.error(&whole_value(&source), format!("`{name}` names no setting"), LEVELS);
            continue;
        }
        if !is_meant_for_gate(&path[0]) {
            let hint = "it is left alone; `tollgate schema` lists the keys";
            findings.warning(&whole_value(&source), format!("`{name}` names no setting"), hint);
            continue;
        }
        merge(root, &path, &source, KeyCase::Case, findings);
    }
}

/// Whether the first level of a variable's name is a key, or one misspelt. Another one may belong to another program.
fn is_meant_for_gate(level: &str) -> bool {
    let known = RawFile::key_names();
    let begins_with =
        |key: &&str| level.strip_prefix(*key).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
    known.iter().any(begins_with) || nearest(level, known.into_iter()).is_some()
}

/// Merges the `--set` pairs, later ones over earlier ones.
fn merge_set(root: &mut TomlTable, pairs: &[(String, String)], findings: &mut Findings) {
    for (key, value) in pairs {
        let source = source(SourceKind::Set, format!("--set {key}"), value);
        match path_of(key) {
            Some(path) => merge(root, &path, &source, KeyCase::Nothing, findings),
            None => findings.error(&whole_value(&source), format!("`{key}` is not a key"), KEY),
        }
    }
}

/// How the levels of a key are matched.
#[derive(Debug, Clone, Copy)]
enum KeyCase {
    Nothing,
    /// Variables are in capitals; names of routes and limits may have some.
    Case,
}

/// Whether the secret of known owners is `"${NAME}"`: then the variable is no setting, even if its name begins with `TOLLGATE_`.
fn holds_the_secret(name: &str, root: &TomlTable, sources: &Sources) -> bool {
    let reference = format!("${{{name}}}");
    let in_file = match root.get(OWNERS.key).map(|entry| &entry.node.value) {
        Some(TomlValue::Table(owners)) => owners.get("secret").map(|entry| &entry.node.value),
        _ => None,
    };
    let above = sources.environment.iter().chain(&sources.set).any(|(_, value)| *value == reference);
    above || matches!(in_file, Some(TomlValue::String(value)) if *value == reference)
}

fn setting(name: &str) -> Option<&str> {
    let setting = name.strip_prefix("TOLLGATE_")?;
    let kubernetes = setting == "PORT" || setting.starts_with("PORT_") || setting.starts_with("SERVICE_");
    (setting != "CONFIG" && !kubernetes).then_some(setting)
}

/// The levels of a dotted key, by TOML's own rules for quotes.
fn path_of(key: &str) -> Option<Vec<String>> {
    if key.contains(['=', '#', '{', '[']) || key.chars().any(char::is_control) {
        return None;
    }
    let text = format!("{key} = 0");
    let document = DeTable::parse(&text).ok()?;
    let mut path = Vec::new();
    let mut table = document.get_ref();
    loop {
        let (key, value) = table.iter().next()?;
        path.push(key.get_ref().to_string());
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => return Some(path),
        }
    }
}

fn merge(
    root: &mut TomlTable,
    path: &[String],
    source: &Arc<SourceText>,
    case: KeyCase,
    findings: &mut Findings,
) {
    let Some((last, levels)) = path.split_last() else { return };
    let mut table = root;
    for level in levels {
        let entry = entry(table, level, source, case, || TomlValue::Table(TomlTable::default()));
        let kind = entry.node.value.kind();
        let TomlValue::Table(inner) = &mut entry.node.value else {
            findings.error(&whole_value(source), format!("`{level}` is {kind}, not a table"), "");
            return;
        };
        table = inner;
    }
    let node = parse_value(source);
    let entry = entry(table, last, source, case, || TomlValue::Boolean(false));
    entry.key.spot = whole_value(source);
    entry.node = node;
}

fn entry<'t>(
    table: &'t mut TomlTable,
    key: &str,
    source: &Arc<SourceText>,
    case: KeyCase,
    absent: impl FnOnce() -> TomlValue,
) -> &'t mut TomlEntry {
    let exact = table.0.iter().position(|entry| entry.key.value == key);
    let folded = || match case {
        KeyCase::Nothing => None,
        KeyCase::Case => table.0.iter().position(|entry| entry.key.value.eq_ignore_ascii_case(key)),
    };
    let index = exact.or_else(folded).unwrap_or_else(|| {
        let key = Located { value: key.to_owned(), spot: whole_value(source) };
        table.0.push(TomlEntry { key, node: Located { value: absent(), spot: whole_value(source) } });
        table.0.len() - 1
    });
    &mut table.0[index]
}

fn source(kind: SourceKind, name: String, text: &str) -> Arc<SourceText> {
    Arc::new(SourceText { kind, name, text: text.to_owned(), dialect: &DIALECT })
}

fn whole_value(source: &Arc<SourceText>) -> Spot {
    Spot::new(source, 0..source.text.len())
}

const LEVELS: &str = "two underscores stand between levels, as in TOLLGATE_STORE__CAPACITY";
const KEY: &str = "write the levels with dots, as in store.capacity";

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(environment: &[(&str, &str)], set: &[(&str, &str)]) -> (TomlTable, Findings) {
        let owned =
            |pairs: &[(&str, &str)]| pairs.iter().map(|&(a, b)| (a.into(), b.into())).collect::<Vec<_>>();
        let (mut root, mut findings) = (TomlTable::default(), Findings::default());
        let sources = Sources { environment: owned(environment), ..Sources::default() };
        merge_environment(&mut root, &sources, &mut findings);
        merge_set(&mut root, &owned(set), &mut findings);
        (root, findings)
    }

    fn value(table: &TomlTable, path: &[&str]) -> Option<TomlValue> {
        let (first, rest) = path.split_first()?;
        match (&table.get(first)?.node.value, rest) {
            (TomlValue::Table(inner), [_, ..]) => value(inner, rest),
            (found, _) => Some(found.clone()),
        }
    }

    #[test]
    fn the_command_line_wins_over_the_environment() {
        let (root, _) = merged(&[("TOLLGATE_STORE__CAPACITY", "1")], &[("store.capacity", "2")]);
        assert!(matches!(value(&root, &["store", "capacity"]), Some(TomlValue::Integer(2))));
    }

    #[test]
    fn quoted_levels_may_hold_dots() {
        let (root, _) = merged(&[], &[("limit.a.rates.\"10.0.0.0/8\"", "off")]);
        assert!(matches!(value(&root, &["limit", "a", "rates", "10.0.0.0/8"]), Some(TomlValue::String(_))));
    }

    #[test]
    fn foreign_variables_are_left_alone() {
        let foreign =
            ["TOLLGATE_CONFIG", "TOLLGATE_PORT_80_TCP", "TOLLGATE_SERVICE_HOST", "PATH", "TOLLGATEX"];
        let (root, findings) = merged(&foreign.map(|name| (name, "x")), &[]);
        assert!(root.0.is_empty() && !findings.has_errors());
    }

    #[test]
    fn a_name_in_capitals_finds_the_name_in_the_file() {
        let (root, _) = merged(&[("TOLLGATE_LIMIT__WHOIS__RATE", "1/s")], &[("limit.Whois.rate", "2/s")]);
        assert!(value(&root, &["limit", "whois"]).is_some());
        let mut root = merged(&[], &[("limit.Whois.rate", "2/s")]).0;
        let environment = vec![("TOLLGATE_LIMIT__WHOIS__RATE".to_owned(), "1/s".to_owned())];
        let sources = Sources { environment, ..Sources::default() };
        merge_environment(&mut root, &sources, &mut Findings::default());
        assert!(
            matches!(value(&root, &["limit", "Whois", "rate"]), Some(TomlValue::String(rate)) if rate == "1/s")
        );
    }

    #[test]
    fn what_names_nothing_is_refused() {
        for key in ["", "a b", "a..b", "a=b", "a\nb = 1\n", "a = {b", "[x]", "a#"] {
            assert!(merged(&[], &[(key, "1")]).1.has_errors(), "{key:?}");
        }
        assert!(merged(&[("TOLLGATE_", "1")], &[]).1.has_errors());
        assert!(merged(&[("TOLLGATE_A____B", "1")], &[]).1.has_errors());
        assert!(merged(&[], &[("a", "1"), ("a.b", "1")]).1.has_errors());
    }
}
