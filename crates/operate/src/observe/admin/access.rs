//! Who may ask over TCP: `Host`, `Origin`, the token, and what a form in a browser cannot send. What a token is for is
//! left to [`roles`](super::roles).
//!
//! A name in `Host` is refused even if it resolves to this gate, because an attacker's page can resolve a name of its
//! own to it (DNS rebinding); addresses cannot be rebound. Callers on a Unix socket are not asked: the permissions of
//! the file decide, and no browser can reach it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::Authority;
use http::{Method, StatusCode};

use super::response::{AdminResponse, problem};
use super::token::{AdminTokens, NamedToken};
use crate::event::{Event, Events};
use crate::net::connection_limit::{ClientRateLimiter, ConnectionQuota};
use crate::net::tls::Acceptor;
use crate::policy::key::PrefixLengths;
use crate::time::{Clock, Span};

/// What a reload may change of the admin pages.
#[derive(Debug, Clone, Default)]
pub struct AdminSettings {
    /// Asked of callers over TCP; without any they have health and metrics.
    pub tokens: AdminTokens,
    /// Names in `Host` in addition to those of loopback: the names of the certificates, in lower case.
    pub hosts: Vec<String>,
    /// For listeners of `https://`.
    pub tls: Option<Acceptor>,
    /// Whether an operator who opens the dashboard is exempt from limits by address for a while.
    pub exempts_operators: bool,
}

/// A caller over TCP.
#[derive(Debug, Clone, Copy)]
pub(super) struct TcpCaller {
    pub(super) peer: IpAddr,
    /// The local address.
    pub(super) to: IpAddr,
    pub(super) is_encrypted: bool,
}

/// The token of a caller who stays connected, and the tokens that there are now.
pub(super) struct LastingToken {
    token: Arc<NamedToken>,
    settings: Arc<ArcSwap<AdminSettings>>,
}

/// Decides about callers over TCP.
pub(super) struct AdminAccess {
    settings: Arc<ArcSwap<AdminSettings>>,
    /// Wrong tokens of each client prefix.
    guesses: Option<ClientRateLimiter>,
    events: Events,
}

/// Why a caller may not ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum AccessError {
    #[error("the Host is not one of this gate's addresses")]
    Host,
    #[error("pages of other origins are refused")]
    Origin,
    #[error("this needs admin.token, or a Unix socket: admin.listen = \"unix:/run/tollgate/admin.sock\"")]
    NoToken,
    #[error("the token is not taken over an unencrypted connection: use https://")]
    Unencrypted,
    #[error("too many wrong tokens from this address")]
    TooManyGuesses(Span),
    #[error("`Authorization: Bearer TOKEN` is missing, with the token of admin.token or one of admin.tokens")]
    MissingToken,
    #[error("the token is not that of admin.token, nor one of admin.tokens")]
    WrongToken,
    #[error("a request that changes something needs the header `X-Tollgate-Request: 1`")]
    NoRequestHeader,
    #[error("a body has to be `Content-Type: application/json`, or `application/toml` to be checked")]
    BodyType,
}

impl AccessError {
    fn into_response(self) -> AdminResponse {
        let status = match self {
            Self::Host | Self::Origin | Self::NoToken | Self::Unencrypted | Self::NoRequestHeader => {
                StatusCode::FORBIDDEN
            }
            Self::TooManyGuesses(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::MissingToken | Self::WrongToken => StatusCode::UNAUTHORIZED,
            Self::BodyType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        };
        let mut response = problem(status, &self.to_string());
        let headers = response.headers_mut();
        match self {
            Self::TooManyGuesses(wait) => {
                headers.insert(header::RETRY_AFTER, wait.as_secs_ceil().max(1).into());
            }
            Self::MissingToken | Self::WrongToken => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                // On its own line: browsers do not look for it behind a comma.
                headers
                    .append(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"tollgate\""));
            }
            _ => {}
        }
        response
    }
}

impl LastingToken {
    /// Whether a reload has taken the token away, or changed what it is for.
    pub(super) fn is_gone(&self) -> bool {
        !self.settings.load().tokens.has(&self.token)
    }
}

impl AdminAccess {
    pub(super) fn new(settings: Arc<ArcSwap<AdminSettings>>, clock: &Clock, events: Events) -> Self {
        Self { settings, guesses: ClientRateLimiter::new(GUESSES, clock), events }
    }

    pub(super) fn tls(&self) -> Option<Acceptor> {
        self.settings.load().tls.clone()
    }

    /// The token of a caller who stays connected.
    pub(super) fn lasting(&self, token: Arc<NamedToken>) -> LastingToken {
        LastingToken { token, settings: Arc::clone(&self.settings) }
    }

    pub(super) fn exempts_operators(&self) -> bool {
        self.settings.load().exempts_operators
    }

    /// The token of a caller who may ask, or the answer to others; `for_operators` is all but health and metrics, which
    /// need none.
    pub(super) fn admit(
        &self,
        caller: TcpCaller,
        method: &Method,
        headers: &HeaderMap,
        for_operators: bool,
    ) -> Result<Option<Arc<NamedToken>>, Box<AdminResponse>> {
        let check = || {
            self.check_page(caller, headers)?;
            if !for_operators {
                return Ok(None);
            }
            let token = self.check_token(caller, headers)?;
            check_write(method, headers)?;
            Ok(Some(token))
        };
        check().map_err(|error: AccessError| Box::new(error.into_response()))
    }

