//! A request as Envoy describes it in a message of gRPC: headers and pseudo-headers (RFC 9113, 8.3.1), and how much of the body.
//!
//! Everything has to be said once, or twice the same; nothing is repaired. Unlike in a question of HTTP, `X-Original-*` and
//! `X-Forwarded-Uri` are headers of the client like others. `authorization` and `processing` have the messages.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use prost::Message;

use super::question::{VisibleBody, target_in};
use crate::net::stream::PeerAddr;
use crate::proxy::body::{AskedBody, ClientBody};
use crate::proxy::error::MalformedRequest;
use crate::proxy::headers::FORWARDED_PROTO;

/// `envoy.config.core.v3.HeaderMap`.
#[derive(Clone, PartialEq, Message)]
pub(in crate::proxy) struct EnvoyHeaders {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::proxy) lines: Vec<EnvoyHeader>,
}

/// `envoy.config.core.v3.HeaderValue`; without its third field also an entry of `map<string, string>`.
#[derive(Clone, PartialEq, Message)]
pub(in crate::proxy) struct EnvoyHeader {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    raw_value: Bytes,
}

/// The head of a message of HTTP, as far as it was described.
#[derive(Debug, Default)]
pub(in crate::proxy) struct DescribedHead {
    method: Option<Bytes>,
    path: Option<Bytes>,
    host: Option<Bytes>,
    scheme: Option<Bytes>,
    status: Option<Bytes>,
    headers: HeaderMap,
}

/// A request to decide on.
#[derive(Debug)]
pub(in crate::proxy) struct AskedRequest {
    pub(in crate::proxy) request: Request<ClientBody>,
    /// How much of the body is seen.
    pub(in crate::proxy) body: VisibleBody,
}

/// The other end of the connection over which the proxy got a request: an extension of requests whose proxy tells.
#[derive(Debug, Clone, Copy)]
pub(in crate::proxy) struct SourceAddr(pub(in crate::proxy) PeerAddr);

impl DescribedHead {
    /// Takes these headers and pseudo-headers.
    ///
    /// # Errors
    /// [`MalformedRequest::AmbiguousQuestion`] if something is said twice or cannot be a header.
    pub(in crate::proxy) fn add_all(&mut self, lines: &[EnvoyHeader]) -> Result<(), MalformedRequest> {
        for EnvoyHeader { name, value, raw_value } in lines {
            let value = match (value.is_empty(), raw_value.is_empty()) {
                (false, false) => return Err(MalformedRequest::AmbiguousQuestion("headers")),
                (true, _) => raw_value,
                (false, true) => value,
            };
            self.add(name, value)?;
        }
        Ok(())
    }

    /// Takes one of them.
    pub(in crate::proxy) fn add(&mut self, name: &[u8], value: &Bytes) -> Result<(), MalformedRequest> {
        let (place, called) = match name {
            b":method" => (&mut self.method, "method"),
            b":path" => (&mut self.path, "path"),
            b":authority" => (&mut self.host, "host"),
            b":scheme" => (&mut self.scheme, "scheme"),
            b":status" => (&mut self.status, "status"),
            _ => {
                let line = HeaderName::from_bytes(name).ok().zip(HeaderValue::from_bytes(value).ok());
                let added = line.map(|(name, value)| self.headers.try_append(name, value).is_ok());
                let is_added = added.unwrap_or(false);
                return is_added.then_some(()).ok_or(MalformedRequest::AmbiguousQuestion("headers"));
            }
        };
        match place {
            Some(known) if known != value => Err(MalformedRequest::AmbiguousQuestion(called)),
            _ => {
                *place = Some(value.clone());
                Ok(())
            }
        }
    }

    /// Removes a header that must not be there twice.
    pub(in crate::proxy) fn take(
        &mut self,
        name: &'static HeaderName,
    ) -> Result<Option<HeaderValue>, MalformedRequest> {
        let several = self.headers.get_all(name).iter().nth(1).is_some();
        let value = self.headers.remove(name);
        if several { Err(MalformedRequest::AmbiguousQuestion(name.as_str())) } else { Ok(value) }
    }

