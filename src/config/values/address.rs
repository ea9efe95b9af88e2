//! Addresses to listen at and to forward to: `"http://[::]:8080"`, `"unix:/run/app.sock"`.
//!
//! Both are origins: a path, a query, a name or a password would have no effect, and is refused.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use tollgate_grammar::{Mistake, Syntax};

use super::authority::{host_and_port, is_host};
use super::dns::service_name;
use crate::config::features::{self, TLS};
use crate::net::listener::ListenAddress;
use crate::net::socket_file::SocketFile;
use crate::net::tls::trust::is_server_name;
use crate::proxy::upstream::{UpstreamAddress, UpstreamHost};

/// An entry of `listen`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenUrl(pub ListenAddress);

/// An entry of `upstream`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamUrl {
    /// One upstream.
    At(UpstreamAddress),
    /// `srv+http://NAME`: those that the SRV records of this name list, in lower case.
    Service(String),
}

/// `upstream_host` of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamHostValue(pub UpstreamHost);

/// `otel.endpoint`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectorUrl {
    /// In lower case, without brackets.
    pub host: String,
    /// Not 0.
    pub port: u16,
}

impl FromStr for ListenUrl {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        refuse_credentials(text, LISTEN)?;
        match scheme(text) {
            ("unix", _) => socket_file(text).map(|file| Self(ListenAddress::Unix(file))),
            ("http", Some(authority)) => {
                let (host, port) = host_and_port(text, authority, HTTP, LISTEN)?;
                let ip: IpAddr = host.parse().map_err(|_| not_an_address(text, "http", host, port))?;
                Ok(Self(ListenAddress::Tcp(SocketAddr::new(ip, port))))
            }
            ("https", Some(authority)) => {
                need_tls()?;
                let (host, port) = host_and_port(text, authority, HTTPS, LISTEN)?;
                let ip: IpAddr = host.parse().map_err(|_| not_an_address(text, "https", host, port))?;
                Ok(Self(ListenAddress::Tls(SocketAddr::new(ip, port))))
            }
            ("systemd", None) => {
                socket_name(text, "systemd:").map(|name| Self(ListenAddress::Systemd { name, tls: false }))
            }
            ("systemd+https", None) => {
                need_tls()?;
                let name = socket_name(text, "systemd+https:")?;
                Ok(Self(ListenAddress::Systemd { name, tls: true }))
            }
            _ => match bare_address(text) {
                Some(address) => Ok(Self(ListenAddress::Tcp(address))),
                None => Err(Mistake::new(format!("`{text}` is not an address to listen at"), LISTEN)),
            },
        }
    }
}

impl Syntax for ListenUrl {
    fn pattern() -> Option<String> {
        Some(r"^(https?://\S+|unix:.+|systemd(\+https)?:.+|(\S*:)?[0-9]+)$".to_owned())
    }
}

impl Syntax for UpstreamUrl {
    fn pattern() -> Option<String> {
        Some(r"^((srv\+)?http://\S+|https://\S+|unix:.+)$".to_owned())
    }
}

impl Syntax for UpstreamHostValue {
    fn pattern() -> Option<String> {
        Some(r"^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?$".to_owned())
    }
}

impl Syntax for CollectorUrl {
    fn pattern() -> Option<String> {
        None
    }
}

impl FromStr for UpstreamUrl {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        refuse_credentials(text, UPSTREAM)?;
        match scheme(text) {
            ("unix", _) => socket_path(text).map(|path| Self::At(UpstreamAddress::Unix(path))),
            ("http", Some(authority)) => {
                let (host, port) = peer_host_and_port(text, authority, HTTP, UPSTREAM)?;
                Ok(Self::At(UpstreamAddress::Tcp { host, port }))
            }
            ("https", Some(authority)) => {
                need_tls()?;
                let (host, port) = peer_host_and_port(text, authority, HTTPS, UPSTREAM)?;
                if !is_server_name(&host) {
                    return Err(Mistake::new(
                        format!("no certificate can be for `{host}`"),
                        "a DNS name or an address",
                    ));
                }
                Ok(Self::At(UpstreamAddress::Tls { host, port }))
            }
            ("srv+http", Some(authority)) => service_name(text, authority).map(Self::Service),
            ("srv+https", _) => Err(Mistake::new(
                "no certificate can be for the servers that DNS names",
                "write srv+http://, or https:// with the names of the servers",
            )),
            _ => Err(Mistake::new(format!("`{text}` is not an upstream"), UPSTREAM)),
        }
    }
}

