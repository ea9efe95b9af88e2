//! The key of a bucket, as an operator names it: `KIND:VALUE`, or several kinds and their values.
//!
//! It parses and finds nothing. The kinds are those of a limit's `key`, joined by `+` as there; the values follow in the
//! same order, joined by commas.

use std::fmt;
use std::net::IpAddr;

use http::header::COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::super::account::Account;
use super::super::attempt::{Client, TlsClient};
use super::super::client_fact::{AddressFacts, ClientFact};
use super::super::key::{KeyPart, OwnerId};
use super::super::owner::OwnerWords;

/// Selects the buckets whose keys have these values; its `Debug` form hides them.
#[derive(Clone, PartialEq, Eq)]
pub enum BucketSelector {
    /// By the values of their keys.
    Values(Box<KeyValues>),
    /// The one bucket that all clients share under the limit of this name.
    All(Box<str>),
}

/// The values of a bucket's key, one for each part.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyValues {
    pub(super) parts: Vec<KeyPart>,
    pub(super) client: Client,
    pub(super) account: Option<Account>,
    pub(super) owner: Option<OwnerId>,
    pub(super) host: String,
    pub(super) address: AddressFacts,
    pub(super) tls: TlsClient,
    /// With the cookies in `Cookie`.
    pub(super) headers: HeaderMap,
}