    /// How much is seen of a body of which nothing came. `is_sent`: whether the proxy sends bodies. It does not for an
    /// upgrade, which may have one.
    pub(in crate::proxy) fn without_body(&self, is_sent: bool) -> VisibleBody {
        let has_length = self.headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0");
        if has_length || self.headers.contains_key(TRANSFER_ENCODING) {
            return VisibleBody::Hidden;
        }
        let method = self.method.as_ref().and_then(|method| Method::from_bytes(method).ok());
        match VisibleBody::by_header(None, &method.unwrap_or_default()) {
            _ if is_sent && !self.headers.contains_key(UPGRADE) => VisibleBody::Whole,
            visible => visible,
        }
    }

    /// Whether the body is longer than these bytes that came of it, by its length. A proxy may not say that it cut a body.
    pub(in crate::proxy) fn announces_more_than(&self, came: &[u8]) -> bool {
        let is_longer = |length: u64| length > came.len() as u64;
        self.headers.contains_key(CONTENT_LENGTH) && told_length(&self.headers).is_none_or(is_longer)
    }

    /// The request with this head. The scheme is that of the client if no `X-Forwarded-Proto` says it.
    ///
    /// # Errors
    /// [`MalformedRequest::IncompleteQuestion`] and [`MalformedRequest::AmbiguousQuestion`].
    pub(in crate::proxy) fn into_request(
        self,
        body: ClientBody,
    ) -> Result<Request<ClientBody>, MalformedRequest> {
        let wrong = MalformedRequest::AmbiguousQuestion;
        let method = Method::from_bytes(&said(self.method, "method")?).map_err(|_| wrong("method"))?;
        let target = target_in(&said(self.path, "path")?).ok_or(wrong("path"))?;
        let host = HeaderValue::from_bytes(&said(self.host, "host")?).map_err(|_| wrong("host"))?;
        let scheme = match said(self.scheme, "scheme")? {
            scheme if scheme.eq_ignore_ascii_case(b"https") => HeaderValue::from_static("https"),
            scheme if scheme.eq_ignore_ascii_case(b"http") => HeaderValue::from_static("http"),
            _ => return Err(wrong("scheme")),
        };
        let mut request = Request::new(body);
        (*request.method_mut(), *request.uri_mut()) = (method, target);
        let headers = request.headers_mut();
        *headers = self.headers;
        // A second one stays, and is refused.
        headers.try_append(HOST, host).map_err(|_| wrong("host"))?;
        if !headers.contains_key(FORWARDED_PROTO) {
            headers.try_insert(FORWARDED_PROTO, scheme).map_err(|_| wrong("scheme"))?;
        }
        Ok(request)
    }

    /// The status and headers of an answer; `None` if it can be none.
    pub(in crate::proxy) fn into_answer(self) -> Option<(StatusCode, HeaderMap)> {
        Some((StatusCode::from_bytes(&self.status?).ok()?, self.headers))
    }
}

/// The body of a request of which these bytes came.
pub(in crate::proxy) fn body_of(bytes: Bytes) -> ClientBody {
    if bytes.is_empty() { ClientBody::Empty } else { ClientBody::Asked(AskedBody::whole(bytes)) }
}

/// The length of the body by its head, if that tells it once and no other end.
pub(in crate::proxy) fn told_length(headers: &HeaderMap) -> Option<u64> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let (length, second) = (lengths.next()?.to_str().ok()?, lengths.next());
    let is_told = second.is_none() && !headers.contains_key(TRANSFER_ENCODING);
    let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
    if is_told && is_number { length.parse().ok() } else { None }
}

fn said(value: Option<Bytes>, name: &'static str) -> Result<Bytes, MalformedRequest> {
    value.filter(|value| !value.is_empty()).ok_or(MalformedRequest::IncompleteQuestion(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_counts_if_it_is_told_once_and_nothing_else_ends_the_body() {
        let told = |lines: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(*name, value.parse().unwrap());
            }
            told_length(&headers)
        };
        assert_eq!(told(&[("content-length", "20")]), Some(20));
        assert_eq!(told(&[("content-length", "0")]), Some(0));
        for value in ["", "x", "+1", "-1", "1, 1", " 1", "99999999999999999999"] {
            assert_eq!(told(&[("content-length", value)]), None, "{value}");
        }
        assert_eq!(told(&[]), None);
        assert_eq!(told(&[("content-length", "1"), ("content-length", "1")]), None);
        assert_eq!(told(&[("content-length", "1"), ("transfer-encoding", "chunked")]), None);
    }
}