impl FromStr for UpstreamHostValue {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        if text.contains("://") {
            return Err(Mistake::new(format!("`{text}` has a scheme"), UPSTREAM_HOST));
        }
        refuse_credentials(text, UPSTREAM_HOST)?;
        let (name, port) = host_and_port(text, text, HTTPS, UPSTREAM_HOST)?;
        if text.ends_with('/') || !is_host(name) || !is_server_name(name) {
            return Err(Mistake::new(format!("`{text}` is not a host"), UPSTREAM_HOST));
        }
        let is_bare = text.trim_matches(['[', ']']) == name;
        if port == 0 {
            return Err(Mistake::new("port 0 cannot be connected to", "1 to 65535"));
        }
        Ok(Self(UpstreamHost { name: name.to_ascii_lowercase(), port: (!is_bare).then_some(port) }))
    }
}

impl FromStr for CollectorUrl {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        refuse_credentials(text, COLLECTOR)?;
        match scheme(text) {
            ("http", Some(authority)) => {
                let (host, port) = peer_host_and_port(text, authority, HTTP, COLLECTOR)?;
                Ok(Self { host, port })
            }
            ("https", Some(_)) => Err(Mistake::new(
                "exports are sent without TLS",
                "run a collector on this machine, as in \"http://127.0.0.1:4318\"",
            )),
            _ => Err(Mistake::new(format!("`{text}` is not a collector"), COLLECTOR)),
        }
    }
}

/// Host, in lower case, and port of a server to connect to.
fn peer_host_and_port(
    text: &str,
    authority: &str,
    default_port: &str,
    hint: &str,
) -> Result<(String, u16), Mistake> {
    let (host, port) = host_and_port(text, authority, default_port, hint)?;
    if !is_host(host) {
        return Err(Mistake::new(format!("`{host}` is not a host"), hint));
    }
    if port == 0 {
        return Err(Mistake::new("port 0 cannot be connected to", "1 to 65535"));
    }
    Ok((host.to_ascii_lowercase(), port))
}

fn need_tls() -> Result<(), Mistake> {
    TLS.missing().map_or(Ok(()), |missing| Err(Mistake::new(missing, features::HINT)))
}

fn scheme(text: &str) -> (&str, Option<&str>) {
    let (scheme, rest) = text.split_once(':').unwrap_or(("", text));
    (scheme, rest.strip_prefix("//"))
}

/// As nginx and Caddy write it: a port, `:8080` or `127.0.0.1:8080`.
fn bare_address(text: &str) -> Option<SocketAddr> {
    let port = text.strip_prefix(':').unwrap_or(text);
    let is_port = !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit());
    match is_port {
        true => Some((Ipv6Addr::UNSPECIFIED, port.parse().ok()?).into()),
        false => text.parse().ok(),
    }
}

/// A name that systemd accepts (`sd_listen_fds_with_names(3)`).
fn socket_name(text: &str, scheme: &str) -> Result<String, Mistake> {
    let name = text.strip_prefix(scheme).unwrap_or_default();
    let fits = |byte: u8| byte.is_ascii_graphic() && byte != b':';
    if name.is_empty() || name.len() > 255 || !name.bytes().all(fits) {
        return Err(Mistake::new(format!("`{text}` has no name"), "FileDescriptorName= of the socket unit"));
    }
    Ok(name.to_owned())
}

/// A socket's path. It is absolute, because a service's working directory is hard to know.
pub(super) fn socket_path(text: &str) -> Result<PathBuf, Mistake> {
    let path = text.strip_prefix("unix:").unwrap_or_default();
    if !path.starts_with('/') || path.ends_with('/') || path.contains('\0') {
        return Err(Mistake::new(format!("`{text}` has no absolute path"), "as in \"unix:/run/app.sock\""));
    }
    let path = format!("/{}", path.trim_start_matches('/'));
    if path.len() > MAX_SOCKET_PATH_LEN {
        return Err(Mistake::new(format!("`{text}` is too long"), "a socket's path has at most 107 bytes"));
    }
    Ok(path.into())
}

