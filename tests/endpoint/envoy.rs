//! What Envoy sends to its external authorization and external processing, as its `.proto` files have it, and what it reads.

use std::net::{Ipv4Addr, SocketAddr};

use prost::{Message, Oneof};
use support::{Gate, Launch, Upstream, free_port};

use crate::calls::{Call, Caller, framed};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Line {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) name: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) raw: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Lines {
    #[prost(message, repeated, tag = "1")]
    pub(crate) lines: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Check {
    #[prost(message, optional, tag = "1")]
    pub(crate) attributes: Option<Attributes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Attributes {
    #[prost(message, optional, tag = "1")]
    pub(crate) source: Option<Peer>,
    #[prost(message, optional, tag = "2")]
    pub(crate) destination: Option<Peer>,
    #[prost(message, optional, tag = "4")]
    pub(crate) request: Option<Asked>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Peer {
    #[prost(message, optional, tag = "1")]
    pub(crate) address: Option<Address>,
    #[prost(string, tag = "4")]
    pub(crate) principal: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Address {
    #[prost(message, optional, tag = "1")]
    pub(crate) socket: Option<Socket>,
    #[prost(message, optional, tag = "2")]
    pub(crate) pipe: Option<Pipe>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Pipe {
    #[prost(string, tag = "1")]
    pub(crate) path: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Socket {
    #[prost(string, tag = "2")]
    pub(crate) address: String,
    #[prost(uint32, tag = "3")]
    pub(crate) port: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Asked {
    #[prost(message, optional, tag = "2")]
    pub(crate) http: Option<Http>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Http {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) method: String,
    #[prost(message, repeated, tag = "3")]
    pub(crate) headers: Vec<Line>,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) path: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(crate) host: String,
    #[prost(string, tag = "6")]
    pub(crate) scheme: String,
    #[prost(int64, tag = "9")]
    pub(crate) size: i64,
    #[prost(string, tag = "10")]
    pub(crate) protocol: String,
    #[prost(bytes = "vec", tag = "11")]
    pub(crate) body: Vec<u8>,
    #[prost(bytes = "vec", tag = "12")]
    pub(crate) raw_body: Vec<u8>,
    #[prost(message, optional, tag = "13")]
    pub(crate) header_map: Option<Lines>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Checked {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Number>,
    #[prost(message, optional, tag = "2")]
    pub(crate) denied: Option<Denied>,
    #[prost(message, optional, tag = "3")]
    pub(crate) ok: Option<Allowed>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Number {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Denied {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Number>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) headers: Vec<Set>,
    #[prost(string, tag = "3")]
    pub(crate) body: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Allowed {
    #[prost(message, repeated, tag = "2")]
    pub(crate) headers: Vec<Set>,
    #[prost(string, repeated, tag = "5")]
    pub(crate) remove: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) response_headers: Vec<Set>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Set {
    #[prost(message, optional, tag = "1")]
    pub(crate) line: Option<Line>,
    #[prost(message, optional, tag = "2")]
    pub(crate) append: Option<bool>,
    #[prost(int32, tag = "3")]
    pub(crate) append_action: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Processing {
    #[prost(oneof = "Part", tags = "2, 3, 4, 5, 6, 7")]
    pub(crate) part: Option<Part>,
    #[prost(bool, tag = "10")]
    pub(crate) observes: bool,
    #[prost(message, optional, tag = "11")]
    pub(crate) modes: Option<Modes>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Part {
    #[prost(message, tag = "2")]
    RequestHeaders(Head),
    #[prost(message, tag = "3")]
    ResponseHeaders(Head),
    #[prost(message, tag = "4")]
    RequestBody(Piece),
    #[prost(message, tag = "5")]
    ResponseBody(Piece),
    #[prost(message, tag = "6")]
    RequestTrailers(Lines),
    #[prost(message, tag = "7")]
    ResponseTrailers(Lines),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Head {
    #[prost(message, optional, tag = "1")]
    pub(crate) headers: Option<Lines>,
    #[prost(bool, tag = "3")]
    pub(crate) is_end: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Piece {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) body: Vec<u8>,
    #[prost(bool, tag = "2")]
    pub(crate) is_end: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Modes {
    #[prost(int32, tag = "1")]
    pub(crate) request_body: i32,
    #[prost(int32, tag = "2")]
    pub(crate) response_body: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Processed {
    #[prost(oneof = "Answered", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub(crate) answer: Option<Answered>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Answered {
    #[prost(message, tag = "1")]
    RequestHeaders(Changes),
    #[prost(message, tag = "2")]
    ResponseHeaders(Changes),
    #[prost(message, tag = "3")]
    RequestBody(Changes),
    #[prost(message, tag = "4")]
    ResponseBody(Changes),
    #[prost(message, tag = "5")]
    RequestTrailers(()),
    #[prost(message, tag = "6")]
    ResponseTrailers(()),
    #[prost(message, tag = "7")]
    Immediate(Immediate),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Changes {
    #[prost(message, optional, tag = "1")]
    pub(crate) common: Option<Common>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Common {
    #[prost(int32, tag = "1")]
    pub(crate) status: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) headers: Option<Mutation>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Mutation {
    #[prost(message, repeated, tag = "1")]
    pub(crate) set: Vec<Set>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) remove: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Immediate {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Number>,
    #[prost(message, optional, tag = "2")]
    pub(crate) headers: Option<Mutation>,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) body: Vec<u8>,
}

pub(crate) const CHECK: &str = "/envoy.service.auth.v3.Authorization/Check";
pub(crate) const PROCESS: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";
pub(crate) const BUFFERED: Modes = Modes { request_body: 2, response_body: 0 };
pub(crate) const BUFFERED_PARTIAL: Modes = Modes { request_body: 3, response_body: 0 };
pub(crate) const NO_BODIES: Modes = Modes { request_body: 0, response_body: 0 };

/// A gate with an endpoint that Envoy calls.
pub(crate) struct Service {
    pub(crate) gate: Gate,
    pub(crate) address: SocketAddr,
    pub(crate) upstream: Upstream,
}

impl Service {
    /// With these routes and limits, and these lines for the endpoint, which is of this kind.
    pub(crate) fn start(kind: &str, tables: &str, endpoint: &str) -> Self {
        let upstream = Upstream::start();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let kind = format!("[endpoint.envoy]\nkind = \"{kind}\"\nlisten = \"http://{address}\"\n{endpoint}");
        let launch = Launch::new(&upstream.file(&format!("{tables}\n{kind}\n")));
        let gate = launch.beside("device.keys", "0123456789abcdef0123456789abcdef").start();
        Self { gate, address, upstream }
    }
}

/// Lines as Envoy has them: raw.
pub(crate) fn lines(named: &[(&str, &str)]) -> Lines {
    let line =
        |(name, value): &(&str, &str)| Line { name: (*name).into(), value: Vec::new(), raw: (*value).into() };
    Lines { lines: named.iter().map(line).collect() }
}

/// A request of this client, as Envoy's external authorization asks about it with `encode_raw_headers` and `pack_as_bytes`.
pub(crate) fn check(client: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Check {
    let pseudo = [(":authority", "app.test"), (":path", path), (":method", method), (":scheme", "http")];
    let forwarded = [("x-forwarded-for", client), ("x-forwarded-proto", "http")];
    let length = body.len().to_string();
    let own = [("content-length", &*length), ("x-envoy-auth-partial-body", "false")];
    let own = if body.is_empty() { &own[..0] } else { &own[..] };
    let socket = |address: &str, port| Socket { address: address.to_owned(), port };
    let peer = |address, port| Peer {
        address: Some(Address { socket: Some(socket(address, port)), pipe: None }),
        principal: String::new(),
    };
    let http = Http {
        id: "1234567890".to_owned(),
        method: method.to_owned(),
        path: path.into(),
        host: "app.test".to_owned(),
        scheme: "http".to_owned(),
        size: i64::try_from(body.len()).unwrap(),
        protocol: "HTTP/1.1".to_owned(),
        raw_body: body.into(),
        header_map: Some(lines(&[&pseudo, &forwarded[..], headers, own].concat())),
        ..Http::default()
    };
    Check {
        attributes: Some(Attributes {
            source: Some(peer(client, 40_000)),
            destination: Some(peer("10.0.0.1", 443)),
            request: Some(Asked { http: Some(http) }),
        }),
    }
}

impl Check {
    pub(crate) fn http(&mut self) -> &mut Http {
        self.attributes.as_mut().unwrap().request.as_mut().unwrap().http.as_mut().unwrap()
    }

    pub(crate) fn header_lines(&mut self) -> &mut Vec<Line> {
        &mut self.http().header_map.as_mut().unwrap().lines
    }
}

impl Caller {
    /// The answer to a question.
    pub(crate) async fn check(&mut self, question: &Check) -> Checked {
        let called = self.call(CHECK, "application/grpc", framed(&question.encode_to_vec())).await;
        assert_eq!((called.http, called.status.as_deref()), (200, Some("0")), "{called:?}");
        Checked::decode(&called.body[5..]).unwrap()
    }
}

impl Checked {
    /// The status of the answer to the client; 200 if the request may pass.
    pub(crate) fn verdict(&self) -> i32 {
        let code = self.status.unwrap_or_default().code;
        match (&self.denied, &self.ok) {
            (Some(denied), None) => {
                assert_eq!(code, 7);
                denied.status.unwrap().code
            }
            (None, Some(_)) => {
                assert_eq!(code, 0);
                200
            }
            _ => panic!("one of them: {self:?}"),
        }
    }
}

/// The value of a header that is set once, in place of others.
pub(crate) fn header<'s>(set: &'s [Set], name: &str) -> Option<&'s str> {
    let mut found =
        set.iter().filter(|set| set.line.as_ref().is_some_and(|line| line.name == name.as_bytes()));
    let only = found.next()?;
    assert!(found.next().is_none() && only.append_action == 0, "{set:?}");
    let line = only.line.as_ref().unwrap();
    assert!(line.value.is_empty() || line.raw.is_empty());
    std::str::from_utf8(if line.raw.is_empty() { &line.value } else { &line.raw }).ok()
}

/// The head of a request of this client, as Envoy's external processing shows it.
pub(crate) fn request(client: &str, method: &str, path: &str, headers: &[(&str, &str)]) -> Head {
    let pseudo = [(":authority", "app.test"), (":path", path), (":method", method), (":scheme", "http")];
    let forwarded = [("x-forwarded-for", client), ("x-forwarded-proto", "http"), ("x-request-id", "a-b-c")];
    Head { headers: Some(lines(&[&pseudo, &forwarded[..], headers].concat())), is_end: false }
}

/// The head of an answer that the application gave.
pub(crate) fn response(status: &str, headers: &[(&str, &str)]) -> Part {
    let own = [(":status", status), ("x-envoy-upstream-service-time", "3")];
    Part::ResponseHeaders(Head { headers: Some(lines(&[&own, headers].concat())), is_end: false })
}

impl Call {
    /// Sends a part and waits for its answer; `None` if the call ends instead.
    pub(crate) async fn process(&mut self, part: Part, modes: Option<Modes>) -> Option<Answered> {
        let sent = Processing { part: Some(part), observes: false, modes };
        self.send(&sent.encode_to_vec());
        let message = self.next().await?;
        Some(Processed::decode(&message[..]).unwrap().answer.expect("an answer"))
    }
}

impl Answered {
    /// The status of an immediate answer; 200 if the part goes on.
    pub(crate) fn verdict(&self) -> i32 {
        match self {
            Self::Immediate(immediate) => immediate.status.unwrap().code,
            _ => 200,
        }
    }

    /// What is changed of the headers.
    pub(crate) fn changes(&self) -> Mutation {
        let changes = match self {
            Self::RequestHeaders(changes) | Self::ResponseHeaders(changes) | Self::RequestBody(changes) => {
                changes
            }
            Self::Immediate(immediate) => return immediate.headers.clone().unwrap(),
            _ => panic!("it has headers: {self:?}"),
        };
        let common = changes.common.clone().unwrap_or_default();
        assert_eq!(common.status, 0);
        common.headers.unwrap_or_default()
    }
}
