//! The TLS handshake with a client, in the task of its connection.
//!
//! It has `proxy.header_timeout`, at most ten seconds; the head of the first request has its own time after it. A drain
//! does not wait for it, because no request can be lost yet. `net::tls` does the cryptography.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::net::stream::NetStream;
use crate::net::tls::{Acceptor, accept, fingerprint_of};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::downstream::budget::BudgetHandle;
use crate::proxy::settings::ProxySettings;

/// The encrypted stream and the fingerprint of its client, if it is asked for; `None` if the handshake fails or times out, or the connection drains.
pub(super) async fn handshake(
    stream: TcpStream,
    connection: &DownstreamConnection,
    acceptor: &Acceptor,
    settings: &ProxySettings,
    budget: BudgetHandle,
) -> Option<(NetStream, Option<String>)> {
    let time_limit = ProxySettings::handshake_time(Some(settings.header_timeout)).to_std();
    let mut handshake = pin!(timeout(time_limit, async {
        budget.ready_for_handshake().await;
        let fingerprint = fingerprint_of(&stream, acceptor).await;
        accept(stream, acceptor).await.map(|stream| (stream, fingerprint))
    }));
    let stream = poll_fn(|cx| {
        connection.state.remember_waker(cx);
        if connection.should_evict(cx) {
            connection.state.evict();
        }
        if connection.state.is_draining() {
            return Poll::Ready(None);
        }
        handshake.as_mut().poll(cx).map(|accepted| accepted.ok()?.ok())
    });
    let stream = stream.await;
    connection.state.head_begins();
    stream
}
