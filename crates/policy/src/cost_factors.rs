//! As how many times its cost a route charges an attempt, by what its [defences](super::Defence) noted.

use super::limit::{Limit, LimitKind};

/// As how many times its cost a route charges an attempt, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CostFactors {
    /// By its rates.
    pub(super) rates: u32,
    /// By those of them that are by address.
    pub(super) addresses: u32,
}

impl CostFactors {
    /// The factor of a limit.
    pub(super) fn of(self, limit: &Limit) -> u32 {
        match limit.kind {
            LimitKind::Rate if limit.charges_weights() => self.rates.max(self.addresses),
            LimitKind::Rate => self.rates,
            _ => 1,
        }
    }
}
