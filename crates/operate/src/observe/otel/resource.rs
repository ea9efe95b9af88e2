//! What spans and metrics have in common: the resource that they are about, their scope, and the form of attributes.

use std::hash::{BuildHasher, RandomState};

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;

/// This gate, by OpenTelemetry's conventions for services. The instance differs for each process.
pub(super) fn resource() -> Resource {
    // The standard library seeds each `RandomState` from the operating system's randomness.
    let random = || RandomState::new().hash_one(0_u8);
    let instance = format!("{:016x}{:016x}", random(), random());
    let attributes = vec![
        text("service.name", "tollgate"),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("service.instance.id", &instance),
    ];
    Resource { attributes, ..Resource::default() }
}

/// What recorded them.
pub(super) fn scope() -> InstrumentationScope {
    let (name, version) = ("tollgate".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    InstrumentationScope { name, version, ..InstrumentationScope::default() }
}

/// A text, cut off after 1,024 bytes: a waiting span must not hold a client's long header.
pub(super) fn text(key: &str, value: &str) -> KeyValue {
    let end = (0..=value.len().min(MAX_VALUE_LEN)).rev().find(|&end| value.is_char_boundary(end));
    let value = value.get(..end.unwrap_or(0)).unwrap_or_default();
    attribute(key, Value::StringValue(value.to_owned()))
}

/// Whether something is so.
pub(super) fn boolean(key: &str, value: bool) -> KeyValue {
    attribute(key, Value::BoolValue(value))
}

/// A number with a fraction.
pub(super) fn double(key: &str, value: f64) -> KeyValue {
    attribute(key, Value::DoubleValue(value))
}

/// A number.
pub(super) fn number(key: &str, value: i64) -> KeyValue {
    attribute(key, Value::IntValue(value))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

const MAX_VALUE_LEN: usize = 1_024;
