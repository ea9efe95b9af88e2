//! Known addresses: the client prefixes from which an account signed in, so that its owner has a budget of their own
//! there, also with clients that keep no cookie.
//!
//! It names the set of an account and the client's tag within; both are keyed hashes, for one application each. The
//! sets themselves are kept by the caller, who also says what is in them.

use std::sync::Arc;

use siphasher::sip128::SipHasher13;

use super::Policy;
use super::account::Account;
use super::attempt::Client;
use super::key::{KeyHasher, OwnerId, PrefixLengths, write_bytes, write_client};
use tollgate_bucket::{Key, Recent};

/// What is an address, and how long it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownAddresses {
    /// The key that turns them on. The sets are named so in messages of the store and in snapshots.
    pub name: &'static str,
    /// Addresses of one prefix are one.
    pub prefixes: PrefixLengths,
    /// What is remembered for each account.
    pub recent: Recent,
}

/// A client's prefix as an address of an account; its `Debug` form hides it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AccountAddress {
    /// The account's set.
    pub account: Key,
    /// What the attempt is charged as if the set has it.
    pub(super) owner: OwnerId,
}

/// Whether the set of an account has the address.
pub type IsKnownAddress<'k> = &'k dyn Fn(&AccountAddress) -> bool;

impl KnownAddresses {
    /// The client's prefix as an address of this account; `None` for a client without its own address: those
    /// behind a proxy that names none would all be known by the address of the proxy.
    pub(super) fn address_of(
        &self,
        hasher: &KeyHasher,
        application: &str,
        account: &Account,
        client: Client,
    ) -> Option<AccountAddress> {
        client.known_ip()?;
        let address = hasher.of(|hasher| {
            write_set(hasher, application, account);
            write_client(hasher, self.prefixes, client);
        });
        let account = Key(hasher.of(|hasher| write_set(hasher, application, account)));
        Some(AccountAddress { account, owner: OwnerId(address) })
    }
}

impl Policy {
    /// The sets of an account, each with the application that it belongs to; none unless addresses are known.
    #[must_use]
    pub fn address_sets_of(&self, account: &Account, hasher: &KeyHasher) -> Vec<(Arc<str>, Key)> {
        let mut found: Vec<(Arc<str>, Key)> = Vec::new();
        let routes =
            self.routes.iter().filter(|route| self.addresses.is_some() && !route.reading.user.is_empty());
        for application in routes.map(|route| &route.application) {
            if !found.iter().any(|(known, _)| known == application) {
                let key = Key(hasher.of(|hasher| write_set(hasher, application, account)));
                found.push((Arc::clone(application), key));
            }
        }
        found
    }
}

fn write_set(hasher: &mut SipHasher13, application: &str, account: &Account) {
    write_bytes(hasher, b's', application.as_bytes());
    write_bytes(hasher, b's', account.as_bytes());
}

impl AccountAddress {
    /// What the set remembers of the address.
    #[must_use]
    pub fn tag(&self) -> u64 {
        let OwnerId(hash) = self.owner;
        #[expect(clippy::cast_possible_truncation, reason = "half of a hash is a hash")]
        let half = hash as u64;
        half
    }
}

impl std::fmt::Debug for AccountAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AccountAddress(hidden)")
    }
}
