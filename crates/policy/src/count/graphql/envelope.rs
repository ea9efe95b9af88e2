//! Requests as JSON: `{"query": "..."}`, or an array of these.
//!
//! It builds no tree of what it does not need.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::{added, document};
use crate::field::is_too_deep;

/// The number of these fields in the document of a request, or in those of a batch: `Some(None)` if one has no document
/// that is seen here, or nests too deep; `None` if the text is no JSON.
pub(super) fn count(text: &[u8], fields: &[String]) -> Option<Option<u32>> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let found = Requests { fields, is_in_batch: false }.deserialize(&mut json).ok()?;
    json.end().ok()?;
    // A document without an envelope may nest deeper: its reader keeps no levels.
    Some(found.filter(|_| !is_too_deep(text)))
}

/// One request, or several.
#[derive(Clone, Copy)]
struct Requests<'f> {
    fields: &'f [String],
    is_in_batch: bool,
}

impl<'de> DeserializeSeed<'de> for Requests<'_> {
    type Value = Option<u32>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Option<u32>, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Requests<'_> {
    type Value = Option<u32>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request, or an array of requests")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut requests: A) -> Result<Option<u32>, A::Error> {
        if self.is_in_batch {
            return Err(A::Error::custom("an array in an array"));
        }
        let mut sum = Some(0_u32);
        while let Some(found) = requests.next_element_seed(Self { is_in_batch: true, ..self })? {
            sum = sum.zip(found).map(|(sum, found)| sum.saturating_add(found));
        }
        Ok(sum)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Option<u32>, A::Error> {
        let (mut found, mut is_persisted) = (None, false);
        while let Some(name) = members.next_key::<String>()? {
            if name.eq_ignore_ascii_case("query") {
                let query: Value = members.next_value()?;
                let counted = query.as_str().and_then(|text| document::count(text.as_bytes(), self.fields));
                found = added(found, counted);
            } else if name.eq_ignore_ascii_case("extensions") {
                // A hash of a document that the server may have.
                is_persisted |= members.next_value::<Value>()?.get("persistedQuery").is_some();
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found.filter(|_| !is_persisted))
    }
}
