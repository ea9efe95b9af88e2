//! The certificate of a client, as the trusted proxy in front of it passes it on: by `Client-Cert` (RFC 9440), or by Envoy's
//! `X-Forwarded-Client-Cert`.
//!
//! The proxy has verified it. Only the name is taken, as in a handshake with the gate itself. A header that does not fit
//! its grammar or is there twice is refused: two parsers could read two clients. `headers` removes what other peers send
//! by these names.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode;

use crate::net::tls::{name_in_der, name_in_pem, single_name};
use crate::proxy::error::MalformedRequest;

/// The header that passes on a client's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CertificateHeader {
    /// None of them: no header is a certificate.
    #[default]
    Off,
    /// `Client-Cert`: the certificate, in DER.
    ClientCert,
    /// `X-Forwarded-Client-Cert`: a list, to which each proxy adds an element at the end.
    Xfcc,
}

impl CertificateHeader {
    /// The names that only trusted proxies may use.
    #[must_use]
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::Off => &[],
            Self::ClientCert => &["client-cert", "client-cert-chain"],
            Self::Xfcc => &["x-forwarded-client-cert"],
        }
    }

    /// The names of certificates that nobody may use: the gate reads another header, or no chain. Proxies pass on what their
    /// own clients send by these names.
    #[must_use]
    pub fn unread_names(self) -> &'static [&'static str] {
        match self {
            Self::Off => &[],
            Self::ClientCert => &["client-cert-chain", "x-forwarded-client-cert"],
            Self::Xfcc => &["client-cert", "client-cert-chain"],
        }
    }

    /// The name in the certificate that a trusted proxy passes on; `None` without a certificate, or if it has no single
    /// common name.
    pub(super) fn name_in(self, headers: &HeaderMap) -> Result<Option<String>, MalformedRequest> {
        let malformed = |shown| move |MalformedCertificate| MalformedRequest::BadCertificate(shown);
        match self {
            Self::Off => Ok(None),
            Self::ClientCert => client_cert(headers).map_err(malformed("Client-Cert")),
            Self::Xfcc => forwarded_client_cert(headers).map_err(malformed("X-Forwarded-Client-Cert")),
        }
    }
}

/// The header does not fit its grammar, or there are several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MalformedCertificate;

type NameResult = Result<Option<String>, MalformedCertificate>;

/// A byte sequence of RFC 9651. RFC 9440, 2.3: a chain is never there alone.
fn client_cert(headers: &HeaderMap) -> NameResult {
    let Some(value) = only(headers, CLIENT_CERT)? else {
        let is_alone = headers.contains_key(CLIENT_CERT_CHAIN);
        return if is_alone { Err(MalformedCertificate) } else { Ok(None) };
    };
    let inside = value.strip_prefix(b":").and_then(|rest| rest.strip_suffix(b":"));
    let der =
        BASE64_STANDARD.decode(inside.ok_or(MalformedCertificate)?).map_err(|_| MalformedCertificate)?;
    name_in_der(&der).map_err(|_| MalformedCertificate)
}

/// The last element is of the proxy that connects to the gate: those before it came from outside, or tell of other hops.
fn forwarded_client_cert(headers: &HeaderMap) -> NameResult {
    let Some(mut rest) = only(headers, XFCC)?.filter(|value| !value.is_empty()) else { return Ok(None) };
    loop {
        let (element, after) = XfccElement::read(rest)?;
        match after {
            [] => return element.name(),
            [_, more @ ..] => rest = more,
        }
    }
}

/// What is read of an element.
#[derive(Default)]
struct XfccElement<'h> {
    /// The certificate in PEM, percent-encoded.
    cert: Option<&'h [u8]>,
    /// The subject as RFC 2253 writes it.
    subject: Option<&'h [u8]>,
}

impl<'h> XfccElement<'h> {
    /// Reads one, and returns the rest from its comma on.
    fn read(mut text: &'h [u8]) -> Result<(Self, &'h [u8]), MalformedCertificate> {
        let mut element = Self::default();
        loop {
            let end = text.iter().position(|byte| b"=;,\"".contains(byte)).ok_or(MalformedCertificate)?;
            let (key, rest) = text.split_at(end);
            let (value, rest) = xfcc_value(rest.strip_prefix(b"=").ok_or(MalformedCertificate)?)?;
            let place = match key.trim_ascii().to_ascii_lowercase().as_slice() {
                b"" => return Err(MalformedCertificate),
                b"cert" => Some(&mut element.cert),
                b"subject" => Some(&mut element.subject),
                _ => None,
            };
            if place.is_some_and(|place| place.replace(value).is_some()) {
                return Err(MalformedCertificate);
            }
            match rest {
                [b';', more @ ..] => text = more,
                [] | [b',', ..] => return Ok((element, rest)),
                _ => return Err(MalformedCertificate),
            }
        }
    }

