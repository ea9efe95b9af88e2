//! Connections to upstreams that belong to one client.
//!
//! NTLM and Negotiate authenticate the connection and not the request (RFC 4559, section 6): the next request over it
//! counts as one of the user who signed in. So a connection on which one of them was spoken goes to no other client.
//! Over HTTP/1 it stays with its client's connection until either ends, or others need its slot. Over HTTP/2, whose
//! requests are apart from each other, it ends with its request.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName};

use super::UpstreamConnection;

/// The connections that belong to the connection of a client: one at most for each upstream.
#[derive(Default)]
pub struct BoundConnections(RefCell<Vec<(PoolKey, Box<UpstreamConnection>)>>);

/// Tells one pool from every other.
#[derive(Default, Clone)]
pub(super) struct PoolKey(Rc<()>);

impl fmt::Debug for BoundConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoundConnections({})", self.0.borrow().len())
    }
}

impl BoundConnections {
    /// Whether there is one to the upstream of this pool.
    pub(super) fn has(&self, pool: &PoolKey) -> bool {
        self.0.borrow().iter().any(|(known, _)| known.is(pool))
    }

    /// Takes the one to the upstream of this pool.
    pub(super) fn take(&self, pool: &PoolKey) -> Option<Box<UpstreamConnection>> {
        let mut connections = self.0.borrow_mut();
        let at = connections.iter().position(|(known, _)| known.is(pool))?;
        Some(connections.swap_remove(at).1)
    }

    /// Keeps one, in place of another one to the same upstream.
    pub(super) fn put(&self, pool: PoolKey, connection: Box<UpstreamConnection>) {
        drop(self.take(&pool));
        self.0.borrow_mut().push((pool, connection));
    }
}

impl PoolKey {
    fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

/// Whether a request authenticates its connection.
pub(in crate::proxy) fn authenticates(request: &HeaderMap) -> bool {
    names_a_scheme(request, &AUTHORIZATION)
}

/// Whether a response goes on with an authentication of its connection: it names a scheme, and answers a token or has one.
/// A scheme that is only offered binds nobody yet.
pub(super) fn is_authenticated(response: &HeaderMap, is_answer_to_token: bool) -> bool {
    let mut schemes = schemes(response, &WWW_AUTHENTICATE);
    schemes.any(|(scheme, has_token)| is_scheme(scheme) && (has_token || is_answer_to_token))
}

fn names_a_scheme(headers: &HeaderMap, name: &HeaderName) -> bool {
    schemes(headers, name).any(|(scheme, _)| is_scheme(scheme))
}

/// Each scheme, and whether anything follows it. One line may hold several (RFC 9110, 11.6.1).
fn schemes<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = (&'h [u8], bool)> {
    let lines = headers.get_all(name).iter().map(|value| value.as_bytes());
    lines.flat_map(|line| line.split(|byte| *byte == b',')).map(|entry| {
        let entry = entry.trim_ascii();
        let end = entry.iter().position(u8::is_ascii_whitespace).unwrap_or(entry.len());
        (&entry[..end], end < entry.len())
    })
}

fn is_scheme(name: &[u8]) -> bool {
    SCHEMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

const SCHEMES: [&[u8]; 3] = [b"ntlm", b"negotiate", b"kerberos"];

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn binds(lines: &[&'static str], is_answer_to_token: bool) -> bool {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_static(line));
        }
        is_authenticated(&headers, is_answer_to_token)
    }

    #[test]
    fn schemes_of_connections_are_told_from_those_of_requests() {
        assert!(binds(&["NTLM TlRM"], false) && binds(&["negotiate oYG2MIGz"], false));
        assert!(
            binds(&["Basic realm=\"a\"", "NTLM"], true) && binds(&["Basic realm=\"a\", Negotiate"], true)
        );
        assert!(!binds(&["NTLM", "Negotiate"], false), "what is only offered");
        for line in ["Basic realm=\"NTLM\"", "Digest ntlm=1", "NTLMv9"] {
            assert!(!binds(&[line], true), "{line}");
        }
        assert!(!binds(&[], true));
    }
}
