//! The part of an address that both databases share: TLS, and options behind a question mark.
//!
//! Errors repeat no part of the address, because it may be a password in the wrong place. The part before the options
//! is left to each database's module.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;

use crate::address::BadStoreAddress;

/// How a connection is encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SqlTls {
    /// In clear text: `sslmode=disable`, or no `sslmode`.
    Off,
    /// Encrypted if the server can. Nothing is checked: an attacker who could read the traffic could also prevent its
    /// encryption.
    Preferred,
    /// Encrypted. The server's certificate is checked against the roots of this file, or the system's.
    On {
        /// A file in PEM.
        roots: Option<PathBuf>,
        /// Whether the certificate has to be valid for the server's name as well.
        checks_name: bool,
    },
}

/// An address, split into its parts.
#[derive(Debug)]
pub(crate) struct SqlUrl<'a> {
    /// Scheme, credentials, hosts and database.
    pub(crate) base: &'a str,
    /// Options that are not about TLS, as written.
    pub(crate) options: Vec<(&'a str, &'a str)>,
    pub(crate) tls: SqlTls,
}

/// Splits an address; `known` are the options that it may have next to those of TLS.
pub(crate) fn split<'a>(url: &'a str, known: &[&str]) -> Result<SqlUrl<'a>, BadStoreAddress> {
    // A question mark before an `@` belongs to the password.
    let credentials = url.find('@').map_or(0, |at| at + 1);
    let mark = url.get(credentials..).and_then(|rest| rest.find('?')).map(|at| credentials + at);
    let base = mark.and_then(|mark| url.get(..mark)).unwrap_or(url);
    let written = mark.and_then(|mark| url.get(mark + 1..)).unwrap_or_default();
    let mut options = Vec::new();
    let (mut mode, mut roots) = (None, None);
    for option in written.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').ok_or("an option is written `name=value`")?;
        match name {
            "sslmode" => mode = Some(value),
            "sslrootcert" => roots = Some(PathBuf::from(decoded(value)?)),
            name if known.contains(&name) => options.push((name, value)),
            _ => {
                let known = known.join(", ");
                return Err(format!("unknown option; options are sslmode, sslrootcert, {known}").into());
            }
        }
    }
    Ok(SqlUrl { base, options, tls: tls(mode, roots)? })
}

/// Decodes percent signs.
pub(crate) fn decoded(text: &str) -> Result<String, BadStoreAddress> {
    let decoded = percent_decode_str(text).decode_utf8();
    Ok(decoded.map_err(|_| "the percent-encoded text is not UTF-8")?.into_owned())
}

fn tls(mode: Option<&str>, roots: Option<PathBuf>) -> Result<SqlTls, BadStoreAddress> {
    // As libpq names the roots of the system.
    let roots = roots.filter(|file| file.as_os_str() != "system");
    match (mode, roots) {
        // `require` checks the certificate, too: encryption to an unverified server protects nothing.
        (Some("require" | "verify-full"), roots) => Ok(SqlTls::On { roots, checks_name: true }),
        (Some("verify-ca"), roots) => Ok(SqlTls::On { roots, checks_name: false }),
        (Some("prefer" | "allow"), _) => Ok(SqlTls::Preferred),
        (None | Some("disable"), Some(_)) => Err("`sslrootcert` needs `sslmode=verify-full`".into()),
        (None | Some("disable"), None) => Ok(SqlTls::Off),
        _ => Err(MODES.into()),
    }
}

const MODES: &str = "`sslmode` is `disable`, `prefer`, `require`, `verify-ca` or `verify-full`";

#[cfg(test)]
mod tests {
    use super::*;

    fn split_of(url: &str) -> Result<(String, SqlTls), BadStoreAddress> {
        split(url, &["application_name"]).map(|split| (split.base.to_owned(), split.tls))
    }

    fn checked(roots: Option<&str>, checks_name: bool) -> SqlTls {
        SqlTls::On { roots: roots.map(PathBuf::from), checks_name }
    }

    #[test]
    fn tls_is_said_or_it_is_not_spoken() {
        let base = "postgres://u:p@h/db".to_owned();
        assert_eq!(split_of("postgres://u:p@h/db"), Ok((base.clone(), SqlTls::Off)));
        assert_eq!(split_of("postgres://u:p@h/db?sslmode=disable"), Ok((base.clone(), SqlTls::Off)));
        assert_eq!(
            split_of("postgres://u:p@h/db?sslmode=verify-full"),
            Ok((base.clone(), checked(None, true)))
        );
        assert_eq!(
            split_of("postgres://u:p@h/db?sslmode=verify-ca"),
            Ok((base.clone(), checked(None, false)))
        );
        assert_eq!(split_of("postgres://u:p@h/db?sslmode=prefer"), Ok((base.clone(), SqlTls::Preferred)));
        let url = "postgres://u:p@h/db?sslmode=verify-full&sslrootcert=system";
        assert_eq!(split_of(url), Ok((base.clone(), checked(None, true))));
        let url = "postgres://u:p@h/db?sslrootcert=/etc/a%20b.pem&sslmode=require";
        assert_eq!(split_of(url), Ok((base, checked(Some("/etc/a b.pem"), true))));
    }

    #[test]
    fn mistakes_repeat_nothing_secret() {
        for (url, message) in [
            ("postgres://u:p@h/db?sslmode=hunter2", MODES),
            ("postgres://u:p@h/db?sslrootcert=/hunter2", "`sslrootcert` needs `sslmode=verify-full`"),
            ("postgres://u:p@h/db?hunter2", "an option is written `name=value`"),
            (
                "postgres://u:p@h/db?hunter2=1",
                "unknown option; options are sslmode, sslrootcert, application_name",
            ),
            ("postgres://u:p@h/db?sslmode=require&sslrootcert=%ff", "the percent-encoded text is not UTF-8"),
        ] {
            assert_eq!(split_of(url), Err(message.into()));
        }
    }

    #[test]
    fn a_question_mark_in_a_password_begins_no_options() {
        let url = "postgres://u:what?sslmode=no@h/db?sslmode=require";
        assert_eq!(split_of(url), Ok(("postgres://u:what?sslmode=no@h/db".to_owned(), checked(None, true))));
    }
}
