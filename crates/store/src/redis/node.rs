//! One server, and the connection to it: made in the background, and made again when it breaks, at once if it has served. A
//! primary that Sentinels name may be another server each time.
//!
//! While there is no connection, a request fails at once with the reason. Only before the first attempt has ended does
//! a request wait; otherwise the first one of every process would fail. The protocol is left to
//! [`connection`](super::connection).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use super::address::{Host, Login};
use super::connection::{CONNECT_TIMEOUT, RedisConnection, RedisDriver};
use super::sentinel::Sentinels;
use crate::backoff::{RECONNECT_PAUSE, reconnect_pause};
use crate::compare_and_swap::StoreError;

/// Where a connection leads.
pub(super) enum Target {
    Host(Host),
    /// To the primary that they name.
    Primary(Sentinels),
}

/// One server.
pub(super) struct Node {
    state: watch::Receiver<NodeState>,
    task: AbortHandle,
}

#[derive(Clone)]
enum NodeState {
    /// The first attempt has not ended.
    New,
    Up(Arc<RedisConnection>),
    Down(StoreError),
}

impl Node {
    /// Starts to connect.
    pub(super) fn open(target: Target, login: Arc<Login>) -> Self {
        let (sender, state) = watch::channel(NodeState::New);
        let task = tokio::spawn(reconnect_loop(target, login, sender)).abort_handle();
        Self { state, task }
    }

    /// The connection, or why there is none.
    pub(super) async fn connection(&self) -> Result<Arc<RedisConnection>, StoreError> {
        if let NodeState::Up(connection) = &*self.state.borrow() {
            return Ok(Arc::clone(connection));
        }
        let mut state = self.state.clone();
        let state = state.wait_for(|state| !matches!(state, NodeState::New)).await;
        match state.map(|state| state.clone()) {
            Ok(NodeState::Up(connection)) => Ok(connection),
            Ok(NodeState::Down(why)) => Err(why.not_connected()),
            Ok(NodeState::New) | Err(_) => Err(StoreError::NotConnected("it was closed".to_owned())),
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Target {
    async fn connect(&self, login: &Login) -> Result<(RedisConnection, RedisDriver), StoreError> {
        match self {
            Self::Host(host) => RedisConnection::open(host, login).await,
            Self::Primary(sentinels) => RedisConnection::open(&sentinels.primary(login).await?, login).await,
        }
    }
}

async fn reconnect_loop(target: Target, login: Arc<Login>, state: watch::Sender<NodeState>) {
    let mut failures = 0;
    loop {
        failures += 1;
        let mut has_served = false;
        let why = match timeout(CONNECT_TIMEOUT, target.connect(&login)).await {
            Ok(Ok((connection, driver))) => {
                failures = 0;
                state.send_replace(NodeState::Up(Arc::new(connection)));
                let since = Instant::now();
                let why = driver.run().await;
                has_served = since.elapsed() >= RECONNECT_PAUSE;
                why
            }
            Ok(Err(why)) => why,
            Err(_) => StoreError::unreachable("connecting took too long"),
        };
        state.send_replace(NodeState::Down(why));
        if !has_served {
            sleep(pause_after(failures)).await;
        }
    }
}

/// The pause after this number of failed attempts in a row: 100 to 150 ms, later up to 300 ms.
pub(super) fn pause_after(failures: u32) -> Duration {
    reconnect_pause() * (1 << failures.min(1))
}
