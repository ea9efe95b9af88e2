//! What is asked for: the strict look at a request before anybody counts or forwards it.
//!
//! hyper has parsed the head and is lenient in places; here everything that two servers could read differently is
//! refused. Nothing is repaired. The surprising thing: a header is never looked at twice with different eyes, so
//! whatever passes here means the same to the policy and to the upstream.

use http::header::{HOST, TRANSFER_ENCODING};
use http::uri::Scheme;
use http::{HeaderMap, Method, Request, Uri, Version};

use crate::policy::canonical;

/// Why a request is refused as it stands; the words are for the person who sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No `Host` in HTTP/1.1, or an empty one.
    #[error("the request has no Host")]
    NoHost,
    /// More than one.
    #[error("the request has several Host headers")]
    SeveralHosts,
    /// Not a host and a port.
    #[error("the Host header is not a host name")]
    BadHost,
    /// The target names another authority than `Host`.
    #[error("the target and the Host header name different hosts")]
    HostMismatch,
    /// Not `http` or `https`, or user information.
    #[error("the target is not an http address")]
    BadTarget,
    /// A raw byte above 127.
    #[error("the target has bytes that are not ASCII")]
    NotAscii,
    /// Anything but exactly one `chunked`.
    #[error("the transfer coding is not `chunked`")]
    TransferEncoding,
    /// See [`canonical::Malformed`].
    #[error(transparent)]
    Path(#[from] canonical::Malformed),
}

/// Checks the target, `Host` and framing of a request, and tells the host: in lower case, without port and trailing
/// dot; empty if an HTTP/1.0 client named none.
///
/// # Errors
/// See [`Malformed`].
pub fn check<B>(request: &Request<B>) -> Result<String, Malformed> {
    check_transfer_encoding(request.headers())?;
    let authority = check_authority(request.uri())?;
    let host = host(request.headers(), request.version())?;
    if let (Some(authority), Some(host)) = (authority, host)
        && !authority.eq_ignore_ascii_case(host)
    {
        return Err(Malformed::HostMismatch);
    }
    check_ascii(request.uri())?;
    check_path(request.method(), request.uri().path())?;
    match authority.or(host) {
        Some(host) => name_of(host).map(|name| name.trim_end_matches('.').to_ascii_lowercase()),
        None => Ok(String::new()),
    }
}

/// RFC 9112, 3.2: a target is ASCII; what lies above it is encoded, or every server guesses.
fn check_ascii(uri: &Uri) -> Result<(), Malformed> {
    let is_ascii = uri.path_and_query().is_none_or(|target| target.as_str().is_ascii());
    if is_ascii { Ok(()) } else { Err(Malformed::NotAscii) }
}

fn check_path(method: &Method, path: &str) -> Result<(), Malformed> {
    match path {
        "*" if method == Method::OPTIONS => Ok(()),
        _ => Ok(canonical::check(path)?),
    }
}

fn check_transfer_encoding(headers: &HeaderMap) -> Result<(), Malformed> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(only), None) if only.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(Malformed::TransferEncoding),
    }
}

fn check_authority(uri: &Uri) -> Result<Option<&str>, Malformed> {
    let Some(authority) = uri.authority() else { return Ok(None) };
    let is_http = uri.scheme().is_some_and(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS);
    if is_http && !authority.as_str().contains('@') {
        Ok(Some(authority.as_str()))
    } else {
        Err(Malformed::BadTarget)
    }
}

fn host(headers: &HeaderMap, version: Version) -> Result<Option<&str>, Malformed> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => Err(Malformed::SeveralHosts),
        (Some(host), None) => {
            let host = host.to_str().map_err(|_| Malformed::BadHost)?;
            name_of(host).map(|_| Some(host))
        }
        (None, _) if version == Version::HTTP_10 => Ok(None),
        (None, _) => Err(Malformed::NoHost),
    }
}

/// The name in `name[:port]`; brackets belong to it.
fn name_of(host: &str) -> Result<&str, Malformed> {
    if host.is_empty() {
        return Err(Malformed::NoHost);
    }
    let (name, port) = match host.rfind(']') {
        Some(end) => host.split_at(end + 1),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let port_is_fine = match port.strip_prefix(':') {
        Some(digits) => digits.is_empty() || is_port(digits),
        None => port.is_empty(),
    };
    if port_is_fine && is_name(name) { Ok(name) } else { Err(Malformed::BadHost) }
}

fn is_port(digits: &str) -> bool {
    digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok()
}

fn is_name(name: &str) -> bool {
    match name.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(|ip| ip.parse::<std::net::Ipv6Addr>().is_ok()),
        None => {
            let mut bytes = name.bytes();
            !name.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(target: &str, hosts: &[&str]) -> Result<String, Malformed> {
        let mut request = Request::builder().method("POST").uri(target);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        check(&request.body(()).unwrap())
    }

    #[test]
    fn the_host_is_told_without_port_case_and_trailing_dot() {
        for (host, wanted) in [
            ("example.org", "example.org"),
            ("Example.ORG:8080", "example.org"),
            ("example.org.", "example.org"),
            ("[::1]:80", "[::1]"),
            ("127.0.0.1", "127.0.0.1"),
            ("a_b:", "a_b"),
        ] {
            assert_eq!(checked("/", &[host]).as_deref(), Ok(wanted), "{host}");
        }
    }

    #[test]
    fn a_host_that_two_servers_could_read_differently_is_refused() {
        for host in [
            "a,b", "u@a", "a/b", "a b", "a\tb", "a:b", "a:80:80", "[::1", "::1", "a:123456", "a:99999",
            "a?b", "a#b", "a%2fb", "[x]",
        ] {
            assert_eq!(checked("/", &[host]), Err(Malformed::BadHost), "{host}");
        }
        assert_eq!(checked("/", &[]), Err(Malformed::NoHost));
        assert_eq!(checked("/", &[""]), Err(Malformed::NoHost));
        assert_eq!(checked("/", &["a", "a"]), Err(Malformed::SeveralHosts));
    }

    #[test]
    fn an_absolute_target_must_agree_with_the_host() {
        assert_eq!(checked("http://Example.org/x", &["example.org"]).as_deref(), Ok("example.org"));
        assert_eq!(checked("http://evil.org/x", &["example.org"]), Err(Malformed::HostMismatch));
        assert_eq!(checked("ftp://example.org/x", &["example.org"]), Err(Malformed::BadTarget));
        assert_eq!(checked("http://u@example.org/x", &["example.org"]), Err(Malformed::BadTarget));
    }

    #[test]
    fn only_one_chunked_is_a_transfer_encoding() {
        let with = |codings: &[&str]| {
            let mut request = Request::builder().uri("/").header(HOST, "a");
            for coding in codings {
                request = request.header(TRANSFER_ENCODING, *coding);
            }
            check(&request.body(()).unwrap())
        };
        assert!(with(&["chunked"]).is_ok() && with(&["Chunked"]).is_ok());
        for bad in [
            &["identity, chunked"][..],
            &["gzip, chunked"],
            &["chunked, chunked"],
            &["chunked,"],
            &["chunked;x"],
            &["chunked", "chunked"],
            &["identity"],
            &[""],
        ] {
            assert_eq!(with(bad), Err(Malformed::TransferEncoding), "{bad:?}");
        }
    }

    #[test]
    fn a_star_is_for_options_only() {
        let of = |method: &str| {
            check(&Request::builder().method(method).uri("*").header(HOST, "a").body(()).unwrap())
        };
        assert!(of("OPTIONS").is_ok());
        assert_eq!(of("GET"), Err(Malformed::Path(canonical::Malformed::NotAPath)));
    }
}
