//! `[device]`, known devices: a cookie that a browser gets after a sign-in, by OWASP's protocol of device cookies
//! (<https://owasp.org/www-community/Slow_Down_Online_Guessing_Attacks_with_Device_Cookies>).
//!
//! A token is valid for one account of one application and proves no identity: it only selects the budget that an
//! attempt is charged to. It is base64url of a version (1 byte), the time of issue (5 bytes of seconds), the account as
//! a keyed hash (16), a nonce that identifies the device (16), and HMAC-SHA-256 over all of it (32). One cookie carries
//! the tokens of all accounts that a browser knows, at most five.

mod cookie;
mod token;

use std::any::Any;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use smallvec::SmallVec;
use tollgate_grammar::duration::{DAY, HOUR};
use tollgate_grammar::kind::{Checked as _, Given, Key, Lasting, Secret, Text};
use tollgate_grammar::{Findings, RawKey, tables};

use self::cookie::{CookieName, MAX_TOKENS};
use self::token::{AccountHash, DeviceToken, Nonce, TokenKey};
use super::known_addresses::RawKnownAddresses;
use super::{DefenceFiles, FiledLimit};
use crate::policy::account::Account;
use crate::policy::key::{KeyPart, OwnerId};
use crate::policy::{Mode, OwnerClaim, OwnerCookie, OwnerWords, VerifiedCookie, random_bytes};
use crate::time::{Span, Time};

tables! {
    /// Known devices: a browser that has signed in keeps a separate budget.
    pub RawDevice {
        secret: RawKey<Given<Secret>>,
        ttl: Key<KnownFor>,
        cookie: Key<Text<CookieName>>,
        addresses: RawKnownAddresses = Part,
    }
}

/// Browsers keep no cookie for longer than 400 days (RFC 6265bis, 5.5).
type KnownFor = Lasting<HOUR, { 400 * DAY }>;

/// Issues and verifies tokens. Its `Debug` form hides the keys.
#[derive(Clone, PartialEq, Eq)]
struct Devices {
    /// Newest first, at least one: the first issues tokens, all verify tokens.
    keys: Arc<[TokenKey]>,
    ttl: Span,
    cookie: Arc<str>,
}

/// The verified tokens of one browser; its `Debug` form hides them.
struct BrowserTokens<'d> {
    devices: &'d Devices,
    tokens: SmallVec<[VerifiedToken; MAX_TOKENS]>,
}

/// A token whose MAC and age are valid.
#[derive(Clone, Copy)]
struct VerifiedToken {
    token: DeviceToken,
    /// The position of its key.
    key: usize,
}

/// The claim to a token for the account of an attempt, granted after a success.
struct DeviceClaim {
    devices: Devices,
    account: AccountHash,
    /// The nonce of the browser's token for this account, if it has one.
    nonce: Option<Nonce>,
    /// The browser's tokens for other accounts, newest first.
    others: SmallVec<[DeviceToken; MAX_TOKENS]>,
}

/// Known devices; `None` without a secret.
pub(super) fn check(
    raw: &RawDevice,
    files: &mut dyn DefenceFiles,
    f: &mut Findings,
) -> Option<Arc<dyn OwnerCookie>> {
    let ttl = raw.ttl.checked(f).unwrap_or(DEFAULT_TTL);
    let name = raw.cookie.checked(f);
    let CookieName(cookie) = name.unwrap_or_else(|| CookieName(DEFAULT_COOKIE.to_owned()));
    if raw.secret.key.is_none() {
        let ttl = raw.ttl.as_ref().map(|ttl| &ttl.spot);
        for (key, spot) in [("ttl", ttl), ("cookie", raw.cookie.as_ref().map(|name| &name.spot))] {
            if let Some(spot) = spot {
                let hint = "write secret = \"${file:device.keys}\" to turn device cookies on";
                f.warning(spot, format!("`{key}` means nothing without `secret`"), hint);
            }
        }
    }
    let secret = raw.secret.value.as_ref().filter(|secret| !secret.value.0.is_empty())?;
    let keys = files.keys(secret, f)?;
    Some(Arc::new(Devices::new(keys, ttl, &cookie)))
}

/// Warns of limits that lock owners out, and of those for owners, where no owner is ever known.
pub(super) fn warn_if_off<'l>(
    raw: &RawDevice,
    limits: impl Iterator<Item = FiledLimit<'l>>,
    f: &mut Findings,
) {
    if raw.secret.key.is_some() || raw.addresses.is_on() {
        return;
    }
    for FiledLimit { limit, spot, protects_accounts } in limits {
        if limit.key.contains(&KeyPart::Owner) {
            f.warning(spot, "no device is ever known, so nothing is counted here", TURN_ON);
        } else if limit.is_account() && limit.mode == Mode::Enforce && protects_accounts {
            let message =
                format!("with limit `{}` an attacker can lock the owner of an account out", limit.name);
            f.warning(spot, message, format!("known devices keep their own budget: {TURN_ON}"));
        }
    }
}

