//! `[device]`: the keys of device cookies, their lifetime, and their name; known addresses.
//!
//! The secret may be in its own file, in a variable, or in the configuration. No message repeats a key; a message
//! about a file of keys names the number of the line.

use std::sync::Arc;

use tollgate_grammar::Findings;
use tollgate_grammar::kind::Checked as _;

use super::super::raw;
use super::super::values::CookieName;
use super::context::CheckContext;
use super::files::Files;
use super::secret::{parse_keys, resolve};
use super::settings;
use crate::bucket::Recent;
use crate::policy::device::Devices;
use crate::policy::{KnownAddresses, Limit, Mode, Policy};
use crate::time::Span;

/// What tells the owners of accounts from strangers.
pub(super) struct KnownOwners {
    devices: Option<Arc<Devices>>,
    addresses: Option<KnownAddresses>,
}

impl KnownOwners {
    /// The policy that knows them.
    pub(super) fn put_into(self, policy: Policy) -> Policy {
        policy.with_devices(self.devices).with_addresses(self.addresses)
    }
}

/// Known devices and addresses.
pub(super) fn check(cx: &mut CheckContext<'_>, f: &mut Findings) -> KnownOwners {
    KnownOwners { devices: devices(&cx.raw.device, &mut cx.files, f), addresses: addresses(cx, f) }
}

/// Known devices; `None` without a secret.
fn devices(raw: &raw::RawDevice, files: &mut Files<'_>, f: &mut Findings) -> Option<Arc<Devices>> {
    let ttl = raw.ttl.checked(f).unwrap_or(DEFAULT_TTL);
    let name = raw.cookie.checked(f);
    let CookieName(cookie) = name.unwrap_or_else(|| CookieName(DEFAULT_COOKIE.to_owned()));
    if raw.secret.key.is_none() {
        let ttl = raw.ttl.as_ref().map(|ttl| &ttl.spot);
        for (key, spot) in [("ttl", ttl), ("cookie", raw.cookie.as_ref().map(|name| &name.spot))] {
            if let Some(spot) = spot {
                let hint = "write secret = \"${file:device.keys}\" to turn device cookies on";
                f.warning(spot, format!("`{key}` means nothing without `secret`"), hint);
            }
        }
    }
    let secret = raw.secret.value.as_ref().filter(|secret| !secret.value.0.is_empty())?;
    let (text, origin) = resolve(secret, files, f)?;
    let keys = parse_keys(&text, &origin, &secret.spot, f)?;
    Some(Arc::new(Devices::new(keys, ttl, &cookie)))
}

/// Known addresses; `None` without `addresses = true`.
fn addresses(cx: &CheckContext<'_>, f: &mut Findings) -> Option<KnownAddresses> {
    let raw = &cx.raw.device;
    let prefixes = settings::prefixes(&raw.address_ipv4, &raw.address_ipv6, cx.client.prefixes, f);
    let ttl = raw.address_ttl.checked(f).unwrap_or(DEFAULT_ADDRESS_TTL);
    let on = raw.addresses.as_ref().filter(|on| on.value);
    let spots = [
        ("address_ttl", raw.address_ttl.as_ref().map(|ttl| &ttl.spot)),
        ("address_ipv4", raw.address_ipv4.as_ref().map(|length| &length.spot)),
        ("address_ipv6", raw.address_ipv6.as_ref().map(|length| &length.spot)),
    ];
    for (key, spot) in spots.into_iter().filter(|_| raw.addresses.is_none()) {
        if let Some(spot) = spot {
            let hint = "write addresses = true to know the addresses that accounts sign in from";
            f.warning(spot, format!("`{key}` means nothing without `addresses`"), hint);
        }
    }
    let is_used = |limit: &Limit| limit.mode != Mode::Off && limit.is_hidden();
    let on = on?;
    if !cx.limits.iter().flatten().any(is_used) {
        let message =
            "known addresses have an extra budget under limits by account, and there is no such limit";
        f.warning(&on.spot, message, "add [limit.account] with key = \"user\"");
    }
    Some(KnownAddresses { prefixes, recent: Recent::new(ttl).ok()? })
}

const DAYS: u64 = 86_400;
const DEFAULT_TTL: Span = Span::from_secs(180 * DAYS);
const DEFAULT_ADDRESS_TTL: Span = Span::from_secs(30 * DAYS);
const DEFAULT_COOKIE: &str = "tollgate_device";
