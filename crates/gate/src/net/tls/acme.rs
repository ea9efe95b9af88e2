//! Which certificates an authority issues to the gate itself (ACME, RFC 8555), and where they are kept.
//!
//! The files of one authority lie in one directory: `account.json` (with a binding `account-KEY.json`), and `NAME.pem` with
//! chain and key for each name.
//! Ordering is left to the background.

use std::fmt;
use std::path::PathBuf;

use http::Uri;

use super::{Certificate, OnDemandSettings, Trust};

/// `tls.acme` of the file, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeSettings {
    /// The names, each with the certificate that its file held when the configuration was read.
    pub domains: Vec<(String, Option<Certificate>)>,
    /// The names that clients may cause an order for.
    pub on_demand: Option<OnDemandSettings>,
    /// Whom the authority writes to.
    pub email: Option<String>,
    /// The authority's directory: a URL of `https`.
    pub directory: Uri,
    /// The account at the authority to which the gate's account belongs.
    pub external_account: Option<ExternalAccount>,
    /// Which of the authority's profiles; without one it chooses.
    pub profile: Option<String>,
    /// How names are proved, but for wildcards: see [`method`](Self::method).
    pub validation: ValidationMethod,
    /// What changes DNS.
    pub dns_hook: Option<DnsHook>,
    /// The directory of this authority's files.
    pub state: PathBuf,
    /// The roots that the authority's own server is checked against.
    pub trust: Trust,
}

/// An account at an authority that was made elsewhere, and the key that proves it (RFC 8555, section 7.3.4).
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// The name of the key.
    pub key_id: String,
    /// The key, which is never shown.
    pub key: Vec<u8>,
}

impl fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExternalAccount(hidden)")
    }
}

/// How the authority checks that a name is the gate's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ValidationMethod {
    /// By a handshake on port 443 (RFC 8737).
    #[default]
    TlsAlpn01,
    /// By a request on port 80 (RFC 8555, section 8.3).
    Http01,
    /// By a record in DNS (RFC 8555, section 8.4).
    Dns01,
}

/// The command of the operator that puts a record into DNS, or removes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsHook {
    /// An absolute path.
    pub program: PathBuf,
    /// Before those of the gate.
    pub arguments: Vec<String>,
}

impl AcmeSettings {
    /// The file of a name's certificate; that of a wildcard begins with `_`, as no other name does.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.state.join(format!("{}.pem", name.replacen('*', "_", 1)))
    }

    /// How this name is proved.
    #[must_use]
    pub fn method(&self, name: &str) -> ValidationMethod {
        if name.starts_with("*.") { ValidationMethod::Dns01 } else { self.validation }
    }

    /// The file of the account and its key: another one for each account that it is bound to.
    #[must_use]
    pub fn account(&self) -> PathBuf {
        let Some(ExternalAccount { key_id, .. }) = &self.external_account else {
            return self.state.join("account.json");
        };
        let letters = key_id.bytes().map(|byte| match byte {
            b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        });
        self.state.join(format!("account-{}.json", letters.collect::<String>()))
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
