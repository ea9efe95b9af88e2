//! What the framing of a response depends on of its request (RFC 9112).

use http::header::CONNECTION;
use http::{Method, Request, Version};

/// What a response depends on of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseTerms {
    /// Whether the response has no body.
    pub is_head: bool,
    /// Whether the client speaks HTTP/1.0, which knows no chunks.
    pub is_old: bool,
    /// Whether the client keeps the connection open after the response.
    pub keeps_alive: bool,
}

impl ResponseTerms {
    /// Those of this request.
    #[must_use]
    pub fn of<B>(request: &Request<B>) -> Self {
        let says = |word: &str| {
            let lines = request.headers().get_all(CONNECTION).iter();
            let mut options = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
            options.any(|option| option.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
        };
        let is_old = request.version() == Version::HTTP_10;
        let keeps_alive = if request.headers().contains_key(CONNECTION) {
            !says("close") && (!is_old || says("keep-alive"))
        } else {
            !is_old
        };
        Self { is_head: request.method() == Method::HEAD, is_old, keeps_alive }
    }
}
