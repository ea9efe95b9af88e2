//! Validates target, `Host` and framing of a parsed request.
//!
//! Parsers are lenient in places. This module refuses every head that two servers could read differently, and repairs
//! nothing, so a request means the same to the policy and to the upstream. What the parsed form does not show is left to
//! `decoder`.

use std::borrow::Cow;

use http::header::{CONTENT_LENGTH, HOST};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Uri, Version};

use crate::policy::{canonical, query};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::error::{Error, MalformedRequest};
use crate::proxy::headers::recorded::RecordedHeaders;

/// A host in lower case, without port and trailing dot.
pub type Host<'a> = Cow<'a, str>;

/// Refuses ambiguous requests, `CONNECT` and long targets, then checks as [`check`] does. Returns the host.
///
/// # Errors
/// [`Error::Malformed`], [`Error::Connect`] or [`Error::TargetTooLong`].
pub(in crate::proxy) fn validate<'a, B>(
    connection: &DownstreamConnection,
    request: &'a Request<B>,
    recorded: &RecordedHeaders<'a>,
) -> Result<Host<'a>, Error> {
    refuse_ambiguous(connection)?;
    if request.method() == Method::CONNECT {
        return Err(Error::Connect);
    }
    let is_too_long = |target: &PathAndQuery| {
        target.as_str().len() > MAX_TARGET || target.query().is_some_and(query::is_too_long)
    };
    if request.uri().path_and_query().is_some_and(is_too_long) {
        return Err(Error::TargetTooLong);
    }
    Ok(check_recorded(request, recorded)?)
}

/// Refuses a request as soon as its connection is ambiguous, also by bytes of its body. Returns the host of a request
/// that was [validated](validate).
///
/// # Errors
/// [`Error::Malformed`].
pub(in crate::proxy) fn validate_again<'a, B>(
    connection: &DownstreamConnection,
    request: &'a Request<B>,
) -> Result<Host<'a>, Error> {
    refuse_ambiguous(connection)?;
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = host(hosts.next(), hosts.next().is_some(), request.version())?;
    Ok(host_name(host, request.uri().authority().map(Authority::as_str))?)
}

fn refuse_ambiguous(connection: &DownstreamConnection) -> Result<(), MalformedRequest> {
    if connection.state.is_ambiguous() { Err(MalformedRequest::Ambiguous) } else { Ok(()) }
}

/// The name of the host, by `Host` or else by the target.
fn host_name<'a>(
    host: Option<(&'a str, &'a str)>,
    authority: Option<&'a str>,
) -> Result<Host<'a>, MalformedRequest> {
    match (host, authority) {
        (Some((_, name)), _) => Ok(normalize(name)),
        (None, Some(authority)) => name_of(authority).map(normalize),
        (None, None) => Ok(Cow::Borrowed("")),
    }
}

/// Checks the target, `Host` and framing of a request. Returns the host: in lower case, without port and trailing dot;
/// empty for an HTTP/1.0 request without a host.
///
/// # Errors
/// See [`MalformedRequest`].
pub fn check<B>(request: &Request<B>) -> Result<Host<'_>, MalformedRequest> {
    check_recorded(request, &RecordedHeaders::of(request.headers()))
}

fn check_recorded<'a, B>(
    request: &'a Request<B>,
    recorded: &RecordedHeaders<'a>,
) -> Result<Host<'a>, MalformedRequest> {
    if request.version() == Version::HTTP_2 {
        check_http2(request.headers())?;
    }
    check_transfer_encoding(recorded)?;
    check_expectation(recorded, request.version())?;
    let authority = check_authority(request.uri())?;
    let host = host(recorded.host, recorded.has_several_hosts(), request.version())?;
    if let (Some(authority), Some((host, _))) = (authority, host)
        && !authority.eq_ignore_ascii_case(host)
    {
        return Err(MalformedRequest::HostMismatch);
    }
    check_ascii(request.uri())?;
    check_path(request.method(), request.uri().path())?;
    host_name(host, authority)
}

