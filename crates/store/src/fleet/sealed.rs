//! The keyed hash before each shared text: HMAC-SHA-256 under the installation's secret, over the key and the text.
//!
//! With an empty secret it shows damage only. It does not show that a reader got an older text than the newest.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use tollgate_bucket::Key;

/// Seals texts, and opens them.
#[derive(Clone)]
pub(super) struct DocumentSeal(Option<Hmac<Sha256>>);

impl DocumentSeal {
    pub(super) fn new(secret: &[u8]) -> Self {
        // Keys of any length are taken.
        Self(Hmac::new_from_slice(secret).ok())
    }

    pub(super) fn seal(&self, key: Key, text: &[u8]) -> Vec<u8> {
        [&[FORMAT][..], &self.hash(key, text), text].concat()
    }

    /// The text, if it was sealed with the same secret under this key.
    pub(super) fn open<'b>(&self, key: Key, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (hash, text) = bytes.strip_prefix(&[FORMAT])?.split_at_checked(HASH_LEN)?;
        let mac = self.mac(key, text)?;
        mac.verify_slice(hash).is_ok().then_some(text)
    }

    fn hash(&self, key: Key, text: &[u8]) -> [u8; HASH_LEN] {
        self.mac(key, text).map_or([0; HASH_LEN], |mac| mac.finalize().into_bytes().into())
    }

    fn mac(&self, Key(key): Key, text: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = self.0.clone()?;
        mac.update(b"tollgate fleet");
        mac.update(&key.to_be_bytes());
        mac.update(text);
        Some(mac)
    }
}

/// Rises with each change of the format.
const FORMAT: u8 = 1;
const HASH_LEN: usize = 32;
