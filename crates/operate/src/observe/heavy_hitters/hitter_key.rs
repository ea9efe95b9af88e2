//! Who is counted under a limit: a client, or an account.

use std::net::{IpAddr, Ipv6Addr};

use crate::event::BucketOwner;
use crate::policy::Limit;
use crate::policy::attempt::Client;
use crate::policy::key::KeyPart;

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
