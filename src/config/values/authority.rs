//! The host and the port of an address.

use std::net::IpAddr;

use tollgate_grammar::Mistake;

/// The host without brackets, and the port, or `default_port` where none is given.
pub(super) fn host_and_port<'t>(
    text: &str,
    authority: &'t str,
    default_port: &'t str,
    hint: &str,
) -> Result<(&'t str, u16), Mistake> {
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    if authority.contains(['/', '?', '#']) {
        return Err(Mistake::new(format!("`{text}` has more than a host and a port"), hint));
    }
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) if host.contains(':') => {
            (host, rest.strip_prefix(':').or_else(|| rest.is_empty().then_some(default_port)))
        }
        Some(_) => (authority, None),
        None if authority.matches(':').count() > 1 => {
            return Err(Mistake::new(format!("`{text}` needs brackets"), "write an IPv6 address as [::1]"));
        }
        None => authority
            .split_once(':')
            .map_or((authority, Some(default_port)), |(host, port)| (host, Some(port))),
    };
    let digits = port.filter(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(port) => Ok((host, port)),
        None => Err(Mistake::new(format!("`{text}` has no valid port"), "0 to 65535")),
    }
}

pub(super) fn is_host(host: &str) -> bool {
    let name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    match host.parse::<IpAddr>() {
        Ok(_) => true,
        Err(_) => !host.is_empty() && host.len() <= 253 && host.bytes().all(name),
    }
}
