//! Buckets that an operator can name by the values of their keys. An address alone also names the buckets that its
//! attempts without an account, a header or a cookie are charged to.
//!
//! It finds buckets and changes none. A key without an address has a bucket for each class of clients with a rate of its
//! own, so one name may select several buckets of one limit. An account and an owner together name what the owner
//! pays from under a limit by account.

mod selector;

use std::net::IpAddr;
use std::sync::Arc;

use http::Method;
use ipnet::IpNet;

pub use self::selector::{BucketSelector, BucketSelectorError, KeyValues};

use super::attempt::{Attempt, AttemptBody};
use super::client_fact::AddressFacts;
use super::fingerprint::Fingerprint;
use super::key::{AccountName, KeyHasher, KeyInputs, KeyPart, NamedAccount, PrefixLengths};
use super::{Limit, LimitKind, Policy};
use tollgate_bucket::{Key, Spec};

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
    /// Limits whose keys have parts that the selector does not name.
    pub not_addressable: Vec<usize>,
}

impl Policy {
    /// The buckets whose keys are these values.
    #[must_use]
    pub fn buckets_of(&self, selector: &BucketSelector, hasher: &KeyHasher) -> SelectedBuckets {
        let mut found = SelectedBuckets::default();
        for (at, limit) in self.limits.iter().enumerate() {
            let is_rate = limit.kind == LimitKind::Rate;
            let Some(values) = limit.values_of(selector) else {
                // A limit by another address or account alone has nothing to do with this one.
                let is_more = !matches!(limit.parts()[..], [KeyPart::Ip | KeyPart::User]);
                if is_rate && is_more && matches!(selector, BucketSelector::Values(_)) {
                    found.not_addressable.push(at);
                }
                continue;
            };
            let refs = limit.refs(&values, self.origin_of(values.client), hasher);
            if refs.is_empty() && is_rate {
                found.exempt.push(at);
            }
            found.buckets.extend(refs.into_iter().map(|bucket_ref| BucketRef { limit: at, ..bucket_ref }));
        }
        found
    }
}

impl Limit {
    /// The parts of the key that have a value.
    fn parts(&self) -> Vec<&KeyPart> {
        self.key.iter().filter(|part| **part != KeyPart::All).collect()
    }

    /// The values of the key, if the selector names all of them and no others.
    fn values_of(&self, selector: &BucketSelector) -> Option<KeyValues> {
        let parts = self.parts();
        let values = match selector {
            BucketSelector::All(name) => {
                return (parts.is_empty() && *self.name == **name).then(KeyValues::default);
            }
            BucketSelector::Values(values) => values,
        };
        let are_named = parts.iter().all(|part| values.parts.contains(part));
        let beside: Vec<&KeyPart> = values.parts.iter().filter(|part| !parts.contains(part)).collect();
        let is_fit = match (are_named, &beside[..]) {
            (true, []) => !parts.is_empty(),
            // What a known owner pays from, instead of the account.
            (true, [KeyPart::Owner]) => self.is_account(),
            // What the client pays from, where the attempt has no such value.
            (false, [KeyPart::Ip]) => {
                values.parts.len() == 1
                    && matches!(
                        parts[..],
                        [KeyPart::User | KeyPart::Header(_) | KeyPart::Cookie(_) | KeyPart::Fact(_)]
                    )
            }
            _ => false,
        };
        is_fit.then(|| (**values).clone())
    }

    /// The bucket of the account's class, or of each class that the values may belong to. None if the limit exempts the
    /// client.
    fn refs(&self, values: &KeyValues, origin: AddressFacts, hasher: &KeyHasher) -> Vec<BucketRef> {
        let attempt = values.attempt();
        let of_class = |(class, name, spec): (usize, &str, Spec)| {
            let key = hasher.key_of_values(self, name, values)?;
            Some(BucketRef { limit: 0, class, class_name: name.into(), key, spec })
        };
        if self.exempts(values.client) {
            return Vec::new();
        }
        let listed = values.account.as_ref().map(Fingerprint::of_account);
        let has_own = listed.is_some_and(|listed| self.rates.of_user(listed).is_some());
        let known = self.rate_of(&attempt, values.address.or(origin), listed);
        let others = self.rates.of_unknown(values.client.known_ip()).into_iter().filter(|_| !has_own);
        let others = others.filter_map(|rate| Some((rate.number, &*rate.class, rate.spec?)));
        let all = known.into_iter().chain(others.filter(|other| Some(other.0) != known.map(|known| known.0)));
        all.filter_map(of_class).collect()
    }
}

