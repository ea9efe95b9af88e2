//! What the client of a request showed of itself in addition to its address: its certificate, and the signature of a monitor.
//!
//! `net` reads what it showed in a handshake with the gate itself; a trusted proxy passes on what it showed there.

use std::borrow::Cow;

use http::Request;

use super::client_addr::ClientSettings;
use super::client_cert::CertificateHeader;
use super::scheme::is_secure;
use super::signature::{Monitors, Signer};
use crate::net::stream::PeerAddr;
use crate::policy::attempt::TlsClient;
use crate::proxy::error::MalformedRequest;
use crate::time::Time;

/// What a client showed.
#[derive(Debug, Default)]
pub struct Shown<'c> {
    client: Option<Cow<'c, TlsClient>>,
    /// Whether the request has the signature of a monitor that does not hold.
    pub(in crate::proxy) has_bad_signature: bool,
}

/// The end of a connection that sends a request.
#[derive(Debug, Clone, Copy)]
pub struct Requester<'c> {
    /// Its address.
    pub peer: PeerAddr,
    /// The other end of the connection that the request came over, if the peer asks about it; else the peer.
    pub source: PeerAddr,
    /// Whether it names the scheme that its client uses.
    pub names_scheme: bool,
    /// Whether it speaks TLS with the gate.
    pub is_secure: bool,
    /// What it showed in its handshake, if it is the client.
    pub tls: Option<&'c TlsClient>,
}

impl<'c> Shown<'c> {
    /// What a policy may see of it.
    #[must_use]
    pub fn client(&self) -> Option<&TlsClient> {
        self.client.as_deref()
    }

    fn of(client: Option<&'c TlsClient>) -> Self {
        Self { client: client.map(Cow::Borrowed), has_bad_signature: false }
    }
}

impl ClientSettings {
    /// What the client behind the requester of a request showed. Its signature is verified if `is_attempt`.
    ///
    /// # Errors
    /// [`MalformedRequest::BadCertificate`], for headers of a trusted peer only.
    pub fn shown_by<'c, B>(
        &self,
        requester: Requester<'c>,
        request: &Request<B>,
        now: Time,
        is_attempt: impl FnOnce() -> bool,
    ) -> Result<Shown<'c>, MalformedRequest> {
        if self.certificate == CertificateHeader::Off && self.monitors.is_none() {
            return Ok(Shown::of(requester.tls));
        }
        let headers = request.headers();
        // An Envoy that asks writes `X-Forwarded-Client-Cert`, and only passes on `Client-Cert`.
        let is_trusted = self.trusts(match self.certificate {
            CertificateHeader::ClientCert => requester.source,
            CertificateHeader::Off | CertificateHeader::Xfcc => requester.peer,
        });
        let certificate = if is_trusted { self.certificate.name_in(headers)? } else { None };
        let monitors = self.monitors.as_ref().filter(|_| Monitors::may_have_signed(headers) && is_attempt());
        let is_secure = || is_secure(headers, requester.names_scheme, requester.is_secure);
        let signer = monitors.map(|monitors| monitors.signer_of(request, is_secure(), now));
        let mut shown = Shown::of(requester.tls);
        shown.has_bad_signature = signer == Some(Signer::Invalid);
        if let Some(name) = certificate {
            shown.change(|client| client.certificate = Some(name));
        }
        if let Some(Signer::Monitor(name)) = signer {
            shown.change(|client| client.monitor = Some(name));
        }
        Ok(shown)
    }
}

impl Shown<'_> {
    fn change(&mut self, change: impl FnOnce(&mut TlsClient)) {
        change(self.client.get_or_insert_with(|| Cow::Owned(TlsClient::default())).to_mut());
    }
}
