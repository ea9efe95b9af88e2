//! What the gate answers to an authority that checks a name (ACME): tls-alpn-01 (RFC 8737) and http-01 (RFC 8555, 8.3).
//!
//! The answers are here only while an order is open. Ordering is left to the background.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};

use super::provider;
use crate::net::stream::ACME_TLS;

/// The answers of open orders, by name.
#[derive(Default)]
pub struct Validations(Mutex<HashMap<String, Answer>>);

struct Answer {
    token: String,
    key_authorization: String,
    certificate: Arc<CertifiedKey>,
}

/// Keeps one answer until it is dropped.
#[must_use]
pub struct OpenValidation {
    validations: Arc<Validations>,
    name: String,
}

/// Why there is no certificate to answer with.
#[derive(Debug, thiserror::Error)]
pub enum ValidationError {
    /// The name is none, or there is no randomness.
    #[error("no certificate for the challenge: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The key does not fit the cryptography.
    #[error("no key for the challenge: {0}")]
    Key(#[from] rustls::Error),
}

impl Validations {
    /// Answers for this name until the result is dropped.
    ///
    /// # Errors
    /// See [`ValidationError`].
    pub fn open(
        self: &Arc<Self>,
        name: &str,
        token: &str,
        key_authorization: &str,
    ) -> Result<OpenValidation, ValidationError> {
        let answer = Answer {
            token: token.to_owned(),
            key_authorization: key_authorization.to_owned(),
            certificate: Arc::new(certificate(name, key_authorization)?),
        };
        self.answers().insert(name.to_owned(), answer);
        Ok(OpenValidation { validations: Arc::clone(self), name: name.to_owned() })
    }

    /// The key authorization for this token of this name, in lower case.
    #[must_use]
    pub fn key_authorization(&self, name: &str, token: &str) -> Option<String> {
        let answers = self.answers();
        let answer = answers.get(name).filter(|answer| answer.token == token)?;
        Some(answer.key_authorization.clone())
    }

    fn certificate(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let answers = self.answers();
        answers.get(&name.to_ascii_lowercase()).map(|answer| Arc::clone(&answer.certificate))
    }

    fn answers(&self) -> MutexGuard<'_, HashMap<String, Answer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Validations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Validations(hidden)")
    }
}

impl Drop for OpenValidation {
    fn drop(&mut self) {
        self.validations.answers().remove(&self.name);
    }
}

/// Chooses the certificate for an authority that checks by tls-alpn-01, and leaves all other clients to another resolver.
#[derive(Debug)]
pub(super) struct ValidationResolver {
    pub(super) validations: Arc<Validations>,
    pub(super) others: Arc<dyn ResolvesServerCert>,
}

impl ResolvesServerCert for ValidationResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // RFC 8737, section 3: an authority offers this protocol and no other.
        let is_validation = hello.alpn().is_some_and(|offered| offered.eq([ACME_TLS]));
        match is_validation {
            true => self.validations.certificate(hello.server_name()?),
            false => self.others.resolve(hello),
        }
    }
}

/// The certificate of RFC 8737, section 3: signed by itself, for this name, with the SHA-256 of the key authorization in a critical extension.
fn certificate(name: &str, key_authorization: &str) -> Result<CertifiedKey, ValidationError> {
    let mut params = CertificateParams::new([name.to_owned()])?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(&Sha256::digest(key_authorization))];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let key = provider().key_provider.load_private_key(key)?;
    Ok(CertifiedKey::new(vec![certificate.der().clone()], key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_stands_as_long_as_its_order_and_for_its_own_token_only() {
        let validations = Arc::new(Validations::default());
        let open = validations.open("app.test", "token", "token.key").unwrap();
        assert_eq!(validations.key_authorization("app.test", "token").as_deref(), Some("token.key"));
        assert_eq!(validations.key_authorization("app.test", "other"), None);
        assert_eq!(validations.key_authorization("other.test", "token"), None);
        assert!(validations.certificate("APP.test").is_some());
        drop(open);
        assert_eq!(validations.key_authorization("app.test", "token"), None);
        assert!(validations.certificate("app.test").is_none());
    }
}
