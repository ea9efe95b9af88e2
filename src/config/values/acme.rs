//! What an authority is told and asked: names of hosts, an address of mail, a profile, the URL of a directory.

use std::net::IpAddr;
use std::str::FromStr;

use http::Uri;
use tollgate_grammar::{Mistake, Syntax};

/// A name of a host, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain(pub String);

impl FromStr for Domain {
    type Err = Mistake;

    fn from_str(name: &str) -> Result<Self, Mistake> {
        let text = name.to_ascii_lowercase();
        let hint = match text.as_str() {
            _ if text.parse::<IpAddr>().is_ok() => "a name, not an address",
            _ if !text.is_ascii() => "as DNS has it, such as xn--bcher-kva.example",
            _ if is_name(&text) => return Ok(Self(text)),
            _ => "such as www.example.org",
        };
        Err(Mistake::new(format!("`{name}` is not a name of a host"), hint))
    }
}

/// What a certificate is for: a name of a host, `*.` and the name that all of its hosts are below, or an address (RFC 8738);
/// in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertifiedName(pub String);

impl FromStr for CertifiedName {
    type Err = Mistake;

    fn from_str(name: &str) -> Result<Self, Mistake> {
        if let Ok(address) = name.parse::<IpAddr>().map(|address| address.to_canonical()) {
            return match address.is_unspecified() || address.is_multicast() {
                true => {
                    Err(Mistake::new(format!("`{name}` is not the address of a host"), "such as 192.0.2.1"))
                }
                false => Ok(Self(address.to_string())),
            };
        }
        match name.strip_prefix("*.") {
            Some(parent) => Ok(Self(format!("*.{}", parent.parse::<Domain>()?.0))),
            None => Ok(Self(name.parse::<Domain>()?.0)),
        }
    }
}

impl Syntax for CertifiedName {
    fn pattern() -> Option<String> {
        let label = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
        Some(format!("^((\\*\\.)?{label}(\\.{label})*|[0-9A-Fa-f:.]+)$"))
    }
}

/// RFC 1123, section 2.1. A last label of digits would make it an address.
fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
        (1..=63).contains(&bytes.len())
            && bytes.iter().all(is_inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= 253 && text.split('.').all(is_label) && !last.bytes().all(|byte| byte.is_ascii_digit())
}

/// The name of one of an authority's profiles of certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileName(pub String);

impl FromStr for ProfileName {
    type Err = Mistake;

    fn from_str(name: &str) -> Result<Self, Mistake> {
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        match (1..=64).contains(&name.len()) && is_plain {
            true => Ok(Self(name.to_owned())),
            false => {
                Err(Mistake::new(format!("`{name}` is not the name of a profile"), "such as shortlived"))
            }
        }
    }
}

impl Syntax for ProfileName {
    fn pattern() -> Option<String> {
        Some("^[A-Za-z0-9._-]{1,64}$".to_owned())
    }
}

/// The name of a key for external account binding. A file is named after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyId(pub String);

impl FromStr for KeyId {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        match (1..=80).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(Self(text.to_owned())),
            false => Err(Mistake::new("this is not the name of a key", "1 to 80 letters without spaces")),
        }
    }
}

impl Syntax for KeyId {
    fn pattern() -> Option<String> {
        Some("^[!-~]{1,80}$".to_owned())
    }
}

/// An address of mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailAddress(pub String);

impl FromStr for MailAddress {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        match text.split_once('@') {
            Some((user, host)) if is_plain(user) && is_plain(host) && !host.contains('@') => {
                Ok(Self(text.to_owned()))
            }
            _ => {
                Err(Mistake::new(format!("`{text}` is not an address of mail"), "such as admin@example.org"))
            }
        }
    }
}

impl Syntax for MailAddress {
    fn pattern() -> Option<String> {
        Some(r"^[!-?A-~]+@[!-?A-~]+$".to_owned())
    }
}

/// The URL of an authority's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryUrl(pub Uri);

impl FromStr for DirectoryUrl {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let url = text.parse::<Uri>().ok().filter(|url| {
            url.scheme_str() == Some("https") && url.host().is_some_and(|host| !host.is_empty())
        });
        url.map(Self).ok_or_else(|| Mistake::new(format!("`{text}` is not the URL of a directory"), HINT))
    }
}

impl Syntax for DirectoryUrl {
    fn pattern() -> Option<String> {
        Some("^https://.+".to_owned())
    }
}

const HINT: &str = "such as https://acme-v02.api.letsencrypt.org/directory";
