//! `success`, `failure` and `neutral` of a route as written: a rule about an answer, or a list of them.

use super::super::diagnostic::{Findings, Spot};
use super::super::document::{Located, TomlValue};
use super::super::section::{KnownKeys, Section};
use super::OptString;

#[derive(Debug)]
pub(in super::super) struct RawRule {
    pub(in super::super) status: Option<Located<TomlValue>>,
    pub(in super::super) location: OptString,
    pub(in super::super) set_cookie: OptString,
    pub(in super::super) header: OptString,
    pub(in super::super) json: OptString,
    pub(in super::super) body: OptString,
    pub(in super::super) equals: OptString,
    /// Whether the rule has no keys: a rule with an invalid value is not empty.
    pub(in super::super) is_empty: bool,
    pub(in super::super) spot: Spot,
}

/// The rules under a key of a route; none if there is no such key.
pub(super) fn read(route: &Section<'_>, key: &str, f: &mut Findings) -> Vec<RawRule> {
    let sections = route.tables(key, RULE, f);
    sections.into_iter().map(|(section, spot)| RawRule::read(&section, spot, f)).collect()
}

impl RawRule {
    fn read(section: &Section<'_>, spot: Spot, f: &mut Findings) -> Self {
        Self {
            status: section.entry("status").map(|entry| entry.node.clone()),
            location: section.string("location", f),
            set_cookie: section.string("set_cookie", f),
            header: section.string("header", f),
            json: section.string("json", f),
            body: section.string("body", f),
            equals: section.string("equals", f),
            is_empty: section.is_empty(),
            spot,
        }
    }
}

const RULE: KnownKeys = KnownKeys {
    known: &["status", "location", "set_cookie", "header", "json", "body", "equals"],
    not_built: &[],
};
