//! The key of a bucket: the parts of a limit's `key`, hashed into a [`Key`].
//!
//! Every part is written with its kind and its length, so that no two different lists of parts share a hash input
//! (`1.2.3.4` + `5/login` is not `1.2.3.45` + `/login`). The hash is SipHash-1-3 with 128 bits under a secret, which is
//! random per process, or common to an installation if gates share a store: without it an attacker can neither aim at a
//! bucket nor recover a client from a key.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;

use http::HeaderName;
use siphasher::sip128::{Hasher128, SipHasher13};
use smallvec::{SmallVec, smallvec};

use super::Limit;
use super::attempt::{Attempt, Client};
use super::client_fact::{AddressFacts, ClientFact, FactValue};
use super::fingerprint::Fingerprint;
use super::network::{embedded_ipv4, is_6to4, is_nat64};
use super::password_key::PasswordKey;
use tollgate_bucket::{Key, Time};

/// One part of a limit's `key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPart {
    /// The client's address, cut to the limit's prefix length.
    Ip,
    /// The host of the request.
    Host,
    /// Nothing: one bucket for all clients.
    All,
    /// The account of the attempt.
    User,
    /// The owner of the account, as far as something makes them known.
    Owner,
    /// A header's value, byte for byte.
    Header(HeaderName),
    /// A cookie's value, byte for byte.
    Cookie(String),
    /// A fact of the client.
    Fact(ClientFact),
    /// The password that is tried.
    Password,
}

/// What makes the owner of an account known; attempts with the same id share a budget. Its `Debug` form hides it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OwnerId(pub u128);

impl std::fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OwnerId(hidden)")
    }
}

/// The prefix lengths of addresses that share a bucket, in bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixLengths {
    /// 0 to 32.
    pub ipv4: u8,
    /// 0 to 128.
    pub ipv6: u8,
}

impl Default for PrefixLengths {
    /// One IPv4 address, one IPv6 /64: the addresses of a single household.
    fn default() -> Self {
        Self { ipv4: 32, ipv6: 64 }
    }
}

impl PrefixLengths {
    /// The address with all but the leading bits cleared, in canonical form. An IPv6 address with an embedded public
    /// IPv4 address becomes that address: see [`embedded_ipv4`].
    #[must_use]
    pub fn mask(self, ip: IpAddr) -> IpAddr {
        let ip = ip.to_canonical();
        let ip = embedded_ipv4(ip).map_or(ip, IpAddr::V4);
        let length = u32::from(self.length(ip));
        match ip {
            IpAddr::V4(v4) => {
                IpAddr::V4((v4.to_bits() & u32::MAX.checked_shl(32 - length).unwrap_or(0)).into())
            }
            IpAddr::V6(v6) => {
                IpAddr::V6((v6.to_bits() & u128::MAX.checked_shl(128 - length).unwrap_or(0)).into())
            }
        }
    }

    /// The prefix length for this address, in bits.
    pub(super) fn length(self, ip: IpAddr) -> u8 {
        let (ipv4, ipv6) = (self.ipv4.min(32), self.ipv6.min(128));
        match ip {
            IpAddr::V4(_) => ipv4,
            // Here the embedded IPv4 address is private. A 6to4 site is one such address with 2^16 networks, and a
            // NAT64 translator has one client for each address.
            IpAddr::V6(v6) if is_6to4(v6) => ipv6.min(48),
            IpAddr::V6(v6) if is_nat64(v6) => 96 + ipv4,
            IpAddr::V6(_) => ipv6,
        }
    }
}

/// Hashes keys of buckets under the secret of this process or installation.
#[derive(Clone)]
pub struct KeyHasher(SipHasher13, [u64; 2], PasswordKey);

impl Default for KeyHasher {
    fn default() -> Self {
        // The standard library seeds each `RandomState` from the operating system's randomness.
        Self::of_secret([RandomState::new().hash_one(0_u8), RandomState::new().hash_one(1_u8)])
    }
}

