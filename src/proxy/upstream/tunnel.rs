//! The tunnel after `101 Switching Protocols`: copies bytes in both directions.
//!
//! It opens only if the client's request is an unambiguous upgrade (RFC 6455, 4.1: an HTTP/1.1 GET without a body). An
//! upstream that switches without a request, or to another protocol, is broken. `transaction::forward` settles the
//! attempt.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::UPGRADE;
use http::{HeaderValue, Method, Request, Response, Version};
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::ConnectionLease;
use crate::engine::ConcurrencyPermits;
use crate::event::Failure;
use crate::proxy::body::{IncomingBody, ResponseBody};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::error::Error;
use crate::proxy::headers;

/// A client's request for another protocol.
pub(in crate::proxy) struct UpgradeRequest {
    /// The requested protocol, or a list of them.
    pub(in crate::proxy) protocol: HeaderValue,
    client: OnUpgrade,
}

impl UpgradeRequest {
    /// The upgrade that a request asks for, if it is eligible. Others are ignored, as RFC 9110, 7.8, allows.
    pub(in crate::proxy) fn of(request: &mut Request<IncomingBody>) -> Option<Self> {
        let protocol = headers::requested_upgrade(request.headers())?;
        let is_plain = request.method() == Method::GET
            && request.version() == Version::HTTP_11
            && request.body().is_end_stream();
        is_plain.then(|| Self { protocol, client: hyper::upgrade::on(request) })
    }

    /// Whether the upstream's response switches only to requested protocols.
    fn is_accepted_by(&self, response: &Response<Incoming>) -> bool {
        let mut values = response.headers().get_all(UPGRADE).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return false };
        names(value).all(|chosen| names(&self.protocol).any(|name| name.eq_ignore_ascii_case(chosen)))
    }
}

fn names(protocols: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    protocols.as_bytes().split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

/// Returns the upstream's 101 and joins the two connections.
///
/// # Errors
/// [`Failure::Broken`] if the client did not request this protocol.
pub(in crate::proxy) fn open(
    mut response: Response<Incoming>,
    lease: ConnectionLease,
    upgrade: Option<UpgradeRequest>,
    connection: &Arc<DownstreamConnection>,
    permits: ConcurrencyPermits,
) -> Result<Response<ResponseBody>, Error> {
    let Some(UpgradeRequest { client, .. }) = upgrade.filter(|upgrade| upgrade.is_accepted_by(&response))
    else {
        lease.close();
        return Err(Error::Upstream(Failure::Broken));
    };
    connection.state.tunnel_opens();
    let upstream = hyper::upgrade::on(&mut response);
    headers::prepare_response(response.headers_mut(), true);
    let connection = Arc::clone(connection);
    tokio::task::spawn_local(async move {
        if let (Ok(client), Ok(upstream)) = (client.await, upstream.await) {
            copy_both(client, upstream).await;
        }
        // The tunnel holds the slots of both connections and the attempt's permits until it ends.
        drop((lease, connection, permits));
    });
    Ok(response.map(|_| ResponseBody::generated(Bytes::new())))
}

/// Copies until both directions have ended, one of them fails, or one is idle for an hour.
async fn copy_both(client: Upgraded, upstream: Upgraded) {
    let (from_client, to_client) = tokio::io::split(TokioIo::new(client));
    let (from_upstream, to_upstream) = tokio::io::split(TokioIo::new(upstream));
    // An error ends the tunnel; both ends see it by the close.
    let _ = tokio::try_join!(copy_one(from_client, to_upstream), copy_one(from_upstream, to_client));
}

async fn copy_one(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> std::io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = tokio::time::timeout(TUNNEL_IDLE_TIMEOUT, from.read(&mut buffer)).await??;
        if length == 0 {
            return to.shutdown().await;
        }
        tokio::time::timeout(TUNNEL_IDLE_TIMEOUT, to.write_all(&buffer[..length])).await??;
    }
}

const BUFFER: usize = 16 * 1024;
const TUNNEL_IDLE_TIMEOUT: Duration = Duration::from_secs(3600);
