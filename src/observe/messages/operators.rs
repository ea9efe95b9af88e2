//! What operators did, a line for each thing done.
//!
//! None is ever left out. The surprising thing: an account is written as a keyed hash that is another one after the next
//! start, so a log tells which lines are about the same account, and not about which.

use std::fmt::Write;

use tracing::info;

use super::super::client_format::ClientFormatter;
use crate::event::{BucketOwner, BucketsChanged, Change, Operator, OperatorCommand};
use crate::observe::timestamp::rfc3339;

/// Writes what was done by whom.
pub(super) fn write(done: &BucketsChanged<'_>, clients: &ClientFormatter) {
    let Operator { uid, pid } = done.by;
    let bucket = match done.owner {
        BucketOwner::Client(client) => format!("ip:{}", clients.show(client)),
        BucketOwner::Account(hash) => format!("user:#{hash:012x}"),
    };
    let mut limits = String::new();
    for (at, limit) in done.limits.iter().enumerate() {
        // Writing to memory cannot fail.
        let _ = write!(limits, "{}{limit}", if at > 0 { ", " } else { "" });
    }
    match done.change {
        Change::Credited(tokens) => info!(uid, pid, bucket, limits, tokens, "an operator gave tokens"),
        Change::Reset => info!(uid, pid, bucket, limits, "an operator reset buckets"),
        Change::RateGiven { rate, until } => {
            let (burst, per_token, until) = (rate.burst(), rate.per_token(), rfc3339(until));
            info!(uid, pid, bucket, limits, burst, ?per_token, until, "an operator gave a rate of its own");
        }
        Change::RateEnded => info!(uid, pid, bucket, limits, "an operator ended a rate of its own"),
    }
}

/// Writes what was wanted by whom; what comes of it has lines of its own.
pub(super) fn ordered(order: OperatorCommand, Operator { uid, pid }: Operator) {
    match order {
        OperatorCommand::Reload => info!(uid, pid, "an operator has the configuration read again"),
        OperatorCommand::Drain => info!(uid, pid, "an operator has the gate drain"),
    }
}
