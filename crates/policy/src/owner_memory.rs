//! What the gate remembers of sign-ins: the clients from which an account signed in, so that its owner has a separate
//! budget there, also with clients that keep no cookie.
//!
//! It is a module of a higher layer, like a [`Defence`](super::Defence), which says what clients are known by. Here are the
//! names of the set of an account and of a client within; both are keyed hashes, for one application each. The sets
//! themselves are kept by the engine.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use siphasher::sip128::SipHasher13;

use super::Policy;
use super::account::Account;
use super::attempt::Client;
use super::bucket_ref::BucketSelector;
use super::key::{KeyHasher, OwnerId, PrefixLengths, write_bytes, write_client};
use tollgate_bucket::{Key, Recent};

/// Knows the owners of accounts by the clients from which they signed in.
pub trait OwnerMemory: Any + Debug + Send + Sync {
    /// The key that turns it on. The sets are named so in messages of the store and in snapshots.
    fn name(&self) -> &'static str;

    /// Whether both have the same settings.
    fn is_same(&self, other: &dyn OwnerMemory) -> bool;

    /// What is remembered for each account.
    fn recent(&self) -> Recent;

    /// A client as one that the set of this account remembers; `None` for one that nothing tells from others.
    fn client(
        &self,
        hasher: &KeyHasher,
        client: Client,
        application: &str,
        account: &Account,
    ) -> Option<RememberedClient>;

    /// What it adds to the worst case of a limit by account.
    fn describe(&self) -> String;
}

/// A client as one that the set of an account may remember; its `Debug` form hides it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RememberedClient {
    /// The account's set.
    pub account: Key,
    /// What the attempt is charged as if the set has it.
    pub(super) owner: OwnerId,
}

/// Whether the set of an account has the client.
pub type IsRemembered<'k> = &'k dyn Fn(&RememberedClient) -> bool;

impl PartialEq for dyn OwnerMemory {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other)
    }
}

impl KeyHasher {
    /// A client by its address, for the set of this account. Addresses of one prefix are one.
    #[must_use]
    pub fn client_by_address(
        &self,
        prefixes: PrefixLengths,
        client: Client,
        application: &str,
        account: &Account,
    ) -> RememberedClient {
        let owner = OwnerId(self.of(|hasher| {
            write_set(hasher, application, account);
            write_client(hasher, prefixes, client);
        }));
        RememberedClient { account: self.set_of(application, account), owner }
    }

    fn set_of(&self, application: &str, account: &Account) -> Key {
        Key(self.of(|hasher| write_set(hasher, application, account)))
    }
}

impl Policy {
    /// The sets of an account, each with the application that it belongs to; none unless clients are remembered.
    #[must_use]
    pub fn remembered_sets_of(&self, account: &Account, hasher: &KeyHasher) -> Vec<(Arc<str>, Key)> {
        let mut found: Vec<(Arc<str>, Key)> = Vec::new();
        let routes =
            self.routes.iter().filter(|route| self.owner_memory.is_some() && !route.reading.user.is_empty());
        for application in routes.map(|route| &route.application) {
            if !found.iter().any(|(known, _)| known == application) {
                found.push((Arc::clone(application), hasher.set_of(application, account)));
            }
        }
        found
    }

    /// What an account pays from where it is known from this client, in each application.
    pub fn known_owners_of<'a>(
        &'a self,
        account: &'a Account,
        client: Client,
        hasher: &'a KeyHasher,
    ) -> impl Iterator<Item = BucketSelector> + 'a {
        let memory = self.owner_memory.as_deref();
        let routes = self.routes.iter().filter(|route| !route.reading.user.is_empty());
        let known =
            routes.filter_map(move |route| memory?.client(hasher, client, &route.application, account));
        known.map(|known| BucketSelector::of_owner(account.clone(), known.owner))
    }
}

fn write_set(hasher: &mut SipHasher13, application: &str, account: &Account) {
    write_bytes(hasher, b's', application.as_bytes());
    write_bytes(hasher, b's', account.as_bytes());
}

impl RememberedClient {
    /// What the set has of the client.
    #[must_use]
    pub fn tag(&self) -> u64 {
        let OwnerId(hash) = self.owner;
        #[expect(clippy::cast_possible_truncation, reason = "half of a hash is a hash")]
        let half = hash as u64;
        half
    }
}

impl Debug for RememberedClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RememberedClient(hidden)")
    }
}
