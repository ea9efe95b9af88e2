//! Known devices: a cookie that a browser gets when somebody signed in with it, after OWASP's protocol of device cookies
//! (<https://owasp.org/www-community/Slow_Down_Online_Guessing_Attacks_with_Device_Cookies>).
//!
//! A token serves its own account at its own application only and is no proof of identity: it says which budget an
//! attempt pays from. It is base64url of a version (1 byte), the time of issue (5 bytes of seconds), the account as a
//! keyed hash (16), a nonce that is the device (16), and HMAC-SHA-256 over all of it (32). The surprising thing: one
//! cookie carries the tokens of all accounts that a browser knows, at most five.

mod cookie;
mod token;

use http::{HeaderMap, HeaderValue};
use smallvec::SmallVec;

use self::cookie::MAX_TOKENS;
use self::token::{AccountHash, DeviceToken, Nonce, TokenKey};
use super::account::Account;
use crate::time::{Span, Time};

/// `[device]`: how tokens are made and known. Its keys are never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Devices {
    /// Newest first, at least one: the first makes tokens, all of them know tokens.
    keys: Vec<TokenKey>,
    ttl: Span,
    cookie: String,
}

/// The tokens of one browser that are genuine and not too old; never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct DeviceTokens(SmallVec<[VerifiedToken; MAX_TOKENS]>);

/// A genuine token.
#[derive(Clone, Copy, PartialEq, Eq)]
struct VerifiedToken {
    token: DeviceToken,
    /// Under which of the keys it was made.
    key: usize,
}

/// Which device it is; the same as long as the browser keeps its cookie. Never shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DeviceId(pub u128);

/// A token in the making, for the account that an attempt is about: a hash of it, and what the browser has already.
#[derive(Clone, PartialEq, Eq)]
pub struct Claim {
    account: AccountHash,
    /// Of the token that the browser has for this account.
    nonce: Option<Nonce>,
    /// The tokens that stay beside the new one, newest first.
    others: SmallVec<[DeviceToken; MAX_TOKENS]>,
}

impl Devices {
    /// Tokens that are good for `ttl`, in a cookie of this name. `keys` come newest first.
    #[must_use]
    pub fn new(keys: Vec<Vec<u8>>, ttl: Span, cookie: &str) -> Self {
        Self { keys: keys.into_iter().filter_map(TokenKey::new).collect(), ttl, cookie: cookie.to_owned() }
    }

    /// What a browser brings. What is broken, foreign or too old is left out, and so is what was issued more than a day
    /// from now: a clock may be wrong, but not for as long as a token is good. Of at most 25 tokens each is held against
    /// each key, so it takes no longer whatever is sent.
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
        let held = |token: DeviceToken| {
            let key = self.keys.iter().position(|key| token.is_signed_by(key))?;
            Some(VerifiedToken { token, key })
        };
        DeviceTokens(tokens.into_iter().filter_map(held).collect())
    }

    /// The device, if the browser has signed in to this account of this application before.
    #[must_use]
    pub fn known(&self, wallet: &DeviceTokens, application: &str, account: &Account) -> Option<DeviceId> {
        let (nonce, _) = self.split_by_account(wallet, application, account);
        nonce.map(|nonce| DeviceId(u128::from_be_bytes(nonce)))
    }

    /// What is needed to issue a token for this account once it has signed in.
    #[must_use]
    pub fn claim(&self, wallet: &DeviceTokens, application: &str, account: &Account) -> Claim {
        let (nonce, others) = self.split_by_account(wallet, application, account);
        let newest = self.keys.first().map(|key| key.account(application, account));
        Claim { account: newest.unwrap_or_default(), nonce, others }
    }

    /// The `Set-Cookie` after a success; `None` if randomness cannot be had. `is_secure` says whether the client speaks
    /// TLS: then the cookie is `Secure` and its name begins with `__Host-`. A device that was known stays the same device
    /// and keeps its budget; of more than five tokens the oldest fall out.
    ///
    /// To be asked of the same devices as the claim: under another newest key the token would be nobody's.
    #[must_use]
    pub fn issue(&self, claim: &Claim, now: Time, is_secure: bool) -> Option<HeaderValue> {
        let nonce = claim.nonce.or_else(token::new_nonce)?;
        let token = DeviceToken::new(self.keys.first()?, now, claim.account, nonce);
        let tokens = std::iter::once(token).chain(claim.others.iter().copied()).take(MAX_TOKENS);
        cookie::set(&self.cookie, tokens, self.ttl, is_secure)
    }

    /// Takes the cookie out of a request, under all its names; every other byte of `Cookie` stays as it was.
    pub fn strip(&self, headers: &mut HeaderMap) {
        cookie::strip(headers, &self.cookie);
    }

    /// The newest nonce that a wallet has for an account, and its tokens for other accounts.
    fn split_by_account(
        &self,
        wallet: &DeviceTokens,
        application: &str,
        account: &Account,
    ) -> (Option<Nonce>, SmallVec<[DeviceToken; MAX_TOKENS]>) {
        let (mut nonce, mut others) = (None, SmallVec::new());
        let mut hashes: SmallVec<[(usize, AccountHash); 2]> = SmallVec::new();
        for VerifiedToken { token, key } in &wallet.0 {
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
        write!(f, "Wallet({} hidden)", self.0.len())
    }
}

impl std::fmt::Debug for DeviceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Device(hidden)")
    }
}

impl std::fmt::Debug for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Claim(hidden)")
    }
}

/// How far ahead of ours the clock may have been that issued a token.
const AHEAD: Span = Span::from_secs(86_400);

#[cfg(test)]
mod tests;
