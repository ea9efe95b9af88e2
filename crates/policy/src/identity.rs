//! The identity of an attempt: the accounts that it names, each as a keyed hash, and the owners known for them.
//!
//! Names and passwords are read, hashed and forgotten here, but for passwords that a defence needs. If a body names no account, or none that can be read, the
//! attempt is charged to its client: see [`AccountName::None`].

use std::hash::Hasher;
use std::sync::Arc;

use siphasher::sip128::{Hasher128, SipHasher13};
use smallvec::SmallVec;

use super::account::Account;
use super::attempt::Client;
use super::descriptor::Descriptor;
use super::field::{Half, Passwords, RequestFields, Values, are_out_of_place, values_of};
use super::fingerprint::Fingerprint;
use super::key::{AccountName, KeyHasher, NamedAccount, TooManyValues, write_bytes};
use super::legibility::decode_name;
use super::method::is_get_or_head;
use super::owner::{OwnerClaim, OwnerCookie};
use super::owner_memory::{IsRemembered, OwnerMemory, RememberedClient};
use super::route::SlottedRoute;
use tollgate_bucket::{Key, Time};

/// The identity of an attempt, as one route reads it; its `Debug` form hides it.
#[derive(Clone, Default)]
pub(super) struct Identity {
    /// The accounts that it names, and an [`AccountName::None`] if it names none or may name one that cannot be read.
    pub(super) named: SmallVec<[NamedAccount; 1]>,
    /// The hash of the password and its account, if there is one of each.
    pub(super) password: Option<u64>,
    /// The hashes of the passwords of the day, if a limit has a bucket for each; `None` if there is none, or may be one
    /// that cannot be read.
    pub(super) tried: SmallVec<[Option<u128>; 1]>,
    /// The number of guesses: pairs of an account and a password.
    pub(super) guesses: u32,
    /// The number of accounts.
    pub(super) accounts: u32,
    /// Whether a guess is elsewhere than in `Authorization: Basic`.
    pub(super) is_beside_authorization: bool,
    /// The passwords, if a defence needs them.
    pub(super) passwords: Option<Passwords>,
    /// Whether it follows another attempt, and nothing is proven by a success.
    pub(super) is_following: bool,
    /// Whether the application may have looked at something else than this account, and nothing is proven by a success.
    pub(super) is_beside_the_form: bool,
    /// The claim to be known as its owner, if there is a single account.
    pub(super) claim: Option<Arc<dyn OwnerClaim>>,
    /// Its client, as one that the set of that account may remember.
    pub(super) client: Option<RememberedClient>,
}

/// What an identity is read for.
#[derive(Clone, Copy)]
pub(super) struct IdentityReaders<'p> {
    /// What makes owners known.
    pub(super) owner_cookie: Option<&'p dyn OwnerCookie>,
    /// What is remembered of sign-ins.
    pub(super) owner_memory: Option<&'p dyn OwnerMemory>,
    /// Whether it remembers a client.
    pub(super) is_remembered: IsRemembered<'p>,
    /// Whether passwords matter.
    pub(super) reads_passwords: bool,
    /// Whether passwords have buckets.
    pub(super) keeps_passwords: bool,
    /// Whether defences need the passwords themselves.
    pub(super) shows_passwords: bool,
    /// Whether the file lists accounts.
    pub(super) lists_users: bool,
}

impl Identity {
    /// Reads the identity by the fields of a route.
    ///
    /// # Errors
    /// [`TooManyValues`] beyond eight accounts or passwords.
    pub(super) fn of(
        slotted @ SlottedRoute { route, slots }: SlottedRoute<'_>,
        request: &RequestFields<'_>,
        hasher: &KeyHasher,
        readers: IdentityReaders<'_>,
        now: Time,
    ) -> Result<Self, TooManyValues> {
        let users = match request.attempt.descriptor.and_then(Descriptor::user) {
            Some(user) => Values::of(user),
            None => values_of(&route.reading.user, &slots.user, Half::User, request)?,
        };
        let accounts = accounts_of(slotted, request, &users);
        let IdentityReaders { owner_cookie, lists_users, .. } = readers;
        let carried = owner_cookie.map(|cookie| cookie.read(request.attempt.headers, now));
        let known = |account: &Account| carried.as_ref()?.owner(&route.application, account);
        let named = accounts.iter().map(|account| NamedAccount {
            name: hasher.name_of(account),
            owner: known(account),
            listed: lists_users.then(|| Fingerprint::of_account(account)),
        });
        let is_beside_the_form = is_beside_the_form(slotted, request)?;
        let mut identity = Self { named: named.collect(), guesses: 1, is_beside_the_form, ..Self::default() };
        if accounts.is_empty() || users.is_unreadable() {
            identity.named.push(NamedAccount::NONE);
        }
        identity.accounts = u32::try_from(accounts.len()).unwrap_or(u32::MAX);
        identity.is_beside_authorization = users.is_beside_authorization();
        if readers.reads_passwords {
            identity.read_passwords(slotted, request, hasher, readers, now)?;
        }
        if let ([only], false, None) = (&*accounts, users.is_unreadable(), &route.step) {
            identity.claim = carried.as_ref().map(|carried| carried.claim(&route.application, only));
            identity.read_client(&route.application, only, request.attempt.client, hasher, readers);
        }
        Ok(identity)
    }

