//! Whatever body an application could read, an example counts the request or refuses it: in every version, framing and method.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use http::Request;
use support::{Client, installed, polite};

use super::front::{Front, Proxy};
use super::http2_from;
use crate::legacy::{Place, Workers, free_address};

/// Notes every password that it gets, whatever the method, and every request whose path a header has moved.
const APPLICATION: &str = "
import os
guesses = os.open('guesses', os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def application(environ, start_response):
    if environ['SCRIPT_NAME']:
        os.write(guesses, b'moved\\n')
    try:
        body = environ['wsgi.input'].read()
    except Exception:
        body = b''
    if body.startswith(b'password='):
        os.write(guesses, body[9:] + b'\\n')
    start_response('200 OK', [('Content-Type', 'text/plain'), ('Content-Length', '2')])
    return [] if environ['REQUEST_METHOD'] == 'HEAD' else [b'ok']
";

/// One route that reads a body, and one that needs no more than the method and the path.
const ROUTES: &str = "[route.login]\nmatch = \"ANY /login\"\nwhen = \"form:password\"\n\
                      [route.form]\nmatch = \"POST /form\"\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Http1,
    Http2,
}

/// How a request says that a body follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length,
    /// By the body itself: chunks over HTTP/1.1, and no header at all over HTTP/2.
    Chunked,
    /// A length of 0 before a body, which HTTP/2 could carry.
    Lie,
    /// There is none.
    Without,
}

/// The requests of one client, which all are of one kind.
#[derive(Debug, Clone, Copy)]
struct Kind {
    version: Version,
    framing: Framing,
    method: &'static str,
    target: &'static str,
    client: Ipv4Addr,
}

impl Kind {
    /// Every kind that could be an attempt at these routes.
    fn all() -> impl Iterator<Item = Self> {
        let kinds = WAYS.iter().flat_map(|&way| ASKED.iter().map(move |&asked| (way, asked)));
        (1..).zip(kinds).map(|(last, ((version, framing), (method, target)))| Self {
            version,
            framing,
            method,
            target,
            client: Ipv4Addr::new(127, 0, 10, last),
        })
    }

    /// Whether it is a page view, or asks for options of one. Where POST counts, OPTIONS does, too.
    fn is_page(&self) -> bool {
        let is_read =
            matches!(self.method, "GET" | "HEAD") || (self.method, self.target) == ("OPTIONS", "/login");
        self.framing == Framing::Without && is_read && self.target != IN_QUERY
    }

    /// The password of its guesses.
    fn password(&self) -> String {
        self.client.to_string()
    }

    /// The status of the answer, if one comes.
    fn ask(&self, front: &Front) -> Option<u16> {
        match self.version {
            Version::Http1 => self.ask_over_http1(front.address),
            Version::Http2 => polite::run(self.ask_over_http2(front.http2)),
        }
    }

    fn ask_over_http1(&self, address: SocketAddr) -> Option<u16> {
        let body = format!("password={}", self.password());
        let rest = match self.framing {
            Framing::Length => format!("Content-Length: {}\r\n\r\n{body}", body.len()),
            Framing::Chunked => {
                format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
            }
            Framing::Lie | Framing::Without => "\r\n".to_owned(),
        };
        let mut client = Client::connect_from(self.client, address);
        let Self { method, target, .. } = self;
        client
            .send(format!("{method} {target} HTTP/1.1\r\nHost: app.test\r\nContent-Type: {FORM}\r\n{rest}"));
        match *method {
            "HEAD" => Some(client.answer_to_head().status),
            _ => client.try_answer().map(|answer| answer.status),
        }
    }

    async fn ask_over_http2(&self, address: SocketAddr) -> Option<u16> {
        let send = http2_from(self.client, address).await;
        let body = format!("password={}", self.password());
        let mut request = Request::builder()
            .method(self.method)
            .uri(format!("http://app.test{}", self.target))
            .header("content-type", FORM);
        match self.framing {
            Framing::Length => request = request.header("content-length", body.len()),
            Framing::Lie => request = request.header("content-length", 0),
            Framing::Chunked | Framing::Without => {}
        }
        let ends = self.framing == Framing::Without;
        let (response, mut out) =
            send.ready().await.ok()?.send_request(request.body(()).unwrap(), ends).unwrap();
        if !ends {
            out.send_data(Bytes::from(body), true).unwrap();
        }
        response.await.ok().map(|response| response.status().as_u16())
    }
}

