//! What a schema says of a value: the part of JSON Schema (draft 7) that configurations need.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// A schema. Fields that are `None` or empty say nothing.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Schema {
    /// `$schema`, of the whole.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub dialect: Option<&'static str>,
    /// `$id`, of the whole.
    #[serde(rename = "$id", skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Another schema, which this one is.
    #[serde(rename = "$ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The title of the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<&'static str>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The type, or several.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub types: Option<Types>,
    /// The words that it may be.
    #[serde(rename = "enum", skip_serializing_if = "Option::is_none")]
    pub words: Option<Vec<&'static str>>,
    /// A regular expression that a string fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// What it may not be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not: Option<Box<Self>>,
    /// The least number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<Value>,
    /// The greatest number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<Value>,
    /// One of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub any_of: Vec<Self>,
    /// What the items of a list are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Box<Self>>,
    /// How many items a list has at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_items: Option<u32>,
    /// The keys of a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub properties: Option<BTreeMap<&'static str, Self>>,
    /// What the names of a table's other keys are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub property_names: Option<Box<Self>>,
    /// What those keys hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_properties: Option<Others>,
    /// Keys without which a table means nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<Vec<&'static str>>,
    /// What holds without the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// What it may look like.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Value>,
}

/// A type, or several.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
pub enum Types {
    /// One.
    One(&'static str),
    /// Any of these.
    Any(&'static [&'static str]),
}

/// What the keys of a table hold that are not listed.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Others {
    /// Whether there may be any.
    Allowed(bool),
    /// All of them fit this.
    Fit(Box<Schema>),
}

impl Schema {
    fn of(kind: &'static str) -> Self {
        Self { types: Some(Types::One(kind)), ..Self::default() }
    }

    /// The object of this name, in an OpenAPI document.
    #[must_use]
    pub fn reference(name: &str) -> Self {
        Self { reference: Some(format!("#/components/schemas/{name}")), ..Self::default() }
    }

    /// Any string.
    #[must_use]
    pub fn string() -> Self {
        Self::of("string")
    }

    /// A string that is not a reference to a secret.
    #[must_use]
    pub fn text() -> Self {
        let reference = Self { pattern: Some("^\\$\\{".to_owned()), ..Self::default() };
        Self { not: Some(Box::new(reference)), ..Self::string() }
    }

    /// One of these words.
    #[must_use]
    pub fn words(words: Vec<&'static str>) -> Self {
        Self { words: Some(words), ..Self::string() }
    }

    /// A string that fits a regular expression.
    #[must_use]
    pub fn pattern(pattern: impl Into<String>) -> Self {
        Self { pattern: Some(pattern.into()), ..Self::string() }
    }

    /// A whole number within bounds.
    #[must_use]
    pub fn whole(least: i64, most: i64) -> Self {
        Self::of("integer").within(least, most)
    }

    /// A number within bounds.
    #[must_use]
    pub fn number(least: f64, most: f64) -> Self {
        Self::of("number").within(least, most)
    }

    fn within(self, least: impl Into<Value>, most: impl Into<Value>) -> Self {
        Self { minimum: Some(least.into()), maximum: Some(most.into()), ..self }
    }

    /// A whole number within bounds, or a list of such.
    #[must_use]
    pub fn wholes(least: i64, most: i64) -> Self {
        let types = Some(Types::Any(&["integer", "array"]));
        let items = Some(Box::new(Self::whole(least, most)));
        Self { types, items, min_items: Some(1), ..Self::default() }.within(least, most)
    }

    /// `true` or `false`.
    #[must_use]
    pub fn boolean() -> Self {
        Self::of("boolean")
    }

    /// Any of these.
    #[must_use]
    pub fn any_of(any_of: Vec<Self>) -> Self {
        Self { any_of, ..Self::default() }
    }

    /// One of these, or a list of them.
    #[must_use]
    pub fn one_or_list(item: Self) -> Self {
        let list = Self { items: Some(Box::new(item.clone())), ..Self::of("array") };
        Self::any_of(vec![item, list])
    }

    /// One of these, or a list of at least one.
    #[must_use]
    pub fn one_or_more(item: Self) -> Self {
        let list = Self { items: Some(Box::new(item.clone())), min_items: Some(1), ..Self::of("array") };
        Self::any_of(vec![item, list])
    }

    /// A table with these keys and no others.
    #[must_use]
    pub fn table(properties: BTreeMap<&'static str, Self>) -> Self {
        let additional_properties = Some(Others::Allowed(false));
        Self { properties: Some(properties), additional_properties, ..Self::of("object") }
    }

    /// A table whose keys are names that fit a regular expression.
    #[must_use]
    pub fn named(names: &str, entry: Self) -> Self {
        let names = Self { pattern: Some(names.to_owned()), ..Self::default() };
        Self {
            property_names: Some(Box::new(names)),
            additional_properties: Some(Others::Fit(Box::new(entry))),
            ..Self::of("object")
        }
    }
}
