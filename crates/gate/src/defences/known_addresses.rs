//! `addresses`: the prefixes from which an account signed in are known, so that its owner has a separate budget there.
//!
//! The policy names the sets of addresses (`crates/policy/src/owner_memory.rs`), and the engine keeps them.

use std::any::Any;
use std::sync::Arc;

use tollgate_grammar::duration::{DAY, HOUR};
use tollgate_grammar::kind::{Checked as _, Key, Lasting, Switch};
use tollgate_grammar::{Findings, tables};

use super::OwnerContext;
use super::prefixes::{Ipv4Bits, Ipv6Bits, describe_prefix, prefixes};
use crate::bucket::Recent;
use crate::policy::account::Account;
use crate::policy::attempt::Client;
use crate::policy::key::{KeyHasher, PrefixLengths};
use crate::policy::{Limit, Mode, OwnerMemory, RememberedClient};
use crate::time::Span;

tables! {
    /// Known addresses.
    pub RawKnownAddresses {
        addresses: Key<Switch>,
        address_ttl: Key<Lasting<HOUR, { 400 * DAY }>>,
        address_ipv4: Key<Ipv4Bits>,
        address_ipv6: Key<Ipv6Bits>,
    }
}

/// What is an address, and how long it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KnownAddresses {
    /// Addresses of one prefix are one.
    prefixes: PrefixLengths,
    /// What is remembered for each account.
    recent: Recent,
}

/// Known addresses; `None` without `addresses = true`.
pub(super) fn check(
    raw: &RawKnownAddresses,
    context: &OwnerContext<'_>,
    f: &mut Findings,
) -> Option<Arc<dyn OwnerMemory>> {
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
        let message = "known addresses have a separate budget under limits by account, and there is none";
        f.warning(&on.spot, message, "add [limit.account] with key = \"user\"");
    }
    Some(Arc::new(KnownAddresses { prefixes, recent: Recent::new(ttl).ok()? }))
}

impl OwnerMemory for KnownAddresses {
    fn name(&self) -> &'static str {
        "device.addresses"
    }

    fn is_same(&self, other: &dyn OwnerMemory) -> bool {
        (other as &dyn Any).downcast_ref::<Self>() == Some(self)
    }

    fn recent(&self) -> Recent {
        self.recent
    }

    /// None for a client without its own address: those behind a proxy that names none would all be known by the address
    /// of the proxy.
    fn client(
        &self,
        hasher: &KeyHasher,
        client: Client,
        application: &str,
        account: &Account,
    ) -> Option<RememberedClient> {
        client.known_ip()?;
        Some(hasher.client_by_address(self.prefixes, client, application, account))
    }

    fn describe(&self) -> String {
        let known = "; as much again from each of 16 addresses that the account signed in from";
        match (self.prefixes.ipv4, self.prefixes.ipv6) {
            (32, 64 | 128) => known.to_owned(),
            _ => format!("{known}, each with its neighbours: {}", describe_prefix(self.prefixes)),
        }
    }
}

impl RawKnownAddresses {
    /// Whether the file turns them on.
    pub(super) fn is_on(&self) -> bool {
        self.addresses.as_ref().is_some_and(|on| on.value)
    }
}

/// Thirty days.
const DEFAULT_TTL: Span = Span::from_millis(30 * DAY);
