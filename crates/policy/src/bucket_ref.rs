//! Buckets that an operator can name: those of one address alone, or of one account alone. An address also names the
//! buckets that its attempts without an account are charged to.
//!
//! It finds buckets and changes none. An account has a bucket for each class of clients with a rate of its own, so one
//! name may select several buckets of one limit. Known devices have buckets of their own, which cannot be named.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::account::Account;
use super::attempt::Client;
use super::key::{KeyHasher, KeyPart, PrefixLengths};
use super::{Limit, LimitKind, Policy};
use tollgate_bucket::{Key, Spec};

/// Selects the buckets of a client or an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BucketSelector {
    /// A client, by its address.
    Client(Client),
    /// An account, by its name; its `Debug` form hides it.
    Account(Account),
}

/// Why a text is no selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BucketSelectorError {
    /// Neither `ip:` nor `user:`.
    #[error("buckets are named ip:ADDRESS or user:NAME")]
    Kind,
    /// `ip:` without an address.
    #[error("what follows ip: is not an address")]
    Address,
    /// `user:` without a name.
    #[error("what follows user: is empty")]
    Name,
}

/// One selected bucket.
#[derive(Debug, Clone)]
pub struct BucketRef {
    /// Position of the limit.
    pub limit: usize,
    /// The class of the limit's rate: [`ClassRate::number`](super::ClassRate::number).
    pub class: usize,
    /// The name of that class; empty for the default class.
    pub class_name: Arc<str>,
    /// The key in the store.
    pub key: Key,
    /// The specification.
    pub spec: Spec,
}

/// The buckets of a policy for one selector.
#[derive(Debug, Clone, Default)]
pub struct SelectedBuckets {
    /// The buckets, in the order of the file; sub-limits right after their limit.
    pub buckets: Vec<BucketRef>,
    /// Limits that exempt the client.
    pub exempt: Vec<usize>,
    /// Limits whose keys have more parts than an address or an account, so that a selector names no single bucket.
    pub not_addressable: Vec<usize>,
}

impl BucketSelector {
    /// Parses `ip:ADDRESS` or `user:NAME`. A name may be any bytes, as in a form.
    ///
    /// # Errors
    /// See [`BucketSelectorError`].
    pub fn parse(text: &[u8]) -> Result<Self, BucketSelectorError> {
        if let Some(name) = text.strip_prefix(b"user:") {
            return if name.is_empty() {
                Err(BucketSelectorError::Name)
            } else {
                Ok(Self::Account(Account::fold(name)))
            };
        }
        let address = text.strip_prefix(b"ip:").ok_or(BucketSelectorError::Kind)?;
        let address = std::str::from_utf8(address).ok().and_then(|text| text.parse().ok());
        address.map(|ip| Self::Client(Client::from_ip(ip))).ok_or(BucketSelectorError::Address)
    }
}

impl Policy {
    /// The buckets whose key is this client or account alone.
    #[must_use]
    pub fn buckets_of(&self, selector: &BucketSelector, hasher: &KeyHasher) -> SelectedBuckets {
        let mut found = SelectedBuckets::default();
        for (at, limit) in self.limits.iter().enumerate() {
            let refs = match (KeyScope::of(limit), selector) {
                (KeyScope::Client, BucketSelector::Client(client)) => {
                    limit.refs_by_client(*client, hasher, KeyHasher::key_of_client)
                }
                (KeyScope::Account, BucketSelector::Account(account)) => {
                    limit.refs_by_account(account, hasher)
                }
                (KeyScope::Account, BucketSelector::Client(client)) => {
                    limit.refs_by_client(*client, hasher, KeyHasher::key_of_anonymous)
                }
                (KeyScope::More, _) if limit.kind == LimitKind::Rate => {
                    found.not_addressable.push(at);
                    continue;
                }
                _ => continue,
            };
            if refs.is_empty() && limit.kind == LimitKind::Rate {
                found.exempt.push(at);
            }
            found.buckets.extend(refs.into_iter().map(|bucket_ref| BucketRef { limit: at, ..bucket_ref }));
        }
        found
    }
}

/// The scope of a limit's keys.
enum KeyScope {
    Client,
    Account,
    More,
}

impl KeyScope {
    fn of(limit: &Limit) -> Self {
        let mut parts = limit.key.iter().filter(|part| **part != KeyPart::All);
        match (parts.next(), parts.next()) {
            (Some(KeyPart::Ip), None) => Self::Client,
            (Some(KeyPart::User), None) => Self::Account,
            _ => Self::More,
        }
    }
}

impl Limit {
    fn refs_by_client(
        &self,
        client: Client,
        hasher: &KeyHasher,
        key_of: fn(&KeyHasher, &Self, &str, Client) -> Key,
    ) -> Vec<BucketRef> {
        let bucket_ref = self.rate_of_client(client).map(|(class, name, spec)| {
            let key = key_of(hasher, self, name, client);
            BucketRef { limit: 0, class, class_name: name.into(), key, spec }
        });
        bucket_ref.into_iter().collect()
    }

    fn refs_by_account(&self, account: &Account, hasher: &KeyHasher) -> Vec<BucketRef> {
        let account = hasher.of_account(account.as_bytes());
        let classes = self.classes().into_iter().enumerate();
        let refs = classes.filter_map(|(class, (class_name, spec))| {
            let key = hasher.key_of_account(self, &class_name, account);
            Some(BucketRef { limit: 0, class, class_name, key, spec: spec? })
        });
        refs.collect()
    }
}

