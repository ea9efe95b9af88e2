//! A certificate with its key, as an operator provides them: two texts in PEM.
//!
//! A pair is accepted only if the key belongs to the certificate; whether to trust it is left to the clients. The names
//! come from the certificate itself (its DNS names and addresses), so the file does not repeat them.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{AuthorityKeyIdentifier, SubjectAltName};

use super::provider;
use crate::time::{Span, Time};

/// A certificate with its key. The key is never shown.
#[derive(Clone)]
pub struct Certificate {
    /// Its name in metrics and messages.
    name: Arc<str>,
    /// DNS names in lower case; `*.` stands for one label.
    names: Vec<String>,
    addresses: Vec<IpAddr>,
    begins: Time,
    expires: Time,
    pub(super) pair: Arc<CertifiedKey>,
}

/// Why two files are not a certificate and its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// The file holds no certificate.
    #[error("holds no certificate")]
    NoCertificate,
    /// The certificate cannot be parsed.
    #[error("holds a certificate that cannot be read")]
    BadCertificate,
    /// The file holds no private key.
    #[error("holds no private key")]
    NoKey,
    /// The key cannot be parsed, or is of a kind that cannot sign.
    #[error("holds a private key that cannot be used")]
    BadKey,
    /// The key belongs to another certificate.
    #[error("is not the key of the certificate")]
    KeyMismatch,
}

impl CertificateError {
    /// Whether it is the key's file that is wrong, and not the certificate's.
    #[must_use]
    pub fn is_about_the_key(self) -> bool {
        matches!(self, Self::NoKey | Self::BadKey | Self::KeyMismatch)
    }
}

impl Certificate {
    /// From a chain, the server's own certificate first, and its key; both PEM. `otherwise` is its name if the
    /// certificate has no DNS name.
    ///
    /// # Errors
    /// See [`CertificateError`].
    pub fn from_pem(chain: &[u8], key: &[u8], otherwise: &str) -> Result<Self, CertificateError> {
        let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|_| CertificateError::BadCertificate)?;
        let own = chain.first().ok_or(CertificateError::NoCertificate)?;
        let parsed = x509_cert::Certificate::from_der(own).map_err(|_| CertificateError::BadCertificate)?;
        let (names, addresses) = names(&parsed).ok_or(CertificateError::BadCertificate)?;
        let validity = parsed.tbs_certificate.validity;
        let (begins, expires) = (time(validity.not_before), time(validity.not_after));
        let pair = Arc::new(pair(chain, key)?);
        let name = names.first().map_or(otherwise, String::as_str).into();
        Ok(Self { name, names, addresses, begins, expires, pair })
    }

    /// Its name in metrics and messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its DNS names in lower case; `*.` stands for one label.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Its addresses.
    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Whether it is for this name in lower case, or for this address.
    #[must_use]
    pub fn is_for(&self, name: &str) -> bool {
        let address = name.parse::<IpAddr>();
        self.names.iter().any(|known| known == name)
            || self.addresses.iter().any(|known| address.as_ref() == Ok(known))
    }

    /// When it becomes valid.
    #[must_use]
    pub fn begins(&self) -> Time {
        self.begins
    }

    /// The identifier of the issuer's key and the serial number, by which an authority knows it (RFC 9773, 4.1); `None` if
    /// the certificate names no such key.
    #[must_use]
    pub fn authority_key_and_serial(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let parsed = x509_cert::Certificate::from_der(self.pair.cert.first()?).ok()?.tbs_certificate;
        let (_, authority) = parsed.get::<AuthorityKeyIdentifier>().ok()??;
        // Without tag and length, which take a byte each: a serial number has twenty bytes at most.
        let serial = parsed.serial_number.to_der().ok()?.split_off(2);
        Some((authority.key_identifier?.as_bytes().to_vec(), serial))
    }

    /// Until when it is valid.
    #[must_use]
    pub fn expires(&self) -> Time {
        self.expires
    }

    /// Whether it ends so soon that its renewal is late: within a week, or within a quarter of its time if that is less.
    #[must_use]
    pub fn ends_soon(&self, now: Time) -> bool {
        let whole = self.expires.since(self.begins);
        self.expires.since(now) < SOON.min(Span::from_nanos(whole.as_nanos() / 4))
    }
}

/// The same chain means the same key: a key is accepted only with its own certificate.
impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.pair.cert == other.pair.cert
    }
}

impl Eq for Certificate {}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({}, key hidden)", self.name)
    }
}

fn pair(chain: Vec<CertificateDer<'static>>, key: &[u8]) -> Result<CertifiedKey, CertificateError> {
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
        PemError::NoItemsFound => CertificateError::NoKey,
        _ => CertificateError::BadKey,
    })?;
    let key = provider().key_provider.load_private_key(key).map_err(|_| CertificateError::BadKey)?;
    let pair = CertifiedKey::new(chain, key);
    match pair.keys_match() {
        Ok(()) => Ok(pair),
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Err(CertificateError::KeyMismatch),
        // A key that cannot be compared with the certificate is refused as well.
        Err(Error::InconsistentKeys(_)) => Err(CertificateError::BadKey),
        Err(_) => Err(CertificateError::BadCertificate),
    }
}

/// DNS names and addresses.
fn names(certificate: &x509_cert::Certificate) -> Option<(Vec<String>, Vec<IpAddr>)> {
    let (mut names, mut addresses) = (Vec::new(), Vec::new());
    let Some((_, all)) = certificate.tbs_certificate.get::<SubjectAltName>().ok()? else {
        return Some((names, addresses));
    };
    for name in &all.0 {
        match name {
            GeneralName::DnsName(name) => names.push(name.as_str().to_ascii_lowercase()),
            GeneralName::IpAddress(bytes) => addresses.extend(address(bytes.as_bytes())),
            _ => {}
        }
    }
    Some((names, addresses))
}

/// RFC 5280, section 4.2.1.6: four bytes or sixteen.
fn address(bytes: &[u8]) -> Option<IpAddr> {
    let short = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    short.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

fn time(time: x509_cert::time::Time) -> Time {
    Time::default().after(Span::from_secs(time.to_unix_duration().as_secs()))
}

/// As the alert of `contrib/prometheus`.
const SOON: Span = Span::from_secs(7 * 86_400);

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn a_certificate_ends_soon_by_a_week_and_a_short_one_by_a_quarter_of_its_time() {
        let ends_soon = |year: i32, day: u8, left: u64| {
            let mut params = CertificateParams::new(["app.test".to_owned()]).unwrap();
            (params.not_before, params.not_after) = (date_time_ymd(2026, 1, 1), date_time_ymd(year, 1, day));
            let key = KeyPair::generate().unwrap();
            let pem = params.self_signed(&key).unwrap().pem();
            let certificate =
                Certificate::from_pem(pem.as_bytes(), key.serialize_pem().as_bytes(), "").unwrap();
            certificate.ends_soon(certificate.expires().before(Span::from_secs(left * 3600)))
        };
        assert!(!ends_soon(2027, 1, 169) && ends_soon(2027, 1, 167), "one for a year");
        assert!(!ends_soon(2026, 7, 37) && ends_soon(2026, 7, 35), "one for six days");
    }
}