impl KeyHasher {
    /// A hasher without a real secret: for simulations, where the same seed has to give the same run.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self::of_secret([seed, 0])
    }

    /// The hasher of this [secret](Self::secret), as a snapshot holds it.
    #[must_use]
    pub fn of_secret(secret: [u64; 2]) -> Self {
        let [one, two] = secret;
        Self(SipHasher13::new_with_keys(one, two), secret, PasswordKey::default())
    }

    /// The secret, for snapshots. It has to stay private: a reader of it can compute keys.
    #[must_use]
    pub fn secret(&self) -> [u64; 2] {
        self.1
    }
}

impl std::fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyHasher(secret)")
    }
}

/// What the parts of a key are read from.
#[derive(Clone, Copy)]
pub(super) struct KeyInputs<'k> {
    pub(super) attempt: &'k Attempt<'k>,
    /// The host of the request, as far as buckets distinguish hosts.
    pub(super) host: &'k str,
    pub(super) origin: AddressFacts,
    /// The hashes of the passwords, each once; `None` where there is none, or one that cannot be read.
    pub(super) passwords: &'k [Option<u128>],
}

/// A client sent too many values for one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than {MAX_VALUES} values for one header or cookie")]
pub struct TooManyValues;

impl KeyHasher {
    /// The keys of an attempt under a limit: one, or several if a header or cookie was sent several times, so that a
    /// second value cannot hide the first. `class` is the name of the client's class under the limit, `account` the
    /// named account, if the key depends on one.
    ///
    /// # Errors
    /// [`TooManyValues`] beyond eight combinations.
    pub(super) fn keys(
        &self,
        limit: &Limit,
        class: &str,
        source: KeyInputs<'_>,
        account: Option<&NamedAccount>,
    ) -> Result<SmallVec<[Key; 1]>, TooManyValues> {
        let mut start = self.of_class(limit, class);
        if let Some(account) = account {
            write_identity(&mut start, limit, account, source.attempt.client);
        }
        let mut hashers: SmallVec<[SipHasher13; 1]> = smallvec![start];
        for part in &limit.key {
            extend(&mut hashers, part, limit.prefixes, source)?;
        }
        let mut keys = SmallVec::new();
        for hasher in &hashers {
            keys.push(Key(hasher.finish128().as_u128()));
        }
        Ok(keys)
    }

    fn of_class(&self, limit: &Limit, class: &str) -> SipHasher13 {
        let mut hasher = self.0;
        write_bytes(&mut hasher, b'l', limit.name.as_bytes());
        write_bytes(&mut hasher, b'c', class.as_bytes());
        hasher.write_u8(limit.kind as u8);
        hasher
    }

    /// The tag of a client's prefix, where a bucket counts clients.
    pub(super) fn tag_of_client(&self, lengths: PrefixLengths, client: Client) -> u64 {
        let mut hasher = self.start();
        hasher.write_u8(b't');
        write_client(&mut hasher, lengths, client);
        hasher.finish()
    }

    /// The tag of the autonomous system of a client, or of its network where that is unknown; `None` for a client without
    /// its own address.
    pub(super) fn tag_of_network(&self, origin: AddressFacts, client: Client) -> Option<u64> {
        client.known_ip()?;
        let mut hasher = self.start();
        hasher.write_u8(b'T');
        match origin.network() {
            Some(network) => hasher.write_u32(network),
            None => write_client(&mut hasher, NETWORK, client),
        }
        Some(hasher.finish())
    }

    /// The bucket of what another bucket was given.
    #[must_use]
    pub fn of_given(&self, bucket: Key) -> Key {
        self.derived(b'e', bucket.0)
    }

    /// The bucket of a voucher, by the MAC of the offer that it answers.
    #[must_use]
    pub fn of_voucher(&self, mac: [u8; 16]) -> Key {
        self.derived(b'p', u128::from_be_bytes(mac))
    }