impl PrefixLengths {
    /// The network whose clients share a bucket with this one.
    #[must_use]
    pub fn network_of(self, ip: IpAddr) -> Option<IpNet> {
        let masked = self.mask(ip);
        IpNet::new(masked, self.length(masked)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::NetworkMap;
    use crate::{ClassRate, Mode};
    use tollgate_bucket::Continuous;
    use tollgate_bucket::Span;

    fn spec(burst: u32) -> Spec {
        Spec::Continuous(Continuous::new(1, Span::from_secs(60), burst).unwrap())
    }

    fn of(key: &[KeyPart], name: &str) -> Limit {
        Limit { key: key.to_vec(), ..Limit::new(name, spec(1)) }
    }

    fn selected(policy: &Policy, selector: &str) -> SelectedBuckets {
        policy.buckets_of(&BucketSelector::parse(selector.as_bytes()).unwrap(), &KeyHasher::seeded(1))
    }

    fn limits(refs: &[BucketRef]) -> Vec<usize> {
        refs.iter().map(|bucket_ref| bucket_ref.limit).collect()
    }

    #[test]
    fn a_holder_is_an_address_or_a_name() {
        assert_eq!(BucketSelector::parse(b"ip:::ffff:192.0.2.1"), BucketSelector::parse(b"ip:192.0.2.1"));
        assert_eq!(BucketSelector::parse(b"user: ALICE"), BucketSelector::parse(b"user:alice"));
        assert!(BucketSelector::parse(b"user:\xff").is_ok(), "any bytes, as in a form");
        for (text, error) in [
            ("alice", BucketSelectorError::Kind),
            ("", BucketSelectorError::Kind),
            ("IP:192.0.2.1", BucketSelectorError::Kind),
            ("ip:", BucketSelectorError::Address),
            ("ip:192.0.2.0/24", BucketSelectorError::Address),
            ("ip:192.0.2.1 ", BucketSelectorError::Address),
            ("user:", BucketSelectorError::Name),
        ] {
            assert_eq!(BucketSelector::parse(text.as_bytes()), Err(error), "{text}");
        }
        assert_eq!(
            format!("{:?}", BucketSelector::parse(b"user:alice").unwrap()),
            "Account(Account(hidden))"
        );
    }

    #[test]
    fn only_what_is_kept_for_the_holder_alone_is_found() {
        let escalation = Limit { kind: LimitKind::Escalation, ..of(&[KeyPart::Ip], "address") };
        let policy = Policy::new(
            vec![],
            vec![
                of(&[KeyPart::Ip], "address"),
                escalation,
                of(&[KeyPart::User], "account"),
                of(&[KeyPart::User, KeyPart::Ip], "pair"),
                of(&[KeyPart::All], "all"),
                Limit { mode: Mode::Off, ..of(&[KeyPart::Ip], "off") },
            ],
        );
        let address = selected(&policy, "ip:192.0.2.1");
        assert_eq!((limits(&address.buckets), address.not_addressable), (vec![0, 1, 2, 5], vec![3, 4]));
        assert_ne!(
            address.buckets[2].key,
            selected(&policy, "ip:192.0.2.2").buckets[2].key,
            "one for each client"
        );
        let account = selected(&policy, "user:alice");
        assert_eq!((limits(&account.buckets), account.not_addressable), (vec![2], vec![3, 4]));
    }

    #[test]
    fn a_client_that_a_limit_does_not_see_is_exempt_and_classes_are_told_apart() {
        let rate = |class: &str, number, spec| ClassRate { class: class.into(), number, spec };
        let mut rates = NetworkMap::default();
        rates.insert("10.0.0.0/8".parse().unwrap(), rate("10.0.0.0/8", 1, Some(spec(9))));
        rates.insert("192.0.2.0/24".parse().unwrap(), rate("192.0.2.0/24", 2, None));
        let limit = |key, name| Limit { rates: rates.clone(), ..of(&[key], name) };
        let policy =
            Policy::new(vec![], vec![limit(KeyPart::Ip, "address"), limit(KeyPart::User, "account")]);
        assert_eq!(selected(&policy, "ip:192.0.2.1").exempt, [0, 1]);
        let ten = selected(&policy, "ip:10.1.1.1").buckets.remove(0);
        assert_eq!((ten.class, &*ten.class_name, ten.spec), (1, "10.0.0.0/8", spec(9)));
        let alice = selected(&policy, "user:alice").buckets;
        assert_eq!(alice.iter().map(|bucket_ref| bucket_ref.class).collect::<Vec<_>>(), [0, 1]);
        assert_ne!(alice[0].key, alice[1].key);
    }

    #[test]
    fn a_network_is_the_one_that_shares_the_bucket() {
        let of = |ip: &str| PrefixLengths::default().network_of(ip.parse().unwrap()).unwrap().to_string();
        assert_eq!(
            ["192.0.2.1", "2001:db8::1", "2002:c000:201:7::1", "64:ff9b::192.0.2.1", "::ffff:192.0.2.1"]
                .map(of),
            ["192.0.2.1/32", "2001:db8::/64", "192.0.2.1/32", "192.0.2.1/32", "192.0.2.1/32"]
        );
        assert_eq!(
            ["2002:a00:1:7::1", "64:ff9b::10.0.0.1"].map(of),
            ["2002:a00:1::/48", "64:ff9b::a00:1/128"],
            "10.0.0.1 is a private address"
        );
    }
}
