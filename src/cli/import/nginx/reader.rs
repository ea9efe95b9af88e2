//! What the parts of the reader of nginx share: the file, what is found in it, and what is left to report.

use std::collections::HashMap;

use super::directives::{Directive, Directives};
use super::keys::Variables;
use super::zones::{ZoneDirective, ZoneUse};
use crate::cli::import::imported::{Imported, UniqueNames};

/// Reads one file.
pub(super) struct NginxReader<'f> {
    pub(super) file: &'f Directives,
    pub(super) out: Imported,
    /// Directives that are carried over, or reported one by one.
    pub(super) seen: Vec<bool>,
    pub(super) variables: Variables,
    pub(super) zones: HashMap<String, ZoneDirective>,
    pub(super) limits: HashMap<LimitIdentity, String>,
    pub(super) limit_names: UniqueNames,
    pub(super) route_names: UniqueNames,
    /// Networks that a limit names.
    pub(super) used_networks: Vec<String>,
}

/// What makes one limit: uses of a zone with the same burst share it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LimitIdentity {
    pub(super) zone: ZoneUse,
    pub(super) in_flight: Option<u32>,
    pub(super) is_observed: bool,
}

impl<'f> NginxReader<'f> {
    pub(super) fn new(file: &'f Directives) -> Self {
        let (variables, unread) = Variables::read(file);
        let mut reader = Self {
            file,
            out: Imported::default(),
            seen: vec![false; file.all.len()],
            variables,
            zones: HashMap::new(),
            limits: HashMap::new(),
            limit_names: UniqueNames::default(),
            route_names: UniqueNames::default(),
            used_networks: Vec::new(),
        };
        for entry in unread {
            reader.lose(entry.at, entry.why);
        }
        reader
    }

    pub(super) fn lose(&mut self, at: usize, why: impl Into<String>) {
        let directive = &self.file.all[at];
        self.out.lose(directive.line, directive.text(), why);
        self.seen[at] = true;
    }

    /// The last directive of a name that is in force in a block.
    pub(super) fn setting(&mut self, block: Option<usize>, name: &str) -> Option<&'f Directive> {
        let at = *self.file.in_force(block, name).last()?;
        self.seen[at] = true;
        self.file.all.get(at)
    }
}
