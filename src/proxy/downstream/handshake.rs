//! The TLS handshake with a client, in the task of its connection.
//!
//! It has `proxy.header_timeout`, at most ten seconds; the head of the first request has its own time after it. The
//! surprising thing: a gate that stops does not wait for it, because no request can be lost yet.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::net::stream::NetStream;
use crate::net::tls::{Acceptor, accept};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::downstream::budget::BudgetHandle;
use crate::proxy::settings::ProxySettings;
use crate::time::Span;

/// The encrypted stream; `None` if the client made a mistake, took too long or has gone, or the gate stops.
pub(super) async fn handshake(
    stream: TcpStream,
    connection: &DownstreamConnection,
    doorkeeper: &Acceptor,
    settings: &ProxySettings,
    ticket: BudgetHandle,
) -> Option<NetStream> {
    let within = settings.header_timeout.min(MAX_HANDSHAKE_TIME).to_std();
    let mut shaken = pin!(timeout(within, async {
        ticket.ready_for_handshake().await;
        accept(stream, doorkeeper).await
    }));
    let opened = poll_fn(|cx| {
        connection.state.remember_waker(cx);
        if connection.should_evict(cx) {
            connection.state.evict();
        }
        if connection.state.is_draining() {
            return Poll::Ready(None);
        }
        shaken.as_mut().poll(cx).map(|shaken| shaken.ok()?.ok())
    });
    let opened = opened.await;
    connection.state.head_begins();
    opened
}

const MAX_HANDSHAKE_TIME: Span = Span::from_secs(10);
