//! The tunnel after `101 Switching Protocols`: copies bytes in both directions.
//!
//! It opens only if the client's request is an unambiguous upgrade (RFC 6455, 4.1: an HTTP/1.1 GET without a body). An
//! upstream that switches without a request, or to another protocol, is broken. `transaction::forward` settles the
//! attempt, and `downstream::http1` runs the tunnel when the head of the response has left.

use std::cell::Cell;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::header::UPGRADE;
use http::{HeaderName, HeaderValue, Method, Request, Response, Version};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};

use super::{ConnectionLease, UpstreamBody};
use crate::engine::AttemptPermits;
use crate::event::Failure;
use crate::net::stream::NetStream;
use crate::proxy::body::{IncomingBody, ResponseBody};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::error::Error;
use crate::proxy::headers;
use crate::proxy::headers::passed::PassedHeaders;

/// A client's request for another protocol: the requested one, or a list of them.
pub(in crate::proxy) struct UpgradeRequest(pub(in crate::proxy) HeaderValue);

impl UpgradeRequest {
    /// The upgrade that a request asks for, if it is eligible. Others are ignored, as RFC 9110, 7.8, allows.
    pub(in crate::proxy) fn of(request: &Request<IncomingBody>) -> Option<Self> {
        let is_plain = request.method() == Method::GET
            && request.version() == Version::HTTP_11
            && request.body().is_end_stream();
        if is_plain { headers::requested_upgrade(request.headers()).map(Self) } else { None }
    }

    /// Whether the upstream's response switches only to requested protocols.
    fn is_accepted_by(&self, response: &Response<UpstreamBody>) -> bool {
        let mut values = response.headers().get_all(UPGRADE).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return false };
        names(value).all(|chosen| names(&self.0).any(|name| name.eq_ignore_ascii_case(chosen)))
    }
}

fn names(protocols: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    protocols.as_bytes().split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

/// The upstream's side of a tunnel, with the slot of its connection and the attempt's permits until the tunnel ends.
struct Tunnel {
    lease: ConnectionLease,
    _permits: AttemptPermits,
}

impl Tunnel {
    /// Copies in both directions until the tunnel ends. `read` is what the client has sent already.
    async fn run(mut self, mut client: NetStream, read: Bytes) {
        let Some((upstream, begun)) = self.lease.switch_protocols() else { return };
        if client.write_all(&begun).await.is_ok() && upstream.write_all(&read).await.is_ok() {
            copy_both(client, upstream).await;
        }
    }
}

/// Returns the upstream's 101 without the hidden headers, whose body is the tunnel.
///
/// # Errors
/// [`Failure::Broken`] if the client did not request this protocol.
pub(in crate::proxy) fn open<'h>(
    response: Response<UpstreamBody>,
    upgrade: Option<UpgradeRequest>,
    connection: &DownstreamConnection,
    permits: AttemptPermits,
    hidden: impl Iterator<Item = &'h HeaderName>,
) -> Result<Response<ResponseBody>, Error> {
    let broken =
        || Error::Upstream(Failure::Broken("it switches to a protocol that nobody asked for".into()));
    let is_accepted = upgrade.is_some_and(|upgrade| upgrade.is_accepted_by(&response));
    let (mut head, mut body) = response.into_parts();
    let received = std::mem::take(&mut head.headers);
    let mut passed = PassedHeaders::new(received, body.take_head());
    if !is_accepted {
        body.close();
        return Err(broken());
    }
    let lease = body.into_lease().ok_or_else(broken)?;
    connection.state.tunnel_opens();
    headers::prepare_response(&mut passed, true);
    hidden.for_each(|name| passed.remove(name));
    let tunnel = Tunnel { lease, _permits: permits };
    let body = ResponseBody::tunnel(Box::new(|client, read| Box::pin(tunnel.run(client, read))));
    Ok(Response::from_parts(head, body.with_passed(passed)))
}

/// Copies until both directions have ended, one of them fails, or both are idle for an hour.
async fn copy_both(
    client: impl AsyncRead + AsyncWrite + Unpin,
    upstream: impl AsyncRead + AsyncWrite + Unpin,
) {
    let (from_client, to_client) = tokio::io::split(client);
    let (from_upstream, to_upstream) = tokio::io::split(upstream);
    let last_active = Cell::new(Instant::now());
    // An error ends the tunnel; both ends see it by the close.
    let _ = tokio::try_join!(
        copy_one(from_client, to_upstream, &last_active),
        copy_one(from_upstream, to_client, &last_active)
    );
}

async fn copy_one(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    last_active: &Cell<Instant>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = until_idle(from.read(&mut buffer), last_active).await??;
        if length == 0 {
            return to.shutdown().await;
        }
        until_idle(to.write_all(&buffer[..length]), last_active).await??;
    }
}

/// Waits for one step of a direction, for as long as either direction is active.
async fn until_idle<T>(step: impl Future<Output = T>, last_active: &Cell<Instant>) -> Result<T, Elapsed> {
    let mut step = pin!(step);
    loop {
        match timeout_at(last_active.get() + TUNNEL_IDLE_TIMEOUT, step.as_mut()).await {
            Ok(done) => {
                last_active.set(Instant::now());
                return Ok(done);
            }
            Err(idle) if last_active.get() + TUNNEL_IDLE_TIMEOUT <= Instant::now() => return Err(idle),
            Err(_) => {}
        }
    }
}

const BUFFER: usize = 16 * 1024;
const TUNNEL_IDLE_TIMEOUT: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use tokio::io::duplex;
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_that_one_side_uses_stays_and_an_idle_one_ends_after_an_hour() {
        let (client, mut browser) = duplex(64);
        let (upstream, mut application) = duplex(64);
        let tunnel = async {
            copy_both(client, upstream).await;
            Instant::now()
        };
        let pushes = async {
            for byte in 0..6 {
                sleep(Duration::from_secs(1800)).await;
                application.write_u8(byte).await.unwrap();
                assert_eq!(browser.read_u8().await.unwrap(), byte);
            }
            Instant::now()
        };
        let (ended, last) = tokio::join!(tunnel, pushes);
        assert_eq!(ended.duration_since(last).as_secs(), 3600);
    }
}
