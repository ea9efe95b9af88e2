//! Signatures by Ed25519 (RFC 8032), by the implementation that checks certificates.

use rustls::SignatureScheme;
use rustls::pki_types::SignatureVerificationAlgorithm;

use super::provider;

/// Checks signatures.
#[derive(Debug, Clone, Copy)]
pub struct Ed25519(&'static dyn SignatureVerificationAlgorithm);

impl Ed25519 {
    /// `None` in a build that has it not.
    #[must_use]
    pub fn new() -> Option<Self> {
        let known = provider().signature_verification_algorithms.mapping;
        let (_, found) = known.iter().find(|(scheme, _)| *scheme == SignatureScheme::ED25519)?;
        found.first().map(|algorithm| Self(*algorithm))
    }

    /// Whether the holder of this key signed the message.
    #[must_use]
    pub fn verifies(&self, public: &[u8; 32], message: &[u8], signature: &[u8]) -> bool {
        self.0.verify_signature(public, message, signature).is_ok()
    }
}