    /// Finds out whether the account has signed in from this client: then the attempt is that of its owner.
    fn read_client(
        &mut self,
        application: &str,
        account: &Account,
        client: Client,
        hasher: &KeyHasher,
        readers: IdentityReaders<'_>,
    ) {
        let Some(memory) = readers.owner_memory else { return };
        self.client = memory.client(hasher, client, application, account);
        if let (Some(client), [NamedAccount { owner: owner @ None, .. }]) = (&self.client, &mut *self.named) {
            *owner = (readers.is_remembered)(client).then_some(client.owner);
        }
    }

    fn read_passwords(
        &mut self,
        SlottedRoute { route, slots }: SlottedRoute<'_>,
        request: &RequestFields<'_>,
        hasher: &KeyHasher,
        readers: IdentityReaders<'_>,
        now: Time,
    ) -> Result<(), TooManyValues> {
        let values = values_of(&route.reading.password, &slots.password, Half::Password, request)?;
        let held = Passwords(values);
        let passwords = &held.0;
        self.is_beside_authorization |= passwords.is_beside_authorization();
        let mut all = passwords.iter();
        let first = all.next();
        let count = u32::from(first.is_some()) + u32::try_from(all.count()).unwrap_or(u32::MAX - 1);
        self.guesses = if self.accounts == 0 { 1 } else { self.accounts.saturating_mul(count.max(1)) };
        let is_one = count == 1 && !passwords.is_unreadable();
        if let (Some(password), [NamedAccount { name: AccountName::Known(only), .. }]) =
            (first.filter(|_| is_one), &*self.named)
        {
            self.password = Some(hasher.of_password(*only, password));
        }
        if readers.keeps_passwords {
            self.tried = tried(passwords, hasher, now);
        }
        self.passwords = readers.shows_passwords.then_some(held);
        Ok(())
    }

    /// Whether each account that it names is known to be that of this client.
    pub(super) fn is_of_owner(&self) -> bool {
        !self.named.is_empty() && self.named.iter().all(|named| named.owner.is_some())
    }

    /// The [`log_id`](KeyHasher::log_id) of the account, if it names a single one, and whether its
    /// owner is known.
    pub(super) fn for_logs(&self, hasher: &KeyHasher) -> (Option<u64>, bool) {
        match &*self.named {
            [NamedAccount { name: AccountName::Known(account), owner, .. }] => {
                (Some(hasher.log_id_of(*account)), owner.is_some())
            }
            _ => (None, false),
        }
    }

    /// The hash of the account, if it names a single one.
    pub(super) fn account(&self) -> Option<u64> {
        match &*self.named {
            #[expect(clippy::cast_possible_truncation, reason = "half of a hash is a hash")]
            [NamedAccount { name: AccountName::Known(account), .. }] => Some(*account as u64),
            _ => None,
        }
    }
}

/// Whether an application that reads the form alone sees no account here: in a page that is asked for, or in a form whose
/// name is in the query or a cookie. Who is signed in is answered alike with any name there.
fn is_beside_the_form(
    SlottedRoute { route, slots }: SlottedRoute<'_>,
    request: &RequestFields<'_>,
) -> Result<bool, TooManyValues> {
    let (method, patterns) = (request.attempt.method, &route.matching.patterns);
    match is_get_or_head(method) {
        true => Ok(!patterns.iter().any(|pattern| pattern.names_method(method))),
        false => are_out_of_place(&route.reading.user, &slots.user, Half::User, request),
    }
}