/// Refuses headers that h2 accepts and that upstreams would read differently in HTTP/1.1.
fn check_http2(headers: &HeaderMap) -> Result<(), MalformedRequest> {
    let lengths = || headers.get_all(CONTENT_LENGTH).iter();
    if lengths().count() > 1 || lengths().any(HeaderValue::is_empty) {
        return Err(MalformedRequest::SeveralLengths);
    }
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let has_blanks =
        |value: &HeaderValue| is_blank(value.as_bytes().first()) || is_blank(value.as_bytes().last());
    if headers.values().any(has_blanks) { Err(MalformedRequest::PaddedValue) } else { Ok(()) }
}

/// RFC 9112, 3.2: a target is ASCII; other bytes have to be encoded, or each server guesses.
fn check_ascii(uri: &Uri) -> Result<(), MalformedRequest> {
    let is_ascii = uri.path_and_query().is_none_or(|target| target.as_str().is_ascii());
    if is_ascii { Ok(()) } else { Err(MalformedRequest::NotAscii) }
}

fn check_path(method: &Method, path: &str) -> Result<(), MalformedRequest> {
    match path {
        "*" if method == Method::OPTIONS => Ok(()),
        _ => Ok(canonical::check(path)?),
    }
}

fn check_transfer_encoding(recorded: &RecordedHeaders<'_>) -> Result<(), MalformedRequest> {
    match recorded.transfer_encoding {
        None => Ok(()),
        Some(only) if !recorded.has_several_codings() && only.as_bytes().eq_ignore_ascii_case(b"chunked") => {
            Ok(())
        }
        Some(_) => Err(MalformedRequest::TransferEncoding),
    }
}

/// RFC 9110, 10.1.1. Servers differ in which of several they take, and in whether they ignore unknown ones.
fn check_expectation(recorded: &RecordedHeaders<'_>, version: Version) -> Result<(), MalformedRequest> {
    let is_known = |only: &HeaderValue| only.as_bytes().eq_ignore_ascii_case(b"100-continue");
    match recorded.expect {
        None => Ok(()),
        // RFC 9110, 10.1.1: `Expect` of an HTTP/1.0 request is ignored.
        Some(_) if version < Version::HTTP_11 => Ok(()),
        Some(only) if !recorded.has_several_expectations() && is_known(only) => Ok(()),
        Some(_) => Err(MalformedRequest::Expectation),
    }
}

fn check_authority(uri: &Uri) -> Result<Option<&str>, MalformedRequest> {
    let Some(authority) = uri.authority() else { return Ok(None) };
    let is_http = uri.scheme().is_some_and(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS);
    if is_http && !authority.as_str().contains('@') {
        Ok(Some(authority.as_str()))
    } else {
        Err(MalformedRequest::BadTarget)
    }
}

/// The `Host` as sent, and the name in it.
fn host(
    first: Option<&HeaderValue>,
    are_several: bool,
    version: Version,
) -> Result<Option<(&str, &str)>, MalformedRequest> {
    match first {
        Some(_) if are_several => Err(MalformedRequest::SeveralHosts),
        Some(host) => {
            let host = host.to_str().map_err(|_| MalformedRequest::BadHost)?;
            Ok(Some((host, name_of(host)?)))
        }
        None if version == Version::HTTP_10 => Ok(None),
        None => Err(MalformedRequest::NoHost),
    }
}

/// The name in `name[:port]`, with the brackets of an IPv6 address.
fn name_of(host: &str) -> Result<&str, MalformedRequest> {
    let bytes = host.as_bytes();
    let is_letter = |byte: &u8| IN_NAMES[usize::from(*byte)];
    let end = match bytes.first() {
        None => return Err(MalformedRequest::NoHost),
        Some(b'[') => {
            host.find(']').map(|end| end + 1).filter(|&end| is_ipv6(&host[1..end - 1])).unwrap_or(0)
        }
        Some(_) => bytes.iter().position(|byte| !is_letter(byte)).unwrap_or(bytes.len()),
    };
    match &bytes[end..] {
        [] if end > 0 => Ok(host),
        [b':', port @ ..] if end > 0 && is_port(port) => Ok(&host[..end]),
        _ => Err(MalformedRequest::BadHost),
    }
}

