//! A request on its way, until the head of its response is there.

use std::task::{Context, Poll, ready};

use http::{Method, StatusCode};

use super::response_head::{self, ResponseHead};
use super::{ResponseError, Upload};
use crate::proxy::buffered_socket::BufferedSocket;
use crate::proxy::upstream::UpstreamRequest;

/// A request that is being sent, and the head of its response.
pub(in crate::proxy::upstream) struct PendingResponse {
    upload: Upload,
    method: Method,
    /// Bytes of the buffer that hold no end of a head.
    searched: usize,
    /// Bytes of interim responses so far.
    interim: usize,
}

impl PendingResponse {
    pub(in crate::proxy::upstream) fn new(request: UpstreamRequest) -> Self {
        let method = request.method.clone();
        Self { upload: Upload::new(request), method, searched: 0, interim: 0 }
    }

    /// Sends the request, and reads until the head of the final response is complete, or `101 Switching Protocols`.
    /// `pass_on` gets the interim responses before it.
    ///
    /// # Errors
    /// Why there is no response.
    pub(in crate::proxy::upstream) fn poll_head(
        &mut self,
        socket: &mut BufferedSocket,
        pass_on: impl Fn(ResponseHead),
        cx: &mut Context<'_>,
    ) -> Poll<Result<ResponseHead, ResponseError>> {
        if let Poll::Ready(Err(_)) = self.upload.poll_send(&mut socket.stream, cx) {
            return Poll::Ready(Err(ResponseError::Upload));
        }
        loop {
            let before = socket.buffer.len();
            let head = match before {
                0 => None,
                _ => {
                    let taken = response_head::take(&mut socket.buffer, &mut self.searched, &self.method);
                    // A malformed head is an answer, too, though it has left the buffer.
                    self.interim += if taken.is_err() { before } else { 0 };
                    taken?
                }
            };
            match head {
                Some(head) if is_final(head.response.status()) => return Poll::Ready(Ok(head)),
                Some(head) => {
                    self.interim += before - socket.buffer.len();
                    pass_on(head);
                }
                None if ready!(socket.poll_fill(cx))? == 0 => {
                    return Poll::Ready(Err(ResponseError::Incomplete));
                }
                None => {}
            }
            if self.interim > MAX_INTERIM {
                return Poll::Ready(Err(ResponseError::malformed("it has too many interim responses")));
            }
        }
    }

    /// Whether nothing of a response has come.
    pub(in crate::proxy::upstream) fn is_unanswered(&self, socket: &BufferedSocket) -> bool {
        self.interim == 0 && socket.buffer.is_empty()
    }

    /// Sends the request again, over another connection. It has no body.
    pub(in crate::proxy::upstream) fn rewind(&mut self) {
        self.upload.rewind();
        self.searched = 0;
    }

    /// What is left to send; `None` if the upstream took the whole request.
    pub(in crate::proxy::upstream) fn into_upload(self) -> Option<Box<Upload>> {
        (!self.upload.is_complete()).then(|| Box::new(self.upload))
    }
}

fn is_final(status: StatusCode) -> bool {
    !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS
}

/// Bytes of interim responses (`103 Early Hints`) before the final one.
const MAX_INTERIM: usize = 192 * 1024;
