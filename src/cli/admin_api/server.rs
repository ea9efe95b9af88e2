//! Where a running gate answers operators: a Unix socket, or an address of HTTP with a token.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, ensure};
use http::Uri;
use http::uri::Scheme;

use crate::net::listener::ListenAddress;

/// The admin API of one gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum AdminServer {
    /// Its socket; the permissions of the file decide who may ask.
    Unix(PathBuf),
    /// Its address, without a path.
    Http(Uri),
}

impl AdminServer {
    /// Where a gate on this machine listens; `None` for a socket of systemd, whose address the file does not give.
    pub(super) fn of(address: &ListenAddress) -> Option<Self> {
        let url = match address {
            ListenAddress::Unix(file) => return Some(Self::Unix(file.path.clone())),
            // Every address of this machine is this machine.
            ListenAddress::Tcp(address) if address.ip().is_unspecified() => {
                format!("http://127.0.0.1:{}", address.port())
            }
            ListenAddress::Tcp(address) => format!("http://{address}"),
            ListenAddress::Tls(_) | ListenAddress::Systemd { .. } => return None,
        };
        url.parse().ok().map(Self::Http)
    }

    /// Whether a token may be sent there: over TLS, or without leaving this machine.
    pub(super) fn keeps_token_secret(&self) -> bool {
        let Self::Http(url) = self else { return true };
        let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let is_here =
            host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback());
        url.scheme() == Some(&Scheme::HTTPS) || is_here
    }
}

impl FromStr for AdminServer {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        if let Some(path) = text.strip_prefix("unix:").or(Some(text).filter(|text| text.starts_with('/'))) {
            ensure!(
                !path.is_empty(),
                "unix: needs the path of the socket, such as unix:/run/tollgate/admin.sock"
            );
            return Ok(Self::Unix(path.into()));
        }
        let url: Uri = text.parse().ok().with_context(|| FORMS)?;
        let is_web = matches!(url.scheme_str(), Some("http" | "https"));
        ensure!(is_web && url.host().is_some_and(|host| !host.is_empty()), "{FORMS}");
        ensure!(
            url.path() == "/" && url.query().is_none(),
            "an address has no path here, such as http://127.0.0.1:9180"
        );
        Ok(Self::Http(url))
    }
}

impl fmt::Display for AdminServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Http(url) => f.write_str(url.to_string().trim_end_matches('/')),
        }
    }
}

const FORMS: &str = "unix:PATH, http://HOST:PORT or https://HOST:PORT";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> AdminServer {
        text.parse().unwrap()
    }

    #[test]
    fn a_socket_is_a_path_and_an_address_has_none() {
        assert_eq!(parse("unix:/run/a.sock"), AdminServer::Unix("/run/a.sock".into()));
        assert_eq!(parse("/run/a.sock"), AdminServer::Unix("/run/a.sock".into()));
        assert_eq!(parse("http://127.0.0.1:9180").to_string(), "http://127.0.0.1:9180");
        for wrong in [
            "",
            "unix:",
            "127.0.0.1:9180",
            "ftp://a.example",
            "http://",
            "http://a.example/api",
            "http://a.example?a",
        ] {
            assert!(wrong.parse::<AdminServer>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_token_leaves_this_machine_by_tls_only() {
        for safe in ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1", "https://gate.example"] {
            assert!(parse(safe).keeps_token_secret(), "{safe}");
        }
        for open in ["http://192.0.2.1:1", "http://gate.example", "http://localhost.example"] {
            assert!(!parse(open).keeps_token_secret(), "{open}");
        }
    }

    #[test]
    fn a_listener_of_all_addresses_is_asked_on_loopback() {
        let every = ListenAddress::Tcp(([0, 0, 0, 0], 9180).into());
        assert_eq!(AdminServer::of(&every), Some(parse("http://127.0.0.1:9180")));
    }
}
