//! One value of a JSON line, borrowed from the line where it can be.
//!
//! It keeps the first value of an array, as Caddy logs headers, and nothing of an object.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{FieldReader, JsonFields};

/// A value, as far as logs need it.
#[derive(Debug, Default)]
pub(in crate::replay::line) enum JsonValue<'a> {
    #[default]
    Absent,
    Text(Cow<'a, str>),
    Number(f64),
    Boolean(bool),
}

impl<'a> JsonValue<'a> {
    pub(in crate::replay::line) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    pub(in crate::replay::line) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn into_text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        match self {
            Self::Boolean(value) => Some(*value),
            _ => None,
        }
    }

    /// The number, also where it is written as a text.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
            Self::Absent | Self::Boolean(_) => None,
        }
    }
}

impl<'a> From<Cow<'a, str>> for JsonValue<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for JsonValue<'_> {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for JsonValue<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueReader)
    }
}

struct ValueReader;

impl<'de> Visitor<'de> for ValueReader {
    type Value = JsonValue<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(JsonValue::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(JsonValue::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        Ok(JsonValue::Number(number))
    }

    #[expect(clippy::cast_precision_loss, reason = "a time to the microsecond fits")]
    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(JsonValue::Number(number as f64))
    }

    #[expect(clippy::cast_precision_loss, reason = "a time to the microsecond fits")]
    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(JsonValue::Number(number as f64))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(JsonValue::Boolean(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(JsonValue::Absent)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let first = sequence.next_element()?.unwrap_or_default();
        while sequence.next_element::<IgnoredAny>()?.is_some() {}
        Ok(first)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(JsonValue::Absent)
    }
}

/// `request`: a request line, or an object with its own fields.
pub(super) struct RequestSeed<'f, 'a>(pub(super) &'f mut JsonFields<'a>);

impl<'de> DeserializeSeed<'de> for RequestSeed<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for RequestSeed<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a request line or an object")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<(), E> {
        self.0.request = JsonValue::Text(Cow::Borrowed(text));
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.0.request = JsonValue::Text(Cow::Owned(text.to_owned()));
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        FieldReader(self.0).visit_map(map)
    }
}

/// The `Location` among the headers of a response.
pub(super) struct LocationSeed<'f, 'a>(pub(super) &'f mut JsonValue<'a>);

impl<'de> DeserializeSeed<'de> for LocationSeed<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for LocationSeed<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object of headers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<JsonValue<'de>>()? {
            match name.text() {
                Some(name) if name.eq_ignore_ascii_case("location") => *self.0 = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}
