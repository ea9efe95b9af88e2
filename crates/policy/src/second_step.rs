//! Second steps of sign-ins (`step = "after"`): one-time codes, recovery codes, security questions. They name no account,
//! so they pay from the accounts whose sign-ins had one of their cookies.
//!
//! It names cookies and accounts, both as keyed hashes. The caller keeps what was seen: it is told which cookies
//! a sign-in had, and asked which accounts signed in with those of a second step.
//!
//! The file may name the session's cookie (`step_cookie`); else any that is long enough to be one counts, but for those
//! that many accounts have, such as a balancer's. If there are several cookies, or several accounts of one, all pay: a
//! client chooses what it sends, and must not hide an account behind another. `session_value` reads them.

use http::HeaderMap;
use http::header::SET_COOKIE;
use siphasher::sip128::SipHasher13;
use smallvec::SmallVec;

use super::Route;
use super::account::Account;
use super::attempt::Attempt;
use super::field::RequestFields;
use super::fingerprint::Fingerprint;
use super::identity::Identity;
use super::key::{AccountName, KeyHasher, NamedAccount, OwnerId, TooManyValues, write_bytes};
use super::owner_memory::IsRemembered;
use super::session_value::{MAX_SESSIONS, SessionValues, canonical_of_new};

/// The value of a cookie that may be a session's, as half of a keyed hash; its `Debug` form hides it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionCookie(u64);

/// The cookies of one message.
pub type SessionCookies = SmallVec<[SessionCookie; 4]>;

/// An account that a sign-in named; its `Debug` form hides it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SignedInAccount {
    account: u128,
    /// Whether its client was known as the owner of the account.
    is_owner: bool,
    listed: Option<Fingerprint>,
}

/// The accounts that signed in with one cookie.
pub type SignedInAccounts = SmallVec<[SignedInAccount; 1]>;

/// A sign-in that a second step may follow.
#[derive(Debug, Clone, Default)]
pub struct SignIn {
    /// The cookies of the request; none for a second step, whose other cookies are those of any attempt.
    pub cookies: SessionCookies,
    /// The accounts that it names, or, for a second step, follows.
    pub accounts: SignedInAccounts,
}

/// What is known from earlier attempts.
#[derive(Clone, Copy)]
pub struct Remembered<'k> {
    /// Which clients are.
    pub is_known: IsRemembered<'k>,
    /// Finds the accounts that signed in with this cookie; none if they are more than one session has.
    pub signed_in: &'k dyn Fn(SessionCookie) -> SignedInAccounts,
}

impl Remembered<'_> {
    /// Nothing.
    pub const NOTHING: Remembered<'static> =
        Remembered { is_known: &|_| false, signed_in: &|_| SignedInAccounts::new() };
}

impl SignIn {
    /// Adds another reading of the same request.
    pub(super) fn and(&mut self, other: Self) {
        if self.cookies.is_empty() {
            self.cookies = other.cookies;
        }
        let new = other.accounts.into_iter().filter(|account| !self.accounts.contains(account));
        self.accounts.extend(new.collect::<SignedInAccounts>());
    }
}

impl Identity {
    /// Adds the accounts that signed in with a session of this request. If there are none, or may be others, it is an
    /// attempt of strangers: they share a bucket of the route, so that no address guesses next to the others'. Only if the
    /// route is a second step.
    ///
    /// # Errors
    /// [`TooManyValues`] for too many cookies.
    pub(super) fn follow_sign_ins(
        &mut self,
        route: &Route,
        request: &RequestFields<'_>,
        hasher: &KeyHasher,
        remembered: Remembered<'_>,
    ) -> Result<(), TooManyValues> {
        let Some(step) = &route.step else { return Ok(()) };
        self.is_following = true;
        let mut followed = SignedInAccounts::new();
        let (sessions, is_ambiguous) = hasher.sessions(request.attempt, step.cookie.as_deref())?;
        for session in sessions {
            let new = (remembered.signed_in)(session).into_iter().filter(|one| !followed.contains(one));
            followed.extend(new.collect::<SignedInAccounts>());
        }
        if !followed.is_empty() && self.accounts == 0 {
            self.named.clear();
        }
        if followed.is_empty() || is_ambiguous {
            self.named.push(NamedAccount { name: hasher.strangers(&route.name), ..NamedAccount::NONE });
        }
        self.accounts = self.accounts.saturating_add(u32::try_from(followed.len()).unwrap_or(u32::MAX));
        self.named.extend(followed.into_iter().map(|account| account.charged(hasher)));
        Ok(())
    }

    /// What a second step may follow: the accounts of this attempt, with its cookies.
    ///
    /// # Errors
    /// [`TooManyValues`] for too many cookies.
    pub(super) fn sign_in(
        &self,
        route: &Route,
        request: &RequestFields<'_>,
        hasher: &KeyHasher,
    ) -> Result<SignIn, TooManyValues> {
        let accounts = || self.named.iter().filter_map(SignedInAccount::of).collect();
        match self.accounts {
            0 => Ok(SignIn::default()),
            _ if self.is_following => Ok(SignIn { accounts: accounts(), ..SignIn::default() }),
            _ if !route.may_be_followed() => Ok(SignIn::default()),
            _ => {
                let (cookies, _) = hasher.sessions(request.attempt, None)?;
                Ok(SignIn { cookies, accounts: accounts() })
            }
        }
    }
}

