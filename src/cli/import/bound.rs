//! The most attempts of one client, by the old rule and by the one that is written here, as comments.

use super::imported::ImportedLimit;
use crate::config::grouped;

/// Two lines of comments, or one if nothing changes.
pub(super) fn describe(limit: &ImportedLimit) -> Vec<String> {
    let whose = if limit.key == "ip" { "One address" } else { "One bucket" };
    let what = if limit.counts_failures { " failures" } else { "" };
    let words = |most: &dyn Fn(u64) -> u64| {
        let [minute, hour, day] = [60, 3600, 86_400].map(|seconds| grouped(most(seconds)));
        format!("{minute}{what} in a minute, {hour} in an hour, {day} in a day")
    };
    let before = words(&|seconds| limit.old.most(seconds));
    let now = words(&|seconds| limit.rate.most(seconds));
    match before == now {
        true => vec![format!("{whose}, before and now: at most {now}")],
        false => vec![format!("{whose}, before: at most {before}"), format!("{whose}, now: at most {now}")],
    }
}
