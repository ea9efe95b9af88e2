//! TLS to databases: the system's roots, or a file of the operator's own, and aws-lc-rs.
//!
//! The provider of cryptography is named here and nowhere else; the process-wide default is never asked for. The
//! surprising thing: roots are read when a store is opened, not once for the process, so a new root needs no new gate.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::compare_and_swap::StoreError;

/// Trusts the system's roots, or only those of this PEM file.
///
/// # Errors
/// [`StoreError::Refused`] if there are none, or the file cannot be read.
pub(super) fn client(roots: Option<&Path>) -> Result<ClientConfig, StoreError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let versions = versions.map_err(|error| StoreError::Refused(error.to_string()))?;
    Ok(versions.with_root_certificates(trusted(roots)?).with_no_client_auth())
}

fn trusted(roots: Option<&Path>) -> Result<RootCertStore, StoreError> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(self::roots(roots)?);
    Ok(store)
}

/// The certificates of this PEM file, or the system's: for a driver that wants nothing else. Never none.
pub(super) fn roots(file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let refused = |error: &dyn std::fmt::Display| StoreError::Refused(format!("the file of roots: {error}"));
    let mut found = Vec::new();
    let is_root = |root: &CertificateDer<'static>| RootCertStore::empty().add(root.clone());
    match file {
        // What cannot be read is left out: one damaged file among hundreds is no reason to trust nobody.
        None => found.extend(rustls_native_certs::load_native_certs().certs),
        Some(path) => {
            for root in CertificateDer::pem_file_iter(path).map_err(|error| refused(&error))? {
                let root = root.map_err(|error| refused(&error))?;
                is_root(&root).map_err(|error| refused(&error))?;
                found.push(root);
            }
        }
    }
    found.retain(|root| is_root(root).is_ok());
    if found.is_empty() {
        return Err(StoreError::Refused("there are no roots to trust".to_owned()));
    }
    Ok(found)
}
