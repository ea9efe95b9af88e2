//! The questions of Envoy's external authorization, version 3 (`envoy/service/auth/v3/external_auth.proto` and
//! `attribute_context.proto`), and the requests that they are about.
//!
//! Only the fields that matter here are decoded, all of them as bytes. `authorization_service` decides.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http::HeaderName;
use prost::Message;

use super::described::{AskedRequest, DescribedHead, EnvoyHeader, EnvoyHeaders, SourceAddr, body_of};
use super::question::VisibleBody;
use crate::net::stream::PeerAddr;
use crate::proxy::error::MalformedRequest;
use crate::proxy::grpc::CallError;

/// `envoy.service.auth.v3.CheckRequest`.
#[derive(Clone, PartialEq, Message)]
pub(in crate::proxy) struct CheckRequest {
    #[prost(message, optional, tag = "1")]
    attributes: Option<AttributeContext>,
}

#[derive(Clone, PartialEq, Message)]
struct AttributeContext {
    #[prost(message, optional, tag = "1")]
    source: Option<CheckedPeer>,
    #[prost(message, optional, tag = "4")]
    request: Option<CheckedRequest>,
}

/// `AttributeContext.Peer`.
#[derive(Clone, PartialEq, Message)]
struct CheckedPeer {
    #[prost(message, optional, tag = "1")]
    address: Option<EnvoyAddress>,
}

/// `envoy.config.core.v3.Address`.
#[derive(Clone, PartialEq, Message)]
struct EnvoyAddress {
    #[prost(message, optional, tag = "1")]
    socket_address: Option<SocketAddress>,
    /// The peer of a Unix socket; its path tells nothing of the client.
    #[prost(message, optional, tag = "2")]
    pipe: Option<()>,
}

#[derive(Clone, PartialEq, Message)]
struct SocketAddress {
    #[prost(bytes = "bytes", tag = "2")]
    address: Bytes,
}

/// `AttributeContext.Request`.
#[derive(Clone, PartialEq, Message)]
struct CheckedRequest {
    #[prost(message, optional, tag = "2")]
    http: Option<HttpRequest>,
}

/// `AttributeContext.HttpRequest`.
#[derive(Clone, PartialEq, Message)]
struct HttpRequest {
    #[prost(bytes = "bytes", tag = "2")]
    method: Bytes,
    #[prost(message, repeated, tag = "3")]
    headers: Vec<EnvoyHeader>,
    #[prost(bytes = "bytes", tag = "4")]
    path: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    host: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    scheme: Bytes,
    #[prost(bytes = "bytes", tag = "11")]
    body: Bytes,
    #[prost(bytes = "bytes", tag = "12")]
    raw_body: Bytes,
    #[prost(message, optional, tag = "13")]
    header_map: Option<EnvoyHeaders>,
}

impl CheckRequest {
    /// Decodes a message.
    ///
    /// # Errors
    /// [`CallError::InvalidMessage`].
    pub(in crate::proxy) fn read(message: Bytes) -> Result<Self, CallError> {
        Self::decode(message).map_err(|_| CallError::InvalidMessage("not a CheckRequest"))
    }

    /// The request that it is about. `shows_bodies`: whether the proxies of this endpoint send every body.
    ///
    /// # Errors
    /// [`MalformedRequest::IncompleteQuestion`] and [`MalformedRequest::AmbiguousQuestion`].
    pub(in crate::proxy) fn into_request(self, shows_bodies: bool) -> Result<AskedRequest, MalformedRequest> {
        let attributes = self.attributes.unwrap_or_default();
        let missing = MalformedRequest::IncompleteQuestion;
        let source = attributes.source.and_then(|source| source.address).ok_or(missing("source"))?.peer()?;
        let http = attributes.request.and_then(|request| request.http).ok_or(missing("http"))?;
        let mut head = http.head()?;
        let is_cut = head.take(&PARTIAL_BODY)?.is_some_and(|said| said != "false");
        let bytes = match (http.body.is_empty(), http.raw_body.is_empty()) {
            (false, false) => return Err(MalformedRequest::AmbiguousQuestion("body")),
            (false, true) => http.body,
            (true, _) => http.raw_body,
        };
        let body = match (bytes.is_empty(), is_cut) {
            (true, true) => VisibleBody::Hidden,
            (true, false) => head.without_body(shows_bodies),
            (false, false) if !head.announces_more_than(&bytes) => VisibleBody::Whole,
            (false, _) => VisibleBody::Beginning,
        };
        let mut request = head.into_request(body_of(bytes))?;
        request.extensions_mut().insert(SourceAddr(source));
        Ok(AskedRequest { request, body })
    }
}

impl HttpRequest {
    fn head(&self) -> Result<DescribedHead, MalformedRequest> {
        let mut head = DescribedHead::default();
        for (name, value) in [
            (":method", &self.method),
            (":path", &self.path),
            (":authority", &self.host),
            (":scheme", &self.scheme),
        ] {
            head.add(name.as_bytes(), value)?;
        }
        match &self.header_map {
            Some(_) if !self.headers.is_empty() => {
                return Err(MalformedRequest::AmbiguousQuestion("headers"));
            }
            Some(map) => head.add_all(&map.lines)?,
            None => head.add_all(&self.headers)?,
        }
        Ok(head)
    }
}

impl EnvoyAddress {
    fn peer(self) -> Result<PeerAddr, MalformedRequest> {
        let wrong = MalformedRequest::AmbiguousQuestion("source");
        match (self.socket_address, self.pipe) {
            (Some(SocketAddress { address }), None) => {
                let ip = std::str::from_utf8(&address).ok().and_then(|text| text.parse::<IpAddr>().ok());
                Ok(PeerAddr::Ip(SocketAddr::new(ip.ok_or(wrong)?, 0)))
            }
            (None, Some(())) => Ok(PeerAddr::Unix),
            (Some(_), Some(())) => Err(wrong),
            (None, None) => Err(MalformedRequest::IncompleteQuestion("source")),
        }
    }
}

/// Whether Envoy cut the body; it removes a client's own.
static PARTIAL_BODY: HeaderName = HeaderName::from_static("x-envoy-auth-partial-body");
