//! Which certificates an authority issues to the gate itself (ACME, RFC 8555), and where they are kept.
//!
//! The files of one authority lie in one directory: `account.json`, and `NAME.pem` with chain and key for each name.
//! Ordering is left to the background.

use std::path::PathBuf;

use http::Uri;

use super::{Certificate, Trust};

/// `tls.acme` of the file, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeSettings {
    /// The names, each with the certificate that its file held when the configuration was read.
    pub domains: Vec<(String, Option<Certificate>)>,
    /// Whom the authority writes to.
    pub email: Option<String>,
    /// The authority's directory: a URL of `https`.
    pub directory: Uri,
    /// How names are proved.
    pub validation: ValidationMethod,
    /// The directory of this authority's files.
    pub state: PathBuf,
    /// The roots that the authority's own server is checked against.
    pub trust: Trust,
}

/// How the authority checks that a name is the gate's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ValidationMethod {
    /// By a handshake on port 443 (RFC 8737).
    #[default]
    TlsAlpn01,
    /// By a request on port 80 (RFC 8555, section 8.3).
    Http01,
}

impl AcmeSettings {
    /// The file of a name's certificate.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.state.join(format!("{name}.pem"))
    }

    /// The file of the account and its key.
    #[must_use]
    pub fn account(&self) -> PathBuf {
        self.state.join("account.json")
    }
}

/// The name of an authority's directory of files: authorities must not overwrite each other's.
#[must_use]
pub fn state_name(directory: &Uri) -> String {
    let text = directory.to_string();
    let text = text.strip_prefix("https://").unwrap_or(&text).trim_end_matches('/');
    text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_authority_has_files_of_its_own_within_the_state() {
        let name = |url: &str| state_name(&url.parse().unwrap());
        assert_eq!(
            name("https://acme-v02.api.letsencrypt.org/directory"),
            "acme-v02.api.letsencrypt.org-directory"
        );
        assert_eq!(name("https://[::1]:14000/dir/../x/"), "---1--14000-dir-..-x");
    }
}
