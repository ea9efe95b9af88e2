//! The client compared with hyper's: random responses, good and bad, are read by both.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;

use super::response_body::Unread;
use super::*;
use crate::net::stream::NetStream;
use crate::proxy::body::{IncomingBody, RequestBody};
use crate::proxy::buffered_socket::BufferedSocket;
use crate::proxy::headers::passed::HeaderCase;
use crate::proxy::upstream::UpstreamRequest;
use crate::proxy::upstream::framing::DeclaredFraming;

/// What a client found: the head and the body, or nothing.
type Found = Option<(Version, StatusCode, HeaderMap, Vec<u8>)>;

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn a_response_is_what_hyper_reads_or_an_error(
        response in response(), is_head in prop::bool::weighted(0.1), step in 1..200_usize,
    ) {
        let method = if is_head { Method::HEAD } else { Method::GET };
        let (ours, hypers) = on_a_runtime(async {
            (read(&response, step, &method).await, read_by_hyper(&unfolded(&response), &method).await)
        });
        if hypers.as_ref().is_some_and(|(version, _, headers, _)| !has_good_length(*version, headers)) {
            prop_assert_eq!(ours, None, "{:?}", response);
        } else {
            prop_assert_eq!(ours, hypers, "{:?}", response);
        }
    }
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").map_or(2000, |cases| cases.parse().unwrap())
}

/// hyper looks at the length only where a body follows.
fn has_good_length(version: Version, headers: &HeaderMap) -> bool {
    if version == Version::HTTP_10 && headers.contains_key(TRANSFER_ENCODING) {
        return false;
    }
    let is_number = |length: &http::HeaderValue| length.to_str().unwrap().parse::<u64>().is_ok();
    let framing = headers
        .iter()
        .fold(DeclaredFraming::None, |framing, (name, value)| framing.with(name, value.as_bytes()));
    framing != DeclaredFraming::Ambiguous && headers.get(CONTENT_LENGTH).is_none_or(is_number)
}

/// What hyper does not take as it should be read: a folded line is one, and several blanks are one.
fn unfolded(response: &str) -> String {
    response.replace("X-Folded: a\r\n b\r\n", "X-Folded: a   b\r\n").replace("HTTP/1.1  200", "HTTP/1.1 200")
}

