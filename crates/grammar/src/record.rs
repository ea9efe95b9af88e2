//! JSON objects whose fields are declared once: for those who write them, for those who read them, and for schemas.

use std::collections::BTreeMap;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::schema::{Others, Schema, Types};

/// Declares JSON objects.
///
/// Each line is a field: its name, its name in JSON if that is another one, and its type. All fields are there, but for those of
/// type [`Optional`]; readers take what is missing for empty, as from an older program.
#[macro_export]
macro_rules! records {
    ($(
        $(#[doc = $about:literal])*
        $vis:vis $record:ident {
            $($(#[doc = $note:literal])* $field:ident $(($key:literal))?: $kind:ty,)*
        }
    )*) => {$(
        $(#[doc = $about])*
        #[derive(Debug, Clone, Default, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(default)]
        $vis struct $record {
            $(
                $(#[doc = $note])*
                $(#[serde(rename = $key)])?
                #[serde(skip_serializing_if = "tollgate_grammar::record::is_absent")]
                $vis $field: $kind,
            )*
        }

        impl $crate::record::Described for $record {
            fn schema(found: &mut $crate::record::Schemas) -> $crate::schema::Schema {
                let name = stringify!($record);
                if found.begin(name) {
                    let fields = vec![$($crate::record::RecordField {
                        name: $crate::tables!(@key $field $($key)?),
                        about: concat!($($note),*),
                        schema: <$kind as $crate::record::Described>::schema(found),
                        is_optional: <$kind as $crate::record::Described>::IS_OPTIONAL,
                    }),*];
                    found.add(name, concat!($($about),*), fields);
                }
                $crate::schema::Schema::reference(name)
            }
        }
    )*};
}

/// A type of JSON values that can describe itself.
pub trait Described {
    /// Whether it may be left out.
    const IS_OPTIONAL: bool = false;

    /// Its schema; objects are put into `found` and referred to.
    fn schema(found: &mut Schemas) -> Schema;

    /// Whether this one is left out.
    fn is_absent(&self) -> bool {
        false
    }
}

/// Whether a field is left out.
pub fn is_absent<T: Described>(value: &T) -> bool {
    value.is_absent()
}

/// A field that may be left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Optional<T>(pub Option<T>);

impl<T> Default for Optional<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Deref for Optional<T> {
    type Target = Option<T>;

    fn deref(&self) -> &Option<T> {
        &self.0
    }
}

impl<T> From<Option<T>> for Optional<T> {
    fn from(value: Option<T>) -> Self {
        Self(value)
    }
}

/// The schemas of objects, by their names.
#[derive(Debug, Default)]
pub struct Schemas(BTreeMap<&'static str, Schema>);

/// A field of an object.
pub struct RecordField {
    /// Its name in JSON.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// What it holds.
    pub schema: Schema,
    /// Whether it may be left out.
    pub is_optional: bool,
}

impl Schemas {
    /// Whether an object is new; it is known from now on.
    pub fn begin(&mut self, name: &'static str) -> bool {
        self.0.insert(name, Schema::default()).is_none()
    }

    /// Adds an object that [began](Self::begin).
    pub fn add(&mut self, name: &'static str, about: &'static str, fields: Vec<RecordField>) {
        let required = fields.iter().filter(|field| !field.is_optional).map(|field| field.name).collect();
        let described = |field: RecordField| {
            let description = Some(field.about.trim().to_owned());
            (field.name, Schema { description, ..field.schema })
        };
        let table = Schema::table(fields.into_iter().map(described).collect());
        let description = Some(about.trim().to_owned());
        self.0.insert(name, Schema { description, required: Some(required), ..table });
    }

    /// All of them.
    #[must_use]
    pub fn into_map(self) -> BTreeMap<&'static str, Schema> {
        self.0
    }
}

impl Described for String {
    fn schema(_: &mut Schemas) -> Schema {
        Schema::string()
    }
}

impl Described for bool {
    fn schema(_: &mut Schemas) -> Schema {
        Schema::boolean()
    }
}

impl Described for f64 {
    fn schema(_: &mut Schemas) -> Schema {
        Schema { types: Some(Types::One("number")), ..Schema::default() }
    }
}

impl Described for i64 {
    fn schema(_: &mut Schemas) -> Schema {
        Schema { types: Some(Types::One("integer")), ..Schema::default() }
    }
}

macro_rules! whole {
    ($($number:ty),*) => {$(
        impl Described for $number {
            fn schema(_: &mut Schemas) -> Schema {
                let minimum = Some(0.into());
                Schema { types: Some(Types::One("integer")), minimum, ..Schema::default() }
            }
        }
    )*};
}

whole!(u16, u32, u64, usize);

impl<T: Described> Described for Vec<T> {
    fn schema(found: &mut Schemas) -> Schema {
        let items = Some(Box::new(T::schema(found)));
        Schema { types: Some(Types::One("array")), items, ..Schema::default() }
    }
}

/// `null` for none.
impl<T: Described> Described for Option<T> {
    fn schema(found: &mut Schemas) -> Schema {
        let null = Schema { types: Some(Types::One("null")), ..Schema::default() };
        Schema::any_of(vec![T::schema(found), null])
    }
}

impl<T: Described> Described for Optional<T> {
    const IS_OPTIONAL: bool = true;

    fn schema(found: &mut Schemas) -> Schema {
        T::schema(found)
    }

    fn is_absent(&self) -> bool {
        self.0.is_none()
    }
}

impl<T: Described> Described for BTreeMap<String, T> {
    fn schema(found: &mut Schemas) -> Schema {
        let additional_properties = Some(Others::Fit(Box::new(T::schema(found))));
        Schema { types: Some(Types::One("object")), additional_properties, ..Schema::default() }
    }
}
