//! The questions of Envoy's rate limit service, version 3 (`envoy/service/ratelimit/v3/rls.proto`), and the requests that
//! their descriptors are about.
//!
//! Only the fields that matter here are decoded. Keys and values are bytes: Envoy passes on what its client sent, and a
//! value that is no UTF-8 must not make the whole question an error, which Envoy takes for a yes by default. `rate_limit_service`
//! decides.

use std::net::IpAddr;

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderName, HeaderValue, Method, Request, Version};
use prost::Message;
use smallvec::SmallVec;

use crate::policy::descriptor::Descriptor;
use crate::proxy::error::MalformedRequest;
use crate::proxy::grpc::CallError;
use crate::proxy::request::question::{VisibleBody, target_in};

/// `envoy.service.ratelimit.v3.RateLimitRequest`.
#[derive(Clone, PartialEq, Message)]
pub(in crate::proxy) struct RateLimitRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(in crate::proxy) domain: Bytes,
    #[prost(message, repeated, tag = "2")]
    pub(in crate::proxy) descriptors: Vec<RateLimitDescriptor>,
    #[prost(uint32, tag = "3")]
    hits_addend: u32,
}

/// `envoy.extensions.common.ratelimit.v3.RateLimitDescriptor`.
#[derive(Clone, PartialEq, Message)]
pub(in crate::proxy) struct RateLimitDescriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<DescriptorEntry>,
    #[prost(message, optional, tag = "3")]
    hits_addend: Option<u64>,
    #[prost(bool, tag = "4")]
    is_negative_hits: bool,
}

/// One entry of a descriptor.
#[derive(Clone, PartialEq, Message)]
struct DescriptorEntry {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

/// Keys and values of a descriptor.
pub(in crate::proxy) type Entries<'a> = SmallVec<[(&'a [u8], &'a [u8]); 4]>;

/// The request that a descriptor is about, as far as its entries tell.
#[derive(Debug)]
pub(in crate::proxy) struct DescribedRequest {
    /// A `POST` of `/` where nothing is said: patterns with a path fit only where a path is.
    pub(in crate::proxy) request: Request<()>,
    /// The address of the client; `None` if it is not said.
    pub(in crate::proxy) client: Option<IpAddr>,
}

impl RateLimitRequest {
    /// Decodes a message.
    ///
    /// # Errors
    /// [`CallError::InvalidMessage`] if it is wrong whatever the client of its asker sent.
    pub(in crate::proxy) fn read(message: Bytes) -> Result<Self, CallError> {
        let asked = Self::decode(message).map_err(|_| CallError::InvalidMessage("not a RateLimitRequest"))?;
        let is_negative = || asked.descriptors.iter().any(|descriptor| descriptor.is_negative_hits);
        let fault = match asked.descriptors.len() {
            // The words of Envoy's own service for these two.
            _ if asked.domain.is_empty() => "rate limit domain must not be empty",
            0 => "rate limit descriptor list must not be empty",
            1..=MAX_DESCRIPTORS if is_negative() => "hits cannot be negative",
            1..=MAX_DESCRIPTORS => return Ok(asked),
            _ => "more than 64 descriptors",
        };
        Err(CallError::InvalidMessage(fault))
    }

    /// How many attempts a descriptor stands for. Its own number counts, which may be 0: then it asks and takes nothing.
    pub(in crate::proxy) fn hits_of(&self, descriptor: &RateLimitDescriptor) -> u32 {
        let own = descriptor.hits_addend.map(|hits| u32::try_from(hits).unwrap_or(u32::MAX));
        own.unwrap_or_else(|| self.hits_addend.max(1))
    }
}

impl RateLimitDescriptor {
    /// Its entries, for the policy.
    pub(in crate::proxy) fn entries(&self) -> Entries<'_> {
        self.entries.iter().map(|entry| (&entry.key[..], &entry.value[..])).collect()
    }
}

impl DescribedRequest {
    /// The request that these entries are about.
    ///
    /// # Errors
    /// [`MalformedRequest::AmbiguousQuestion`] if an entry comes twice or has an impossible value.
    pub(in crate::proxy) fn of(descriptor: &Descriptor<'_>) -> Result<Self, MalformedRequest> {
        let mut described = Self::blank();
        let mut seen: SmallVec<[&[u8]; 4]> = SmallVec::new();
        for &(key, value) in descriptor.entries {
            if matches!(key, b"remote_address" | b"method" | b"path" | b"user") {
                if seen.contains(&key) {
                    return Err(MalformedRequest::AmbiguousQuestion("descriptor"));
                }
                seen.push(key);
            }
            described.add(key, value).ok_or(MalformedRequest::AmbiguousQuestion("descriptor"))?;
        }
        Ok(described)
    }

    /// A request of which nothing is said. As in HTTP/1.0, it need not have a host.
    pub(in crate::proxy) fn blank() -> Self {
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.version_mut() = Version::HTTP_10;
        Self { request, client: None }
    }

    /// How much of the body is seen: none of it, and `x-original-body` says whether there is one.
    pub(in crate::proxy) fn visible_body(&self) -> VisibleBody {
        let mut said = self.request.headers().get_all(ORIGINAL_BODY).iter();
        match (said.next(), said.next()) {
            (Some(_), Some(_)) => VisibleBody::Hidden,
            (said, _) => VisibleBody::by_header(said, self.request.method()),
        }
    }

    /// `None` if the value cannot be what the key says.
    fn add(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let headers = self.request.headers_mut();
        match key {
            b"remote_address" => self.client = Some(std::str::from_utf8(value).ok()?.parse().ok()?),
            b"method" => *self.request.method_mut() = Method::from_bytes(value).ok()?,
            b"path" => *self.request.uri_mut() = target_in(value)?,
            // The policy reads it where it is.
            b"user" | b"generic_key" => {}
            b"host" => drop(headers.try_append(HOST, HeaderValue::from_bytes(value).ok()?).ok()?),
            _ => {
                let name = key.strip_prefix(b"header:").unwrap_or(key);
                let (name, value) =
                    (HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?);
                headers.try_append(name, value).ok()?;
            }
        }
        Some(())
    }
}

const ORIGINAL_BODY: HeaderName = HeaderName::from_static("x-original-body");
/// Envoy sends one for each action of a route.
const MAX_DESCRIPTORS: usize = 64;