/// The accounts of these names, in each reading that a database may have.
fn accounts_of(
    SlottedRoute { route, slots }: SlottedRoute<'_>,
    request: &RequestFields<'_>,
    users: &Values,
) -> SmallVec<[Account; 1]> {
    let mut accounts: SmallVec<[Account; 1]> = SmallVec::new();
    for user in users.iter() {
        let user = if slots.has_domains { Account::without_domain(user) } else { user };
        let decoded = decode_name(request.attempt.headers, user);
        let decoded = decoded.as_deref().map(str::as_bytes);
        let cuts = |name| Account::cuts(name, route.reading.user_length);
        let read = cuts(user)
            .into_iter()
            .flat_map(|name| std::iter::once(Account::fold(name)).chain(Account::fold_without_later(name)));
        let decoded = decoded.into_iter().flat_map(cuts).map(Account::fold);
        // Folding may show the sign between domain and user: some write it wide.
        let of_user =
            |account: Account| if slots.has_domains { account.without_folded_domain() } else { account };
        // An empty name is not an account: an empty form, or Basic with a token as password.
        let all = read.chain(decoded).map(of_user);
        for account in all.filter(|account| !account.as_bytes().is_empty()) {
            if !accounts.contains(&account) {
                accounts.push(account);
            }
        }
    }
    accounts
}

/// An empty password is none: forms that sign in by a link send one for every account.
fn tried(passwords: &Values, hasher: &KeyHasher, now: Time) -> SmallVec<[Option<u128>; 1]> {
    let mut found: SmallVec<[Option<u128>; 1]> = SmallVec::new();
    for password in passwords.iter().filter(|password| !password.is_empty()) {
        let hash = hasher.of_tried(password, now);
        if !found.contains(&hash) {
            found.push(hash);
        }
    }
    if (found.is_empty() || passwords.is_unreadable()) && !found.contains(&None) {
        found.push(None);
    }
    found
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Identity({} accounts hidden)", self.accounts)
    }
}

impl KeyHasher {
    /// The hash of a folded account name.
    pub(super) fn of_account(&self, folded: &[u8]) -> u128 {
        self.of(|hasher| write_bytes(hasher, b'a', folded))
    }

    fn name_of(&self, account: &Account) -> AccountName {
        AccountName::Known(self.of_account(account.as_bytes()))
    }

    /// The id of an account in the log: 48 bits of a keyed hash that names no bucket. It is the same for all spellings
    /// of the name, as long as the secret is the same.
    #[must_use]
    pub fn log_id(&self, account: &Account) -> u64 {
        self.log_id_of(self.of_account(account.as_bytes()))
    }

    /// The id of a bucket in the log, likewise.
    #[must_use]
    pub fn log_id_of_key(&self, Key(key): Key) -> u64 {
        self.log_id_of(key)
    }

    fn log_id_of(&self, account: u128) -> u64 {
        let hash = self.of(|hasher| write_bytes(hasher, b'b', &account.to_be_bytes()));
        #[expect(clippy::cast_possible_truncation, reason = "a part of a hash is a hash")]
        let half = hash as u64;
        half >> 16
    }

