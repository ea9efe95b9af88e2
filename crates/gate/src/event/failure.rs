//! How upstreams fail.

/// How an upstream failed a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The connection failed.
    Connect,
    /// The connection was not established in time.
    ConnectTimeout,
    /// The upstream's certificate is not valid.
    Certificate,
    /// The TLS handshake failed.
    Tls,
    /// The upstream did not respond in time.
    Timeout,
    /// The response is not HTTP, ambiguous, or broke off.
    Broken(BrokenAnswer),
    /// `upstream_max` connections are busy.
    Busy,
    /// This machine has no descriptor, port or memory for a connection: the upstream is not to blame.
    Exhausted,
}

/// Why a response is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BrokenAnswer {
    /// In words, as in "its length is ambiguous".
    pub why: &'static str,
    /// The line of its head, from 1; `None` if it is not one line.
    pub line: Option<u16>,
}

impl From<&'static str> for BrokenAnswer {
    fn from(why: &'static str) -> Self {
        Self { why, line: None }
    }
}
