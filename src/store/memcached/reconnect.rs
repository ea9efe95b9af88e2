//! Connects to one server, reconnects when the connection breaks, and answers callers meanwhile.
//!
//! A task of its own for each server; it ends when the store is dropped. The surprising thing: before the first attempt
//! has failed, questions wait for it; later they are told at once that the server is away.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::connection::PendingRequest;
use super::handshake::handshake;
use super::servers::MemcachedServer;
use crate::store::compare_and_swap::{Namespace, RecordVersion, StoreError};

/// Two attempts to connect are never closer to each other.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// And up to this much further apart, so that gates that lost a server together do not come back together.
const JITTER: u64 = 50;

/// Keeps the connection until nobody is left who could ask.
pub(super) async fn reconnect_loop(
    server: MemcachedServer,
    names: Namespace,
    mut questions: mpsc::Receiver<PendingRequest>,
) {
    let mut attempt = Instant::now();
    // The first questions come right after the store was opened.
    let mut met = handshake(&server, &names).await;
    loop {
        let broke = match met {
            Ok(connection) => connection.serve(&mut questions).await,
            Err(error) => Some(error),
        };
        let Some(error) = broke else { return };
        let error = named(&server, error);
        let next = Instant::now().max(attempt + RECONNECT_PAUSE) + jitter();
        let again = async {
            sleep_until(next).await;
            handshake(&server, &names).await
        };
        tokio::pin!(again);
        met = loop {
            tokio::select! {
                met = &mut again => break met,
                asked = questions.recv() => match asked {
                    // Whoever gave up does not listen.
                    Some(asked) => drop(asked.reply.send(Err(error.clone()))),
                    None => return,
                },
            }
        };
        attempt = next;
    }
}

/// Which of several it was.
fn named(server: &MemcachedServer, error: StoreError) -> StoreError {
    match error {
        StoreError::Unreachable(why) => StoreError::Unreachable(format!("{server}: {why}")),
        StoreError::Refused(why) => StoreError::Refused(format!("{server}: {why}")),
        StoreError::UnexpectedResponse(why) => StoreError::UnexpectedResponse(format!("{server}: {why}")),
        StoreError::WriteConflict => StoreError::WriteConflict,
    }
}

fn jitter() -> Duration {
    Duration::from_millis(RecordVersion::random().0 % JITTER)
}
