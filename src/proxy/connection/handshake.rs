//! The handshake of a client that speaks TLS, in the task of its connection.
//!
//! It has `proxy.header_timeout`, at most ten seconds; the head of the first request has its own time after it. The
//! surprising thing: a gate that stops does not wait for it, because no request can be lost yet.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Connection;
use crate::net::stream::Stream;
use crate::net::tls::{Doorkeeper, accept};
use crate::proxy::settings::Settings;
use crate::proxy::turnstile::Ticket;
use crate::time::Span;

/// The encrypted stream; `None` if the client made a mistake, took too long or has gone, or the gate stops.
pub(in crate::proxy) async fn shake_hands(
    stream: TcpStream,
    connection: &Connection,
    doorkeeper: &Doorkeeper,
    settings: &Settings,
    ticket: Ticket,
) -> Option<Stream> {
    let within = settings.header_timeout.min(LONGEST).to_std();
    let mut shaken = pin!(timeout(within, async {
        ticket.shake_hands().await;
        accept(stream, doorkeeper).await
    }));
    let opened = poll_fn(|cx| {
        connection.phases.remember_waker(cx);
        if connection.is_to_go(cx) {
            connection.phases.give_way();
        }
        if connection.phases.is_draining() {
            return Poll::Ready(None);
        }
        shaken.as_mut().poll(cx).map(|shaken| shaken.ok()?.ok())
    });
    let opened = opened.await;
    connection.phases.head_begins();
    opened
}

const LONGEST: Span = Span::from_secs(10);
