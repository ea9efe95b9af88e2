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
use super::line::Line;
use super::reply::unreachable;
use crate::store::compare_and_swap::{StoreError, Version};

/// How long an attempt to connect and to log in may take.
pub(super) const CONNECTING: Duration = Duration::from_secs(1);

/// How long a server may say nothing while it is asked.
pub(super) const SILENCE: Duration = Duration::from_secs(1);

/// One server.
pub(super) struct Node {
    state: watch::Receiver<State>,
    keeper: AbortHandle,
}

#[derive(Clone)]
enum State {
    /// The first attempt has not ended.
    New,
    Up(Line),
    Down(StoreError),
}

impl Node {
    /// Begins to connect.
    pub(super) fn open(host: Host, login: Arc<Login>) -> Self {
        let (sender, state) = watch::channel(State::New);
        let keeper = tokio::spawn(keep(host, login, sender)).abort_handle();
        Self { state, keeper }
    }

    /// The connection, or why there is none.
    pub(super) async fn line(&self) -> Result<Line, StoreError> {
        let mut state = self.state.clone();
        let state = state.wait_for(|state| !matches!(state, State::New)).await;
        match state.map(|state| state.clone()) {
            Ok(State::Up(line)) => Ok(line),
            Ok(State::Down(why)) => Err(why),
            Ok(State::New) | Err(_) => Err(unreachable("it was closed")),
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

async fn keep(host: Host, login: Arc<Login>, state: watch::Sender<State>) {
    let mut failures = 0;
    loop {
        failures += 1;
        let why = match timeout(CONNECTING, Line::open(&host, &login)).await {
            Ok(Ok((line, driver))) => {
                failures = 0;
                state.send_replace(State::Up(line));
                driver.run().await
            }
            Ok(Err(why)) => why,
            Err(_) => unreachable("connecting took too long"),
        };
        state.send_replace(State::Down(why));
        sleep(pause(failures)).await;
    }
}

/// How long to wait after so many attempts failed in a row: 100 to 150 ms, later up to 600 ms, by chance, so that the
/// gates that lost a server together do not come back together.
pub(super) fn pause(failures: u32) -> Duration {
    let least = 100 << failures.min(2);
    Duration::from_millis(least + Version::random().0 % (least / 2))
}
