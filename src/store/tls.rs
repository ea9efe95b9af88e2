//! TLS to databases: the system's roots, or a file of the operator's own.
//!
//! TLS itself is left to [`net::tls`](crate::net::tls); this module turns its errors into store errors. Roots are read
//! when a store is opened, not once per process, so a new root needs no restart.

use std::path::Path;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;

use super::compare_and_swap::StoreError;
use crate::net::tls::trust;

/// A client that trusts the system's roots, or only those of this PEM file.
///
/// # Errors
/// [`StoreError::Refused`] if there are none, or the file cannot be read.
pub(super) fn client(file: Option<&Path>) -> Result<ClientConfig, StoreError> {
    trust::client_config(roots(file)?).map_err(|error| StoreError::Refused(error.to_string()))
}

/// The certificates of this PEM file, or the system's, for a driver that builds the rest itself; never empty.
pub(super) fn roots(file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let found = file.map_or_else(trust::system, trust::of_file);
    found.map_err(|error| StoreError::Refused(error.to_string()))
}
