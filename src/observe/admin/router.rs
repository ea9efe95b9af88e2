//! Routes an operator's request to its page: a function without sockets.
//!
//! It needs no sockets. Every error is problem+json (RFC 9457). A name in `Host` is refused even if it resolves to this
//! gate, because an attacker's page can resolve a name of its own to it (DNS rebinding); addresses cannot be rebound.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::Ordering;

use http::header::{self, HeaderMap, HeaderValue};
use http::uri::Authority;
use http::{Method, Request, StatusCode};
use hyper::body::Body;

use super::buckets::BucketsApi;
use super::control::ControlPath;
use super::response::{AdminResponse, not_allowed, problem, respond, text};
use super::{Admin, buckets};
use crate::event::Operator;
use crate::observe::metrics::CONTENT_TYPE;

/// How a request came in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Caller {
    /// Over TCP, to this local address.
    Tcp { to: Option<IpAddr> },
    /// Over a Unix socket, which no browser can reach.
    Unix(Operator),
}

pub(super) async fn handle<B>(admin: &Admin, caller: Caller, request: Request<B>) -> AdminResponse
where
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
{
    if let Some(refusal) = refuse(caller, request.headers()) {
        return refusal;
    }
    match (&admin.buckets, buckets::BucketPath::parse(request.uri())) {
        (Some(api), Some(path)) => match caller {
            Caller::Unix(by) => api.handle(by, path, request).await,
            Caller::Tcp { .. } => problem(StatusCode::FORBIDDEN, ONLY_UNIX),
        },
        _ => handle_control(admin, caller, &request).await,
    }
}

/// The pages about the gate as a whole.
async fn handle_control<B>(admin: &Admin, caller: Caller, request: &Request<B>) -> AdminResponse {
    match (&admin.control, ControlPath::parse(request.uri().path())) {
        (Some(control), Some(page)) => match caller {
            Caller::Unix(by) => control.handle(by, page, request).await,
            Caller::Tcp { .. } => problem(StatusCode::FORBIDDEN, ONLY_UNIX),
        },
        _ => handle_page(admin, request),
    }
}

/// Refuses a page of another origin, and a name that is not one of this gate.
fn refuse(caller: Caller, headers: &HeaderMap) -> Option<AdminResponse> {
    if let Caller::Tcp { to } = caller {
        if !is_own_host(headers, to) {
            return Some(problem(StatusCode::FORBIDDEN, "the Host is not one of this gate's addresses"));
        }
        if !is_own_origin(headers) {
            return Some(problem(StatusCode::FORBIDDEN, "pages of other origins are refused"));
        }
    }
    None
}

fn handle_page<B>(admin: &Admin, request: &Request<B>) -> AdminResponse {
    let page: fn(&Admin) -> AdminResponse = match request.uri().path() {
        "/livez" => |_| text(StatusCode::OK, "ok\n"),
        "/readyz" => ready,
        "/metrics" => metrics,
        _ => return problem(StatusCode::NOT_FOUND, "there is no such page"),
    };
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        page(admin)
    } else {
        not_allowed("GET, HEAD")
    }
}

fn ready(admin: &Admin) -> AdminResponse {
    if admin.draining.load(Ordering::Relaxed) {
        return text(StatusCode::SERVICE_UNAVAILABLE, "draining\n");
    }
    if let Some(reasons) = admin.readiness.reasons() {
        return text(StatusCode::SERVICE_UNAVAILABLE, format!("{reasons}\n"));
    }
    // Without the store the gate still serves, as `store.on_error` says. A load balancer that left it would leave all
    // gates at once.
    match admin.buckets.as_ref().is_some_and(BucketsApi::is_store_down) {
        true => text(StatusCode::OK, "degraded: the store does not answer\n"),
        false => text(StatusCode::OK, "ok\n"),
    }
}

fn metrics(admin: &Admin) -> AdminResponse {
    respond(StatusCode::OK, CONTENT_TYPE, admin.metrics.render())
}

/// Whether the one `Host` is a loopback name or the address that the caller connected to; any port is fine, for
/// tunnels.
fn is_own_host(headers: &HeaderMap, to: Option<IpAddr>) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let Ok(authority) = Authority::try_from(host.as_bytes()) else { return false };
    if authority.as_str().contains('@') {
        return false;
    }
    let name = authority.host();
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    match bare.parse::<IpAddr>() {
        Ok(ip) => {
            ip == Ipv4Addr::LOCALHOST
                || ip == Ipv6Addr::LOCALHOST
                || Some(ip) == to.map(|to| to.to_canonical())
        }
        Err(_) => name.eq_ignore_ascii_case("localhost"),
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

const ONLY_UNIX: &str = "this is shown and done over a Unix socket only: admin.listen = \
    \"unix:/run/tollgate/admin.sock\"";

#[cfg(test)]
mod tests {
    use super::*;

    fn status(host: &[&str], origin: &[&str], to: &str) -> StatusCode {
        let mut request = Request::builder().uri("/livez");
        for host in host {
            request = request.header(header::HOST, *host);
        }
        for origin in origin {
            request = request.header(header::ORIGIN, *origin);
        }
        let caller = Caller::Tcp { to: Some(to.parse().unwrap()) };
        refuse(caller, request.body(()).unwrap().headers())
            .map_or(StatusCode::OK, |response| response.status())
    }

    #[test]
    fn loopback_names_and_the_address_itself_are_welcome_with_any_port() {
        for host in ["127.0.0.1", "127.0.0.1:9180", "[::1]", "[::1]:1", "localhost", "LOCALHOST:80"] {
            assert_eq!(status(&[host], &[], "192.0.2.7"), StatusCode::OK, "{host}");
        }
        assert_eq!(status(&["192.0.2.7:9180"], &[], "192.0.2.7"), StatusCode::OK);
        assert_eq!(status(&["192.0.2.7:9180"], &[], "::ffff:192.0.2.7"), StatusCode::OK);
        assert_eq!(status(&["[2001:db8::7]"], &[], "2001:db8::7"), StatusCode::OK);
    }

    #[test]
    fn a_name_that_was_rebound_to_us_is_refused() {
        for host in [
            "evil.example",
            "evil.example:9180",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil@127.0.0.1",
            "192.0.2.8",
            "0.0.0.0",
            "",
            "[::1",
        ] {
            assert_eq!(status(&[host], &[], "192.0.2.7"), StatusCode::FORBIDDEN, "{host}");
        }
        assert_eq!(status(&[], &[], "192.0.2.7"), StatusCode::FORBIDDEN);
        assert_eq!(status(&["localhost", "evil.example"], &[], "192.0.2.7"), StatusCode::FORBIDDEN);
    }

    #[test]
    fn a_page_of_another_origin_is_refused() {
        let host = ["127.0.0.1:9180"];
        assert_eq!(status(&host, &["http://127.0.0.1:9180"], "127.0.0.1"), StatusCode::OK);
        for origin in ["http://evil.example", "null", "http://127.0.0.1:8080", "127.0.0.1:9180", ""] {
            assert_eq!(status(&host, &[origin], "127.0.0.1"), StatusCode::FORBIDDEN, "{origin}");
        }
        let two = ["http://127.0.0.1:9180", "http://evil.example"];
        assert_eq!(status(&host, &two, "127.0.0.1"), StatusCode::FORBIDDEN);
    }
}
