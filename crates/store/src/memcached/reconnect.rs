//! Connects to one server, reconnects when the connection breaks, and answers callers meanwhile.
//!
//! Each server has its own task, which ends when the store is dropped. Before the first attempt has failed,
//! requests wait for it; later they fail at once while there is no connection. The handshake is left to
//! [`handshake`](super::handshake).

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::connection::PendingRequest;
use super::handshake::handshake;
use super::servers::MemcachedServer;
use crate::compare_and_swap::{Namespace, RecordVersion, StoreError};

/// The shortest time between two attempts to connect.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// Up to this many milliseconds are added, so that gates that lost a server together do not come back together.
const JITTER: u64 = 50;

/// Serves requests until no caller is left.
pub(super) async fn reconnect_loop(
    server: MemcachedServer,
    namespace: Namespace,
    mut requests: mpsc::Receiver<PendingRequest>,
) {
    let mut attempt = Instant::now();
    // The first requests come right after the store was opened.
    let mut opened = handshake(&server, &namespace).await;
    loop {
        let has_opened = opened.is_ok();
        let broke = match opened {
            Ok(connection) => connection.serve(&mut requests).await,
            Err(error) => Some(error),
        };
        let Some(error) = broke else { return };
        let error = named(&server, error).not_connected();
        let (now, due) = (Instant::now(), attempt + RECONNECT_PAUSE);
        // The first attempt after a connection that has served is made at once.
        let next = if has_opened && now >= due { now } else { now.max(due) + jitter() };
        let again = async {
            sleep_until(next).await;
            handshake(&server, &namespace).await
        };
        tokio::pin!(again);
        opened = loop {
            tokio::select! {
                opened = &mut again => break opened,
                pending = requests.recv() => match pending {
                    // The receiver is gone if the caller has given up.
                    Some(pending) => drop(pending.reply.send(Err(error.clone()))),
                    None => return,
                },
            }
        };
        attempt = next;
    }
}

/// Adds the name of the server to an error.
fn named(server: &MemcachedServer, error: StoreError) -> StoreError {
    match error {
        StoreError::NotConnected(why) => StoreError::NotConnected(format!("{server}: {why}")),
        StoreError::Unreachable(why) => StoreError::Unreachable(format!("{server}: {why}")),
        StoreError::Refused(why) => StoreError::Refused(format!("{server}: {why}")),
        StoreError::ReadOnly(why) => StoreError::ReadOnly(format!("{server}: {why}")),
        StoreError::Throttled(why) => StoreError::Throttled(format!("{server}: {why}")),
        StoreError::UnexpectedResponse(why) => StoreError::UnexpectedResponse(format!("{server}: {why}")),
        StoreError::WriteConflict => StoreError::WriteConflict,
    }
}

fn jitter() -> Duration {
    Duration::from_millis(RecordVersion::random().0 % JITTER)
}
