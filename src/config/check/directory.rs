//! `directory` of a limit: what does not go with it.
//!
//! The key makes the whole limit: whom it has buckets for, their size and refill, and what they count. What would make them
//! other than the directory's is a mistake.

use tollgate_grammar::{Findings, RawNamed, Spot};

use super::super::candidate;
use super::super::raw::{RawLimit, RawStore};
use super::context::CheckContext;
use crate::defences::DirectoryBuckets;

/// Whether the limit is for accounts of a directory.
pub(super) fn is_given(raw: &RawLimit) -> bool {
    raw.sub_limits.directory.directory.is_some()
}

/// The buckets of such a limit; `None` for others, or after a mistake was reported.
pub(super) fn check(
    RawNamed { name, value: raw }: &RawNamed<RawLimit>,
    cx: &CheckContext<'_>,
    f: &mut Findings,
) -> Option<DirectoryBuckets> {
    let given = raw.sub_limits.directory.directory.as_ref()?;
    if candidate::live_name(&name.value).is_some() {
        let hint = "leave it out, or add another limit with mode = \"observe\"";
        f.error(&name.spot, "a limit with `directory` has no candidate", hint);
        return None;
    }
    refuse_other_keys(raw, f);
    warn_of_store(&cx.raw.store, raw, &given.spot, f);
    DirectoryBuckets::check(given, f)
}

fn refuse_other_keys(raw: &RawLimit, f: &mut Findings) {
    let key = raw.key.as_ref().filter(|key| key.value != "user");
    if let Some(key) = key {
        f.error(&key.spot, "a directory locks accounts, wherever failures come from", "key = \"user\"");
    }
    if let Some(count) = raw.count.as_ref().filter(|count| count.value == "attempts") {
        f.error(&count.spot, "a directory counts failures only", "count = \"failures\"");
    }
    for (key, spot) in keys_of_buckets(raw) {
        refuse(key, spot, "leave it out: the threshold makes the buckets", f);
    }
    if let Some(unit) = &raw.unit {
        refuse("unit", Some(&unit.spot), "leave it out: a directory counts each failure", f);
    }
    let exempt = raw.exempt.as_ref().map(|list| &list.spot);
    let rates = raw.rates.first().map(|rate| &rate.name.spot);
    for (key, spot) in [("exempt", exempt), ("rates", rates)] {
        refuse(key, spot, "leave it out: failures of these clients lock accounts, too", f);
    }
}

/// The keys that make buckets, with their spots.
fn keys_of_buckets(raw: &RawLimit) -> [(&'static str, Option<&Spot>); 7] {
    [
        ("rate", raw.rate.key.as_ref()),
        ("rolling", raw.rolling.key.as_ref()),
        ("refill", raw.refill.as_ref().map(|text| &text.spot)),
        ("floor", raw.floor.as_ref().map(|text| &text.spot)),
        ("wait", raw.wait.as_ref().map(|text| &text.spot)),
        ("initial", raw.initial.as_ref().map(|number| &number.spot)),
        ("debt", raw.debt.as_ref().map(|number| &number.spot)),
    ]
}

fn refuse(key: &str, spot: Option<&Spot>, hint: &str, f: &mut Findings) {
    if let Some(spot) = spot {
        f.error(spot, format!("`{key}` does not go with `directory`"), hint);
    }
}

/// Warns of a store that forgets what the directory still counts.
fn warn_of_store(store: &RawStore, raw: &RawLimit, directory: &Spot, f: &mut Findings) {
    let is_memory = store.url.as_ref().is_none_or(|url| url.value.0 == "memory:");
    let is_kept = store.snapshot.as_ref().is_some_and(|path| !path.value.is_empty());
    if is_memory && !is_kept {
        let hint = "add [store] with snapshot = \"buckets\", or with the url of a shared store";
        f.warning(directory, "a restart forgets failures that the directory still counts", hint);
    }
    if let Some(on_error) = raw.on_error.as_ref().filter(|on_error| !is_memory && on_error.value != "deny") {
        let message = "while the store is away, all gates together may reach the threshold";
        f.warning(&on_error.spot, message, "leave it out: \"deny\" is the default here");
    }
}
