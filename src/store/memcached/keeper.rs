//! Keeps one connection to one server: makes it, makes it again when it breaks, and tells whoever asks meanwhile.
//!
//! A task of its own for each server; it ends when the store is dropped. The surprising thing: before the first attempt
//! has failed, questions wait for it; later they are told at once that the server is away.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::connection::Asked;
use super::meeting::meet;
use super::servers::Server;
use crate::store::compare_and_swap::{Namespace, StoreError, Version};

/// Two attempts to connect are never closer to each other.
const PAUSE: Duration = Duration::from_millis(100);

/// And up to this much further apart, so that gates that lost a server together do not come back together.
const JITTER: u64 = 50;

/// Keeps the connection until nobody is left who could ask.
pub(super) async fn keep(server: Server, names: Namespace, mut questions: mpsc::Receiver<Asked>) {
    let mut attempt = Instant::now();
    // The first questions come right after the store was opened.
    let mut met = meet(&server, &names).await;
    loop {
        let broke = match met {
            Ok(connection) => connection.serve(&mut questions).await,
            Err(error) => Some(error),
        };
        let Some(error) = broke else { return };
        let error = named(&server, error);
        let next = Instant::now().max(attempt + PAUSE) + jitter();
        let again = async {
            sleep_until(next).await;
            meet(&server, &names).await
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
fn named(server: &Server, error: StoreError) -> StoreError {
    match error {
        StoreError::Unreachable(why) => StoreError::Unreachable(format!("{server}: {why}")),
        StoreError::Refused(why) => StoreError::Refused(format!("{server}: {why}")),
        StoreError::Garbled(why) => StoreError::Garbled(format!("{server}: {why}")),
        StoreError::Contended => StoreError::Contended,
    }
}

fn jitter() -> Duration {
    Duration::from_millis(Version::random().0 % JITTER)
}