    /// The hash of a password that is tried, under the key of the day; `None` without randomness.
    pub(super) fn of_tried(&self, password: &[u8], now: Time) -> Option<u128> {
        self.2.hash(password, now)
    }

    /// Both halves of a hash under the key of the day; `None` if the system gives no randomness for one.
    pub(super) fn of_the_day(&self, bytes: &[u8], now: Time) -> Option<[u64; 2]> {
        let hash = self.2.hash(bytes, now)?;
        #[expect(clippy::cast_possible_truncation, reason = "halves")]
        let halves = [(hash >> 64) as u64, hash as u64];
        Some(halves)
    }

    fn derived(&self, kind: u8, from: u128) -> Key {
        let mut hasher = self.start();
        hasher.write_u8(kind);
        hasher.write_u128(from);
        Key(hasher.finish128().as_u128())
    }

    /// The start of every hash.
    pub(super) fn start(&self) -> SipHasher13 {
        self.0
    }
}

/// Writes the account, if the limit has a bucket for each; and its owner, if the limit has a bucket for each or other
/// clients could empty the account's bucket.
fn write_identity(
    hasher: &mut SipHasher13,
    limit: &Limit,
    NamedAccount { name, owner, .. }: &NamedAccount,
    client: Client,
) {
    if limit.is_of_users() {
        write_name(hasher, limit, *name, client);
    }
    if let Some(OwnerId(owner)) = owner {
        hasher.write_u8(b'd');
        hasher.write_u128(*owner);
    }
}

/// Writes the account, or the client for an attempt without an account: one client could empty a common bucket of all
/// such attempts.
fn write_name(hasher: &mut SipHasher13, limit: &Limit, name: AccountName, client: Client) {
    match name {
        AccountName::Known(account) => {
            hasher.write_u8(b'a');
            hasher.write_u128(account);
        }
        AccountName::Strangers(route) => {
            hasher.write_u8(b'u');
            hasher.write_u128(route);
        }
        AccountName::None => {
            hasher.write_u8(b'x');
            write_client(hasher, limit.prefixes, client);
        }
    }
}

fn extend(
    hashers: &mut SmallVec<[SipHasher13; 1]>,
    part: &KeyPart,
    lengths: PrefixLengths,
    KeyInputs { attempt, host, origin, passwords }: KeyInputs<'_>,
) -> Result<(), TooManyValues> {
    // Without a value, or a known one, the client is charged, as for attempts without an account.
    let absent = |hasher: &mut SipHasher13| {
        hasher.write_u8(b'-');
        write_client(hasher, lengths, attempt.client);
    };
    match part {
        // `write_identity` wrote account and owner together.
        KeyPart::User | KeyPart::Owner | KeyPart::All => {}
        KeyPart::Ip => hashers.iter_mut().for_each(|hasher| write_client(hasher, lengths, attempt.client)),
        KeyPart::Host => hashers.iter_mut().for_each(|hasher| write_bytes(hasher, b'n', host.as_bytes())),
        KeyPart::Header(name) => {
            let values = attempt.headers.get_all(name).iter().map(http::HeaderValue::as_bytes);
            *hashers = fan_out(hashers, b'h', values, absent)?;
        }
        KeyPart::Fact(fact) => hashers.iter_mut().for_each(|hasher| match fact.of(origin, attempt.tls) {
            Some(FactValue::Number(number)) => {
                hasher.write_u8(fact.kind());
                hasher.write_u32(number);
            }
            Some(FactValue::Text(text)) => write_bytes(hasher, fact.kind(), text.as_bytes()),
            None => absent(hasher),
        }),
        KeyPart::Password => {
            let all = hashers.iter().flat_map(|hasher| passwords.iter().map(move |tried| (*hasher, *tried)));
            let all = all.map(|(mut hasher, tried)| {
                match tried {
                    Some(password) => {
                        hasher.write_u8(b'w');
                        hasher.write_u128(password);
                    }
                    None => absent(&mut hasher),
                }
                hasher
            });
            *hashers = all.collect();
        }
        KeyPart::Cookie(name) => *hashers = fan_out(hashers, b'k', cookie_values(attempt, name), absent)?,
    }
    Ok(())
}

