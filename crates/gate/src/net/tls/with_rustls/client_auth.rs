//! Certificates of clients: which authorities vouch for them, and the name in one.
//!
//! What a name is worth is left to the policy. A certificate is checked in every handshake: with client certificates no
//! session is resumed, since a resumed one would pass by a change of the authorities.

use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Tag, Tagged};

use super::provider;
use crate::net::tls::single_name;

/// The authorities of clients' certificates.
#[derive(Clone)]
pub struct ClientAuth {
    roots: Vec<CertificateDer<'static>>,
    /// Whether a client without a certificate is turned away.
    is_required: bool,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// Why a file is not a list of authorities.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientAuthError {
    /// It cannot be read as certificates in PEM.
    #[error("holds a certificate that cannot be read")]
    BadCertificate,
    /// There is none in it.
    #[error("holds no certificate")]
    NoCertificate,
}

impl ClientAuth {
    /// The authorities of a file in PEM.
    ///
    /// # Errors
    /// See [`ClientAuthError`].
    pub fn from_pem(pem: &[u8], is_required: bool) -> Result<Self, ClientAuthError> {
        let roots = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
        let roots = roots.map_err(|_| ClientAuthError::BadCertificate)?;
        if roots.is_empty() {
            return Err(ClientAuthError::NoCertificate);
        }
        let mut store = RootCertStore::empty();
        for root in &roots {
            store.add(root.clone()).map_err(|_| ClientAuthError::BadCertificate)?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider());
        let builder = if is_required { builder } else { builder.allow_unauthenticated() };
        let verifier = builder.build().map_err(|_| ClientAuthError::BadCertificate)?;
        Ok(Self { roots, is_required, verifier })
    }

    pub(super) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::clone(&self.verifier)
    }

    /// Whether a client without a certificate is turned away.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.is_required
    }
}

/// The common name of a certificate's subject, if it has a single one, which is no longer than 256 bytes.
#[must_use]
pub fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    name_in_der(certificate).ok().flatten()
}

/// The same of bytes that a proxy passes on as a certificate.
///
/// # Errors
/// [`ClientAuthError::BadCertificate`] if they are none.
pub fn name_in_der(der: &[u8]) -> Result<Option<String>, ClientAuthError> {
    let parsed = x509_cert::Certificate::from_der(der).map_err(|_| ClientAuthError::BadCertificate)?;
    let parts = parsed.tbs_certificate.subject.0.iter().flat_map(|names| names.0.iter());
    let mut names = parts.filter(|part| part.oid == COMMON_NAME);
    let (Some(name), None) = (names.next(), names.next()) else { return Ok(None) };
    let is_text = matches!(name.value.tag(), Tag::Utf8String | Tag::PrintableString | Tag::Ia5String);
    Ok(single_name(name.value.value()).filter(|_| is_text))
}

/// The same of a text that holds one certificate in PEM.
///
/// # Errors
/// As above.
pub fn name_in_pem(pem: &[u8]) -> Result<Option<String>, ClientAuthError> {
    let mut certificates = CertificateDer::pem_slice_iter(pem);
    match (certificates.next(), certificates.next()) {
        (Some(Ok(certificate)), None) => name_in_der(&certificate),
        _ => Err(ClientAuthError::BadCertificate),
    }
}

impl PartialEq for ClientAuth {
    fn eq(&self, other: &Self) -> bool {
        (&self.roots, self.is_required) == (&other.roots, other.is_required)
    }
}

impl Eq for ClientAuth {}

impl fmt::Debug for ClientAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientAuth({} authorities)", self.roots.len())
    }
}

/// `id-at-commonName` (X.520).
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
