//! Connects to one server, reconnects when the connection breaks, and answers callers meanwhile.
//!
//! Each server has a task of its own, which ends when the store is dropped. Before the first attempt has failed,
//! requests wait for it; later they fail at once while there is no connection. The handshake is left to
//! [`handshake`](super::handshake).

use tokio::sync::mpsc;
use tokio::time::sleep;

use super::connection::PendingRequest;
use super::handshake::handshake;
use super::servers::MemcachedServer;
use crate::backoff::reconnect_pause;
use crate::compare_and_swap::{Namespace, StoreError};

/// Serves requests until no caller is left.
pub(super) async fn reconnect_loop(
    server: MemcachedServer,
    namespace: Namespace,
    mut requests: mpsc::Receiver<PendingRequest>,
) {
    // The first requests come right after the store was opened.
    let mut opened = handshake(&server, &namespace).await;
    loop {
        let broke = match opened {
            Ok(connection) => connection.serve(&mut requests).await,
            Err(error) => Some(error),
        };
        let Some(error) = broke else { return };
        let error = named(&server, error);
        let again = async {
            sleep(reconnect_pause()).await;
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
    }
}

/// Adds the name of the server to an error.
fn named(server: &MemcachedServer, error: StoreError) -> StoreError {
    match error {
        StoreError::Unreachable(why) => StoreError::Unreachable(format!("{server}: {why}")),
        StoreError::Refused(why) => StoreError::Refused(format!("{server}: {why}")),
        StoreError::UnexpectedResponse(why) => StoreError::UnexpectedResponse(format!("{server}: {why}")),
        StoreError::WriteConflict => StoreError::WriteConflict,
    }
}
