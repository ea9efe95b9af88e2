//! What the gate answers to an authority that checks a name (ACME): tls-alpn-01 (RFC 8737) and http-01 (RFC 8555, 8.3).
//!
//! The answers are here only while an order is open. Ordering is left to the background.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
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
    /// What the authority asks for in a handshake.
    server_name: String,
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
            server_name: server_name(name),
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
        let mut asked = answers.values().filter(|answer| answer.server_name.eq_ignore_ascii_case(name));
        asked.next().map(|answer| Arc::clone(&answer.certificate))
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
        match is_validation(&hello) {
            true => self.validations.certificate(hello.server_name()?),
            false => self.others.resolve(hello),
        }
    }
}

/// RFC 8737, section 3: an authority offers this protocol and no other.
pub(super) fn is_validation(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|offered| offered.eq([ACME_TLS]))
}

/// A handshake cannot ask for an address; it names the reverse look-up instead (RFC 8738, section 6).
fn server_name(name: &str) -> String {
    match name.parse() {
        Ok(IpAddr::V4(address)) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        Ok(IpAddr::V6(address)) => {
            let digits = format!("{:032x}", address.to_bits());
            digits.chars().rev().map(|digit| format!("{digit}.")).collect::<String>() + "ip6.arpa"
        }
        Err(_) => name.to_owned(),
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

    /// The example of RFC 8738, section 6, and that of RFC 3596, section 2.5.
    #[test]
    fn an_address_is_asked_for_by_the_name_of_its_reverse_look_up() {
        let v6 = "b.a.9.8.7.6.5.0.4.0.0.0.3.0.0.0.2.0.0.0.1.0.0.0.0.0.0.0.1.2.3.4.ip6.arpa";
        for (address, name) in
            [("10.0.0.4", "4.0.0.10.in-addr.arpa"), ("4321:0:1:2:3:4:567:89ab", v6), ("app.test", "app.test")]
        {
            assert_eq!(server_name(address), name);
            let validations = Arc::new(Validations::default());
            let _open = validations.open(address, "token", "token.key").unwrap();
            assert!(validations.certificate(name).is_some());
            assert_eq!(validations.certificate(address).is_some(), address == name);
        }
    }
}
