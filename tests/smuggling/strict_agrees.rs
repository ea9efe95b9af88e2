//! The decoder of requests beside hyper's: where a request ends, they always agree.
//!
//! Random streams of requests, good and bad, are read by both. hyper is asked what it finds in exactly as many bytes as
//! the decoder took for so many requests, and in one byte less. That hyper refuses more is its right; that it closes where
//! a request asks for it is no disagreement.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;

use bytes::BytesMut;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::AsyncWriteExt;
use tollgate::proxy::request::decoder::{BodyPart, RequestDecoder};

/// What hyper makes of some bytes.
struct Served {
    /// Requests whose bodies came to their ends.
    whole: u64,
    /// Whether it refused something, or closed because a request said so.
    stopped: bool,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn a_request_ends_where_hyper_ends_it(stream in stream()) {
        for (number, end) in (1..).zip(ends(&stream)) {
            let whole = served(&stream[..end]);
            prop_assert!(
                whole.whole == number || whole.stopped && whole.whole < number,
                "{} of {number} in {:?}", whole.whole, String::from_utf8_lossy(&stream[..end])
            );
            let cut = served(&stream[..end - 1]);
            prop_assert!(
                cut.whole < number,
                "{number} already in {:?}", String::from_utf8_lossy(&stream[..end - 1])
            );
        }
    }
}

#[test]
fn hyper_finds_what_is_there() {
    let stream = [GOOD[0], GOOD[3], GOOD[5], GOOD[0]].concat();
    assert_eq!(ends(stream.as_bytes()).len(), 4);
    let found = served(stream.as_bytes());
    assert_eq!((found.whole, found.stopped), (4, false));
}

fn cases() -> u32 {
    // Each asks hyper a dozen times.
    std::env::var("PROPTEST_CASES").map_or(2000, |cases| cases.parse().unwrap())
}

/// Behind which byte each request ends, up to the first fault.
fn ends(stream: &[u8]) -> Vec<usize> {
    let (mut decoder, mut buffer, mut ends) = (RequestDecoder::default(), BytesMut::new(), Vec::new());
    let mut is_open = false;
    for (at, byte) in stream.iter().enumerate() {
        buffer.extend_from_slice(&[*byte]);
        if !is_open {
            match decoder.read_head(&mut buffer) {
                Ok(Some(head)) if head.fault.is_none() => is_open = true,
                Ok(None) => {}
                Ok(Some(_)) | Err(_) => break,
            }
        }
        while is_open {
            match decoder.read_body(&mut buffer) {
                Ok(BodyPart::Piece(_)) => {}
                Ok(BodyPart::NeedsMore) => break,
                Ok(BodyPart::End) => {
                    ends.push(at + 1);
                    is_open = false;
                }
                Err(_) => return ends,
            }
        }
    }
    ends
}

/// Requests, parts of them and oddities, and a few bytes changed.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![4 => prop::sample::select(GOOD), 1 => prop::sample::select(PARTS)];
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 0..3);
    (prop::collection::vec(piece, 1..8), changes).prop_map(|(pieces, changes)| {
        let mut bytes = pieces.concat().into_bytes();
        for (at, byte, is_new) in changes {
            let at = at.index(bytes.len());
            if is_new { bytes.insert(at, byte) } else { bytes[at] = byte }
        }
        bytes
    })
}

fn served(bytes: &[u8]) -> Served {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        client.write_all(bytes).await.unwrap();
        client.shutdown().await.unwrap();
        let (whole, stopped) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
        let service = service_fn(|request: Request<Incoming>| {
            let (whole, stopped) = (Rc::clone(&whole), Rc::clone(&stopped));
            async move {
                let says_close = request.headers().get_all("connection").iter().next().is_some();
                stopped.set(stopped.get() || says_close || request.version() < Version::HTTP_11);
                match request.into_body().collect().await {
                    Ok(_) => whole.set(whole.get() + 1),
                    Err(_) => stopped.set(true),
                }
                Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
            }
        });
        let mut builder = http1::Builder::new();
        builder
            .half_close(true)
            .header_read_timeout(None)
            .max_headers(100)
            .max_header_size(32 * 1024)
            .max_buf_size(64 * 1024);
        let ended = builder.serve_connection(TokioIo::new(server), service).await;
        // An answer of its own, 400, is how it says that it refused.
        drop(client);
        Served { whole: whole.get(), stopped: stopped.get() || ended.is_err() }
    })
}

const GOOD: &[&str] = &[
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "\r\nGET /a?b HTTP/1.1\r\nHost: a\r\nCookie: transfer-encoding\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\na\r\n\r\n",
    "PUT / HTTP/1.1\r\ncontent-length:\t12 \r\nX: y\r\ncontent-length:12\r\n\r\nGET / HTTP/1",
    "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\na\r\nbc\r\n0a;x=\"y\"\r\n0123456789\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\ntransfer-encoding:CHUNKED\r\n\r\n000;\r\nX: y\r\nDate:\r\n\r\n",
    "POST / HTTP/1.1\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nContent-Lengthy: 5\r\nTransfer: x\r\n\r\n",
];

const PARTS: &[&str] = &[
    "GET / HTTP/1.1\r\n",
    "GET / HTTP/1.1\n",
    "POST / HTTP/1.0\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 05\r\n",
    "Content-Length: 5, 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Connection: close\r\n",
    "X: y\n",
    "\r\n",
    "\n",
    "\r",
    "0\r\n\r\n",
    "5 \r\nabcde\r\n",
    "5;\0\r\nabcde\r\n",
    "0\r\nX: y\nZ: z\r\n\r\n",
    "00000000000000005\r\n",
    "#",
    " ",
];