impl Devices {
    /// Tokens valid for `ttl`, in a cookie with this name. `keys` are ordered newest first.
    fn new(keys: Vec<Vec<u8>>, ttl: Span, cookie: &str) -> Self {
        Self { keys: keys.into_iter().filter_map(TokenKey::new).collect(), ttl, cookie: cookie.into() }
    }

    /// The valid tokens of a request. Broken, foreign and expired tokens are left out, and so are tokens issued more
    /// than a day in the future: a clock may be wrong, but not for the life of a token. The work is bounded: at most 25
    /// tokens are checked against each key.
    fn verified_tokens(&self, headers: &HeaderMap, now: Time) -> BrowserTokens<'_> {
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
        BrowserTokens { devices: self, tokens: tokens.into_iter().filter_map(verify).collect() }
    }
}

impl OwnerCookie for Devices {
    fn is_same(&self, other: &dyn OwnerCookie) -> bool {
        (other as &dyn Any).downcast_ref::<Self>() == Some(self)
    }

    fn read(&self, headers: &HeaderMap, now: Time) -> Box<dyn VerifiedCookie + '_> {
        Box::new(self.verified_tokens(headers, now))
    }

    /// All other bytes stay. The cookie has two names.
    fn others(&self, headers: &HeaderMap) -> Option<Vec<HeaderValue>> {
        cookie::others(headers, &self.cookie)
    }
}

impl VerifiedCookie for BrowserTokens<'_> {
    fn owner(&self, application: &str, account: &Account) -> Option<OwnerId> {
        let (nonce, _) = self.split_by_account(application, account);
        nonce.map(owner_by_nonce)
    }

    fn claim(&self, application: &str, account: &Account) -> Arc<dyn OwnerClaim> {
        let (nonce, others) = self.split_by_account(application, account);
        let newest = self.devices.keys.first().map(|key| key.account(application, account));
        let account = newest.unwrap_or_default();
        Arc::new(DeviceClaim { devices: self.devices.clone(), account, nonce, others })
    }
}

impl BrowserTokens<'_> {
    /// The newest nonce for an account, and the tokens for other accounts.
    fn split_by_account(
        &self,
        application: &str,
        account: &Account,
    ) -> (Option<Nonce>, SmallVec<[DeviceToken; MAX_TOKENS]>) {
        let (mut nonce, mut others) = (None, SmallVec::new());
        let mut hashes: SmallVec<[(usize, AccountHash); 2]> = SmallVec::new();
        for VerifiedToken { token, key } in &self.tokens {
            let known = hashes.iter().find(|(made, _)| made == key).map(|(_, hash)| *hash);
            let hash = known.or_else(|| Some(self.devices.keys.get(*key)?.account(application, account)));
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

impl OwnerClaim for DeviceClaim {
    fn account(&self) -> AccountHash {
        self.account
    }

    /// With TLS the cookie is `Secure` and its name begins with `__Host-`. A known device keeps its id and its budget; of
    /// more than five tokens the oldest are dropped.
    fn grant(&self, now: Time, is_secure: bool) -> Option<HeaderValue> {
        let Devices { keys, ttl, cookie } = &self.devices;
        let nonce = self.nonce.or_else(random_bytes)?;
        let token = DeviceToken::new(keys.first()?, now, self.account, nonce);
        let tokens = std::iter::once(token).chain(self.others.iter().copied()).take(MAX_TOKENS);
        cookie::set(cookie, tokens, *ttl, is_secure)
    }
}

impl std::fmt::Debug for Devices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { keys, ttl, cookie } = self;
        write!(f, "Devices({} keys hidden, {ttl:?}, {cookie})", keys.len())
    }
}

impl std::fmt::Debug for DeviceClaim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DeviceClaim(hidden)")
    }
}

/// The device of a token, as a browser's cookie holds it. It is not verified.
fn owner_of_token(text: &[u8]) -> Option<OwnerId> {
    DeviceToken::parse(text).map(|token| owner_by_nonce(token.nonce()))
}

fn owner_by_nonce(nonce: Nonce) -> OwnerId {
    OwnerId(u128::from_be_bytes(nonce))
}

pub(super) const WORDS: OwnerWords = OwnerWords {
    key: "device",
    several: "devices",
    not_logged: "the log has no devices",
    owner_of: owner_of_token,
    not_remembered: "no addresses are known: [device] has no addresses = true",
    no_owner: "the value of device is not a token: one of those in the browser's device cookie, between its dots",
};

/// The file for the key, next to the configuration.
pub(super) const KEY_FILE: &str = "device.keys";
pub(super) const OPTION: &str =
    "Know browsers that have signed in before, and make the file with the key, device.keys";

const DEFAULT_TTL: Span = Span::from_millis(180 * DAY);
const DEFAULT_COOKIE: &str = "tollgate_device";
const TURN_ON: &str = "add [device] with secret = \"${file:device.keys}\"";
/// How far the clock that issued a token may be ahead of ours.
const AHEAD: Span = Span::from_millis(DAY);

#[cfg(test)]
mod tests;
