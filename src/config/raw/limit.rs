//! `[limit.NAME]` as written.

use super::super::diagnostic::{Findings, Spot};
use super::super::document::{Located, TomlEntry};
use super::super::section::{KnownKeys, Section, StringList, string};
use super::{OptInteger, OptString, RawNamed, named};

#[derive(Debug)]
pub(in crate::config) struct RawLimit {
    pub(in crate::config) key: OptString,
    pub(in crate::config) rate: OptString,
    /// Whether `rate` is present: one of a wrong type is not missing.
    pub(in crate::config) has_rate: bool,
    pub(in crate::config) exempt: Option<StringList>,
    pub(in crate::config) rates: Vec<RawNamed<Located<String>>>,
    pub(in crate::config) ipv4: OptInteger,
    pub(in crate::config) ipv6: OptInteger,
    pub(in crate::config) mode: OptString,
    pub(in crate::config) initial: OptInteger,
    pub(in crate::config) debt: OptInteger,
    pub(in crate::config) routes: Option<StringList>,
    pub(in crate::config) refill: OptString,
    pub(in crate::config) anchor: OptString,
    pub(in crate::config) rolling: OptString,
    /// Whether `rolling` is present, as for `rate`.
    pub(in crate::config) has_rolling: bool,
    pub(in crate::config) every: OptString,
    pub(in crate::config) floor: OptString,
    pub(in crate::config) wait: OptString,
    pub(in crate::config) count: OptString,
    pub(in crate::config) unit: OptString,
    pub(in crate::config) max_failures: OptInteger,
    /// `None` if the table is absent.
    pub(in crate::config) escalate: Option<RawEscalate>,
}

#[derive(Debug)]
pub(in crate::config) struct RawEscalate {
    pub(in crate::config) after: OptInteger,
    pub(in crate::config) wait: OptString,
    pub(in crate::config) factor: OptInteger,
    pub(in crate::config) max: OptString,
    /// Where the table begins.
    pub(in crate::config) spot: Spot,
}

impl RawLimit {
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
            escalate: section.entry("escalate").map(|entry| RawEscalate::read(entry, f)),
        }
    }
}

impl RawEscalate {
    fn read(entry: &TomlEntry, f: &mut Findings) -> Self {
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

pub(super) const LIMIT: KnownKeys = KnownKeys {
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
const ESCALATE: KnownKeys = KnownKeys { known: &["after", "wait", "factor", "max"], not_built: &[] };
