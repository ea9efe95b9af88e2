//! Reads the tables of the file: which keys a table has, and of which type the value of each is.
//!
//! [`raw_tables`] declares a table with one line for each key; the type of the field reads the value. The check of the
//! values is left to [`check`](super::check). A failed read has been reported and looks like an absent key.

use super::diagnostic::{Findings, Spot, suggest};
use super::document::{Located, TomlEntry, TomlTable, TomlValue};
use super::values::Mistake;

/// Declares tables of the file. Each line is a key: the field, its name in the file if that is another one, and its type.
macro_rules! raw_tables {
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
    ($($(#[$about:meta])* $table:ident {
        $($(#[$note:meta])* $field:ident $(($key:literal))?: $kind:ty,)*
    })*) => {$(
        $(#[$about])*
        pub(in crate::config) struct $table {
            $($(#[$note])* pub(in crate::config) $field: $kind,)*
        }

        impl RawTable for $table {
            const KEYS: &'static [&'static str] = &[$(raw_tables!(@key $field $($key)?)),*];

            fn keys() -> Vec<(&'static str, KeyType)> {
                vec![$((raw_tables!(@key $field $($key)?), <$kind as FromKey>::key_type())),*]
            }

            fn values(table: &TomlTable, f: &mut Findings) -> Self {
                Self { $($field: FromKey::from_key(table.get(raw_tables!(@key $field $($key)?)), f),)* }
            }
        }
    )*};
}
pub(super) use raw_tables;

/// A table whose keys are known.
pub(super) trait RawTable: Sized {
    /// Its keys, in the order in which hints list them.
    const KEYS: &'static [&'static str];

    /// Its keys with the types of their values.
    fn keys() -> Vec<(&'static str, KeyType)>;

    /// Reads the value of each key.
    fn values(table: &TomlTable, f: &mut Findings) -> Self;

    /// Reads the table, and reports keys that it does not have.
    fn read(table: &TomlTable, f: &mut Findings) -> Self {
        report_unknown(table, Self::KEYS, f);
        Self::values(table, f)
    }
}

/// The type of a key's value, for descriptions of the file.
pub(super) enum KeyType {
    Text,
    /// A string or a list of strings.
    TextList,
    /// A string that may be `${...}`.
    Secret,
    Integer,
    Number,
    Boolean,
    /// The check of this key reads several types.
    Any,
    /// A table with these keys.
    Table(Vec<(&'static str, Self)>),
    /// One such table, or a list of them.
    TableList(Vec<(&'static str, Self)>),
    /// A table whose keys are names of the user's choice.
    Named(Box<Self>),
}

/// What a key becomes, whether it is there or not.
pub(super) trait FromKey {
    fn key_type() -> KeyType;

    fn from_key(entry: Option<&TomlEntry>, f: &mut Findings) -> Self;
}

/// What a key that is there becomes; `None` after a mistake was reported.
pub(super) trait FromEntry: Sized {
    fn entry_type() -> KeyType;

    fn from_entry(entry: &TomlEntry, f: &mut Findings) -> Option<Self>;
}

/// A value of which it matters whether its key is there: one of a wrong type is not missing.
pub(super) struct RawKey<T> {
    pub(super) value: Option<T>,
    /// The spot of the key, if it is there.
    pub(super) key: Option<Spot>,
}

/// An entry whose key is a name of the user's choice.
pub(super) struct RawNamed<T> {
    pub(super) name: Located<String>,
    pub(super) value: T,
}

/// A table of a list.
pub(super) struct RawItem<T> {
    pub(super) value: T,
    pub(super) spot: Spot,
    /// Whether it has no keys at all: one with an invalid value is not empty.
    pub(super) is_empty: bool,
}

/// A string or a list of strings, with the spot of the whole.
#[derive(Debug)]
pub(super) struct StringList {
    pub(super) value: Vec<Located<String>>,
    pub(super) spot: Spot,
    /// Whether the list is written empty. A list whose items have a wrong type has been reported already.
    pub(super) is_empty: bool,
}

/// A string that may be `${...}`. In an override it is the text as written: a secret of digits is no number.
pub(super) struct SecretText(pub(super) String);

impl<T: RawTable> FromKey for T {
    fn key_type() -> KeyType {
        KeyType::Table(T::keys())
    }

    fn from_key(entry: Option<&TomlEntry>, f: &mut Findings) -> Self {
        let table = entry.and_then(|entry| table_of(entry, f));
        Self::read(table.unwrap_or(&TomlTable::default()), f)
    }
}

impl<T: FromEntry> FromKey for Option<T> {
    fn key_type() -> KeyType {
        T::entry_type()
    }

    fn from_key(entry: Option<&TomlEntry>, f: &mut Findings) -> Self {
        T::from_entry(entry?, f)
    }
}

impl<T: FromEntry> FromKey for RawKey<T> {
    fn key_type() -> KeyType {
        T::entry_type()
    }

    fn from_key(entry: Option<&TomlEntry>, f: &mut Findings) -> Self {
        let key = entry.map(|entry| entry.key.spot.clone());
        Self { value: Option::from_key(entry, f), key }
    }
}

/// The entries of a table; none if it is absent.
impl<T: FromEntry> FromKey for Vec<RawNamed<T>> {
    fn key_type() -> KeyType {
        KeyType::Named(Box::new(T::entry_type()))
    }

    fn from_key(entry: Option<&TomlEntry>, f: &mut Findings) -> Self {
        let table = entry.and_then(|entry| table_of(entry, f));
        table
            .into_iter()
            .flat_map(|table| &table.0)
            .filter_map(|entry| RawNamed::from_entry(entry, f))
            .collect()
    }
}

/// One table or a list of them; none if the key is absent.
impl<T: RawTable> FromKey for Vec<RawItem<T>> {
    fn key_type() -> KeyType {
        KeyType::TableList(T::keys())
    }

    fn from_key(entry: Option<&TomlEntry>, f: &mut Findings) -> Self {
        Option::from_key(entry, f).unwrap_or_default()
    }
}

impl<T: RawTable> FromEntry for Vec<RawItem<T>> {
    fn entry_type() -> KeyType {
        KeyType::TableList(T::keys())
    }

    fn from_entry(TomlEntry { key, node }: &TomlEntry, f: &mut Findings) -> Option<Self> {
        let nodes = match &node.value {
            TomlValue::List(nodes) => nodes.as_slice(),
            _ => std::slice::from_ref(node),
        };
        if nodes.is_empty() {
            f.error(&node.spot, format!("`{}` is empty", key.value), "leave it out");
        }
        let items = nodes.iter().filter_map(|node| match &node.value {
            TomlValue::Table(table) => {
                let is_empty = table.0.is_empty();
                Some(RawItem { value: T::read(table, f), spot: node.spot.clone(), is_empty })
            }
            other => {
                let message = format!("{} where a table belongs", other.kind());
                f.error(&node.spot, message, "as in { name = value }, or a list of such");
                None
            }
        });
        Some(items.collect())
    }
}

impl<T: RawTable> FromEntry for T {
    fn entry_type() -> KeyType {
        KeyType::Table(T::keys())
    }

    fn from_entry(entry: &TomlEntry, f: &mut Findings) -> Option<Self> {
        Some(Self::from_key(Some(entry), f))
    }
}

impl<T: FromEntry> FromEntry for RawNamed<T> {
    fn entry_type() -> KeyType {
        T::entry_type()
    }

    fn from_entry(entry: &TomlEntry, f: &mut Findings) -> Option<Self> {
        Some(Self { name: entry.key.clone(), value: T::from_entry(entry, f)? })
    }
}

impl FromEntry for StringList {
    fn entry_type() -> KeyType {
        KeyType::TextList
    }

    fn from_entry(entry: &TomlEntry, f: &mut Findings) -> Option<Self> {
        Some(strings(&entry.node, f))
    }
}

impl FromEntry for Located<String> {
    fn entry_type() -> KeyType {
        KeyType::Text
    }

    fn from_entry(entry: &TomlEntry, f: &mut Findings) -> Option<Self> {
        string(&entry.node, f)
    }
}

impl FromEntry for Located<SecretText> {
    fn entry_type() -> KeyType {
        KeyType::Secret
    }

    fn from_entry(TomlEntry { node, .. }: &TomlEntry, f: &mut Findings) -> Option<Self> {
        match &node.value {
            TomlValue::String(text) => Some(node.with(SecretText(text.clone()))),
            _ if !node.spot.is_in_file() => Some(node.with(SecretText(node.spot.text().to_owned()))),
            _ => wrong_type(node, "a string", f),
        }
    }
}

impl FromEntry for Located<i64> {
    fn entry_type() -> KeyType {
        KeyType::Integer
    }

    fn from_entry(TomlEntry { node, .. }: &TomlEntry, f: &mut Findings) -> Option<Self> {
        match node.value {
            TomlValue::Integer(value) => Some(node.with(value)),
            _ => wrong_type(node, "an integer", f),
        }
    }
}

impl FromEntry for Located<bool> {
    fn entry_type() -> KeyType {
        KeyType::Boolean
    }

    fn from_entry(TomlEntry { node, .. }: &TomlEntry, f: &mut Findings) -> Option<Self> {
        match node.value {
            TomlValue::Boolean(value) => Some(node.with(value)),
            _ => wrong_type(node, "true or false", f),
        }
    }
}

impl FromEntry for Located<f64> {
    fn entry_type() -> KeyType {
        KeyType::Number
    }

    fn from_entry(TomlEntry { node, .. }: &TomlEntry, f: &mut Findings) -> Option<Self> {
        match node.value {
            TomlValue::Float(value) => Some(node.with(value)),
            // A value beyond 32 bits exceeds the bounds of every key.
            TomlValue::Integer(value) => {
                Some(node.with(i32::try_from(value).map_or(f64::INFINITY, f64::from)))
            }
            _ => wrong_type(node, "a number", f),
        }
    }
}

/// A value of any type, as written.
impl FromEntry for Located<TomlValue> {
    fn entry_type() -> KeyType {
        KeyType::Any
    }

    fn from_entry(entry: &TomlEntry, _: &mut Findings) -> Option<Self> {
        Some(entry.node.clone())
    }
}

fn report_unknown(table: &TomlTable, known: &[&'static str], f: &mut Findings) {
    for TomlEntry { key, .. } in &table.0 {
        let name = key.value.as_str();
        if !known.contains(&name) {
            let hint = match name {
                // TOML has no way back to the top level once a table has begun, which surprises most people once.
                "listen" | "upstream" => MOVE_UP.to_owned(),
                _ => suggest(name, known.iter().copied()),
            };
            f.error(&key.spot, format!("unknown key `{name}`"), hint);
        }
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
    Some(node.with(text.clone()))
}

/// A single value may stand where a list is allowed.
fn strings(node: &Located<TomlValue>, findings: &mut Findings) -> StringList {
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

/// The table that an entry holds.
pub(super) fn table_of<'t>(entry: &'t TomlEntry, findings: &mut Findings) -> Option<&'t TomlTable> {
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

const NO_SECRET: &str =
    "write the value itself: secrets are `admin.token`, `device.secret`, `store.secret` and `store.url`";
const MOVE_UP: &str = "it belongs at the top of the file, before the first table";
