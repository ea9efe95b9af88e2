//! The messages of the summary.
//!
//! All are of level `info`: a limit that refuses does what it is for.

use std::sync::atomic::Ordering::Relaxed;

use tracing::info;

use super::{NEVER, OngoingRefusals};
use crate::observe::timestamp::rfc3339;
use crate::time::Time;

/// The first refusal.
pub(super) fn begin(ongoing: &OngoingRefusals) {
    let OngoingRefusals { party, limit, .. } = ongoing;
    let limit = &**limit;
    match (ongoing.is_account, ongoing.is_observed) {
        (false, false) => info!(limit, client = party, "refuses a client"),
        (true, false) => info!(limit, account = party, "refuses an account"),
        (false, true) => info!(limit, client = party, "would refuse a client"),
        (true, true) => info!(limit, account = party, "would refuse an account"),
    }
}

/// The last refusal was a while ago, or the process ends.
pub(super) fn end(over: &OngoingRefusals) {
    let OngoingRefusals { party, limit, .. } = over;
    let (limit, refusals) = (&**limit, over.count.load(Relaxed));
    let (first, last) = (rfc3339(over.first), rfc3339(Time::from_nanos(over.last.load(Relaxed))));
    let wait = match over.longest_wait.load(Relaxed) {
        NEVER => "until an operator or a success ends it".to_owned(),
        nanos => format!("{}s", nanos.div_ceil(1_000_000_000)),
    };
    let (client, account) = match over.is_account {
        true => (None, Some(party)),
        false => (Some(party), None),
    };
    match over.is_observed {
        false => {
            info!(limit, client, account, refusals, first, last, longest_wait = wait, "refused, now quiet")
        }
        true => {
            info!(
                limit,
                client,
                account,
                refusals,
                first,
                last,
                longest_wait = wait,
                "would have refused, now quiet"
            );
        }
    }
}

/// Refusals of clients and accounts without their own lines.
pub(super) fn others(refusals: u64, parties: u64, is_observed: bool) {
    match is_observed {
        false => info!(refusals, "and about {parties} other clients or accounts were refused"),
        true => info!(refusals, "and about {parties} other clients or accounts would have been refused"),
    }
}
