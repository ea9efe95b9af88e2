//! Who is counted under a limit: a client, or an account.

use std::net::{IpAddr, Ipv6Addr};

use crate::event::BucketOwner;
use crate::policy::attempt::Client;
use crate::policy::key::KeyPart;
use crate::policy::{Limit, Policy};

/// A client or an account in 17 bytes: the kind, and the address or the hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct HitterKey(pub(super) [u8; 17]);

impl HitterKey {
    /// The key of a free counter.
    pub(super) const NONE: Self = Self([0; 17]);

    /// The client for a limit that sees addresses, and where the attempt names no account.
    pub(super) fn of(limit: &Limit, client: Client, account: Option<u64>) -> Self {
        let (kind, bytes) = match (account, client.ip()) {
            (Some(account), _) if limit.is_of_accounts() && !limit.key.contains(&KeyPart::Ip) => {
                (ACCOUNT, u128::from(account).to_be_bytes())
            }
            (_, None) => (UNIX_SOCKET, [0; 16]),
            (_, Some(ip)) => match limit.prefixes.mask(ip) {
                IpAddr::V4(v4) => (ADDRESS, v4.to_ipv6_mapped().octets()),
                IpAddr::V6(v6) => (ADDRESS, v6.octets()),
            },
        };
        let mut key = [kind; 17];
        key[1..].copy_from_slice(&bytes);
        Self(key)
    }

    /// What these owners are counted as under a limit, but for networks that they share with more neighbours than elsewhere.
    pub(super) fn of_owners(policy: &Policy, limit: &Limit, owners: &[BucketOwner]) -> Vec<Self> {
        let length = |limit: &Limit, ip| limit.prefixes.network_of(ip).map(|network| network.prefix_len());
        let is_narrowest = |client: Client| {
            let Some(ip) = client.ip() else { return false };
            length(limit, ip) == policy.limits.iter().filter_map(|other| length(other, ip)).max()
        };
        let key = |owner: &BucketOwner| match *owner {
            BucketOwner::Client(client) => is_narrowest(client).then(|| Self::of(limit, client, None)),
            BucketOwner::Account(hash) => Some(Self::of_account(hash)),
            BucketOwner::Key(_) => None,
        };
        owners.iter().filter_map(key).collect()
    }

    fn of_account(hash: u64) -> Self {
        let mut key = [ACCOUNT; 17];
        key[1..].copy_from_slice(&u128::from(hash).to_be_bytes());
        Self(key)
    }

    /// The client or account of this key.
    pub(super) fn owner(&self) -> Option<BucketOwner> {
        let Self([kind, bytes @ ..]) = self;
        match *kind {
            ADDRESS => Some(BucketOwner::Client(Client::from_ip(Ipv6Addr::from(*bytes).into()))),
            UNIX_SOCKET => Some(BucketOwner::Client(Client::UnixSocket)),
            ACCOUNT => u64::try_from(u128::from_be_bytes(*bytes)).ok().map(BucketOwner::Account),
            _ => None,
        }
    }
}

const ADDRESS: u8 = 1;
const UNIX_SOCKET: u8 = 2;
const ACCOUNT: u8 = 3;
