//! One server, and the connection to it: made in the background, and made again when it breaks.
//!
//! Whoever asks while there is none is told why at once. The surprising thing: only before the first attempt has ended
//! does a question wait, or the first of every process would fail.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::address::{Host, Login};
use super::connection::{CONNECT_TIMEOUT, RedisConnection};
use super::reply::unreachable;
use crate::store::compare_and_swap::{RecordVersion, StoreError};

/// One server.
pub(super) struct Node {
    state: watch::Receiver<NodeState>,
    task: AbortHandle,
}

#[derive(Clone)]
enum NodeState {
    /// The first attempt has not ended.
    New,
    Up(RedisConnection),
    Down(StoreError),
}

impl Node {
    /// Begins to connect.
    pub(super) fn open(host: Host, login: Arc<Login>) -> Self {
        let (sender, state) = watch::channel(NodeState::New);
        let keeper = tokio::spawn(reconnect_loop(host, login, sender)).abort_handle();
        Self { state, task: keeper }
    }

    /// The connection, or why there is none.
    pub(super) async fn connection(&self) -> Result<RedisConnection, StoreError> {
        let mut state = self.state.clone();
        let state = state.wait_for(|state| !matches!(state, NodeState::New)).await;
        match state.map(|state| state.clone()) {
            Ok(NodeState::Up(line)) => Ok(line),
            Ok(NodeState::Down(why)) => Err(why),
            Ok(NodeState::New) | Err(_) => Err(unreachable("it was closed")),
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn reconnect_loop(host: Host, login: Arc<Login>, state: watch::Sender<NodeState>) {
    let mut failures = 0;
    loop {
        failures += 1;
        let why = match timeout(CONNECT_TIMEOUT, RedisConnection::open(&host, &login)).await {
            Ok(Ok((line, driver))) => {
                failures = 0;
                state.send_replace(NodeState::Up(line));
                driver.run().await
            }
            Ok(Err(why)) => why,
            Err(_) => unreachable("connecting took too long"),
        };
        state.send_replace(NodeState::Down(why));
        sleep(reconnect_pause(failures)).await;
    }
}

/// How long to wait after so many attempts failed in a row: 100 to 150 ms, later up to 600 ms, by chance, so that the
/// gates that lost a server together do not come back together.
pub(super) fn reconnect_pause(failures: u32) -> Duration {
    let least = 100 << failures.min(2);
    Duration::from_millis(least + RecordVersion::random().0 % (least / 2))
}
