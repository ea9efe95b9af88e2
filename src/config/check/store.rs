//! `[store]`: where the buckets are, and what to do while the store is unavailable.
//!
//! The store parses its own address; no server is asked. Without a `secret` a reader of a shared store can try out
//! which addresses and accounts its buckets belong to, so a warning says so where it matters.

use std::path::{Path, PathBuf};

use tollgate_grammar::kind::Checked as _;
use tollgate_grammar::{Findings, Located, refuse};

use super::super::values::Mistake;
use super::super::{features, raw};
use super::files::Files;
use super::secret::{MAKE_ONE, MIN_KEY_LEN, parse_keys, resolve, resolve_within};
use crate::policy::Policy;
use crate::store::shared::StoreOptions;
use crate::store::{BadStoreAddress, Namespace, StoreAddress};

/// `[store]`.
#[derive(Debug, Clone, PartialEq)]
pub struct StoreSettings {
    /// Where the buckets are.
    pub address: StoreAddress,
    /// The name of the installation in the store.
    pub names: Namespace,
    /// The keys of the keyed hashes that name buckets in the store and seal what gates share next to them.
    pub secrets: StoreSecrets,
    /// Time-out, and what to do on an error.
    pub options: StoreOptions,
    /// Buckets in memory for each limit, at least 1.
    pub capacity: usize,
    /// The file in which buckets in memory survive a restart.
    pub snapshot: Option<PathBuf>,
}

impl StoreSettings {
    /// Whether buckets are there after a restart.
    #[must_use]
    pub fn keeps_buckets(&self) -> bool {
        self.address.is_shared() || self.snapshot.is_some()
    }
}

/// Secrets of a store, the newest first, which `Debug` hides. Empty without `store.secret`.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct StoreSecrets(pub(super) Vec<Vec<u8>>);

impl StoreSettings {
    /// Whether gates share it and have a secret, without which anybody who writes to it could forge what they read.
    #[must_use]
    pub fn is_shared_and_sealed(&self) -> bool {
        self.address.is_shared() && !self.secrets.reveal_newest().is_empty()
    }
}

impl StoreSecrets {
    /// All of them, the newest first: what any of them has sealed is read.
    #[must_use]
    pub fn reveal(&self) -> &[Vec<u8>] {
        &self.0
    }

    /// The one that names buckets, and seals what is written; empty without any.
    #[must_use]
    pub fn reveal_newest(&self) -> &[u8] {
        self.0.first().map_or(&[], Vec::as_slice)
    }
}

impl std::fmt::Debug for StoreSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoreSecrets")
    }
}

/// Buckets of a limit.
pub(super) const DEFAULT_CAPACITY: usize = 1_000_000;

/// The settings; with defaults where there are mistakes.
pub(in crate::config) fn check(
    raw: &raw::RawStore,
    files: &mut Files<'_>,
    f: &mut Findings,
) -> StoreSettings {
    let default = StoreOptions::default();
    StoreSettings {
        address: address(raw, files, f),
        names: names(raw, f),
        secrets: StoreSecrets(secrets(raw, files, f).unwrap_or_default()),
        options: StoreOptions {
            timeout: raw.timeout.checked(f).unwrap_or(default.timeout),
            on_error: raw.on_error.checked(f).unwrap_or(default.on_error),
            arithmetic: raw.arithmetic.checked(f).unwrap_or(default.arithmetic),
        },
        capacity: raw.capacity.checked(f).unwrap_or(DEFAULT_CAPACITY),
        snapshot: snapshot(raw, files, f),
    }
}

/// Warns of `on_error` of routes and limits where it decides nothing.
fn warn_of_on_error(raw: &raw::RawFile, store: &StoreSettings, policy: &Policy, f: &mut Findings) {
    let in_memory = raw.store.url.as_ref().is_none_or(|url| url.value.0 == "memory:");
    let of_limits = raw.limits.iter().filter_map(|limit| limit.value.on_error.as_ref());
    let of_routes =
        raw.routes.iter().filter_map(|route| Some((&route.name.value, route.value.on_error.as_ref()?)));
    if !store.address.is_shared() {
        for text in of_limits.chain(of_routes.map(|(_, text)| text)).filter(|_| in_memory) {
            f.warning(&text.spot, "`on_error` means nothing in memory", "leave it out, or set store.url");
        }
        return;
    }
    for (name, text) in of_routes {
        let route = policy.routes.iter().find(|route| *route.name == **name);
        let limits = route.into_iter().flat_map(|route| &route.limits);
        let mut own = limits.filter_map(|&at| policy.limits.get(at));
        if own.all(|limit| limit.on_error.is_some()) {
            f.warning(
                &text.spot,
                "each limit of this route sets `on_error` itself",
                "a limit's own comes first: leave it out there or here",
            );
        }
    }
}

