//! Known devices: a cookie that a browser gets when somebody signed in with it, after OWASP's protocol of device cookies
//! (<https://owasp.org/www-community/Slow_Down_Online_Guessing_Attacks_with_Device_Cookies>).
//!
//! A token serves its own account at its own application only and is no proof of identity: it says which budget an
//! attempt pays from. The surprising thing: one cookie carries the tokens of all accounts that a browser knows, at most
//! five.

use http::{HeaderMap, HeaderValue};

use super::account::Account;
use crate::time::{Span, Time};

/// `[device]`: how tokens are made and known. Its keys are never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Devices {
    /// Newest first, at least one: the first makes tokens, all of them know tokens.
    keys: Vec<Vec<u8>>,
    ttl: Span,
    cookie: String,
}

/// The tokens of one browser that are genuine and not too old; never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Wallet(Vec<()>);

/// Which device it is; the same as long as the browser keeps its cookie. Never shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Device(pub u128);

/// A token in the making, for the account that an attempt is about: a hash of it, and what the browser has already.
#[derive(Clone, PartialEq, Eq)]
pub struct Claim(());

impl Devices {
    /// Tokens that are good for `ttl`, in a cookie of this name. `keys` come newest first.
    #[must_use]
    pub fn new(keys: Vec<Vec<u8>>, ttl: Span, cookie: &str) -> Self {
        Self { keys, ttl, cookie: cookie.to_owned() }
    }

    /// What a browser brings.
    #[must_use]
    pub fn wallet(&self, headers: &HeaderMap, now: Time) -> Wallet {
        let _ = (headers, now);
        Wallet::default()
    }

    /// The device, if the browser has signed in to this account of this application before.
    #[must_use]
    pub fn known(&self, wallet: &Wallet, application: &str, account: &Account) -> Option<Device> {
        let _ = (wallet, application, account);
        None
    }

    /// What is needed to issue a token for this account once it has signed in.
    #[must_use]
    pub fn claim(&self, wallet: &Wallet, application: &str, account: &Account) -> Claim {
        let _ = (wallet, application, account);
        Claim(())
    }

    /// The `Set-Cookie` after a success; `None` if randomness cannot be had. `is_secure` says whether the client speaks
    /// TLS: then the cookie is `Secure` and its name begins with `__Host-`.
    #[must_use]
    pub fn issue(&self, claim: &Claim, now: Time, is_secure: bool) -> Option<HeaderValue> {
        let _ = (claim, now, is_secure);
        None
    }

    /// Takes the cookie out of a request, under all its names; every other byte of `Cookie` stays as it was.
    pub fn strip(&self, headers: &mut HeaderMap) {
        let _ = headers;
    }
}

impl std::fmt::Debug for Devices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { keys, ttl, cookie } = self;
        write!(f, "Devices({} keys hidden, {ttl:?}, {cookie})", keys.len())
    }
}

impl std::fmt::Debug for Wallet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Wallet({} hidden)", self.0.len())
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Device(hidden)")
    }
}

impl std::fmt::Debug for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Claim(hidden)")
    }
}