/// M6: a body that the gate is not told of is a guess that no limit counts.
fn counts_or_refuses_every_body(proxy: Proxy) {
    let place = Place::with(&[("app.py", APPLICATION)]);
    let application = free_address();
    let mut command = installed("gunicorn", "gunicorn");
    command.args(["--bind", &application.to_string(), "--worker-tmp-dir", "."]);
    command.args(["--threads", "4", "app:application"]);
    let _gunicorn = Workers::listening(command, &place, application);
    let front = Front::start(proxy, application, |file| {
        assert!(file.contains(SHIPPED), "{file}");
        file.replace(SHIPPED, ROUTES)
    });
    let mut wrong = Vec::new();
    for kind in Kind::all() {
        let statuses: Vec<_> = (0..GUESSES).map(|_| kind.ask(&front)).collect();
        let reached = || place.text("guesses").lines().filter(|line| *line == kind.password()).count();
        let guesses = reached();
        let is_right = match kind.framing {
            Framing::Length if kind.method != "GUESS" => guesses == LIMIT,
            Framing::Without if kind.target == IN_QUERY => {
                statuses == [[Some(200); LIMIT].as_slice(), &[Some(429); GUESSES - LIMIT]].concat()
            }
            _ if kind.is_page() => statuses.iter().all(|status| *status == Some(200)),
            _ => guesses <= LIMIT,
        };
        // Pages took nothing.
        let sign_in = Kind { framing: Framing::Length, method: "POST", ..kind };
        let is_free = !kind.is_page() || {
            let admitted = (0..=LIMIT).filter(|_| sign_in.ask(&front) == Some(200)).count();
            (admitted, reached()) == (LIMIT, LIMIT)
        };
        if !is_right || !is_free {
            wrong.push(format!("{kind:?}: {guesses} reached the application; {statuses:?}; free: {is_free}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), front.said());
    moves_no_path(&front, &place);
}

/// gunicorn believes its neighbour about `SCRIPT_NAME`: `/form/login` was asked about, and `/login` served.
fn moves_no_path(front: &Front, place: &Place) {
    for name in ["SCRIPT_NAME", "Script_Name"] {
        let mut client = Client::connect_from(Ipv4Addr::new(127, 0, 11, 1), front.address);
        client.send(format!("GET /form/login HTTP/1.1\r\nHost: app.test\r\n{name}: /form\r\n\r\n"));
        assert_eq!(client.answer().status, 200, "{}", front.said());
    }
    assert!(!place.text("guesses").contains("moved"), "{}", front.said());
}

#[test]
fn nginx_counts_or_refuses_every_body() {
    counts_or_refuses_every_body(Proxy::Nginx);
}

#[test]
fn haproxy_counts_or_refuses_every_body() {
    counts_or_refuses_every_body(Proxy::Haproxy);
}

#[test]
fn caddy_counts_or_refuses_every_body() {
    counts_or_refuses_every_body(Proxy::Caddy);
}

#[test]
fn traefik_counts_or_refuses_every_body() {
    counts_or_refuses_every_body(Proxy::Traefik);
}

#[test]
fn envoy_counts_or_refuses_every_body() {
    counts_or_refuses_every_body(Proxy::Envoy);
}

#[test]
fn envoy_with_its_rate_limit_service_counts_or_refuses_every_body() {
    counts_or_refuses_every_body(Proxy::EnvoyRls);
}

#[test]
fn envoy_with_its_external_authorization_counts_or_refuses_every_body() {
    counts_or_refuses_every_body(Proxy::EnvoyAuthz);
}

#[test]
fn envoy_with_its_external_processing_counts_or_refuses_every_body() {
    counts_or_refuses_every_body(Proxy::EnvoyProc);
}

/// Not a lie over HTTP/1.1, where another request would follow.
const WAYS: [(Version, Framing); 7] = [
    (Version::Http1, Framing::Length),
    (Version::Http1, Framing::Chunked),
    (Version::Http1, Framing::Without),
    (Version::Http2, Framing::Length),
    (Version::Http2, Framing::Chunked),
    (Version::Http2, Framing::Lie),
    (Version::Http2, Framing::Without),
];
/// Methods that could be taken for the one that a route counts.
const ASKED: [(&str, &str); 9] = [
    ("GET", "/login"),
    ("HEAD", "/login"),
    ("OPTIONS", "/login"),
    ("PUT", "/login"),
    ("GUESS", "/login"),
    ("GET", "/form"),
    ("HEAD", "/form"),
    ("OPTIONS", "/form"),
    ("GET", IN_QUERY),
];
/// A guess without a body.
const IN_QUERY: &str = "/form?password=x";
/// The route of `gate.toml`.
const SHIPPED: &str = "[route.login]\nmatch = \"POST /login\"\n";
const FORM: &str = "application/x-www-form-urlencoded";
/// Of `gate.toml`.
const LIMIT: usize = 5;
const GUESSES: usize = LIMIT + 2;