/// Warns of settings without an effect, and of names that an attacker can guess.
pub(super) fn warn(file: &raw::RawFile, store: &StoreSettings, policy: &Policy, f: &mut Findings) {
    warn_of_on_error(file, store, policy, f);
    let raw = &file.store;
    if let (Some(snapshot), true) = (&raw.snapshot, store.address.is_shared()) {
        f.warning(
            &snapshot.spot,
            "`snapshot` means nothing over a shared store",
            "leave it out: the store keeps the buckets",
        );
    }
    if !store.address.is_shared() {
        // An invalid address leaves open which settings have an effect.
        let is_memory = raw.url.as_ref().is_none_or(|url| url.value.0 == "memory:");
        for (key, spot) in [
            ("timeout", raw.timeout.as_ref().map(|text| &text.spot)),
            ("on_error", raw.on_error.as_ref().map(|text| &text.spot)),
            ("arithmetic", raw.arithmetic.as_ref().map(|text| &text.spot)),
            ("prefix", raw.prefix.as_ref().map(|text| &text.spot)),
            ("secret", raw.secret.as_ref().map(|text| &text.spot)),
        ] {
            if let Some(spot) = spot.filter(|_| is_memory) {
                f.warning(spot, format!("`{key}` means nothing in memory"), "leave it out, or set `url`");
            }
        }
        return;
    }
    if let (Some(url), true) = (&raw.url, store.secrets.0.is_empty())
        && let Some(limit) =
            policy.limits.iter().find(|limit| limit.needs_accounts() && !limit.is_of_passwords())
    {
        let message = format!("a reader of the store can try out account names, by limit `{}`", limit.name);
        f.warning(
            &url.spot,
            message,
            "`secret = \"${file:store.key}\"`, the same for all gates, prevents that",
        );
    }
}

fn address(raw: &raw::RawStore, files: &mut Files<'_>, f: &mut Findings) -> StoreAddress {
    let read = raw.url.as_ref().and_then(|url| {
        let text = resolve_within(url, files, f)?;
        text.parse()
            .map_err(|error| match error {
                BadStoreAddress::NotInThisBuild(name) => {
                    f.error(&url.spot, features::without(name), features::HINT);
                }
                _ => f.error(&url.spot, "this is not the address of a store", format!("{error}")),
            })
            .ok()
    });
    read.unwrap_or_else(StoreAddress::memory)
}

/// The secrets; one that is short enough to be guessed is a mistake.
fn secrets(raw: &raw::RawStore, files: &mut Files<'_>, f: &mut Findings) -> Option<Vec<Vec<u8>>> {
    let written = raw.secret.as_ref()?;
    let (text, origin) = resolve(written, files, f)?;
    if text.trim().chars().count() < MIN_KEY_LEN {
        f.error(&written.spot, format!("{origin} is too short"), MAKE_ONE);
        return None;
    }
    parse_keys(&text, &origin, &written.spot, f)
}

/// The path of the snapshot. Its folder must exist: each write replaces the file.
fn snapshot(raw: &raw::RawStore, files: &Files<'_>, f: &mut Findings) -> Option<PathBuf> {
    let Located { value, spot } = raw.snapshot.as_deref().filter(|snapshot| !snapshot.value.is_empty())?;
    let path = files.resolve_state(value);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let is_missing = |folder: &Path| !folder.is_dir() && !files.is_state(folder);
    if path.is_dir() || folder.is_some_and(is_missing) {
        let message = format!("no file can be at `{}`", path.display());
        f.error(spot, message, "a file in a folder that the gate may write to");
        return None;
    }
    Some(path)
}

fn names(raw: &raw::RawStore, f: &mut Findings) -> Namespace {
    let Some(Located { value, spot }) = raw.prefix.as_deref() else { return Namespace::default() };
    value.parse().unwrap_or_else(|error: crate::store::BadNamespace| {
        refuse(spot, value, Mistake::new(format!("`{value}` is not a prefix"), error.to_string()), f);
        Namespace::default()
    })
}
