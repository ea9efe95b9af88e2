//! `401`, `"4xx"` or a list of them: the statuses of answers.

use std::ops::RangeInclusive;

use tollgate_grammar::document::TomlValue;
use tollgate_grammar::kind::Kind;
use tollgate_grammar::schema::Schema;
use tollgate_grammar::{Findings, Located};

use crate::policy::response::Statuses;

/// Statuses of answers.
pub enum StatusKind {}

impl Kind for StatusKind {
    type Raw = TomlValue;
    type Value = Statuses;

    fn schema() -> Schema {
        let code = Schema::whole(100, 599);
        let status = Schema::any_of(vec![code, Schema::pattern("^[1-5][xX]{2}$")]);
        Schema::one_or_more(status)
    }

    fn check(node: &Located<TomlValue>, f: &mut Findings) -> Option<Statuses> {
        let nodes = match &node.value {
            TomlValue::List(nodes) => nodes.as_slice(),
            _ => std::slice::from_ref(node),
        };
        if nodes.is_empty() {
            f.error(&node.spot, "`status` is empty", "leave it out to mean any");
            return None;
        }
        let ranges: Vec<_> = nodes.iter().map(|node| range(node, f)).collect();
        ranges.into_iter().collect()
    }
}

fn range(node: &Located<TomlValue>, f: &mut Findings) -> Option<RangeInclusive<u16>> {
    let code = match &node.value {
        TomlValue::Integer(code) => u16::try_from(*code).ok().map(|code| code..=code),
        TomlValue::String(class) => class_of(class),
        _ => None,
    };
    let range = code.filter(|range| (100..=599).contains(range.start()));
    if range.is_none() {
        let known = matches!(&node.value, TomlValue::String(word) if word.parse::<u16>().is_ok());
        let hint = if known { "write it without quotes" } else { "100 to 599, or a class as in \"4xx\"" };
        f.error(&node.spot, format!("{} is not a status", node.spot.text()), hint);
    }
    range
}

/// `4xx` as its codes.
fn class_of(word: &str) -> Option<RangeInclusive<u16>> {
    let class: u16 = word.strip_suffix("xx").or_else(|| word.strip_suffix("XX"))?.parse().ok()?;
    let first = class.checked_mul(100)?;
    Some(first..=first.checked_add(99)?)
}
