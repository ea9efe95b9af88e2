//! What a proxy asks about: method, target and host of its client's request, at a decision endpoint.
//!
//! There are three forms: `X-Original-Method` and `X-Original-URI`, as nginx is told to send; `X-Forwarded-Method`,
//! `-Uri`, `-Host` and `-Proto`, as Traefik and Caddy send; and the request itself, as Envoy sends. Many proxies pass on
//! what else their client sent, so a client could add another form. Everything has to be said once and in one form;
//! anything else is refused, never repaired. `client_addr` finds the client, `target` checks what comes out here.

use http::header::{HOST, UPGRADE};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, Version};
use http_body::Body;

use crate::policy::attempt::AttemptBody;
use crate::proxy::error::MalformedRequest;

/// What differs between the request of a proxy and the request that it asks about; `None` for what does not.
#[derive(Debug)]
pub(in crate::proxy) struct Question {
    method: Option<Method>,
    target: Option<Uri>,
    host: Option<HeaderValue>,
    /// How much of the body is seen.
    pub(in crate::proxy) body: VisibleBody,
}

/// How much of a request's body is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::proxy) enum VisibleBody {
    /// The whole body, which may be empty.
    Whole,
    /// Its beginning: Envoy cuts it.
    Beginning,
    /// None of it, though there is one.
    Hidden,
    /// None of it, and nobody says whether there is one.
    Unsaid,
}

impl VisibleBody {
    /// The body of a request by this method. `X-Original-Body` tells about a body that is not shown: its length, or any
    /// other word.
    pub(in crate::proxy) fn by_header(said: Option<&HeaderValue>, method: &Method) -> Self {
        match said.map(HeaderValue::as_bytes) {
            Some(b"0") => Self::Whole,
            // Caddy sends an empty value for a header that its client did not send.
            None | Some(b"") => match *method {
                Method::GET | Method::HEAD | Method::OPTIONS => Self::Unsaid,
                _ => Self::Hidden,
            },
            Some(_) => Self::Hidden,
        }
    }

    /// What the policy gets where no body came.
    pub(in crate::proxy) fn without_any(self) -> AttemptBody<'static> {
        match self {
            Self::Whole | Self::Beginning => AttemptBody::Whole(&[]),
            Self::Hidden => AttemptBody::TooLong,
            Self::Unsaid => AttemptBody::Unsaid,
        }
    }
}

/// The headers of a question, each at most once.
#[derive(Default)]
struct QuestionHeaders<'a> {
    original_method: Option<&'a HeaderValue>,
    original_uri: Option<&'a HeaderValue>,
    forwarded_method: Option<&'a HeaderValue>,
    forwarded_uri: Option<&'a HeaderValue>,
    forwarded_host: Option<&'a HeaderValue>,
    forwarded_proto: Option<&'a HeaderValue>,
    host: Option<&'a HeaderValue>,
    body: Option<&'a HeaderValue>,
    partial: Option<&'a HeaderValue>,
}

impl Question {
    /// What this request asks about. Its own target and framing are not looked at: those of the request [about](Self::put_into)
    /// which it asks are. `shows_bodies`: whether the proxies of this endpoint send every body.
    ///
    /// # Errors
    /// [`MalformedRequest::IncompleteQuestion`], [`MalformedRequest::AmbiguousQuestion`], [`MalformedRequest::NoHost`] and
    /// [`MalformedRequest::SeveralHosts`].
    pub(in crate::proxy) fn of<B: Body>(
        request: &Request<B>,
        shows_bodies: bool,
    ) -> Result<Self, MalformedRequest> {
        let said = QuestionHeaders::of(request.headers())?;
        if said.host.is_none() && request.version() != Version::HTTP_10 {
            return Err(MalformedRequest::NoHost);
        }
        let is_original = said.original_method.is_some() || said.original_uri.is_some();
        let is_forwarded = said.forwarded_method.is_some() || said.forwarded_uri.is_some();
        check_scheme(said.forwarded_proto, is_forwarded)?;
        let (method, target, host) = match (is_original, is_forwarded) {
            (true, true) => return Err(MalformedRequest::AmbiguousQuestion("X-Original-URI")),
            (true, false) => {
                let method = method_of(said.original_method, "X-Original-Method")?;
                let target = target_of(said.original_uri, "X-Original-URI")?;
                (Some(method), Some(target), Some(said.original_host()?))
            }
            (false, true) => {
                let method = method_of(said.forwarded_method, "X-Forwarded-Method")?;
                let target = target_of(said.forwarded_uri, "X-Forwarded-Uri")?;
                let host = present(said.forwarded_host, "X-Forwarded-Host")?;
                (Some(method), Some(target), Some(host))
            }
            (false, false) => (None, None, None),
        };
        // Envoy sends no body of an upgrade, which may have one, and the same `X-Original-Body` with all of its questions.
        let is_kept_back = target.is_none() && request.headers().contains_key(UPGRADE);
        let said_of_body = said.body.filter(|said| !is_kept_back || *said != "0");
        let method_asked = method.as_ref().unwrap_or(request.method());
        let body = match said.visible_body(said_of_body, method_asked, request.body()) {
            // nginx sends no body, even with `bodies = true`.
            VisibleBody::Unsaid if shows_bodies && !is_original && !is_kept_back => VisibleBody::Whole,
            body => body,
        };
        let host = host.filter(|host| said.host != Some(host)).cloned();
        Ok(Self { method, target, host, body })
    }

