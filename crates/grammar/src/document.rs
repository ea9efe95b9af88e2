//! TOML as a tree in which every key and value knows its spot.
//!
//! Only the shape matters here; [declarations](super::table) know the keys. Entries stay in the order of the file.

use std::sync::Arc;

use toml::de::{DeTable, DeValue, Error};

use super::diagnostic::{Findings, SourceText, Spot};

/// A value and its spot.
#[derive(Debug, Clone)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Its place in the file.
    pub spot: Spot,
}

impl<T> Located<T> {
    /// Another value at the same spot.
    #[must_use]
    pub fn with<U>(&self, value: U) -> Located<U> {
        Located { value, spot: self.spot.clone() }
    }
}

/// A table's entries, in the order of the file.
#[derive(Debug, Clone, Default)]
pub struct TomlTable(pub Vec<TomlEntry>);

/// A key and its value.
#[derive(Debug, Clone)]
pub struct TomlEntry {
    /// The key.
    pub key: Located<String>,
    /// Its value.
    pub node: Located<TomlValue>,
}

/// A value.
#[derive(Debug, Clone)]
pub enum TomlValue {
    /// A string.
    String(String),
    /// Clamped to 64 bits, so that the bounds of the key refuse it.
    Integer(i64),
    /// A fraction.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// A date or a time of day.
    Datetime,
    /// A list.
    List(Vec<Located<Self>>),
    /// A table.
    Table(TomlTable),
}

impl TomlValue {
    /// The kind with its article, for "... where a string belongs".
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::String(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a fraction",
            Self::Boolean(_) => "a boolean",
            Self::Datetime => "a date",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

impl TomlTable {
    /// The entry of this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&TomlEntry> {
        self.0.iter().find(|entry| entry.key.value == key)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut TomlEntry> {
        self.0.iter_mut().find(|entry| entry.key.value == key)
    }

    /// Parses a source as a table; `None` if a syntax error leaves its meaning open.
    ///
    /// It reports all syntax errors at once. A repeated key does not hide the other mistakes, so the rest is still
    /// checked.
    pub fn parse(source: &Arc<SourceText>, findings: &mut Findings) -> Option<Self> {
        let (table, errors) = DeTable::parse_recoverable(&source.text);
        for error in &errors {
            report(error, source, findings);
        }
        errors.iter().all(|error| error.message() == REPEATED).then(|| convert_table(table.get_ref(), source))
    }
}

/// Parses one value alone; text that is not TOML is a string.
#[must_use]
pub fn parse_value(source: &Arc<SourceText>) -> Located<TomlValue> {
    match DeValue::parse(&source.text) {
        Ok(value) => convert(value.get_ref(), Spot::new(source, value.span()), source),
        Err(_) => Located {
            value: TomlValue::String(source.text.clone()),
            spot: Spot::new(source, 0..source.text.len()),
        },
    }
}

fn report(error: &Error, source: &Arc<SourceText>, findings: &mut Findings) {
    let spot = error.span().map_or_else(|| Spot::whole(source), |range| Spot::new(source, range));
    let (message, hint) = match error.message().split_once(", expected ") {
        Some((UNQUOTED, _)) if spot.text().is_empty() => ("a value is missing", "write one".to_owned()),
        Some((UNQUOTED, _)) => (UNQUOTED, "put it in quotes".to_owned()),
        Some((message, expected)) => (message, format!("expected {expected}")),
        None if error.message() == REPEATED => (REPEATED, "it is there already".to_owned()),
        None => (error.message(), String::new()),
    };
    findings.error(&spot, message, hint);
}

fn convert_table(table: &DeTable<'_>, source: &Arc<SourceText>) -> TomlTable {
    let entries = table.iter().map(|(key, value)| TomlEntry {
        key: Located { value: key.get_ref().to_string(), spot: Spot::new(source, key.span()) },
        node: convert(value.get_ref(), Spot::new(source, value.span()), source),
    });
    let mut entries: Vec<TomlEntry> = entries.collect();
    entries.sort_by_key(|entry| entry.key.spot.start());
    TomlTable(entries)
}

fn convert(value: &DeValue<'_>, spot: Spot, source: &Arc<SourceText>) -> Located<TomlValue> {
    let value = match value {
        DeValue::String(text) => TomlValue::String(text.to_string()),
        DeValue::Integer(integer) => TomlValue::Integer(nearest_integer(integer.as_str(), integer.radix())),
        DeValue::Float(float) => TomlValue::Float(float.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => TomlValue::Boolean(*value),
        DeValue::Datetime(_) => TomlValue::Datetime,
        DeValue::Array(items) => TomlValue::List(
            items
                .iter()
                .map(|item| convert(item.get_ref(), Spot::new(source, item.span()), source))
                .collect(),
        ),
        DeValue::Table(table) => TomlValue::Table(convert_table(table, source)),
    };
    Located { value, spot }
}

fn nearest_integer(digits: &str, radix: u32) -> i64 {
    let beyond = if digits.starts_with('-') { i64::MIN } else { i64::MAX };
    i64::from_str_radix(digits, radix).unwrap_or(beyond)
}

// Messages of the `toml` crate.
const REPEATED: &str = "duplicate key";
const UNQUOTED: &str = "string values must be quoted";

#[cfg(test)]
mod tests {
    use super::super::diagnostic::{Dialect, SourceKind};
    use super::*;

    fn parse(text: &str) -> (Option<TomlTable>, Findings) {
        let source = Arc::new(SourceText {
            kind: SourceKind::File,
            name: "f".into(),
            text: text.into(),
            dialect: &Dialect::PLAIN,
        });
        let mut findings = Findings::default();
        (TomlTable::parse(&source, &mut findings), findings)
    }

    #[test]
    fn tables_keep_the_order_of_the_file() {
        let (table, _) = parse("[route.z]\na = 1\n[limit.x]\n[route.b]\n[route.a]\n");
        let table = table.unwrap();
        let names =
            |table: &TomlTable| table.0.iter().map(|entry| entry.key.value.clone()).collect::<Vec<_>>();
        assert_eq!(names(&table), ["route", "limit"]);
        let TomlValue::Table(routes) = &table.0[0].node.value else { panic!("a table") };
        assert_eq!(names(routes), ["z", "b", "a"]);
    }

    #[test]
    fn a_broken_text_reports_every_error_and_is_judged_no_further() {
        let (table, findings) = parse("a = \nb = \"x\nc = 1\n");
        assert!(table.is_none());
        assert_eq!(findings.sorted().len(), 2);
    }

    #[test]
    fn a_repeated_key_leaves_the_rest_readable() {
        let (table, findings) = parse("a = 1\na = 2\n");
        assert!(table.is_some_and(|table| table.get("a").is_some()));
        assert!(findings.has_errors());
    }

    #[test]
    fn numbers_beyond_64_bits_are_the_nearest_that_can_be_said() {
        assert_eq!(nearest_integer("99999999999999999999", 10), i64::MAX);
        assert_eq!(nearest_integer("-99999999999999999999", 10), i64::MIN);
        assert_eq!(nearest_integer("ff", 16), 255);
    }
}
