//! `[limit.NAME]` as it was written.

use super::super::diagnostic::{Findings, Spot};
use super::super::document::{Entry, Located};
use super::super::section::{Keys, List, Section, string};
use super::{Integer, Named, Text, named};

#[derive(Debug)]
pub(in crate::config) struct Limit {
    pub(in crate::config) key: Text,
    pub(in crate::config) rate: Text,
    /// Whether `rate` stands there at all: one of the wrong type is not missing.
    pub(in crate::config) has_rate: bool,
    pub(in crate::config) exempt: Option<List>,
    pub(in crate::config) rates: Vec<Named<Located<String>>>,
    pub(in crate::config) ipv4: Integer,
    pub(in crate::config) ipv6: Integer,
    pub(in crate::config) mode: Text,
    pub(in crate::config) initial: Integer,
    pub(in crate::config) debt: Integer,
    pub(in crate::config) routes: Option<List>,
    pub(in crate::config) refill: Text,
    pub(in crate::config) anchor: Text,
    pub(in crate::config) rolling: Text,
    /// Whether `rolling` stands there at all, as for `rate`.
    pub(in crate::config) has_rolling: bool,
    pub(in crate::config) every: Text,
    pub(in crate::config) floor: Text,
    pub(in crate::config) wait: Text,
    pub(in crate::config) count: Text,
    pub(in crate::config) unit: Text,
    pub(in crate::config) max_failures: Integer,
    /// Only if it stands there.
    pub(in crate::config) escalate: Option<Escalate>,
}

#[derive(Debug)]
pub(in crate::config) struct Escalate {
    pub(in crate::config) after: Integer,
    pub(in crate::config) wait: Text,
    pub(in crate::config) factor: Integer,
    pub(in crate::config) max: Text,
    /// Where the table begins.
    pub(in crate::config) spot: Spot,
}

impl Limit {
    pub(super) fn read(section: &Section<'_>, f: &mut Findings) -> Self {
        let rates = section.named("rates", f).iter();
        let rates = rates.filter_map(|entry| Some(named(entry, string(&entry.node, f)?))).collect();
        Self {
            key: section.string("key", f),
            rate: section.string("rate", f),
            has_rate: section.entry("rate").is_some(),
            exempt: section.strings("exempt", f),
            rates,
            ipv4: section.integer("ipv4", f),
            ipv6: section.integer("ipv6", f),
            mode: section.string("mode", f),
            initial: section.integer("initial", f),
            debt: section.integer("debt", f),
            routes: section.strings("routes", f),
            refill: section.string("refill", f),
            anchor: section.string("anchor", f),
            rolling: section.string("rolling", f),
            has_rolling: section.entry("rolling").is_some(),
            every: section.string("every", f),
            floor: section.string("floor", f),
            wait: section.string("wait", f),
            count: section.string("count", f),
            unit: section.string("unit", f),
            max_failures: section.integer("max_failures", f),
            escalate: section.entry("escalate").map(|entry| Escalate::read(entry, f)),
        }
    }
}

impl Escalate {
    fn read(entry: &Entry, f: &mut Findings) -> Self {
        let section = Section::of(entry, ESCALATE, f);
        Self {
            after: section.integer("after", f),
            wait: section.string("wait", f),
            factor: section.integer("factor", f),
            max: section.string("max", f),
            spot: entry.key.spot.clone(),
        }
    }
}

pub(super) const LIMIT: Keys = Keys {
    known: &[
        "key",
        "rate",
        "exempt",
        "rates",
        "ipv4",
        "ipv6",
        "mode",
        "initial",
        "debt",
        "routes",
        "refill",
        "anchor",
        "rolling",
        "every",
        "floor",
        "wait",
        "count",
        "unit",
        "max_failures",
        "escalate",
    ],
    not_built: &[],
};
const ESCALATE: Keys = Keys { known: &["after", "wait", "factor", "max"], not_built: &[] };
