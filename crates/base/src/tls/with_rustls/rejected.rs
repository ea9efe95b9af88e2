//! Why the certificate of a server was rejected, in words for operators.

use std::io;

use rustls::{CertificateError, Error};

/// The certificate of a server was rejected.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct RejectedCertificate(String);

/// The same error; one about the certificate in words.
pub(super) fn in_words(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidCertificate(why)) => io::Error::new(error.kind(), RejectedCertificate(words(why))),
        _ => error,
    }
}

fn words(why: &CertificateError) -> String {
    let words = match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "its certificate has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet"
        }
        CertificateError::UnknownIssuer => "no trusted authority has signed its certificate",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name"
        }
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "its certificate is that of an authority (CA:TRUE), which no server may use as its own"
        }
        other => return format!("its certificate is rejected: {other}"),
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::OtherError;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("CaUsedAsEndEntity")]
    struct OfTheVerifier;

    #[test]
    fn a_rejected_certificate_is_told_in_words_and_other_errors_stay() {
        let of = |why| in_words(io::Error::new(io::ErrorKind::InvalidData, Error::InvalidCertificate(why)));
        let table = [
            (CertificateError::Expired, "its certificate has expired"),
            (CertificateError::UnknownIssuer, "no trusted authority has signed its certificate"),
            (CertificateError::NotValidForName, "its certificate is for another name"),
            (CertificateError::BadSignature, "its certificate is rejected: BadSignature"),
            (
                CertificateError::Other(OtherError(Arc::new(OfTheVerifier))),
                "its certificate is that of an authority (CA:TRUE), which no server may use as its own",
            ),
        ];
        for (why, words) in table {
            assert_eq!(of(why).to_string(), words);
        }
        let other = in_words(io::Error::new(io::ErrorKind::InvalidData, Error::DecryptError));
        assert_eq!(other.to_string(), Error::DecryptError.to_string());
        assert!(other.get_ref().is_some_and(|inner| inner.is::<Error>()));
    }
}
