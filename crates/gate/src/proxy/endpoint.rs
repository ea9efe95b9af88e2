//! The settings of a decision endpoint: where proxies ask before they forward. `transaction::endpoint` answers.

use std::sync::Arc;

use super::respond::RefuseSettings;
use crate::net::listener::ListenAddress;
use crate::net::stream::PeerAddr;
use crate::policy::network::NetworkSet;
use crate::time::Span;

/// A decision endpoint.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Its name in the file.
    pub name: Arc<str>,
    /// Its addresses, at least one.
    pub listen: Vec<ListenAddress>,
    /// How it is asked.
    pub kind: EndpointKind,
    /// Networks of those who may ask; empty for this machine alone.
    pub trust: NetworkSet,
    /// The form of refusals.
    pub refuse: Arc<RefuseSettings>,
    /// Whether those who ask send the body of the request: an empty question is then about an empty body.
    pub shows_bodies: bool,
    /// Whether those who ask report the heads of answers: rules then judge them.
    pub reports_answers: bool,
    /// How long the outcome of an attempt may be reported.
    pub report_timeout: Span,
}

/// How a decision endpoint is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointKind {
    /// By an HTTP request about a request.
    ForwardAuth,
    /// As Envoy's rate limit service: by gRPC, always over HTTP/2.
    EnvoyRls,
    /// As Dovecot's policy server: by JSON over HTTP.
    AuthPolicy,
    /// As Envoy's external authorization: by gRPC.
    ExtAuthz,
    /// As Envoy's external processing: by gRPC, in a stream that shows answers as well.
    ExtProc,
}

impl EndpointKind {
    /// Its word in the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ForwardAuth => "forward-auth",
            Self::EnvoyRls => "envoy-rls",
            Self::AuthPolicy => "auth-policy",
            Self::ExtAuthz => "ext-authz",
            Self::ExtProc => "ext-proc",
        }
    }

    /// The path of its method, if it is called by gRPC.
    pub(super) fn method(self) -> Option<&'static str> {
        match self {
            Self::ForwardAuth | Self::AuthPolicy => None,
            Self::EnvoyRls => Some("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"),
            Self::ExtAuthz => Some("/envoy.service.auth.v3.Authorization/Check"),
            Self::ExtProc => Some("/envoy.service.ext_proc.v3.ExternalProcessor/Process"),
        }
    }

    /// Whether it is called by gRPC.
    pub(super) fn is_called(self) -> bool {
        self.method().is_some()
    }

    /// Whether outcomes are reported to it, over any version of HTTP.
    #[must_use]
    pub fn takes_reports(self) -> bool {
        matches!(self, Self::ForwardAuth | Self::ExtAuthz)
    }
}

impl Endpoint {
    /// Whether this peer may ask. The permissions of a Unix socket decide who may open it.
    #[must_use]
    pub fn trusts(&self, peer: PeerAddr) -> bool {
        match peer {
            PeerAddr::Unix => true,
            PeerAddr::Ip(address) if self.trust.is_empty() => address.ip().to_canonical().is_loopback(),
            PeerAddr::Ip(address) => self.trust.contains(address.ip()),
        }
    }
}