fn on_a_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Feeds a response in steps and closes.
fn feed(response: &str, step: usize) -> UnixStream {
    let (ours, mut upstream) = UnixStream::pair().unwrap();
    let bytes = response.to_owned().into_bytes();
    tokio::spawn(async move {
        for piece in bytes.chunks(step) {
            // The reader may have had enough.
            if upstream.write_all(piece).await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
        upstream.shutdown().await.unwrap();
        // Closed only after the request has been read, so that no reset overtakes the response.
        let _ = tokio::time::timeout(
            Duration::from_secs(5),
            tokio::io::copy(&mut upstream, &mut tokio::io::sink()),
        )
        .await;
    });
    ours
}

async fn read(response: &str, step: usize, method: &Method) -> Found {
    let mut socket = BufferedSocket::new(NetStream::Unix(feed(response, step)));
    let (body, _) = RequestBody::new(IncomingBody::Buffered(None), &Arc::default(), None);
    let (method, target, headers) = (method.clone(), Bytes::from_static(b"/"), Box::default());
    let (case, reply_timeout) = (HeaderCase::Preserve, Duration::ZERO);
    let (is_repeatable, authenticates) = (true, false);
    let request =
        UpstreamRequest { method, target, headers, case, body, authenticates, is_repeatable, reply_timeout };
    let mut pending = PendingResponse::new(request);
    let head = std::future::poll_fn(|cx| pending.poll_head(&mut socket, |_| {}, cx)).await.ok()?;
    let (mut unread, mut body) = (Unread::new(head.framing), Vec::new());
    while let Some(piece) = std::future::poll_fn(|cx| unread.poll_piece(&mut socket, cx)).await.ok()? {
        body.extend_from_slice(&piece);
    }
    Some((head.response.version(), head.response.status(), head.response.headers().clone(), body))
}

async fn read_by_hyper(response: &str, method: &Method) -> Found {
    let (mut sender, connection) = http1::handshake(TokioIo::new(feed(response, 99))).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    let request = Request::builder().method(method).uri("/").body(Empty::<Bytes>::new()).unwrap();
    let response: Response<_> = sender.send_request(request).await.ok()?;
    let (head, body) = response.into_parts();
    let mut headers = head.headers;
    // Equal lengths are one.
    if let Some(length) = headers.get(CONTENT_LENGTH).cloned()
        && headers.get_all(CONTENT_LENGTH).iter().all(|other| *other == length)
    {
        headers.insert(CONTENT_LENGTH, length);
    }
    Some((head.version, head.status, headers, body.collect().await.ok()?.to_bytes().to_vec()))
}

fn response() -> impl Strategy<Value = String> {
    let interim = prop::sample::select(vec![
        "",
        "",
        "",
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "\r\n",
    ]);
    let lines = prop::collection::vec(prop::sample::select(LINES.to_vec()), 0..4);
    let first = prop::sample::select(FIRST_LINES.to_vec());
    let end = prop::sample::select(vec!["\r\n", "\r\n", "\r\n", "\n", "", "\r\r\n"]);
    (interim, first, lines, end, body()).prop_map(|(interim, first, lines, end, body)| {
        format!("{interim}{first}{}{end}{body}", lines.concat())
    })
}

fn body() -> impl Strategy<Value = String> {
    let chunk = (prop::sample::select(CHUNK_ENDS.to_vec()), "[a-z]{1,20}").prop_map(|(end, text)| {
        let mut chunk = format!("{:x}", text.len());
        write!(chunk, "{end}{text}\r\n").unwrap();
        chunk
    });
    let last = prop::sample::select(vec![
        "0\r\n\r\n",
        "0\r\n\r\n",
        "0\r\nA: b\r\n\r\n",
        "0\r\nA b\r\n\r\n",
        "00\r\n\r\nmore",
        "0\r\n",
        "",
    ]);
    let chunks = (prop::collection::vec(chunk, 0..4), last).prop_map(|(chunks, last)| chunks.concat() + last);
    prop_oneof![2 => chunks, 1 => "[a-z]{0,12}"]
}

const FIRST_LINES: [&str; 13] = [
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 200 Very well\n",
    "HTTP/1.0 200 OK\r\n",
    "HTTP/1.1 204 No Content\r\n",
    "HTTP/1.1 304 Not Modified\r\n",
    "HTTP/1.1 302\r\n",
    "HTTP/1.1 999 \r\n",
    "HTTP/1.1 2000 OK\r\n",
    "HTTP/2.0 200 OK\r\n",
    "HTTP/1.1  200 OK\r\n",
    "SSH-2.0-x\r\n",
];

const LINES: [&str; 21] = [
    "Content-Length: 5\r\n",
    "Content-Length: 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: Chunked\r\n",
    "Content-Length: 0\r\n",
    "Content-Length: 7\r\n",
    "Content-Length: 5, 5\r\n",
    "Content-Length: +5\r\n",
    "Content-Length: 99999999999999999999\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Transfer-Encoding: gzip\r\n",
    "Connection: close\r\n",
    "Connection: Keep-Alive, x\r\n",
    "Set-Cookie: a=b\r\n",
    "X-Text: \t caf\u{e9} \r\n",
    "X-Bare: line\n",
    "X-Folded: a\r\n b\r\n",
    "X-Space : a\r\n",
    "X-Nul: \0\r\n",
    ": none\r\n",
];

const CHUNK_ENDS: [&str; 9] = ["\r\n", "\r\n", "\r\n", "\r\n", ";a=b\r\n", " \r\n", "\n", "x\r\n", ";\n\r\n"];