fn fan_out<'v>(
    hashers: &[SipHasher13],
    kind: u8,
    values: impl Iterator<Item = &'v [u8]>,
    absent: impl Fn(&mut SipHasher13),
) -> Result<SmallVec<[SipHasher13; 1]>, TooManyValues> {
    let mut distinct: SmallVec<[Option<&[u8]>; 4]> = SmallVec::new();
    for value in values {
        if !distinct.contains(&Some(value)) {
            distinct.push(Some(value));
        }
        if distinct.len() * hashers.len() > MAX_VALUES {
            return Err(TooManyValues);
        }
    }
    if distinct.is_empty() {
        distinct.push(None);
    }
    let all = hashers.iter().flat_map(|hasher| distinct.iter().map(move |value| (*hasher, *value)));
    let all = all.map(|(mut hasher, value)| {
        match value {
            Some(value) => write_bytes(&mut hasher, kind, value),
            None => absent(&mut hasher),
        }
        hasher
    });
    Ok(all.collect())
}

fn cookie_values<'a>(attempt: &Attempt<'a>, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let lines = attempt.headers.get_all(http::header::COOKIE).iter();
    let pairs = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b';'));
    pairs.filter_map(move |pair| pair.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

pub(super) fn write_client(hasher: &mut SipHasher13, lengths: PrefixLengths, client: Client) {
    match client.ip().map(|ip| lengths.mask(ip)) {
        Some(IpAddr::V4(v4)) => {
            hasher.write_u16(u16::from_be_bytes([b'4', lengths.ipv4]));
            hasher.write_u32(v4.to_bits());
        }
        Some(IpAddr::V6(v6)) => {
            hasher.write_u16(u16::from_be_bytes([b'6', lengths.ipv6]));
            hasher.write_u128(v6.to_bits());
        }
        None => hasher.write_u8(b'u'),
    }
}

pub(super) fn write_bytes(hasher: &mut SipHasher13, kind: u8, bytes: &[u8]) {
    hasher.write_u8(kind);
    hasher.write_u64(bytes.len() as u64);
    hasher.write(bytes);
}

/// The network of a site.
const NETWORK: PrefixLengths = PrefixLengths { ipv4: 24, ipv6: 48 };

/// Values of one header, cookie or field that are accepted.
pub(super) const MAX_VALUES: usize = 8;

/// One account that an attempt names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct NamedAccount {
    /// The account.
    pub(super) name: AccountName,
    /// What makes its owner known: someone signed in from there before.
    pub(super) owner: Option<OwnerId>,
    /// What the rates of accounts are looked up by, if a limit has such.
    pub(super) listed: Option<Fingerprint>,
}

/// The account name of an attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AccountName {
    /// An account, by a keyed hash of its folded name.
    Known(u128),
    /// No account, or none that can be read: a bucket of the client's prefix is charged instead.
    None,
    /// All second steps of a route that follow no sign-in that is known, by a keyed hash of its name.
    Strangers(u128),
}

impl NamedAccount {
    /// What stands for an attempt without a readable account.
    pub(super) const NONE: Self = Self { name: AccountName::None, owner: None, listed: None };

    /// Whether it stands for everybody whose sign-in is not known.
    pub(super) fn is_of_strangers(&self) -> bool {
        matches!(self.name, AccountName::Strangers(_))
    }

    /// The same account without its owner.
    pub(super) fn without_owner(self) -> Self {
        Self { owner: None, ..self }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};

    use super::super::attempt::AttemptBody;
    use super::*;
    use tollgate_bucket::Span;
    use tollgate_bucket::{Continuous, Spec};

