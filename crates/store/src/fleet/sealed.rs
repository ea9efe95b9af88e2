//! The keyed hash before each shared text: HMAC-SHA-256 under a secret of the installation, over the key and the text.
//!
//! An installation has two secrets while it changes from one to the other. With an empty secret it shows damage
//! only. It does not show that a reader got an older text than the newest.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use tollgate_bucket::Key;

/// Seals texts under the newest secret, and opens what any of them has sealed.
#[derive(Clone)]
pub(super) struct DocumentSeal(Vec<Hmac<Sha256>>);

/// A text that was sealed with one of the secrets.
pub(super) struct OpenedDocument<'b> {
    pub(super) text: &'b [u8],
    /// Whether that was the newest one.
    pub(super) is_current: bool,
}

impl DocumentSeal {
    /// With these secrets, the newest first; with an empty one if there are none.
    pub(super) fn new(secrets: &[impl AsRef<[u8]>]) -> Self {
        // Keys of any length are taken.
        let mac = |secret: &[u8]| Hmac::new_from_slice(secret).ok();
        match secrets {
            [] => Self(mac(&[]).into_iter().collect()),
            _ => Self(secrets.iter().filter_map(|secret| mac(secret.as_ref())).collect()),
        }
    }

    /// Whether there is an older secret, too.
    pub(super) fn has_older(&self) -> bool {
        self.0.len() > 1
    }

    pub(super) fn seal(&self, key: Key, text: &[u8]) -> Vec<u8> {
        let hash =
            self.0.first().map_or([0; HASH_LEN], |mac| hashed(mac, key, text).finalize().into_bytes().into());
        [&[FORMAT][..], &hash, text].concat()
    }

    /// The text, if it was sealed with one of the secrets under this key.
    pub(super) fn open<'b>(&self, key: Key, bytes: &'b [u8]) -> Option<OpenedDocument<'b>> {
        let (hash, text) = bytes.strip_prefix(&[FORMAT])?.split_at_checked(HASH_LEN)?;
        let by = self.0.iter().position(|mac| hashed(mac, key, text).verify_slice(hash).is_ok())?;
        Some(OpenedDocument { text, is_current: by == 0 })
    }
}

fn hashed(mac: &Hmac<Sha256>, Key(key): Key, text: &[u8]) -> Hmac<Sha256> {
    let mut mac = mac.clone();
    mac.update(b"tollgate fleet");
    mac.update(&key.to_be_bytes());
    mac.update(text);
    mac
}

/// Rises with each change of the format.
const FORMAT: u8 = 1;
const HASH_LEN: usize = 32;