impl KeyValues {
    /// An attempt with these values.
    fn attempt(&self) -> Attempt<'_> {
        Attempt {
            method: &Method::POST,
            path: "/",
            query: None,
            host: &self.host,
            client: self.client,
            headers: &self.headers,
            body: AttemptBody::Unread,
            descriptor: None,
            tls: Some(&self.tls),
        }
    }
}

impl KeyHasher {
    /// The key that an attempt with these values has.
    fn key_of_values(&self, limit: &Limit, class: &str, values: &KeyValues) -> Option<Key> {
        let account = values.account.as_ref().map(|account| self.of_account(account.as_bytes()));
        let name = account.map_or(AccountName::None, AccountName::Known);
        let named =
            limit.is_of_accounts().then_some(NamedAccount { name, owner: values.owner, listed: None });
        // No selector names a password.
        let attempt = values.attempt();
        let source =
            KeyInputs { attempt: &attempt, host: attempt.host, origin: values.address, passwords: &[] };
        self.keys(limit, class, source, named.as_ref()).ok()?.first().copied()
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
    use crate::attempt::{Client, TlsClient};
    use crate::client_fact::{ClientFact, ClientLookup};
    use crate::field::Field;
    use crate::geo::{Database, DatabaseKind, Geo};
    use crate::owner::tests::{SevenCookie, WORDS};
    use crate::{Mode, Rates, Route, RouteReading};
    use tollgate_bucket::Continuous;
    use tollgate_bucket::Span;

    fn spec(burst: u32) -> Spec {
        Spec::Continuous(Continuous::new(1, Span::from_secs(60), burst).unwrap())
    }

    fn of(key: &[KeyPart], name: &str) -> Limit {
        Limit { key: key.to_vec(), ..Limit::new(name, spec(1)) }
    }

    fn selected(policy: &Policy, selector: &str) -> SelectedBuckets {
        policy.buckets_of(&BucketSelector::parse(selector.as_bytes(), &WORDS).unwrap(), &KeyHasher::seeded(1))
    }

    fn limits(refs: &[BucketRef]) -> Vec<usize> {
        refs.iter().map(|bucket_ref| bucket_ref.limit).collect()
    }

    #[test]
    fn only_what_is_kept_for_the_selector_alone_is_found() {
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
        let mut rates = Rates::default();
        for (network, spec) in [("10.0.0.0/8", Some(spec(9))), ("192.0.2.0/24", None)] {
            let class = rates.add(network, spec);
            rates.insert_network(network.parse().unwrap(), class);
        }
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

    const FINGERPRINT: &str = "t13d1516h2_8daaf6152771_e5627efa2ab1";

    /// A policy with a limit for each kind of key, and the selectors of what one attempt of a known owner pays from.
    fn every_kind_of_key() -> (Vec<Limit>, Vec<String>) {
        let header = || KeyPart::Header(http::HeaderName::from_static("x-key"));
        let cookie = || KeyPart::Cookie("sid".into());
        let rows: [(&[KeyPart], String); 13] = [
            (&[KeyPart::Ip], "127.0.3.7".into()),
            (&[KeyPart::User], "user+seven:alice,7".into()),
            (&[KeyPart::Owner], "seven:7".into()),
            (&[KeyPart::User, KeyPart::Ip], "ip+user:127.0.3.7,Alice".into()),
            (&[KeyPart::User, KeyPart::Owner], "seven+user:7,alice".into()),
            (&[KeyPart::Host], "host:A.example".into()),
            (&[header()], "header:X-Key=a,b".into()),
            (&[cookie(), KeyPart::Host], "cookie+host:sid=a=b,a.example".into()),
            (&[header(), cookie(), KeyPart::Ip], "ip+cookie+header:127.0.3.7,sid=a=b,x-key=a,b".into()),
            (&[KeyPart::All], "all:limit9".into()),
            (&[KeyPart::Fact(ClientFact::Asn), KeyPart::Host], "asn+host:64500,a.example".into()),
            (&[KeyPart::Fact(ClientFact::Cert), KeyPart::Host], "cert+host:mail, relay,a.example".into()),
            (&[KeyPart::Fact(ClientFact::Ja4), KeyPart::Host], format!("ja4+host:{FINGERPRINT},a.example")),
        ];
        let named = |(at, (key, _)): (usize, &(&[KeyPart], String))| of(key, &format!("limit{at}"));
        (rows.iter().enumerate().map(named).collect(), rows.iter().map(|(_, text)| text.clone()).collect())
    }

    #[test]
    fn a_bucket_of_any_key_is_named_as_the_one_that_attempts_pay_from() {
        let (now, hasher) = (tollgate_bucket::Time::from_nanos(1 << 60), KeyHasher::seeded(3));
        let (limits, selectors) = every_kind_of_key();
        let route = Route {
            reading: RouteReading { user: vec![Field::Basic], ..RouteReading::default() },
            limits: (0..limits.len()).collect(),
            ..Route::new("login", vec!["POST /login".parse().unwrap()])
        };
        let asn = std::fs::read(format!("{}/tests/geo/asn.mmdb", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let asn = Some(Database::new(asn, DatabaseKind::Asn).unwrap());
        let lookup: Arc<dyn ClientLookup> = Arc::new(Geo { asn, country: None });
        let policy = Policy::new(vec![route], limits)
            .with_lookup(Some(lookup))
            .with_owner_cookie(Some(Arc::new(SevenCookie)));
        let mut headers = http::HeaderMap::new();
        for (name, value) in [
            ("authorization", "Basic YWxpY2U6eA==".to_owned()),
            ("x-key", "a,b".into()),
            ("cookie", "sid=a=b".into()),
            ("cookie", "seven=7".into()),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        let client = Client::from_ip([127, 0, 3, 7].into());
        let (method, path) = (&Method::POST, "/login");
        let body = AttemptBody::Whole(b"");
        let tls = TlsClient {
            certificate: Some("mail, relay".to_owned()),
            fingerprint: Some(FINGERPRINT.to_owned()),
            monitor: None,
        };
        let attempt = Attempt {
            method,
            path,
            query: None,
            host: "a.example",
            client,
            headers: &headers,
            body,
            descriptor: None,
            tls: Some(&tls),
        };
        let charges = policy.charges(&attempt, &hasher, now).unwrap().charges;
        assert_eq!(
            charges.iter().filter(|charge| charge.limit == 1).count(),
            0,
            "limit2 is for known owners"
        );
        for (at, text) in selectors.iter().enumerate() {
            let found =
                policy.buckets_of(&BucketSelector::parse(text.as_bytes(), &WORDS).unwrap(), &hasher).buckets;
            let found = found.iter().find(|found| found.limit == at).unwrap_or_else(|| panic!("{text}"));
            let charged = charges.iter().find(|charge| charge.limit == at);
            assert!(at == 1 || charged.unwrap().key == found.key, "{text}");
        }
    }

    #[test]
    fn an_address_names_what_it_pays_from_without_the_value() {
        let header = KeyPart::Header(http::HeaderName::from_static("x-key"));
        let limits = vec![of(std::slice::from_ref(&header), "key"), of(&[header, KeyPart::Host], "pair")];
        let policy = Policy::new(vec![], limits);
        let found = selected(&policy, "192.0.2.1");
        assert_eq!((limits_of(&found), found.not_addressable), (vec![0], vec![1]));
        assert_eq!(limits_of(&selected(&policy, "header:X-Key=1")), [0]);
        assert_eq!(limits_of(&selected(&policy, "header+host:X-Key=1,a.example")), [1]);
        assert_eq!(limits_of(&selected(&policy, "header:Y=1")), [0; 0]);
    }

    fn limits_of(found: &SelectedBuckets) -> Vec<usize> {
        limits(&found.buckets)
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
