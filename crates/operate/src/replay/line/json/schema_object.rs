//! The objects in which OCSF and ECS have the fields of a decision.

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::value::JsonValue;
use super::{FieldReader, JsonFields};

/// An object with fields of a decision.
#[derive(Debug, Clone, Copy)]
pub(super) enum SchemaObject {
    /// Our own fields under their names.
    Own,
    /// The client.
    Source,
    /// The account.
    User,
    /// The request, with its id.
    Request,
    /// An object with the request.
    Http,
}

impl SchemaObject {
    /// The object of this name in a line.
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "unmapped" | "tollgate" => Self::Own,
            "src_endpoint" | "source" => Self::Source,
            "user" => Self::User,
            "http_request" => Self::Request,
            "http" => Self::Http,
            _ => return None,
        })
    }

    /// Reads the object into fields. What is no object is skipped: other programs have other things under such names.
    pub(super) fn reader<'f, 'a>(self, fields: &'f mut JsonFields<'a>) -> SchemaReader<'f, 'a> {
        SchemaReader { object: self, fields }
    }
}

/// Fills fields from an object.
pub(super) struct SchemaReader<'f, 'a> {
    object: SchemaObject,
    fields: &'f mut JsonFields<'a>,
}

impl<'a> SchemaReader<'_, 'a> {
    /// Where the value of this name belongs.
    fn slot(&mut self, name: &str) -> Option<&mut JsonValue<'a>> {
        Some(match (self.object, name) {
            (SchemaObject::Source, "ip" | "uid" | "address") => &mut self.fields.client,
            (SchemaObject::User, "uid" | "hash") => &mut self.fields.account,
            (SchemaObject::Request, "uid" | "id") => &mut self.fields.request_id,
            _ => return None,
        })
    }
}

impl<'de> DeserializeSeed<'de> for SchemaReader<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for SchemaReader<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        if matches!(self.object, SchemaObject::Own) {
            return FieldReader(self.fields).visit_map(map);
        }
        while let Some(name) = map.next_key::<JsonValue<'de>>()? {
            let name = name.text().unwrap_or_default();
            match (self.object, self.slot(name)) {
                (_, Some(slot)) => *slot = map.next_value()?,
                (SchemaObject::Http, None) if name == "request" => {
                    map.next_value_seed(SchemaObject::Request.reader(self.fields))?;
                }
                (_, None) => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        while sequence.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}
