//! Discards the body of a refused request, and decides whether its connection stays open.
//!
//! A short body is read and discarded, so that the connection can stay open. A long one stays unread, and the connection closes after
//! the response. No byte of a body is ever read as a request.

use std::time::Duration;

use http::header::EXPECT;
use http::{Request, Version};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::proxy::body::{ClientBody, IncomingBody};
use crate::proxy::connection::DownstreamConnection;

/// Discards what is left of a body that is not needed. Returns whether the connection may be kept.
pub(super) fn may_be_kept(request: Request<IncomingBody>, connection: &DownstreamConnection) -> bool {
    let (head, body) = request.into_parts();
    match body {
        IncomingBody::Streaming(body) => discard(Request::from_parts(head, body), connection),
        IncomingBody::Buffered(_) => true,
        // A body beyond the buffer limit is longer than is read here.
        IncomingBody::Prefixed(..) => false,
    }
}

fn discard(request: Request<ClientBody>, connection: &DownstreamConnection) -> bool {
    if request.body().is_end_stream() {
        return true;
    }
    // If the connection has to close, the client must be able to read the refusal first.
    connection.state.linger();
    if request.body().has_arrived() {
        return true;
    }
    let is_long = request.body().size_hint().lower() > MAX_DISCARDED;
    // A client that waits for `100 Continue` has sent no body yet, and gets the refusal instead. In HTTP/2 the stream
    // would be reset without an error, which some clients take for one; and few of them wait.
    let waits = request.headers().contains_key(EXPECT) && request.version() != Version::HTTP_2;
    if is_long || waits {
        return false;
    }
    // An HTTP/1 connection reads it behind the response.
    if let ClientBody::Http2(body) = request.into_body() {
        tokio::task::spawn_local(tokio::time::timeout(DISCARD_TIMEOUT, discard_in_background(body)));
    }
    true
}

async fn discard_in_background(mut body: Incoming) {
    let mut left = MAX_DISCARDED;
    while let Some(Ok(frame)) = body.frame().await {
        let length = frame.data_ref().map_or(0, bytes::Bytes::len) as u64;
        left = left.saturating_sub(length);
        if left == 0 {
            break;
        }
    }
}

pub(super) const MAX_DISCARDED: u64 = 64 * 1024;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);
