//! What an operator sees of single buckets.

use std::sync::Arc;

use ipnet::IpNet;

use super::super::remembered_clients::RememberedCount;
use crate::bucket::{Own, Spec, Verdict};
use crate::policy::{LimitKind, Mode};
use crate::time::Time;

/// The buckets of a client or an account, for an operator.
#[derive(Debug, Clone, Default)]
pub struct BucketReport {
    /// In the order of the file.
    pub buckets: Vec<BucketView>,
    /// Limits that exempt this client.
    pub exempt: Vec<Arc<str>>,
    /// Limits whose keys have parts that the selector does not name.
    pub not_shown: Vec<Arc<str>>,
    /// The clients that are remembered for the account, if the selector names one.
    pub remembered: Vec<RememberedCount>,
    /// The account that the selector names: a keyed hash of 48 bits, as in the log.
    pub account: Option<u64>,
    /// The buckets of rates that a reset has filled.
    pub filled: Option<Vec<FilledBucket>>,
}

/// A bucket that a reset has filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilledBucket {
    /// The limit.
    pub limit: Arc<str>,
    /// The clients that share it, if it is one for addresses.
    pub network: Option<IpNet>,
}

/// One limit's buckets of one client or account.
#[derive(Debug, Clone)]
pub struct BucketView {
    /// The limit.
    pub limit: Arc<str>,
    /// What the limit does with what it decides.
    pub mode: Mode,
    /// The class of clients; empty for the default class.
    pub class: Arc<str>,
    /// The clients that share the bucket, if it is one for addresses.
    pub network: Option<IpNet>,
    /// The tokens.
    pub rate: BucketLevel,
    /// The bucket's own rate, if it has one.
    pub own: Option<Own>,
    /// The end of the ban of the client's prefix, if it has one.
    pub prefix_banned_until: Option<Time>,
    /// Those of its sub-limits.
    pub beside: Vec<(LimitKind, BucketLevel)>,
}

impl BucketView {
    /// The level of a sub-limit.
    #[must_use]
    pub fn level_of(&self, kind: LimitKind) -> Option<BucketLevel> {
        self.beside.iter().find(|(other, _)| *other == kind).map(|(_, level)| *level)
    }

    /// The end of its [ban](Own::ban), if it has one: its only token comes when its rate ends.
    #[must_use]
    pub fn banned_until(&self) -> Option<Time> {
        self.bucket_banned_until().max(self.prefix_banned_until)
    }

    /// The same without a ban of the client's prefix.
    #[must_use]
    pub fn bucket_banned_until(&self) -> Option<Time> {
        let own = self.own.filter(|own| own.rate.burst() == 1)?;
        // Bans of earlier versions have no mark.
        let is_empty = self.rate.verdict.left == 0 && self.rate.verdict.full_at == own.until;
        (own.is_ban() || is_empty).then_some(own.until)
    }

    /// The end of its [exemption](super::super::Engine::exempt), if it has one.
    #[must_use]
    pub fn exempt_until(&self) -> Option<Time> {
        self.own.filter(Own::is_exemption).map(|own| own.until)
    }
}

/// The level of a bucket; reading it takes nothing.
#[derive(Debug, Clone, Copy)]
pub struct BucketLevel {
    /// The specification in force.
    pub spec: Spec,
    /// The verdict on an attempt that costs one token.
    pub verdict: Verdict,
}
