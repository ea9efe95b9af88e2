//! An attempt, as one route reads it: what a defence may ask of it.

use std::collections::HashSet;

use http::header::CONTENT_ENCODING;
use smallvec::SmallVec;

use super::super::attempt::{Attempt, AttemptBody, SearchedBody};
use super::super::client_fact::AddressFacts;
use super::super::field::Passwords;
use super::super::fingerprint::Fingerprint;
use super::super::key::{KeyHasher, KeyInputs, NamedAccount, PrefixLengths, TooManyValues, write_bytes};
use super::super::limit::Limit;
use super::super::network::NetworkSet;
use super::AttemptNote;
use tollgate_bucket::{Key, Time};

/// An attempt, as one route reads it.
#[derive(Clone, Copy)]
pub struct ReadAttempt<'a> {
    pub(in super::super) attempt: &'a Attempt<'a>,
    pub(in super::super) hasher: &'a KeyHasher,
    pub(in super::super) now: Time,
    /// Its host, as far as buckets distinguish hosts.
    pub(in super::super) host: &'a str,
    pub(in super::super) origin: AddressFacts,
    /// Whether its client is known as the owner of its account.
    pub(in super::super) is_owner: bool,
    /// What it names; nothing if the body was not read yet, or nobody needs accounts.
    pub(in super::super) named: &'a [NamedAccount],
    /// Its passwords; `None` if the body was not read yet, or nobody needs them.
    pub(in super::super) passwords: Option<&'a Passwords>,
}

impl ReadAttempt<'_> {
    /// Whether its client has an address in one of these networks.
    #[must_use]
    pub fn is_from(&self, networks: &NetworkSet) -> bool {
        self.attempt.client.known_ip().is_some_and(|ip| networks.find_translated(ip).is_some())
    }

    /// Whether its client is known as the owner of the account that it names.
    #[must_use]
    pub fn is_of_owner(&self) -> bool {
        self.is_owner
    }

    /// The hash of its client, whose addresses of one prefix are one; `None` for one without its own address.
    #[must_use]
    pub fn client(&self, prefixes: PrefixLengths) -> Option<u64> {
        self.attempt.client.known_ip()?;
        Some(self.any_client(prefixes))
    }

    /// The same; all clients without an address count as one.
    #[must_use]
    pub fn any_client(&self, prefixes: PrefixLengths) -> u64 {
        self.hasher.tag_of_client(prefixes, self.attempt.client)
    }

    /// The hash of the autonomous system of its client, or of the client's network where that is unknown; `None` for one
    /// without its own address.
    #[must_use]
    pub fn network(&self) -> Option<u64> {
        self.hasher.tag_of_network(self.origin, self.attempt.client)
    }

    /// Whether it names one of these accounts, and its client is not known as the owner.
    #[must_use]
    pub fn is_strangers_at(&self, accounts: &HashSet<Fingerprint>) -> bool {
        let mut strangers = self.named.iter().filter(|named| named.owner.is_none());
        strangers.any(|named| named.listed.is_some_and(|account| accounts.contains(&account)))
    }

    /// The buckets that it has under a limit without passwords in its key, also of known clients; none if the
    /// limit exempts the client, or depends on accounts that are not known yet.
    ///
    /// # Errors
    /// [`TooManyValues`] beyond eight values of a header or cookie.
    pub fn buckets_of(&self, limit: &Limit) -> Result<SmallVec<[Key; 1]>, TooManyValues> {
        if limit.exempts(self.attempt.client) {
            return Ok(SmallVec::new());
        }
        let inputs =
            KeyInputs { attempt: self.attempt, host: self.host, origin: self.origin, passwords: &[] };
        if !limit.is_of_accounts() {
            return self.hasher.keys(limit, "", inputs, None);
        }
        let mut found = SmallVec::new();
        for named in self.named {
            found.extend(self.hasher.keys(limit, "", inputs, Some(&named.without_owner()))?);
        }
        Ok(found)
    }

    /// The passwords that it carries, decoded as by the application.
    pub fn passwords(&self) -> impl Iterator<Item = &[u8]> {
        self.passwords.into_iter().flat_map(Passwords::iter)
    }

    /// The hash of the whole request, under a key that lives for a day in the memory of this process; `None` if its body
    /// is not known as it is sent. Only lines that proxies and libraries write again for each request are left out.
    #[must_use]
    pub fn whole(&self) -> Option<AttemptNote> {
        let Attempt { method, path, query, host, headers, body, descriptor: None, .. } = self.attempt else {
            return None;
        };
        let (AttemptBody::Whole(body) | AttemptBody::Searched(SearchedBody { bytes: body, .. })) = *body
        else {
            return None;
        };
        // An application may find more in a coding than was decoded here.
        if headers.contains_key(CONTENT_ENCODING) {
            return None;
        }
        let whole = self.hasher.of(|hasher| {
            for part in [method.as_str(), path, host, query.unwrap_or("?")] {
                write_bytes(hasher, b'g', part.as_bytes());
            }
            for (name, value) in headers.iter().filter(|(name, _)| !NEW_EACH_TIME.contains(&name.as_str())) {
                write_bytes(hasher, b'g', name.as_str().as_bytes());
                write_bytes(hasher, b'g', value.as_bytes());
            }
            write_bytes(hasher, b'g', body);
        });
        let [high, low] = self.hasher.of_the_day(&whole.to_be_bytes(), self.now)?;
        Some(AttemptNote(high, low))
    }
}

/// Lines of a request that is sent again which differ although its sender means the same. No application takes a password
/// from them.
const NEW_EACH_TIME: [&str; 10] = [
    "date",
    "forwarded",
    "traceparent",
    "tracestate",
    "via",
    "x-forwarded-for",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-real-ip",
    "x-request-id",
];
