//! `policy`: whether the gate has its policy from its file or from the store.

use std::path::PathBuf;

use tollgate_grammar::Findings;
use tollgate_grammar::kind::Checked as _;

use super::context::CheckContext;
use super::files::Files;
use super::store::StoreSettings;

/// The file in which a gate keeps the policy of the store; `None` for a gate that has its policy from its file.
pub(super) fn check(cx: &CheckContext<'_>, store: &StoreSettings, f: &mut Findings) -> Option<PathBuf> {
    let is_stored = cx.raw.policy.checked(f) == Some(true);
    let word = cx.raw.policy.as_ref().filter(|_| is_stored)?;
    if cx.files.is_sealed {
        let message = "the policy of the store was not read: the text is checked alone";
        f.warning(&word.spot, message, "`tollgate check` on the gate's machine reads it");
    }
    // An invalid address has been reported.
    let url = &cx.raw.store.url;
    if !store.address.is_shared() && url.as_ref().is_none_or(|url| url.value.0 == "memory:") {
        let hint = "name the store that has the policy";
        f.error(&word.spot, "a `store.url` that gates share is missing", hint);
    }
    Some(copy_path(store, &cx.files))
}

/// Beside the snapshot: where the unit keeps its state, or next to the file. Gates of two prefixes share no copy.
pub(in crate::config) fn copy_path(store: &StoreSettings, files: &Files<'_>) -> PathBuf {
    files.resolve_state(&format!("{}.policy.toml", store.names))
}

/// The word for a policy that is in the store.
pub(in crate::config) const FROM_STORE: &str = "store";