impl SignedInAccount {
    /// Whether it is this account.
    #[must_use]
    pub fn is(&self, account: &Account, hasher: &KeyHasher) -> bool {
        self.account == hasher.of_account(account.as_bytes())
    }

    /// The account of a sign-in; `None` for one that cannot be read.
    pub(super) fn of(named: &NamedAccount) -> Option<Self> {
        match named.name {
            AccountName::Known(account) => {
                Some(Self { account, is_owner: named.owner.is_some(), listed: named.listed })
            }
            AccountName::None | AccountName::Strangers(_) => None,
        }
    }

    /// What a second step is charged as. All known clients of an account share one bucket there: a right
    /// password makes any number of them.
    pub(super) fn charged(self, hasher: &KeyHasher) -> NamedAccount {
        let shared = || OwnerId(hasher.of(|hasher| write_bytes(hasher, b'2', &self.account.to_be_bytes())));
        NamedAccount {
            name: AccountName::Known(self.account),
            owner: self.is_owner.then(shared),
            listed: self.listed,
        }
    }
}

impl KeyHasher {
    /// What a request may name its session by, and whether it may name another one as well. With the name of the
    /// session's cookie, that one alone counts.
    ///
    /// # Errors
    /// [`TooManyValues`] beyond [`MAX_SESSIONS`](super::session_value::MAX_SESSIONS).
    pub(super) fn sessions(
        &self,
        attempt: &Attempt<'_>,
        cookie: Option<&str>,
    ) -> Result<(SessionCookies, bool), TooManyValues> {
        let SessionValues { found, is_ambiguous } = SessionValues::of(attempt, cookie)?;
        Ok((found.iter().map(|value| self.session_cookie(value)).collect(), is_ambiguous))
    }

    /// The cookies that a response sets and that may be a session's; of very many the last, which browsers keep.
    #[must_use]
    pub fn new_session_cookies(&self, headers: &HeaderMap) -> SessionCookies {
        let values = headers.get_all(SET_COOKIE).iter().rev().filter_map(|line| {
            let pair = line.as_bytes().split(|&byte| byte == b';').next()?;
            let at = pair.iter().position(|&byte| byte == b'=')?;
            canonical_of_new(&pair[at + 1..])
        });
        values.take(MAX_SESSIONS).map(|value| self.session_cookie(&value)).collect()
    }

    /// What all second steps of a route are charged as that follow no sign-in that is known.
    pub(super) fn strangers(&self, route: &str) -> AccountName {
        AccountName::Strangers(self.of(|hasher| write_bytes(hasher, b'R', route.as_bytes())))
    }

    fn session_cookie(&self, value: &[u8]) -> SessionCookie {
        let hash = self.of(|hasher: &mut SipHasher13| write_bytes(hasher, b'S', value));
        #[expect(clippy::cast_possible_truncation, reason = "half of a hash is a hash")]
        let half = hash as u64;
        SessionCookie(half)
    }
}

impl std::fmt::Debug for SessionCookie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionCookie(hidden)")
    }
}

impl std::fmt::Debug for SignedInAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SignedInAccount(hidden)")
    }
}

impl std::fmt::Debug for Remembered<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Remembered")
    }
}

#[cfg(test)]
mod tests {
    use http::header::COOKIE;
    use http::{HeaderValue, Method};

    use super::super::attempt::{AttemptBody, Client};
    use super::*;

    #[test]
    fn only_values_that_can_be_a_sessions_count_whoever_sends_them() {
        let hasher = KeyHasher::seeded(1);
        let line = "lang=en-US; sid=%30123456789abcdef; dark; again=0123456789abcdef; other=0123456789abcde0";
        let attempt = Attempt {
            method: &Method::POST,
            path: "/",
            query: None,
            host: "",
            client: Client::from_ip([127, 0, 0, 1].into()),
            headers: &HeaderMap::from_iter([(COOKIE, HeaderValue::from_static(line))]),
            body: AttemptBody::Unread,
            descriptor: None,
            tls: None,
        };
        let set = ["sid=\"0123456789ABCDEF\"; Path=/", "state=en-US-and-more==; Path=/", "gone=; Max-Age=0"]
            .map(|line| (SET_COOKIE, HeaderValue::from_static(line)));
        let ((sent, is_ambiguous), set) = (
            hasher.sessions(&attempt, None).unwrap(),
            hasher.new_session_cookies(&HeaderMap::from_iter(set)),
        );
        assert_eq!((sent.len(), set.len(), is_ambiguous), (2, 2, false));
        assert!(set.contains(&sent[0]) && !set.contains(&sent[1]));
    }
}
