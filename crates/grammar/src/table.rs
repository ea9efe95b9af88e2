//! Declares the tables of a file: which keys a table has, and of which kind the value of each is.
//!
//! [`tables!`](crate::tables) declares a table with one line for each key; the type of the field reads the value. What several
//! keys mean together is left to the caller. A failed read has been reported and looks like an absent key.

use super::diagnostic::{Findings, Spot, suggest};
use super::document::{Located, TomlEntry, TomlTable, TomlValue};
use super::schema::Schema;

/// Declares tables of the file.
///
/// Each line is a key: the field, its name in the file if that is another one, its type, and what is special about it. The
/// comment of a table or a key is its description where the sample file has none. `= Part` is not a key, but another
/// declared table whose keys are in this one.
#[macro_export]
macro_rules! tables {
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
    (@keys $field:ident: $part:ty; $about:expr; Part) => { <$part as $crate::table::RawTable>::keys() };
    (@keys $field:ident $($key:literal)?: $kind:ty; $about:expr; $($special:ident)*) => {
        vec![$crate::table::KeyDeclaration {
            name: $crate::tables!(@key $field $($key)?),
            kind: <$kind as $crate::table::FromKey>::key_type(),
            about: $about,
            traits: &[$($crate::table::KeyTrait::$special),*],
        }]
    };
    (@names $field:ident: $part:ty; Part) => { <$part as $crate::table::RawTable>::key_names() };
    (@names $field:ident $($key:literal)?: $kind:ty; $($special:ident)*) => {
        vec![$crate::tables!(@key $field $($key)?)]
    };
    (@read $field:ident: $part:ty; $table:ident $f:ident; Part) => {
        <$part as $crate::table::RawTable>::values($table, $f)
    };
    (@read $field:ident $($key:literal)?: $kind:ty; $table:ident $f:ident; $($special:ident)*) => {
        $crate::table::FromKey::from_key($table.get($crate::tables!(@key $field $($key)?)), $f)
    };
    ($(
        $(#[doc = $about:literal])*
        $vis:vis $table:ident $((named $names:expr))? $((requires $required:expr))? {
            $($(#[doc = $note:literal])* $field:ident $(($key:literal))?: $kind:ty $(= $($special:ident)+)?,)*
        }
    )*) => {$(
        $(#[doc = $about])*
        #[allow(missing_docs, reason = "the type of a key says what it holds")]
        $vis struct $table {
            $($(#[doc = $note])* $vis $field: $kind,)*
        }

        impl $crate::table::RawTable for $table {
            const ABOUT: &'static str = concat!($($about),*);
            $(const NAMES: &'static str = $names;)?
            $(const REQUIRED: &'static [&'static str] = &$required;)?

            fn keys() -> Vec<$crate::table::KeyDeclaration> {
                [$($crate::tables!(
                    @keys $field $($key)?: $kind; concat!($($note),*); $($($special)+)?
                )),*]
                .into_iter()
                .flatten()
                .collect()
            }

            fn key_names() -> Vec<&'static str> {
                [$($crate::tables!(@names $field $($key)?: $kind; $($($special)+)?)),*].concat()
            }

            fn values(table: &$crate::document::TomlTable, f: &mut $crate::diagnostic::Findings) -> Self {
                Self {
                    $($field: $crate::tables!(
                        @read $field $($key)?: $kind; table f; $($($special)+)?
                    ),)*
                }
            }
        }
    )*};
}

/// A table whose keys are known.
pub trait RawTable: Sized {
    /// What it is for.
    const ABOUT: &'static str;
    /// The pattern of its names, if it is one of several with names of the user's choice.
    const NAMES: &'static str = ANY_NAME;
    /// Keys without which it means nothing.
    const REQUIRED: &'static [&'static str] = &[];

    /// Its keys with the types of their values, and those of its parts.
    fn keys() -> Vec<KeyDeclaration>;

    /// Their names, in the order in which hints list them.
    fn key_names() -> Vec<&'static str>;

    /// Reads the value of each key.
    fn values(table: &TomlTable, f: &mut Findings) -> Self;

    /// Reads the table, and reports keys that it does not have.
    fn read(table: &TomlTable, f: &mut Findings) -> Self {
        report_unknown(table, &Self::key_names(), f);
        Self::values(table, f)
    }
}

/// The pattern of names that nothing else restricts.
pub const ANY_NAME: &str = "^.+$";

/// A key as it was declared, for descriptions of the file.
pub struct KeyDeclaration {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: KeyType,
    /// What it is for, where the sample says nothing of it.
    pub about: &'static str,
    /// What is special about it.
    pub traits: &'static [KeyTrait],
}

/// What is special about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyTrait {
    /// The value in the sample is an example: without the key there is another one, or none.
    Example,
    /// A table that inherits those of another one may not have it.
    Own,
    /// Tables below it have no `Extra` keys.
    Basic,
    /// Tables below a `Basic` key do not have it.
    Extra,
    /// Next to a `preset` it is of all tables that this makes.
    Common,
}

/// The type of a key's value, for descriptions of the file.
pub enum KeyType {
    /// One value.
    Value(Box<Schema>),
    /// A string that may be `${...}`.
    Secret,
    /// A table.
    Table(TableType),
    /// One such table, or a list of them.
    TableList(TableType),
    /// A table whose keys are names of the user's choice.
    Named {
        /// The pattern of the names.
        names: &'static str,
        /// What each of them holds.
        entry: Box<Self>,
    },
}

/// A table, for descriptions of the file.
pub struct TableType {
    /// What it is for.
    pub about: &'static str,
    /// Its keys.
    pub keys: Vec<KeyDeclaration>,
    /// Keys without which it means nothing.
    pub required: &'static [&'static str],
}

impl TableType {
    /// Of this declaration.
    #[must_use]
    pub fn of<T: RawTable>() -> Self {
        Self { about: T::ABOUT, keys: T::keys(), required: T::REQUIRED }
    }
}

/// What a key becomes, whether it is there or not.
pub trait FromKey: Sized {
    /// Its type.
    fn key_type() -> KeyType;

    /// Reads it; mistakes are reported.
    fn from_key(entry: Option<&TomlEntry>, f: &mut Findings) -> Self;
}

/// What a key that is there becomes; `None` after a mistake was reported.
pub trait FromEntry: Sized {
    /// Its type.
    fn entry_type() -> KeyType;

    /// The pattern of its names, where it is one of several.
    #[must_use]
    fn names() -> &'static str {
        ANY_NAME
    }

    /// Reads it.
    fn from_entry(entry: &TomlEntry, f: &mut Findings) -> Option<Self>;
}

/// A value of which it matters whether its key is there: one of a wrong type is not missing.
pub struct RawKey<T> {
    /// The value, if it is there and of the right type.
    pub value: Option<T>,
    /// The spot of the key, if it is there.
    pub key: Option<Spot>,
}

/// An entry whose key is a name of the user's choice.
pub struct RawNamed<T> {
    /// Its name.
    pub name: Located<String>,
    /// What it holds.
    pub value: T,
}

/// A table of a list.
pub struct RawItem<T> {
    /// The table.
    pub value: T,
    /// Its place in the file.
    pub spot: Spot,
    /// Whether it has no keys at all: one with an invalid value is not empty.
    pub is_empty: bool,
}

/// A string that may be `${...}`. In an override it is the text as written: digits are not read as a number.
pub struct SecretText(pub String);

impl<T: RawTable> FromKey for T {
    fn key_type() -> KeyType {
        KeyType::Table(TableType::of::<T>())
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
        KeyType::Named { names: T::names(), entry: Box::new(T::entry_type()) }
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
        KeyType::TableList(TableType::of::<T>())
    }

    fn from_key(entry: Option<&TomlEntry>, f: &mut Findings) -> Self {
        Option::from_key(entry, f).unwrap_or_default()
    }
}

impl<T: RawTable> FromEntry for Vec<RawItem<T>> {
    fn entry_type() -> KeyType {
        KeyType::TableList(TableType::of::<T>())
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
        KeyType::Table(TableType::of::<T>())
    }

    fn names() -> &'static str {
        T::NAMES
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

impl<R: FromNode> FromEntry for Located<R> {
    fn entry_type() -> KeyType {
        R::key_type(Schema::default())
    }

    fn from_entry(TomlEntry { node, .. }: &TomlEntry, f: &mut Findings) -> Option<Self> {
        Some(node.with(R::from_node(node, f)?))
    }
}

/// A type of TOML.
pub trait FromNode: Sized {
    /// The value; `None` after a wrong type was reported.
    fn from_node(node: &Located<TomlValue>, f: &mut Findings) -> Option<Self>;

    /// The type of a key with this schema.
    fn key_type(schema: Schema) -> KeyType {
        KeyType::Value(Box::new(schema))
    }
}

impl FromNode for String {
    fn from_node(node: &Located<TomlValue>, f: &mut Findings) -> Option<Self> {
        string(node, f).map(|text| text.value)
    }
}

impl FromNode for SecretText {
    fn from_node(node: &Located<TomlValue>, f: &mut Findings) -> Option<Self> {
        match &node.value {
            TomlValue::String(text) => Some(Self(text.clone())),
            _ if !node.spot.is_in_file() => Some(Self(node.spot.text().to_owned())),
            _ => wrong_type(node, "a string", f),
        }
    }

    fn key_type(_: Schema) -> KeyType {
        KeyType::Secret
    }
}

impl FromNode for i64 {
    fn from_node(node: &Located<TomlValue>, f: &mut Findings) -> Option<Self> {
        match node.value {
            TomlValue::Integer(value) => Some(value),
            _ => wrong_type(node, "an integer", f),
        }
    }
}

impl FromNode for bool {
    fn from_node(node: &Located<TomlValue>, f: &mut Findings) -> Option<Self> {
        match node.value {
            TomlValue::Boolean(value) => Some(value),
            _ => wrong_type(node, "true or false", f),
        }
    }
}

impl FromNode for f64 {
    fn from_node(node: &Located<TomlValue>, f: &mut Findings) -> Option<Self> {
        match node.value {
            TomlValue::Float(value) => Some(value),
            // A value beyond 32 bits exceeds the bounds of every key.
            TomlValue::Integer(value) => Some(i32::try_from(value).map_or(Self::INFINITY, Self::from)),
            _ => wrong_type(node, "a number", f),
        }
    }
}

/// A value of any type, as written.
impl FromNode for TomlValue {
    fn from_node(node: &Located<Self>, _: &mut Findings) -> Option<Self> {
        Some(node.value.clone())
    }
}

fn report_unknown(table: &TomlTable, known: &[&'static str], f: &mut Findings) {
    for TomlEntry { key, .. } in &table.0 {
        let name = key.value.as_str();
        if !known.contains(&name) {
            // TOML has no way back to the top level once a table has begun, which surprises most people once.
            let hint = match key.spot.dialect().top_keys.contains(&name) {
                true => MOVE_UP.to_owned(),
                false => suggest(name, known.iter().copied()),
            };
            f.error(&key.spot, format!("unknown key `{name}`"), hint);
        }
    }
}

/// A string; one that refers to a secret is none.
pub fn string(node: &Located<TomlValue>, findings: &mut Findings) -> Option<Located<String>> {
    let TomlValue::String(text) = &node.value else { return wrong_type(node, "a string", findings) };
    if text.starts_with("${") {
        findings.error(&node.spot, "only a secret may be `${...}`", (node.spot.dialect().no_secret)());
        return None;
    }
    Some(node.with(text.clone()))
}

/// The table that an entry holds.
pub fn table_of<'t>(entry: &'t TomlEntry, findings: &mut Findings) -> Option<&'t TomlTable> {
    match &entry.node.value {
        TomlValue::Table(table) => Some(table),
        other => {
            let message = format!("`{}` is {} where a table belongs", entry.key.value, other.kind());
            findings.error(&entry.node.spot, message, "");
            None
        }
    }
}

/// Reports a value of another type than is wanted.
pub(crate) fn wrong_type<T>(node: &Located<TomlValue>, wanted: &str, findings: &mut Findings) -> Option<T> {
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

const MOVE_UP: &str = "it belongs at the top of the file, before the first table";