/// A socket to listen at: `unix:/run/app.sock?mode=0660&user=gate&group=www-data`.
fn socket_file(text: &str) -> Result<SocketFile, Mistake> {
    let (path, access) = text.split_once('?').unwrap_or((text, ""));
    let mut file = SocketFile::from(socket_path(path)?);
    for part in access.split('&').filter(|_| text.contains('?')) {
        match part.split_once('=') {
            Some(("mode", mode)) => file.mode = Some(file_mode(mode)?),
            Some(("user", name)) if is_name_of_system(name) => file.user = Some(name.to_owned()),
            Some(("group", name)) if is_name_of_system(name) => file.group = Some(name.to_owned()),
            _ => return Err(Mistake::new(format!("`{part}` says nothing about a socket"), SOCKET)),
        }
    }
    Ok(file)
}

fn file_mode(text: &str) -> Result<u32, Mistake> {
    let is_octal = (3..=4).contains(&text.len()) && text.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| is_octal && *mode <= 0o777);
    mode.ok_or_else(|| Mistake::new(format!("`{text}` are not permissions of a socket"), SOCKET))
}

/// Whether a user or a group can have this name, or number.
fn is_name_of_system(name: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !name.is_empty() && name.bytes().all(is_of_name)
}

/// Refuses a name or a password in an address, before another mistake could repeat it.
fn refuse_credentials(text: &str, hint: &str) -> Result<(), Mistake> {
    if text.contains('@') && scheme(text).0 != "unix" {
        return Err(Mistake::new("the address has a name or a password", hint));
    }
    Ok(())
}

fn not_an_address(text: &str, scheme: &str, host: &str, port: u16) -> Mistake {
    let message = match host {
        "" | "*" => format!("`{text}` has no address"),
        _ => format!("`{host}` is not an IP address"),
    };
    let instead = match host {
        "localhost" => "127.0.0.1",
        _ => "[::]",
    };
    let note = if instead == "[::]" { " for every address of this machine" } else { "" };
    Mistake::new(message, format!("write {scheme}://{instead}:{port}{note}"))
}

