//! One device token: the device, the account and the time of issue, authenticated by HMAC under one of our keys.
//!
//! It knows no cookies and does not check the age. The account is a keyed hash: a token can be checked against an
//! account, but the account cannot be read from it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::policy::account::Account;
use crate::time::Time;

/// One key of `device.secret`; it has no `Debug` form.
#[derive(Clone)]
pub(super) struct TokenKey {
    secret: Vec<u8>,
    /// HMAC initialised with the secret.
    fresh: Hmac<Sha256>,
}

/// The hash of an account of an application, under one key.
pub(super) type AccountHash = [u8; 16];

/// Random bytes that identify a device.
pub(super) type Nonce = [u8; 16];

/// A token, verified or not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct DeviceToken {
    /// Seconds since 1970, below 2^40.
    issued: u64,
    account: AccountHash,
    nonce: Nonce,
    mac: [u8; 32],
}

impl TokenKey {
    /// A key of this secret. HMAC takes a secret of any length, so it never fails.
    pub(super) fn new(secret: Vec<u8>) -> Option<Self> {
        let fresh = Hmac::new_from_slice(&secret).ok()?;
        Some(Self { secret, fresh })
    }

    pub(super) fn account(&self, application: &str, account: &Account) -> AccountHash {
        let hash = self.hmac(ACCOUNT, &[application.as_bytes(), account.as_bytes()]).finalize().into_bytes();
        std::array::from_fn(|at| hash[at])
    }

    /// HMAC-SHA-256 (RFC 2104) over a label and these parts, each prefixed with its length: no two uses of a key and no
    /// two lists of parts share an input.
    fn hmac(&self, label: &str, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = self.fresh.clone();
        for part in std::iter::once(label.as_bytes()).chain(parts.iter().copied()) {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }
}

impl PartialEq for TokenKey {
    fn eq(&self, other: &Self) -> bool {
        self.secret == other.secret
    }
}

impl Eq for TokenKey {}

impl DeviceToken {
    pub(super) fn new(key: &TokenKey, now: Time, account: AccountHash, nonce: Nonce) -> Self {
        // 64 bits of nanoseconds are 35 bits of seconds, which fit into the 40 bits of a token.
        let mut token = Self { issued: now.as_nanos() / NANOS, account, nonce, mac: [0; 32] };
        token.mac = key.hmac(TOKEN, &[&token.payload()]).finalize().into_bytes().into();
        token
    }

    /// Parses a text without verifying it. Each token has exactly one spelling.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() != TEXT {
            return None;
        }
        let mut bytes = [0; BYTES];
        let length = URL_SAFE_NO_PAD.decode_slice_unchecked(text, &mut bytes).ok()?;
        let (&[version], rest) = bytes.get(..length)?.split_first_chunk()?;
        let (time, rest) = rest.split_first_chunk::<5>()?;
        let (account, rest) = rest.split_first_chunk()?;
        let (nonce, mac) = rest.split_first_chunk()?;
        if version != VERSION {
            return None;
        }
        let issued = time.iter().fold(0, |seconds, &byte| seconds << 8 | u64::from(byte));
        Some(Self { issued, account: *account, nonce: *nonce, mac: mac.try_into().ok()? })
    }

    /// The text for [`parse`](Self::parse): letters, digits, `-` and `_`.
    pub(super) fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode([&self.payload()[..], &self.mac].concat())
    }

    /// Whether its MAC is valid under this key, in constant time.
    pub(super) fn is_signed_by(&self, key: &TokenKey) -> bool {
        key.hmac(TOKEN, &[&self.payload()]).verify_slice(&self.mac).is_ok()
    }

    pub(super) fn is_for(&self, account: &AccountHash) -> bool {
        self.account.ct_eq(account).into()
    }

    pub(super) fn issued(&self) -> Time {
        Time::from_nanos(self.issued.saturating_mul(NANOS))
    }

    pub(super) fn nonce(&self) -> Nonce {
        self.nonce
    }

    fn payload(&self) -> [u8; PAYLOAD] {
        let mut payload = [0; PAYLOAD];
        let [.., a, b, c, d, e] = self.issued.to_be_bytes();
        let parts = [&[VERSION, a, b, c, d, e][..], &self.account, &self.nonce];
        for (target, byte) in payload.iter_mut().zip(parts.into_iter().flatten()) {
            *target = *byte;
        }
        payload
    }
}

const VERSION: u8 = 1;
const PAYLOAD: usize = 1 + 5 + 16 + 16;
const BYTES: usize = PAYLOAD + 32;
const TEXT: usize = (BYTES * 4).div_ceil(3);
const NANOS: u64 = 1_000_000_000;

const ACCOUNT: &str = "tollgate device: account";
const TOKEN: &str = "tollgate device: token";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(text: &str) -> TokenKey {
        TokenKey::new(text.into()).unwrap()
    }

    fn token() -> DeviceToken {
        let key = key("k");
        let account = key.account("app", &Account::fold(b"alice"));
        DeviceToken::new(&key, Time::from_nanos(1_700_000_000 * NANOS + 5), account, [7; 16])
    }

    #[test]
    fn a_token_is_read_as_it_was_written() {
        let text = token().text();
        assert_eq!(text.len(), 94);
        let read = DeviceToken::parse(text.as_bytes()).unwrap();
        assert!(read == token() && read.is_signed_by(&key("k")) && !read.is_signed_by(&key("l")));
        assert_eq!(read.issued(), Time::from_nanos(1_700_000_000 * NANOS), "in whole seconds");
    }

    #[test]
    fn the_bytes_of_a_token_are_these() {
        // Made by Python's `hmac` and `hashlib` from the layout described in `device`.
        let expected = include_str!("token.txt").trim_end();
        assert_eq!(token().text(), expected);
    }

    #[test]
    fn application_and_account_cannot_be_shifted_into_each_other() {
        let key = key("k");
        let hash = |application, account: &[u8]| key.account(application, &Account::fold(account));
        assert_ne!(hash("ab", b"c"), hash("a", b"bc"));
        assert_ne!(hash("", b"abc"), hash("abc", b""));
        assert_eq!(hash("a", b"bc"), hash("a", b" BC "), "by the folded name");
    }

    #[test]
    fn another_version_is_not_read() {
        let mut bytes = URL_SAFE_NO_PAD.decode(token().text()).unwrap();
        bytes[0] = 2;
        assert!(DeviceToken::parse(URL_SAFE_NO_PAD.encode(bytes).as_bytes()).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            if let Some(token) = DeviceToken::parse(&bytes) {
                prop_assert_eq!(token.text().into_bytes(), bytes);
                prop_assert!(!token.is_signed_by(&key("k")));
            }
        }

        #[test]
        fn whatever_has_the_form_of_a_token_has_one_spelling(bytes in prop::collection::vec(any::<u8>(), BYTES - 1)) {
            let text = URL_SAFE_NO_PAD.encode([&[VERSION][..], &bytes].concat());
            prop_assert_eq!(DeviceToken::parse(text.as_bytes()).unwrap().text(), text);
        }

        #[test]
        fn no_flipped_bit_goes_unnoticed(bit in 0..TEXT * 8) {
            let mut text = token().text().into_bytes();
            text[bit / 8] ^= 1 << (bit % 8);
            let known = DeviceToken::parse(&text).is_some_and(|token| token.is_signed_by(&key("k")));
            prop_assert!(!known);
        }
    }
}