    /// An empty certificate is none: proxies write one for a client without.
    fn name(&self) -> NameResult {
        match (self.cert, self.subject) {
            (Some(b""), None | Some(b"")) | (None, None | Some(b"")) => Ok(None),
            (Some(cert), _) if !cert.is_empty() => {
                let pem: Cow<'_, [u8]> = percent_decode(cert).into();
                name_in_pem(&pem).map_err(|_| MalformedCertificate)
            }
            (_, Some(subject)) => name_in_subject(subject),
            (Some(_), None) => Err(MalformedCertificate),
        }
    }
}

/// A value with or without quotes, and the rest. Between quotes a backslash is part of the subject, where it has its own
/// meaning; here it only keeps a quote from ending the value.
fn xfcc_value(text: &[u8]) -> Result<(&[u8], &[u8]), MalformedCertificate> {
    let Some(inside) = text.strip_prefix(b"\"") else {
        let end = text.iter().position(|byte| b";,\"".contains(byte)).unwrap_or(text.len());
        return Ok(text.split_at(end));
    };
    let mut is_escaped = false;
    for (at, byte) in inside.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Ok((&inside[..at], &inside[at + 1..])),
            _ => {}
        }
    }
    Err(MalformedCertificate)
}

/// The only common name of a subject as RFC 2253 writes it (`CN=backup,O=Example`). The older form with slashes is
/// refused: a slash within a name is not escaped there.
fn name_in_subject(subject: &[u8]) -> NameResult {
    let (mut rest, mut names) = (subject, Vec::new());
    loop {
        let end = rest.iter().position(|byte| *byte == b'=').ok_or(MalformedCertificate)?;
        let kind = rest[..end].trim_ascii_start();
        if kind.is_empty() || !kind.iter().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(byte)) {
            return Err(MalformedCertificate);
        }
        let (value, after) = subject_value(&rest[end + 1..])?;
        let is_name = [&b"cn"[..], b"commonname", b"2.5.4.3", b"oid.2.5.4.3"];
        if is_name.contains(&kind.to_ascii_lowercase().as_slice()) {
            names.push(value);
        }
        match after {
            [] => break,
            [_, more @ ..] => rest = more,
        }
    }
    let mut names = names.into_iter();
    match (names.next(), names.next()) {
        (Some(Some(name)), None) => Ok(single_name(&name)),
        _ => Ok(None),
    }
}

/// A value without its escapes, `None` for one that is not text, and the rest from the separator on.
fn subject_value(text: &[u8]) -> Result<(Option<Vec<u8>>, &[u8]), MalformedCertificate> {
    let is_text = !text.starts_with(b"#");
    let (mut value, mut rest) = (Vec::new(), text);
    loop {
        match rest {
            [] | [b',' | b'+', ..] => return Ok((Some(value).filter(|_| is_text), rest)),
            [b'\\', high, low, more @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                value.push(digit(*high) * 16 + digit(*low));
                rest = more;
            }
            [b'\\', escaped, more @ ..] if !escaped.is_ascii_alphanumeric() => {
                value.push(*escaped);
                rest = more;
            }
            [b'\\' | b'"' | b';' | b'<' | b'>', ..] => return Err(MalformedCertificate),
            [byte, more @ ..] => {
                value.push(*byte);
                rest = more;
            }
        }
    }
}

/// The value of a hexadecimal digit.
fn digit(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte - b'0',
        _ => byte.to_ascii_lowercase() - b'a' + 10,
    }
}

/// The value of a header that may be there once.
fn only(headers: &HeaderMap, name: HeaderName) -> Result<Option<&[u8]>, MalformedCertificate> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().map(|value| value.as_bytes().trim_ascii());
    if values.next().is_some() { Err(MalformedCertificate) } else { Ok(value) }
}

const CLIENT_CERT: HeaderName = HeaderName::from_static("client-cert");
const CLIENT_CERT_CHAIN: HeaderName = HeaderName::from_static("client-cert-chain");
const XFCC: HeaderName = HeaderName::from_static("x-forwarded-client-cert");

#[cfg(test)]
mod tests;