    fn attempt<'a>(client: &str, headers: &'a HeaderMap) -> Attempt<'a> {
        let client = Client::from_ip(client.parse().unwrap());
        Attempt {
            method: &Method::POST,
            path: "/",
            query: None,
            host: "a",
            client,
            headers,
            body: AttemptBody::Unread,
            descriptor: None,
            tls: None,
        }
    }

    fn keys(
        parts: &[KeyPart],
        client: &str,
        lines: &[(&'static str, &str)],
    ) -> Result<SmallVec<[Key; 1]>, TooManyValues> {
        // One secret, so that keys can be compared.
        keys_of(&KeyHasher::of_secret([1, 2]), parts, client, lines)
    }

    fn keys_of(
        hasher: &KeyHasher,
        parts: &[KeyPart],
        client: &str,
        lines: &[(&'static str, &str)],
    ) -> Result<SmallVec<[Key; 1]>, TooManyValues> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        let spec = Spec::Continuous(Continuous::new(1, Span::from_secs(1), 1).unwrap());
        let limit = Limit { key: parts.to_vec(), ..Limit::new("address", spec) };
        let source = KeyInputs {
            attempt: &attempt(client, &headers),
            host: "a",
            origin: AddressFacts::default(),
            passwords: &[],
        };
        hasher.keys(&limit, "", source, None)
    }

    #[test]
    fn addresses_of_one_prefix_share_a_key_and_others_do_not() {
        let key = |client| keys(&[KeyPart::Ip], client, &[]).unwrap();
        assert_eq!(key("2001:db8::1"), key("2001:db8::ffff"));
        assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    }

    #[test]
    fn every_length_of_a_prefix_masks_without_a_panic() {
        for ipv4 in 0..=32 {
            for ipv6 in [0, 1, 48, 64, 127, 128] {
                let lengths = PrefixLengths { ipv4, ipv6 };
                assert!(lengths.mask([255, 255, 255, 255].into()).is_ipv4());
                assert!(lengths.mask("2001:db8::1".parse().unwrap()).is_ipv6());
            }
        }
        assert_eq!(
            PrefixLengths { ipv4: 24, ipv6: 0 }.mask([192, 0, 2, 77].into()),
            IpAddr::from([192, 0, 2, 0])
        );
    }

    #[test]
    fn parts_cannot_be_shifted_into_each_other() {
        let parts =
            [KeyPart::Header(HeaderName::from_static("a")), KeyPart::Header(HeaderName::from_static("b"))];
        let key = |a, b| keys(&parts, "192.0.2.1", &[("a", a), ("b", b)]).unwrap();
        assert_ne!(key("12", "3"), key("1", "23"));
        assert_ne!(key("", "x"), keys(&parts, "192.0.2.1", &[("b", "x")]).unwrap(), "empty is not absent");
    }

    #[test]
    fn a_client_without_the_header_pays_for_itself() {
        for part in [KeyPart::Header(HeaderName::from_static("a")), KeyPart::Cookie("a".into())] {
            let of = |client| keys(std::slice::from_ref(&part), client, &[]).unwrap();
            assert_ne!(of("192.0.2.1"), of("192.0.2.2"), "one client cannot empty the bucket of another");
            assert_eq!(of("2001:db8::1"), of("2001:db8::2"), "by its prefix");
        }
    }

    #[test]
    fn a_second_value_does_not_hide_the_first() {
        let parts = [KeyPart::Cookie("sid".into())];
        let one = keys(&parts, "192.0.2.1", &[("cookie", "x=1; sid=a")]).unwrap();
        let both = keys(&parts, "192.0.2.1", &[("cookie", "sid=junk; sid=a"), ("cookie", "sid=a")]).unwrap();
        assert_eq!((one.len(), both.len()), (1, 2));
        assert!(both.contains(&one[0]));
        let many: Vec<String> = (0..9).map(|number| format!("sid={number}")).collect();
        assert_eq!(keys(&parts, "192.0.2.1", &[("cookie", &many.join(";"))]), Err(TooManyValues));
    }

    #[test]
    fn a_secret_is_never_shown() {
        assert_eq!(format!("{:?}", KeyHasher::default()), "KeyHasher(secret)");
    }
}