    /// Makes the question the request that it asks about.
    pub(in crate::proxy) fn put_into<B>(self, request: &mut Request<B>) {
        if let Some(method) = self.method {
            *request.method_mut() = method;
        }
        if let Some(target) = self.target {
            *request.uri_mut() = target;
        }
        if let Some(host) = self.host {
            request.headers_mut().insert(HOST, host);
        }
    }
}

/// Whether a request does not ask about another one, such as the report of an outcome.
pub(in crate::proxy) fn asks_nothing(headers: &HeaderMap) -> bool {
    let is_part = |name: &str| name.starts_with("x-original-") || name.starts_with("x-forwarded-");
    !headers.keys().any(|name| is_part(name.as_str()) || name == http::header::FORWARDED)
}

impl<'a> QuestionHeaders<'a> {
    fn of(headers: &'a HeaderMap) -> Result<Self, MalformedRequest> {
        let mut said = Self::default();
        for (name, value) in headers {
            let (place, shown) = match name.as_str() {
                "host" => (&mut said.host, "Host"),
                "x-original-method" => (&mut said.original_method, "X-Original-Method"),
                "x-original-uri" => (&mut said.original_uri, "X-Original-URI"),
                "x-original-body" => (&mut said.body, "X-Original-Body"),
                "x-forwarded-method" => (&mut said.forwarded_method, "X-Forwarded-Method"),
                "x-forwarded-uri" => (&mut said.forwarded_uri, "X-Forwarded-Uri"),
                "x-forwarded-host" => (&mut said.forwarded_host, "X-Forwarded-Host"),
                "x-forwarded-proto" => (&mut said.forwarded_proto, "X-Forwarded-Proto"),
                "x-envoy-auth-partial-body" => (&mut said.partial, "X-Envoy-Auth-Partial-Body"),
                _ => continue,
            };
            if place.replace(value).is_some() {
                return Err(match shown {
                    "Host" => MalformedRequest::SeveralHosts,
                    _ => MalformedRequest::AmbiguousQuestion(shown),
                });
            }
        }
        Ok(said)
    }

    /// `Host`, as nginx passes it on, or `X-Forwarded-Host`. If both are there they have to agree: nginx passes on what
    /// its client says in the latter, unless it is told to replace it. An address in `Host` is the endpoint's own.
    fn original_host(&self) -> Result<&'a HeaderValue, MalformedRequest> {
        let host = present(self.host, "Host")?;
        match self.forwarded_host {
            None => Ok(host),
            Some(forwarded) if forwarded == host || is_address(host) => Ok(forwarded),
            Some(_) => Err(MalformedRequest::AmbiguousQuestion("X-Forwarded-Host")),
        }
    }

    /// Without a body here there may be one that the proxy did not send: `said` is how the proxy describes it.
    fn visible_body(&self, said: Option<&HeaderValue>, method: &Method, body: &impl Body) -> VisibleBody {
        match self.partial {
            _ if body.is_end_stream() => VisibleBody::by_header(said, method),
            Some(partial) if partial == "true" => VisibleBody::Beginning,
            _ => VisibleBody::Whole,
        }
    }
}

fn present<'a>(
    value: Option<&'a HeaderValue>,
    name: &'static str,
) -> Result<&'a HeaderValue, MalformedRequest> {
    value.ok_or(MalformedRequest::IncompleteQuestion(name))
}

fn method_of(value: Option<&HeaderValue>, name: &'static str) -> Result<Method, MalformedRequest> {
    let value = present(value, name)?;
    Method::from_bytes(value.as_bytes()).map_err(|_| MalformedRequest::AmbiguousQuestion(name))
}

fn target_of(value: Option<&HeaderValue>, name: &'static str) -> Result<Uri, MalformedRequest> {
    target_in(present(value, name)?.as_bytes()).ok_or(MalformedRequest::AmbiguousQuestion(name))
}

/// Path and query, or `*`. An absolute target names a second host, and the parser would drop a fragment.
pub(super) fn target_in(bytes: &[u8]) -> Option<Uri> {
    let is_target = (bytes.starts_with(b"/") && !bytes.contains(&b'#')) || bytes == b"*";
    PathAndQuery::try_from(bytes).ok().filter(|_| is_target).map(Uri::from)
}

fn check_scheme(scheme: Option<&HeaderValue>, is_needed: bool) -> Result<(), MalformedRequest> {
    let is = |known: &[u8]| scheme.is_some_and(|scheme| scheme.as_bytes().eq_ignore_ascii_case(known));
    match scheme {
        None if is_needed => Err(MalformedRequest::IncompleteQuestion("X-Forwarded-Proto")),
        Some(_) if !is(b"http") && !is(b"https") => {
            Err(MalformedRequest::AmbiguousQuestion("X-Forwarded-Proto"))
        }
        _ => Ok(()),
    }
}

/// Whether a `Host` is an IP address or `localhost`, as of a proxy that does not pass on its client's.
fn is_address(host: &HeaderValue) -> bool {
    let Ok(host) = host.to_str() else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok()
}