    /// The hash of these texts, which names an attempt and no bucket.
    #[must_use]
    pub fn of_texts<'t>(&self, texts: impl IntoIterator<Item = &'t str>) -> u128 {
        self.of(|hasher| texts.into_iter().for_each(|text| write_bytes(hasher, b'M', text.as_bytes())))
    }

    fn of_password(&self, account: u128, password: &[u8]) -> u64 {
        let hash = self.of(|hasher| {
            write_bytes(hasher, b'p', password);
            hasher.write_u128(account);
        });
        #[expect(clippy::cast_possible_truncation, reason = "half of a hash is a hash")]
        let half = hash as u64;
        half
    }

    pub(super) fn of(&self, write: impl FnOnce(&mut SipHasher13)) -> u128 {
        let mut hasher = self.start();
        write(&mut hasher);
        hasher.finish128().as_u128()
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};
    use proptest::prelude::*;

    use super::super::attempt::{Attempt, AttemptBody, Client, SearchedBody};
    use super::super::field::{BodySearch, Field};
    use super::super::key::KeyPart;
    use super::super::{Limit, LimitKind, Policy, Route};
    use super::*;
    use crate::RouteReading;
    use tollgate_bucket::Span;
    use tollgate_bucket::{Continuous, Spec};

    /// Limits of all kinds by account, on a route that reads names from every kind of field.
    fn policy() -> Policy {
        let spec = Spec::Continuous(Continuous::new(1, Span::from_secs(60), 10).unwrap());
        let limit = |kind| Limit { key: vec![KeyPart::User], kind, ..Limit::new("account", spec) };
        let user = vec![
            Field::form("log").unwrap(),
            Field::json("/user/name").unwrap(),
            Field::query("user").unwrap(),
            Field::Basic,
        ];
        let route = Route {
            reading: RouteReading { user, ..RouteReading::default() },
            limits: vec![0, 1, 2],
            ..Route::new("login", vec!["POST /login".parse().unwrap()])
        };
        Policy::new(vec![route], [LimitKind::Rate, LimitKind::Cap, LimitKind::Escalation].map(limit).to_vec())
    }

    /// The number of accounts, and the buckets that are charged; `None` if there are too many.
    fn charged(client: &str, headers: &HeaderMap, query: &str, body: &[u8]) -> Option<(u32, Vec<Key>)> {
        let attempt = Attempt {
            method: &Method::POST,
            path: "/login",
            query: Some(query),
            host: "",
            client: client.parse().map_or(Client::UnixSocket, Client::from_ip),
            headers,
            body: AttemptBody::Whole(body),
            descriptor: None,
            tls: None,
        };
        let (policy, hasher) = (policy(), KeyHasher::seeded(1));
        let charged = |body| {
            let found = policy.charges(&Attempt { body, ..attempt }, &hasher, Time::default()).ok()?;
            Some((found.accounts?, found.charges.iter().map(|charge| charge.key).collect()))
        };
        let (whole, search) = (charged(AttemptBody::Whole(body)), BodySearch::default());
        // What the first search found is what the second one would find.
        for _ in 0..if body.is_empty() { 0 } else { 2 } {
            let searched = SearchedBody { bytes: body, found: &search };
            assert_eq!(charged(AttemptBody::Searched(searched)), whole);
        }
        whole
    }

    fn body() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            "(log|pwd|LOG|log\\[\\]|x)=[ -~]{0,8}(&(log|pwd)=[a-c%+ ]{0,3}){0,3}"
                .prop_map(String::into_bytes),
            "\\{\"user\": ?(null|1|\\{\"name\": ?(\"[a-c ]{0,2}\"|7|null)\\})[},]"
                .prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..40),
        ]
    }

    proptest! {
        /// L10: whatever is sent, two clients without an account never share a bucket.
        #[test]
        fn an_attempt_without_an_account_pays_for_its_client_and_no_other(
            body in body(),
            query in "(user=[a-b]{0,2}|pw=x|)",
            header in prop::option::of(("authorization", "Basic [A-Za-z0-9=]{0,12}")),
            kind in prop::sample::select(
                &["", "application/json", "text/html; charset=utf-16", "multipart/form-data"][..],
            ),
        ) {
            let mut headers = HeaderMap::new();
            headers.insert("content-type", kind.parse().unwrap());
            if let Some((name, value)) = &header {
                headers.insert(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
            }
            let of = |client| charged(client, &headers, &query, &body);
            // Undecodable UTF-16 may name any number of accounts.
            let Some((accounts, one)) = of("203.0.113.1") else { return Ok(()) };
            for other in ["203.0.113.2", "2001:db8::1", "a Unix socket"] {
                let (_, keys) = of(other).unwrap();
                // The buckets of the accounts, under each of three limits.
                let shared = keys.iter().filter(|key| one.contains(key)).count();
                prop_assert_eq!(shared, 3 * accounts as usize);
            }
            prop_assert_eq!(of("::ffff:203.0.113.1").unwrap().1, one);
        }
    }

    #[test]
    fn an_empty_name_is_none() {
        let headers = HeaderMap::new();
        for body in ["log=", "log=+", "log=%20%09", "log[]=&pwd=x", "", "{\"user\":{\"name\":\"\"}}"] {
            assert_eq!(charged("203.0.113.1", &headers, "", body.as_bytes()).unwrap().0, 0, "{body}");
        }
        assert_eq!(charged("203.0.113.1", &headers, "", b"log=&log=alice").unwrap().0, 1);
    }
}