/// `sun_path` of Linux has 108 bytes, the last of which is zero.
const MAX_SOCKET_PATH_LEN: usize = 107;
const HTTP: &str = "80";
const HTTPS: &str = "443";
const SOCKET: &str = "as in \"unix:/run/app.sock?mode=0660&group=www-data\"; user=NAME as well";
const LISTEN: &str = "write it as \"http://[::]:8080\", \"unix:/run/tollgate.sock\" or \"systemd:NAME\"";
const COLLECTOR: &str = "write it as \"http://127.0.0.1:4318\"";
const UPSTREAM_HOST: &str = "write the name alone, as in \"api.example.org\"";
const UPSTREAM: &str = "write it as \"http://127.0.0.1:8081\" or \"unix:/run/app.sock\"";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn listen(text: &str) -> String {
        text.parse::<ListenUrl>().unwrap().0.to_string()
    }

    fn upstream(text: &str) -> String {
        match text.parse().unwrap() {
            UpstreamUrl::At(address) => address.to_string(),
            UpstreamUrl::Service(name) => format!("SRV {name}"),
        }
    }

    #[test]
    fn a_listener_has_an_address_or_a_path() {
        assert_eq!(listen("http://[::]:8080"), "http://[::]:8080");
        assert_eq!(listen("http://127.0.0.1"), "http://127.0.0.1:80");
        assert_eq!(listen("http://[::1]/"), "http://[::1]:80");
        assert_eq!(listen("unix:///run/a.sock"), "unix:/run/a.sock");
        assert_eq!([listen("8080"), listen(":8080")], ["http://[::]:8080", "http://[::]:8080"]);
        assert_eq!([listen("1.2.3.4:80"), listen("[::1]:80")], ["http://1.2.3.4:80", "http://[::1]:80"]);
        assert_eq!(listen("https://[::]"), "https://[::]:443");
        assert_eq!(listen("systemd:web.socket"), "systemd:web.socket");
        assert_eq!(listen("systemd+https:web"), "systemd+https:web");
    }

    #[test]
    fn a_socket_may_say_who_may_connect() {
        let file = |text: &str| match text.parse::<ListenUrl>() {
            Ok(ListenUrl(ListenAddress::Unix(file))) => Some(file),
            _ => None,
        };
        let given = file("unix:/run/a.sock?mode=0660&user=gate&group=www-data").unwrap();
        assert_eq!((given.path.to_str(), given.mode), (Some("/run/a.sock"), Some(0o660)));
        assert_eq!((given.user.as_deref(), given.group.as_deref()), (Some("gate"), Some("www-data")));
        assert_eq!(file("unix:/run/a.sock?mode=777").unwrap().mode, Some(0o777));
        for wrong in [
            "?",
            "?mode=",
            "?mode=0999",
            "?mode=1777",
            "?mode=66",
            "?group=",
            "?group=a:b",
            "?owner=x",
            "?mode=660&",
        ] {
            assert!(file(&format!("unix:/run/a.sock{wrong}")).is_none(), "{wrong}");
        }
    }

    #[test]
    fn an_upstream_may_have_a_name() {
        assert_eq!(upstream("http://App.internal:3000/"), "http://app.internal:3000");
        assert_eq!(upstream("http://[2001:db8::1]:81"), "http://[2001:db8::1]:81");
        assert_eq!(upstream("unix:/run/php.sock"), "unix:/run/php.sock");
        assert_eq!(upstream("https://App.internal"), "https://app.internal:443");
        assert_eq!(upstream("https://[::1]:8443/"), "https://[::1]:8443");
        assert_eq!(upstream("srv+http://_http._tcp.App.example/"), "SRV _http._tcp.app.example");
    }

    #[test]
    fn an_upstream_goes_by_a_name_and_perhaps_a_port() {
        let host = |text: &str| text.parse::<UpstreamHostValue>().map(|value| value.0.to_string());
        for (text, written) in [
            ("Api.Example.org", "api.example.org"),
            ("api.example.org:443", "api.example.org:443"),
            ("192.0.2.1:8080", "192.0.2.1:8080"),
            ("[2001:DB8::1]", "[2001:db8::1]"),
            ("[::1]:81", "[::1]:81"),
        ] {
            assert_eq!(host(text).as_deref(), Ok(written));
        }
        for text in [
            "",
            "https://a.example",
            "a.example/",
            "a.example/x",
            "a b",
            "a..b",
            "*.a",
            "u@a",
            "a:0",
            "a:",
            "::1",
        ] {
            assert!(host(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_place_is_refused() {
        let wrong = [
            "",
            ":",
            "65536",
            "+80",
            "1.2.3.4",
            "http://",
            "http://:8080",
            "http://*:80",
            "http://a b",
            "http://::1:80",
            "http://[::1",
            "http://[::1]x",
            "http://[1.2.3.4]:80",
            "http://1.2.3.4:",
            "http://1.2.3.4:65536",
            "http://1.2.3.4:+1",
            "http://u:p@1.2.3.4",
            "http://1.2.3.4/app",
            "http://1.2.3.4?x",
            "https://",
            "https://1.2.3.4/app",
            "https://u@1.2.3.4",
            "ftp://1.2.3.4",
            "unix:",
            "unix:relative",
            "unix:/",
            "unix:/a\0b",
            "http:1.2.3.4",
            "systemd:",
            "systemd:a b",
            "systemd:a:b",
            "systemd://web",
            "systemd+http:web",
            "srv+http://",
            "srv+http://app.example:80",
            "srv+http://127.0.0.1",
            "srv+https://app.example",
        ];
        for text in wrong {
            assert!(text.parse::<ListenUrl>().is_err(), "{text:?}");
            assert!(text.parse::<UpstreamUrl>().is_err(), "{text:?}");
        }
        assert!("http://localhost:80".parse::<ListenUrl>().is_err());
        assert!("https://a..b".parse::<UpstreamUrl>().is_err());
        assert!("http://1.2.3.4:0".parse::<UpstreamUrl>().is_err());
        assert!(format!("unix:/{}", "a".repeat(107)).parse::<ListenUrl>().is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(http://|unix:|https://|)?.*") {
            let _ = text.parse::<ListenUrl>();
            let _ = text.parse::<UpstreamUrl>();
        }

        #[test]
        fn what_is_written_reads_back(ip: IpAddr, port: u16) {
            let url = ListenUrl(ListenAddress::Tcp(SocketAddr::new(ip, port)));
            prop_assert_eq!(url.0.to_string().parse(), Ok(url));
        }

        #[test]
        fn upstream_names_read_back(host in "[a-z][a-z0-9.-]{0,40}", port in 1_u16..) {
            for address in [
                UpstreamAddress::Tcp { host: host.clone(), port },
                UpstreamAddress::Tls { host: host.clone(), port },
            ] {
                let text = address.to_string();
                let read = text.parse::<UpstreamUrl>();
                let unnamed = !is_server_name(&host) && read.is_err();
                prop_assert!(read == Ok(UpstreamUrl::At(address)) || unnamed, "{text}");
            }
        }
    }
}
