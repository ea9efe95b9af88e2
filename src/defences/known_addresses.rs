//! `addresses`: the prefixes from which an account signed in are known, so that its owner has a budget of their own there.
//!
//! Here are the keys. The policy names the sets of addresses (`crates/policy/src/known_address.rs`), and the engine keeps
//! them.

use tollgate_grammar::duration::{DAY, HOUR};
use tollgate_grammar::kind::{Checked as _, Key, Lasting, Switch};
use tollgate_grammar::{Findings, tables};

use super::OwnerContext;
use super::prefixes::{Ipv4Bits, Ipv6Bits, prefixes};
use crate::bucket::Recent;
use crate::policy::{KnownAddresses, Limit, Mode};
use crate::time::Span;

tables! {
    /// Known addresses.
    pub(crate) RawKnownAddresses {
        addresses: Key<Switch>,
        address_ttl: Key<Lasting<HOUR, { 400 * DAY }>>,
        address_ipv4: Key<Ipv4Bits>,
        address_ipv6: Key<Ipv6Bits>,
    }
}

/// Known addresses; `None` without `addresses = true`.
pub(super) fn check(
    raw: &RawKnownAddresses,
    context: &OwnerContext<'_>,
    f: &mut Findings,
) -> Option<KnownAddresses> {
    let prefixes = prefixes(&raw.address_ipv4, &raw.address_ipv6, context.prefixes, f);
    let ttl = raw.address_ttl.checked(f).unwrap_or(DEFAULT_TTL);
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
    let on = raw.addresses.as_ref().filter(|on| on.value)?;
    let is_used = |limit: &Limit| limit.mode != Mode::Off && limit.is_hidden();
    if !context.limits.iter().flatten().any(is_used) {
        let message = "known addresses have a budget of their own under limits by account, and there is none";
        f.warning(&on.spot, message, "add [limit.account] with key = \"user\"");
    }
    Some(KnownAddresses { name: NAME, prefixes, recent: Recent::new(ttl).ok()? })
}

impl RawKnownAddresses {
    /// Whether the file turns them on.
    pub(super) fn is_on(&self) -> bool {
        self.addresses.as_ref().is_some_and(|on| on.value)
    }
}

const NAME: &str = "device.addresses";
/// Thirty days.
const DEFAULT_TTL: Span = Span::from_millis(30 * DAY);