fn is_ipv6(text: &str) -> bool {
    text.parse::<std::net::Ipv6Addr>().is_ok()
}

/// Empty, or a number up to 65,535.
fn is_port(digits: &[u8]) -> bool {
    let number = digits.iter().try_fold(0_u16, |number, &digit| {
        let digit = digit.is_ascii_digit().then(|| digit - b'0')?;
        number.checked_mul(10)?.checked_add(digit.into())
    });
    number.is_some()
}

fn normalize(name: &str) -> Host<'_> {
    let name = name.strip_suffix('.').unwrap_or(name);
    // Without a branch for each byte.
    if name.bytes().fold(false, |has_upper, byte| has_upper | byte.is_ascii_uppercase()) {
        name.to_ascii_lowercase().into()
    } else {
        name.into()
    }
}

/// Letters, digits, `-`, `.` and `_`.
const IN_NAMES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        byte += 1;
    }
    table
};

const MAX_TARGET: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use http::header::TRANSFER_ENCODING;

    use super::*;

    fn checked(target: &str, hosts: &[&str]) -> Result<String, MalformedRequest> {
        let mut request = Request::builder().method("POST").uri(target);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        check(&request.body(()).unwrap()).map(Cow::into_owned)
    }

    #[test]
    fn the_host_is_told_without_port_case_and_trailing_dot() {
        for (host, expected) in [
            ("example.org", "example.org"),
            ("Example.ORG:8080", "example.org"),
            ("example.org.", "example.org"),
            ("[::1]:80", "[::1]"),
            ("127.0.0.1", "127.0.0.1"),
            ("a_b:", "a_b"),
        ] {
            assert_eq!(checked("/", &[host]).as_deref(), Ok(expected), "{host}");
        }
    }

    #[test]
    fn a_host_that_two_servers_could_read_differently_is_refused() {
        for host in [
            "a,b", "u@a", "a/b", "a b", "a\tb", "a:b", "a:80:80", "[::1", "::1", "a:123456", "a:99999",
            "a?b", "a#b", "a%2fb", "[x]",
        ] {
            assert_eq!(checked("/", &[host]), Err(MalformedRequest::BadHost), "{host}");
        }
        assert_eq!(checked("/", &[]), Err(MalformedRequest::NoHost));
        assert_eq!(checked("/", &[""]), Err(MalformedRequest::NoHost));
        assert_eq!(checked("/", &["a", "a"]), Err(MalformedRequest::SeveralHosts));
    }

    #[test]
    fn an_absolute_target_must_agree_with_the_host() {
        assert_eq!(checked("http://Example.org/x", &["example.org"]).as_deref(), Ok("example.org"));
        assert_eq!(checked("http://evil.org/x", &["example.org"]), Err(MalformedRequest::HostMismatch));
        assert_eq!(checked("ftp://example.org/x", &["example.org"]), Err(MalformedRequest::BadTarget));
        assert_eq!(checked("http://u@example.org/x", &["example.org"]), Err(MalformedRequest::BadTarget));
    }

    #[test]
    fn only_one_chunked_is_a_transfer_encoding() {
        let with = |codings: &[&str]| {
            let mut request = Request::builder().uri("/").header(HOST, "a");
            for coding in codings {
                request = request.header(TRANSFER_ENCODING, *coding);
            }
            check(&request.body(()).unwrap()).map(Cow::into_owned)
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
            assert_eq!(with(bad), Err(MalformedRequest::TransferEncoding), "{bad:?}");
        }
    }

    #[test]
    fn a_star_is_for_options_only() {
        let of = |method: &str| {
            let request = Request::builder().method(method).uri("*").header(HOST, "a").body(()).unwrap();
            check(&request).map(Cow::into_owned)
        };
        assert!(of("OPTIONS").is_ok());
        assert_eq!(of("GET"), Err(MalformedRequest::Path(canonical::PathError::NotAPath)));
    }
}
