//! Known devices: a cookie that a browser gets after a sign-in, by OWASP's protocol of device cookies
//! (<https://owasp.org/www-community/Slow_Down_Online_Guessing_Attacks_with_Device_Cookies>).
//!
//! A token is valid for one account of one application and proves no identity: it only selects the budget that an
//! attempt is charged to. It is base64url of a version (1 byte), the time of issue (5 bytes of seconds), the account as
//! a keyed hash (16), a nonce that identifies the device (16), and HMAC-SHA-256 over all of it (32). One cookie carries
//! the tokens of all accounts that a browser knows, at most five.

mod cookie;
mod token;

use http::{HeaderMap, HeaderValue};
use smallvec::SmallVec;

use self::cookie::MAX_TOKENS;
use self::token::{AccountHash, DeviceToken, Nonce, TokenKey};
use super::account::Account;
use super::key::OwnerId;
use super::random_bytes;
use tollgate_bucket::{Span, Time};

/// `[device]`: issues and verifies tokens. Its `Debug` form hides the keys.
#[derive(Clone, PartialEq, Eq)]
pub struct Devices {
    /// Newest first, at least one: the first issues tokens, all verify tokens.
    keys: Vec<TokenKey>,
    ttl: Span,
    cookie: String,
}

/// The verified tokens of one browser; its `Debug` form hides them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct DeviceTokens(SmallVec<[VerifiedToken; MAX_TOKENS]>);

/// A token whose MAC and age are valid.
#[derive(Clone, Copy, PartialEq, Eq)]
struct VerifiedToken {
    token: DeviceToken,
    /// The position of its key.
    key: usize,
}

/// What a token, as a browser's cookie holds it, makes known. It is not verified, because the id alone proves nothing.
#[must_use]
pub fn owner_of_token(text: &[u8]) -> Option<OwnerId> {
    DeviceToken::parse(text).map(|token| OwnerId(u128::from_be_bytes(token.nonce())))
}

/// The claim to a token for the account of an attempt, granted after a success.
#[derive(Clone, PartialEq, Eq)]
pub struct Claim {
    account: AccountHash,
    /// The nonce of the browser's token for this account, if it has one.
    nonce: Option<Nonce>,
    /// The browser's tokens for other accounts, newest first.
    others: SmallVec<[DeviceToken; MAX_TOKENS]>,
}

impl Devices {
    /// Tokens valid for `ttl`, in a cookie with this name. `keys` are ordered newest first.
    #[must_use]
    pub fn new(keys: Vec<Vec<u8>>, ttl: Span, cookie: &str) -> Self {
        Self { keys: keys.into_iter().filter_map(TokenKey::new).collect(), ttl, cookie: cookie.to_owned() }
    }

    /// The valid tokens of a request. Broken, foreign and expired tokens are left out, and so are tokens issued more
    /// than a day in the future: a clock may be wrong, but not for the life of a token. The work is bounded: at most 25
    /// tokens are checked against each key.
    #[must_use]
    pub fn verified_tokens(&self, headers: &HeaderMap, now: Time) -> DeviceTokens {
        let mut tokens: SmallVec<[DeviceToken; MAX_TOKENS]> = SmallVec::new();
        for token in cookie::tokens(headers, &self.cookie).filter_map(DeviceToken::parse) {
            let issued = token.issued();
            let is_timely = now.since(issued) < self.ttl && issued.since(now) <= AHEAD;
            if is_timely && !tokens.contains(&token) {
                tokens.push(token);
            }
        }
        tokens.sort_by_key(|token| std::cmp::Reverse(token.issued()));
        let verify = |token: DeviceToken| {
            let key = self.keys.iter().position(|key| token.is_signed_by(key))?;
            Some(VerifiedToken { token, key })
        };
        DeviceTokens(tokens.into_iter().filter_map(verify).collect())
    }

    /// The device, if the browser has signed in to this account of this application before.
    #[must_use]
    pub fn known(&self, tokens: &DeviceTokens, application: &str, account: &Account) -> Option<OwnerId> {
        let (nonce, _) = self.split_by_account(tokens, application, account);
        nonce.map(|nonce| OwnerId(u128::from_be_bytes(nonce)))
    }

    /// The claim to a token for this account, for [`issue`](Self::issue) after a sign-in.
    #[must_use]
    pub fn claim(&self, tokens: &DeviceTokens, application: &str, account: &Account) -> Claim {
        let (nonce, others) = self.split_by_account(tokens, application, account);
        let newest = self.keys.first().map(|key| key.account(application, account));
        Claim { account: newest.unwrap_or_default(), nonce, others }
    }

    /// The `Set-Cookie` after a success; `None` if the system gives no randomness. `is_secure` is whether the client
    /// uses TLS: then the cookie is `Secure` and its name begins with `__Host-`. A known device keeps its id and its
    /// budget; of more than five tokens the oldest are dropped.
    ///
    /// The claim has to come from the same `Devices`: with another newest key the token would match no account.
    #[must_use]
    pub fn issue(&self, claim: &Claim, now: Time, is_secure: bool) -> Option<HeaderValue> {
        let nonce = claim.nonce.or_else(random_bytes)?;
        let token = DeviceToken::new(self.keys.first()?, now, claim.account, nonce);
        let tokens = std::iter::once(token).chain(claim.others.iter().copied()).take(MAX_TOKENS);
        cookie::set(&self.cookie, tokens, self.ttl, is_secure)
    }

    /// The lines of `Cookie` of a request without this cookie, under both its names; all other bytes stay. `None` if it
    /// is in none.
    #[must_use]
    pub fn other_cookies(&self, headers: &HeaderMap) -> Option<Vec<HeaderValue>> {
        cookie::others(headers, &self.cookie)
    }

    /// The newest nonce for an account, and the tokens for other accounts.
    fn split_by_account(
        &self,
        tokens: &DeviceTokens,
        application: &str,
        account: &Account,
    ) -> (Option<Nonce>, SmallVec<[DeviceToken; MAX_TOKENS]>) {
        let (mut nonce, mut others) = (None, SmallVec::new());
        let mut hashes: SmallVec<[(usize, AccountHash); 2]> = SmallVec::new();
        for VerifiedToken { token, key } in &tokens.0 {
            let known = hashes.iter().find(|(made, _)| made == key).map(|(_, hash)| *hash);
            let hash = known.or_else(|| Some(self.keys.get(*key)?.account(application, account)));
            let Some(hash) = hash else { continue };
            if known.is_none() {
                hashes.push((*key, hash));
            }
            match token.is_for(&hash) {
                true => nonce = nonce.or(Some(token.nonce())),
                false => others.push(*token),
            }
        }
        (nonce, others)
    }
}

impl std::fmt::Debug for Devices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { keys, ttl, cookie } = self;
        write!(f, "Devices({} keys hidden, {ttl:?}, {cookie})", keys.len())
    }
}

impl std::fmt::Debug for DeviceTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DeviceTokens({} hidden)", self.0.len())
    }
}

impl std::fmt::Debug for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Claim(hidden)")
    }
}

/// How far the clock that issued a token may be ahead of ours.
const AHEAD: Span = Span::from_secs(86_400);

#[cfg(test)]
mod tests;