    /// Whether the request can come from a page of another site.
    fn check_page(&self, caller: TcpCaller, headers: &HeaderMap) -> Result<(), AccessError> {
        if !is_own_host(headers, caller.to, &self.settings.load().hosts) {
            return Err(AccessError::Host);
        }
        let is_cross_site = |site: &HeaderValue| site.as_bytes().eq_ignore_ascii_case(b"cross-site");
        if !is_own_origin(headers) || headers.get_all(SEC_FETCH_SITE).iter().any(is_cross_site) {
            return Err(AccessError::Origin);
        }
        Ok(())
    }

    fn check_token(&self, caller: TcpCaller, headers: &HeaderMap) -> Result<Arc<NamedToken>, AccessError> {
        let settings = self.settings.load();
        if settings.tokens.is_empty() {
            return Err(AccessError::NoToken);
        }
        if !caller.is_encrypted && !caller.to.to_canonical().is_loopback() {
            return Err(AccessError::Unencrypted);
        }
        let prefix = prefix_of(caller.peer);
        // Before the comparison: a caller that guesses too fast learns nothing, not even that a guess was right.
        let wait = self.guesses.as_ref().map_or(Span::ZERO, |guesses| guesses.wait(prefix));
        if wait > Span::ZERO {
            return Err(AccessError::TooManyGuesses(wait));
        }
        let given = given_token(headers).ok_or(AccessError::MissingToken)?;
        if let Some(token) = settings.tokens.find(&given) {
            return Ok(Arc::clone(token));
        }
        self.guesses.iter().for_each(|guesses| _ = guesses.allows(prefix));
        self.events.emit(&Event::AdminTokenRejected { peer: caller.peer });
        Err(AccessError::WrongToken)
    }
}

impl std::fmt::Debug for AdminAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminAccess")
    }
}

/// A request that changes something has to be one that no form in a browser sends.
fn check_write(method: &Method, headers: &HeaderMap) -> Result<(), AccessError> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    if headers.get(&REQUEST_HEADER).is_none_or(|value| value != "1") {
        return Err(AccessError::NoRequestHeader);
    }
    let has_body = headers.contains_key(header::TRANSFER_ENCODING)
        || headers.get(header::CONTENT_LENGTH).is_some_and(|length| length != "0");
    let kind = headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let is_known = BODY_TYPES.iter().any(|known| kind.eq_ignore_ascii_case(known.as_bytes()));
    if has_body && !is_known {
        return Err(AccessError::BodyType);
    }
    Ok(())
}

/// The token of the one `Authorization`: that of `Bearer` (RFC 6750), or the password of `Basic` (RFC 7617), which
/// browsers ask for by themselves; `None` without one, or with a different scheme.
fn given_token(headers: &HeaderMap) -> Option<Vec<u8>> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (all.next(), all.next()) else { return None };
    let mut parts = value.as_bytes().splitn(2, |byte| *byte == b' ');
    let (scheme, rest) = (parts.next()?, parts.next()?.trim_ascii());
    if scheme.eq_ignore_ascii_case(b"Bearer") {
        return Some(rest.to_vec());
    }
    let both = STANDARD.decode(rest).ok().filter(|_| scheme.eq_ignore_ascii_case(b"Basic"))?;
    let colon = both.iter().position(|byte| *byte == b':')?;
    Some(both[colon + 1..].to_vec())
}

/// The prefix whose guesses are counted together.
fn prefix_of(peer: IpAddr) -> IpAddr {
    PrefixLengths::default().mask(peer)
}

/// Whether the one `Host` is a loopback name, the address that the caller connected to, or a name of a certificate; any
/// port is fine, for tunnels.
fn is_own_host(headers: &HeaderMap, to: IpAddr, names: &[String]) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let Ok(authority) = Authority::try_from(host.as_bytes()) else { return false };
    if authority.as_str().contains('@') {
        return false;
    }
    let name = authority.host();
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    match bare.parse::<IpAddr>() {
        Ok(ip) => ip == Ipv4Addr::LOCALHOST || ip == Ipv6Addr::LOCALHOST || ip == to.to_canonical(),
        Err(_) => name.eq_ignore_ascii_case("localhost") || names.iter().any(|own| is_named(name, own)),
    }
}

/// Whether a name is that of a certificate, where `*.` stands for one label.
fn is_named(name: &str, own: &str) -> bool {
    match own.strip_prefix("*.") {
        Some(parent) => name.split_once('.').is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(parent)),
        None => name.eq_ignore_ascii_case(own),
    }
}

/// Whether the request has no `Origin`, or one that is this gate's own.
fn is_own_origin(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).map_or(&b""[..], HeaderValue::as_bytes);
    headers.get_all(header::ORIGIN).iter().all(|origin| {
        let origin = origin.as_bytes();
        let authority = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
        authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    })
}

/// Wrong tokens of one client prefix: this many at once, then one each `replenish`.
const GUESSES: ConnectionQuota = ConnectionQuota { replenish: Span::from_secs(1), burst: MAX_GUESSES };
const MAX_GUESSES: u32 = 60;
const BODY_TYPES: [&str; 2] = ["application/json", "application/toml"];
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Browsers send it to another origin only after a pre-flight, which is refused.
const REQUEST_HEADER: HeaderName = HeaderName::from_static("x-tollgate-request");

#[cfg(test)]
mod tests;
