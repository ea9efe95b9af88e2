//! A syslog server: `"syslog:"`, `"syslog:/run/log.sock"`, `"syslog:udp://logs.example.org:514"`.

use std::str::FromStr;

use tollgate_grammar::{Mistake, Syntax};

use super::address::socket_path;
use super::authority::{host_and_port, is_host};
use crate::observe::settings::SyslogAddress;

/// Where a syslog server receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyslogTarget(pub SyslogAddress);

impl Syntax for SyslogTarget {
    fn pattern() -> Option<String> {
        None
    }
}

impl FromStr for SyslogTarget {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let Some(server) = text.strip_prefix("syslog:") else { return Err(not_a_server(text)) };
        if server.is_empty() {
            return Ok(Self(SyslogAddress::Unix(LOCAL.into())));
        }
        if server.starts_with('/') {
            return socket_path(&format!("unix:{server}")).map(|path| Self(SyslogAddress::Unix(path)));
        }
        let authority = server.strip_prefix("udp://").ok_or_else(|| not_a_server(text))?;
        let (host, port) = host_and_port(text, authority, PORT, HINT)?;
        if !is_host(host) {
            return Err(Mistake::new(format!("`{host}` is not a host"), HINT));
        }
        if port == 0 {
            return Err(Mistake::new("no server listens at port 0", "1 to 65535"));
        }
        Ok(Self(SyslogAddress::Udp { host: host.to_ascii_lowercase(), port }))
    }
}

fn not_a_server(text: &str) -> Mistake {
    Mistake::new(format!("`{text}` is not a syslog server"), HINT)
}

/// Where the C library sends messages (`syslog(3)`).
const LOCAL: &str = "/dev/log";
/// RFC 5426, 3.3.
const PORT: &str = "514";
const HINT: &str = "write it as \"syslog:\", \"syslog:/run/log.sock\" or \"syslog:udp://127.0.0.1:514\"";

#[cfg(test)]
mod tests {
    use super::*;

    fn server(text: &str) -> SyslogAddress {
        text.parse::<SyslogTarget>().unwrap().0
    }

    #[test]
    fn a_server_is_local_a_socket_or_a_port() {
        let udp = |host: &str, port| SyslogAddress::Udp { host: host.to_owned(), port };
        assert_eq!(server("syslog:"), SyslogAddress::Unix("/dev/log".into()));
        assert_eq!(server("syslog:/run/other"), SyslogAddress::Unix("/run/other".into()));
        assert_eq!(server("syslog:udp://Logs.example.org:1514"), udp("logs.example.org", 1514));
        assert_eq!(server("syslog:udp://[::1]"), udp("::1", 514));
    }

    #[test]
    fn anything_else_is_a_mistake() {
        for text in
            ["syslog:tcp://a:1", "syslog:run/log", "syslog:udp://", "syslog:udp://a:0", "syslog:udp://a b"]
        {
            assert!(text.parse::<SyslogTarget>().is_err(), "{text}");
        }
    }
}
