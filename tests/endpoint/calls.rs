//! A client of Envoy's rate limit service: its messages as `rls.proto` has them, and calls on a kept connection.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request};
use prost::Message;
use tokio::net::TcpStream;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Question {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) domain: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) descriptors: Vec<Descriptor>,
    #[prost(uint32, tag = "3")]
    pub(crate) hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    pub(crate) entries: Vec<Entry>,
    #[prost(message, optional, tag = "3")]
    pub(crate) hits_addend: Option<u64>,
    #[prost(bool, tag = "4")]
    pub(crate) is_negative_hits: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Entry {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Response {
    #[prost(int32, tag = "1")]
    pub(crate) overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    pub(crate) statuses: Vec<Status>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) response_headers_to_add: Vec<Header>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) request_headers_to_add: Vec<Header>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) current_limit: Option<Limit>,
    #[prost(uint32, tag = "3")]
    pub(crate) limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    pub(crate) duration_until_reset: Option<Seconds>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Limit {
    #[prost(uint32, tag = "1")]
    pub(crate) requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    pub(crate) unit: i32,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Seconds {
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Header {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

pub(crate) const OK: i32 = 1;
pub(crate) const OVER_LIMIT: i32 = 2;
pub(crate) const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A descriptor with these entries.
pub(crate) fn descriptor(entries: &[(&str, &str)]) -> Descriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
    Descriptor { entries: entries.iter().map(entry).collect(), ..Descriptor::default() }
}

/// A question about these descriptors.
pub(crate) fn question(domain: &str, descriptors: &[Descriptor]) -> Question {
    Question { domain: domain.into(), descriptors: descriptors.to_vec(), hits_addend: 0 }
}

/// A message as the body of a call.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], message].concat()
}

/// Runs this to its end, for at most a minute.
pub(crate) fn run<T>(story: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), story).await.expect("it ends") })
}

/// A kept connection.
#[derive(Clone)]
pub(crate) struct Caller(SendRequest<Bytes>);

/// What came back: the status of HTTP, that of gRPC, and the body.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) http: u16,
    pub(crate) status: Option<String>,
    pub(crate) body: Vec<u8>,
}

impl Caller {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (send, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(async move { drop(connection.await) });
        Self(send)
    }

    /// Calls a method with this body.
    pub(crate) async fn call(&mut self, path: &str, kind: &str, body: Vec<u8>) -> Called {
        let request = Request::post(format!("http://tollgate{path}")).header("content-type", kind);
        let request = request.header("te", "trailers").body(()).unwrap();
        let mut send = self.0.clone().ready().await.unwrap();
        let (answer, mut stream) = send.send_request(request, body.is_empty()).unwrap();
        if !body.is_empty() {
            stream.send_data(body.into(), true).unwrap();
        }
        let (head, mut incoming) = answer.await.unwrap().into_parts();
        let mut body = Vec::new();
        while let Some(bytes) = incoming.data().await {
            let bytes = bytes.unwrap();
            incoming.flow_control().release_capacity(bytes.len()).unwrap();
            body.extend_from_slice(&bytes);
        }
        let trailers = incoming.trailers().await.unwrap();
        let of = |headers: &HeaderMap| Some(headers.get("grpc-status")?.to_str().unwrap().to_owned());
        let status = trailers.as_ref().and_then(of).or_else(|| of(&head.headers));
        Called { http: head.status.as_u16(), status, body }
    }

    /// Begins a call of many messages.
    pub(crate) async fn open(&self, path: &str) -> Call {
        let request =
            Request::post(format!("http://tollgate{path}")).header("content-type", "application/grpc");
        let request = request.header("te", "trailers").body(()).unwrap();
        let mut send = self.0.clone().ready().await.unwrap();
        let (answer, out) = send.send_request(request, false).unwrap();
        Call { out, answer: Some(answer), incoming: None, received: Vec::new() }
    }

    /// The answer to a question.
    pub(crate) async fn ask(&mut self, question: &Question) -> Response {
        self.ask_bytes(&question.encode_to_vec()).await
    }

    pub(crate) async fn ask_bytes(&mut self, question: &[u8]) -> Response {
        let called = self.call(METHOD, "application/grpc", framed(question)).await;
        assert_eq!((called.http, called.status.as_deref()), (200, Some("0")), "{called:?}");
        let length = u32::from_be_bytes(called.body[1..5].try_into().unwrap());
        assert_eq!((called.body[0], length as usize), (0, called.body.len() - 5));
        Response::decode(&called.body[5..]).unwrap()
    }
}

/// A call of many messages. Dropped, it is reset.
pub(crate) struct Call {
    out: SendStream<Bytes>,
    answer: Option<ResponseFuture>,
    incoming: Option<RecvStream>,
    received: Vec<u8>,
}

impl Call {
    /// Sends a message.
    pub(crate) fn send(&mut self, message: &[u8]) {
        self.send_bytes(framed(message));
    }

    /// Sends bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: Vec<u8>) {
        // The peer may have ended the call.
        drop(self.out.send_data(bytes.into(), false));
    }

    /// The next message; `None` at the end of the call.
    pub(crate) async fn next(&mut self) -> Option<Vec<u8>> {
        if let Some(answer) = self.answer.take() {
            let (head, incoming) = answer.await.ok()?.into_parts();
            assert_eq!(head.status, 200);
            self.incoming = Some(incoming);
        }
        loop {
            if let Some((head, rest)) = self.received.split_at_checked(5) {
                let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
                if let Some((message, rest)) = rest.split_at_checked(length) {
                    let (message, rest) = (message.to_vec(), rest.to_vec());
                    self.received = rest;
                    return Some(message);
                }
            }
            let incoming = self.incoming.as_mut()?;
            let bytes = incoming.data().await?.ok()?;
            incoming.flow_control().release_capacity(bytes.len()).unwrap();
            self.received.extend_from_slice(&bytes);
        }
    }

    /// Sends no more, reads all answers, and returns their number and the status of gRPC; `None` if the call broke off.
    pub(crate) async fn end(mut self) -> (usize, Option<String>) {
        drop(self.out.send_data(Bytes::new(), true));
        let mut answers = 0;
        while self.next().await.is_some() {
            answers += 1;
        }
        let Some(mut incoming) = self.incoming else { return (answers, None) };
        let trailers = incoming.trailers().await.ok().flatten();
        let status =
            trailers.and_then(|trailers| Some(trailers.get("grpc-status")?.to_str().unwrap().to_owned()));
        (answers, status)
    }
}

impl Response {
    /// The value of a header for the client.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.response_headers_to_add.iter().filter(|header| header.key == name);
        let value = found.next().map(|header| header.value.as_str());
        assert!(found.next().is_none(), "{name} twice");
        value
    }
}
