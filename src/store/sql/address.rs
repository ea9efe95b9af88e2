//! The part of an address that both databases have: TLS, and options behind a question mark.
//!
//! The surprising thing: no mistake repeats a word of the address that is not a name of an option, because a password in
//! the wrong place would be shown with it.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;

/// How a database is spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) enum SqlTls {
    /// In clear text: `sslmode=disable`, and what is meant where nothing is said.
    Off,
    /// Encrypted, and the server's certificate checked with its name: by the roots of this file, or the system's.
    On(Option<PathBuf>),
}

/// An address without its options, and these.
#[derive(Debug)]
pub(in crate::store) struct SqlUrl<'a> {
    /// Scheme, credentials, hosts and database.
    pub(in crate::store) base: &'a str,
    /// Those that are not about TLS, as they are written.
    pub(in crate::store) options: Vec<(&'a str, &'a str)>,
    pub(in crate::store) tls: SqlTls,
}

/// Takes an address apart; `known` are the options that it may have beside those of TLS.
pub(in crate::store) fn split<'a>(url: &'a str, known: &[&str]) -> Result<SqlUrl<'a>, String> {
    // A question mark in a password is one of the password, as long as an `@` follows.
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
                return Err(format!(
                    "unknown option; options are sslmode, sslrootcert, {}",
                    known.join(", ")
                ));
            }
        }
    }
    Ok(SqlUrl { base, options, tls: tls(mode, roots)? })
}

/// Without percent signs.
pub(in crate::store) fn decoded(text: &str) -> Result<String, String> {
    let decoded = percent_decode_str(text).decode_utf8();
    Ok(decoded.map_err(|_| "what stands behind percent signs is not UTF-8")?.into_owned())
}

fn tls(mode: Option<&str>, roots: Option<PathBuf>) -> Result<SqlTls, String> {
    match (mode, roots) {
        // Both check the certificate: encryption to whoever answers protects nothing.
        (Some("require" | "verify-full"), roots) => Ok(SqlTls::On(roots)),
        (None | Some("disable"), Some(_)) => Err("`sslrootcert` needs `sslmode=verify-full`".to_owned()),
        (None | Some("disable"), None) => Ok(SqlTls::Off),
        _ => Err("`sslmode` is `disable`, `require` or `verify-full`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_of(url: &str) -> Result<(String, SqlTls), String> {
        split(url, &["application_name"]).map(|split| (split.base.to_owned(), split.tls))
    }

    #[test]
    fn tls_is_said_or_it_is_not_spoken() {
        let base = "postgres://u:p@h/db".to_owned();
        assert_eq!(split_of("postgres://u:p@h/db"), Ok((base.clone(), SqlTls::Off)));
        assert_eq!(split_of("postgres://u:p@h/db?sslmode=disable"), Ok((base.clone(), SqlTls::Off)));
        assert_eq!(split_of("postgres://u:p@h/db?sslmode=verify-full"), Ok((base.clone(), SqlTls::On(None))));
        let url = "postgres://u:p@h/db?sslrootcert=/etc/a%20b.pem&sslmode=require";
        assert_eq!(split_of(url), Ok((base, SqlTls::On(Some("/etc/a b.pem".into())))));
    }

    #[test]
    fn mistakes_repeat_nothing_secret() {
        for (url, said) in [
            ("postgres://u:p@h/db?sslmode=hunter2", "`sslmode` is `disable`, `require` or `verify-full`"),
            ("postgres://u:p@h/db?sslrootcert=/hunter2", "`sslrootcert` needs `sslmode=verify-full`"),
            ("postgres://u:p@h/db?hunter2", "an option is written `name=value`"),
            (
                "postgres://u:p@h/db?hunter2=1",
                "unknown option; options are sslmode, sslrootcert, application_name",
            ),
            (
                "postgres://u:p@h/db?sslmode=require&sslrootcert=%ff",
                "what stands behind percent signs is not UTF-8",
            ),
        ] {
            assert_eq!(split_of(url), Err(said.to_owned()));
        }
    }

    #[test]
    fn a_question_mark_in_a_password_begins_no_options() {
        let url = "postgres://u:what?sslmode=no@h/db?sslmode=require";
        assert_eq!(split_of(url), Ok(("postgres://u:what?sslmode=no@h/db".to_owned(), SqlTls::On(None))));
    }
}