/// Why a text is not a selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BucketSelectorError {
    /// No known kind.
    #[error(
        "buckets are named ADDRESS, ip:ADDRESS, user:NAME, user+ip:NAME,ADDRESS, {0}:TOKEN, host:NAME, {facts}, \
         header:NAME=VALUE, cookie:NAME=VALUE or all:LIMIT",
        facts = facts()
    )]
    Kind(&'static str),
    /// One part twice, or `all` next to another.
    #[error("a key names each part once, and `all` must be alone")]
    Combination,
    /// Fewer values than kinds.
    #[error("there are fewer values than kinds: user+ip:NAME,ADDRESS")]
    Values,
    /// No address.
    #[error("the value of ip is not an address")]
    Address,
    /// No name.
    #[error("the value of user is empty")]
    Name,
    /// No owner.
    #[error("{0}")]
    Owner(&'static str),
    /// No host.
    #[error("the value of host is not text")]
    Host,
    /// No value of a fact.
    #[error("{}", .0.words().mistake)]
    Fact(ClientFact),
    /// No `NAME=VALUE` of a header.
    #[error("the value of header is not NAME=VALUE, as in header:X-Api-Key=abc")]
    Header,
    /// No `NAME=VALUE` of a cookie.
    #[error("the value of cookie is not NAME=VALUE, as in cookie:SESSION=abc")]
    Cookie,
    /// No name of a limit.
    #[error("what follows all: is not the name of a limit")]
    Limit,
}

impl BucketSelector {
    /// The buckets of a client's address.
    #[must_use]
    pub fn of_client(client: Client) -> Self {
        let parts = vec![KeyPart::Ip];
        Self::Values(Box::new(KeyValues { parts, client, ..KeyValues::default() }))
    }

    /// The buckets of an account.
    #[must_use]
    pub fn of_account(account: Account) -> Self {
        let (parts, account) = (vec![KeyPart::User], Some(account));
        Self::Values(Box::new(KeyValues { parts, account, ..KeyValues::default() }))
    }

    /// The buckets of an account as this client tries it.
    #[must_use]
    pub fn of_pair(account: Account, client: Client) -> Self {
        let (parts, account) = (vec![KeyPart::User, KeyPart::Ip], Some(account));
        Self::Values(Box::new(KeyValues { parts, account, client, ..KeyValues::default() }))
    }

    /// What a known owner pays from under limits by account.
    #[must_use]
    pub fn of_owner(account: Account, owner: OwnerId) -> Self {
        let parts = vec![KeyPart::User, KeyPart::Owner];
        let (account, owner) = (Some(account), Some(owner));
        Self::Values(Box::new(KeyValues { parts, account, owner, ..KeyValues::default() }))
    }

    /// Parses a key. A name or a value may be any bytes, as in a request. With several kinds the last of `user`,
    /// `cert`, `header` and `cookie` may hold commas.
    ///
    /// # Errors
    /// See [`BucketSelectorError`].
    pub fn parse(text: &[u8], owners: &OwnerWords) -> Result<Self, BucketSelectorError> {
        if let Ok(ip) = address(text) {
            return Ok(Self::of_client(Client::from_ip(ip)));
        }
        let no_kind = BucketSelectorError::Kind(owners.key);
        let (kinds, values) = split_at(text, b':').ok_or(no_kind)?;
        let kinds: Vec<&[u8]> = kinds.split(|&byte| byte == b'+').collect();
        if kinds == [b"all"] {
            let name = std::str::from_utf8(values).ok().filter(|name| !name.is_empty());
            return Ok(Self::All(name.ok_or(BucketSelectorError::Limit)?.into()));
        }
        let is_known = |kind: &[u8]| {
            KINDS.contains(&kind) || kind == owners.key.as_bytes() || ClientFact::of_word(kind).is_some()
        };
        if let Some(unknown) = kinds.iter().find(|kind| !is_known(kind)) {
            let is_all = *unknown == b"all";
            return Err(if is_all { BucketSelectorError::Combination } else { no_kind });
        }
        let mut found = KeyValues::default();
        for (kind, value) in kinds.iter().zip(split_values(&kinds, values)?) {
            found.add(kind, value, owners)?;
        }
        Ok(Self::Values(Box::new(found)))
    }

    /// The client, if its address is the whole key.
    #[must_use]
    pub fn client(&self) -> Option<Client> {
        match self {
            Self::Values(values) if values.parts == [KeyPart::Ip] => Some(values.client),
            _ => None,
        }
    }

    /// The account, if its name is the whole key.
    #[must_use]
    pub fn account(&self) -> Option<&Account> {
        match self {
            Self::Values(values) if values.parts == [KeyPart::User] => values.account.as_ref(),
            _ => None,
        }
    }

    /// Whether it names an address, an account or an owner, and nothing that other people share.
    #[must_use]
    pub fn is_of_one(&self) -> bool {
        let is_of_one = |part: &KeyPart| matches!(part, KeyPart::Ip | KeyPart::User | KeyPart::Owner);
        match self {
            Self::Values(values) => values.parts.iter().all(is_of_one),
            Self::All(_) => false,
        }
    }
}

impl KeyValues {
    fn add(&mut self, kind: &[u8], value: &[u8], owners: &OwnerWords) -> Result<(), BucketSelectorError> {
        let part = match kind {
            b"ip" => {
                self.client = Client::from_ip(address(value)?);
                KeyPart::Ip
            }
            b"user" if value.is_empty() => return Err(BucketSelectorError::Name),
            b"user" => {
                self.account = Some(Account::fold(value));
                KeyPart::User
            }
            owner if owner == owners.key.as_bytes() => {
                let named = (owners.owner_of)(value);
                self.owner = Some(named.ok_or(BucketSelectorError::Owner(owners.no_owner))?);
                KeyPart::Owner
            }
            b"host" => {
                let host = std::str::from_utf8(value).map_err(|_| BucketSelectorError::Host)?;
                self.host = host.trim_end_matches('.').to_ascii_lowercase();
                KeyPart::Host
            }
            b"header" => self.add_header(value).ok_or(BucketSelectorError::Header)?,
            kind => match ClientFact::of_word(kind) {
                Some(fact) => {
                    let put = fact.put(value, &mut self.address, &mut self.tls);
                    put.ok_or(BucketSelectorError::Fact(fact))?;
                    KeyPart::Fact(fact)
                }
                None => self.add_cookie(value).ok_or(BucketSelectorError::Cookie)?,
            },
        };
        if self.parts.contains(&part) {
            return Err(BucketSelectorError::Combination);
        }
        self.parts.push(part);
        Ok(())
    }

    fn add_header(&mut self, pair: &[u8]) -> Option<KeyPart> {
        let (name, value) = split_at(pair, b'=')?;
        let name = HeaderName::from_bytes(name).ok()?;
        self.headers.append(&name, HeaderValue::from_bytes(value).ok()?);
        Some(KeyPart::Header(name))
    }

    fn add_cookie(&mut self, pair: &[u8]) -> Option<KeyPart> {
        let (name, value) = split_at(pair, b'=')?;
        let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty())?;
        let is_one = !pair.contains(&b';') && value.trim_ascii_end() == value && name.trim_ascii() == name;
        self.headers.append(COOKIE, HeaderValue::from_bytes(pair).ok().filter(|_| is_one)?);
        Some(KeyPart::Cookie(name.to_owned()))
    }
}

impl Default for KeyValues {
    fn default() -> Self {
        let (parts, headers) = Default::default();
        let (account, owner, address, tls, host) = Default::default();
        Self { parts, client: Client::UnixSocket, account, owner, host, address, tls, headers }
    }
}

/// One value for each kind. Commas within belong to the last kind whose values may hold them.
fn split_values<'t>(kinds: &[&[u8]], values: &'t [u8]) -> Result<Vec<&'t [u8]>, BucketSelectorError> {
    let may_hold_commas = |kind: &&[u8]| {
        matches!(*kind, b"user" | b"header" | b"cookie")
            || ClientFact::of_word(kind).is_some_and(ClientFact::may_hold_commas)
    };
    let free = kinds.iter().rposition(may_hold_commas).unwrap_or(0);
    let mut before: Vec<&[u8]> = values.splitn(free + 1, |&byte| byte == b',').collect();
    let rest = before.pop().unwrap_or_default();
    let mut behind: Vec<&[u8]> = rest.rsplitn(kinds.len() - free, |&byte| byte == b',').collect();
    behind.reverse();
    before.append(&mut behind);
    if before.len() == kinds.len() { Ok(before) } else { Err(BucketSelectorError::Values) }
}

fn split_at(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&byte| byte == separator)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

fn address(text: &[u8]) -> Result<IpAddr, BucketSelectorError> {
    let address = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    address.ok_or(BucketSelectorError::Address)
}

impl fmt::Debug for BucketSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Values(values) => values.fmt(f),
            Self::All(limit) => write!(f, "BucketSelector(all:{limit})"),
        }
    }
}

impl fmt::Debug for KeyValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyValues({:?}, hidden)", self.parts)
    }
}

/// The facts and their values, as an operator names them.
fn facts() -> String {
    let named = ClientFact::ALL.map(|fact| format!("{}:{}", fact.words().word, fact.words().value));
    named.join(", ")
}

const KINDS: [&[u8]; 5] = [b"ip", b"user", b"host", b"header", b"cookie"];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::owner::tests::WORDS;

    fn parsed(text: &str) -> KeyValues {
        match BucketSelector::parse(text.as_bytes(), &WORDS) {
            Ok(BucketSelector::Values(values)) => *values,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn an_address_may_stand_alone_and_a_name_is_folded() {
        assert_eq!(parsed("::ffff:192.0.2.1"), parsed("ip:192.0.2.1"));
        assert_eq!(parsed("2001:db8::1"), parsed("ip:2001:db8::1"));
        assert_eq!(parsed("user: ALICE"), parsed("user:alice"));
        assert_eq!(parsed("host:A.example."), parsed("host:a.example"));
        assert!(BucketSelector::parse(b"user:\xff", &WORDS).is_ok(), "any bytes, as in a form");
    }

    #[test]
    fn values_follow_their_kinds_and_commas_belong_to_names() {
        let both = parsed("user+ip:last, first,192.0.2.1");
        assert_eq!(
            (both.client, &both.account),
            (parsed("192.0.2.1").client, &parsed("user:last, first").account)
        );
        assert_eq!(parsed("ip+user:192.0.2.1,last, first").account, both.account);
        let three = parsed("header+host+cookie:X-Key=a,b.example,SID=c,d");
        assert_eq!(
            (&three.headers["x-key"], &*three.host, &three.headers["cookie"]),
            (&HeaderValue::from_static("a"), "b.example", &HeaderValue::from_static("SID=c,d"),)
        );
        let fingerprint = parsed("ja4+user:t13d1516h2_8DAAF6152771_e5627efa2ab1,alice");
        assert_eq!(fingerprint.tls.fingerprint.as_deref(), Some("t13d1516h2_8daaf6152771_e5627efa2ab1"));
        assert_eq!(BucketSelector::parse(b"all:a:b", &WORDS), Ok(BucketSelector::All("a:b".into())));
    }

    #[test]
    fn what_is_no_key_is_refused_by_its_part() {
        for (text, error) in [
            ("alice", BucketSelectorError::Kind("seven")),
            ("", BucketSelectorError::Kind("seven")),
            ("IP:192.0.2.1", BucketSelectorError::Kind("seven")),
            ("ip+:192.0.2.1,", BucketSelectorError::Kind("seven")),
            ("ip:", BucketSelectorError::Address),
            ("ip:192.0.2.0/24", BucketSelectorError::Address),
            ("ip:192.0.2.1 ", BucketSelectorError::Address),
            ("user:", BucketSelectorError::Name),
            ("user+ip:alice", BucketSelectorError::Values),
            ("user+ip:alice,bob", BucketSelectorError::Address),
            ("ip+ip:192.0.2.1,192.0.2.2", BucketSelectorError::Combination),
            ("header+header:A=1,a=2", BucketSelectorError::Combination),
            ("all+ip:a,192.0.2.1", BucketSelectorError::Combination),
            ("all:", BucketSelectorError::Limit),
            ("seven:alice", BucketSelectorError::Owner("no seven")),
            ("asn:AS64500", BucketSelectorError::Fact(ClientFact::Asn)),
            ("ja4:t13d1516h2", BucketSelectorError::Fact(ClientFact::Ja4)),
            ("header:X-Key", BucketSelectorError::Header),
            ("header:X Key=1", BucketSelectorError::Header),
            ("header:A=\n", BucketSelectorError::Header),
            ("cookie:=1", BucketSelectorError::Cookie),
            ("cookie:a=1;b", BucketSelectorError::Cookie),
        ] {
            assert_eq!(BucketSelector::parse(text.as_bytes(), &WORDS), Err(error), "{text}");
        }
    }

    #[test]
    fn values_are_not_shown() {
        let selector = BucketSelector::parse(b"user+header:planted,X-Api-Key=planted", &WORDS).unwrap();
        assert!(!format!("{selector:?}").contains("planted"), "{selector:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            kinds in "(ip|user|seven|host|header|cookie|all)?([+](ip|user|header|x))?:?",
            values in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let _ = BucketSelector::parse(&[kinds.as_bytes(), &values].concat(), &WORDS);
            let _ = BucketSelector::parse(&values, &WORDS);
        }
    }
}
