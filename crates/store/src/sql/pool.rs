//! The connection pool of one database: filled on demand, bounded, one connect attempt at a time.
//!
//! No request is sent twice. While nothing is connected, a request waits only for an attempt in progress, and fails with
//! it; after a failed attempt, requests fail at once until the next one may start. The SQL is left to the connections.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::pooled_connection::{PooledSqlConnection, SqlConnection};
use crate::backoff::{RECONNECT_PAUSE, reconnect_pause};
use crate::compare_and_swap::StoreError;

/// Makes connections. Names are looked up each time, so a database that has moved is found.
pub(crate) trait SqlConnector: Send + Sync + 'static {
    /// The kind of connection.
    type Connection: SqlConnection;

    /// Makes one attempt.
    fn connect(&self) -> SqlConnecting<'_, Self::Connection>;
}

/// An attempt to connect.
pub(crate) type SqlConnecting<'a, L> = Pin<Box<dyn Future<Output = Result<L, StoreError>> + Send + 'a>>;

/// The connections to one database.
pub(crate) struct SqlPool<D: SqlConnector> {
    inner: Arc<SqlPoolInner<D>>,
    runtime: Handle,
}

struct SqlPoolInner<D: SqlConnector> {
    connector: D,
    state: Mutex<SqlPoolState<D::Connection>>,
    changed: Notify,
}

struct SqlPoolState<L> {
    connections: Vec<Arc<PooledSqlConnection<L>>>,
    is_connecting: bool,
    /// When the next attempt may start.
    next: Option<Instant>,
    /// Since the start.
    failed_attempts: u64,
    /// The error of the last attempt, or of the last connection.
    last_error: Option<StoreError>,
}

impl<D: SqlConnector> SqlPool<D> {
    /// An empty pool.
    ///
    /// # Errors
    /// If there is no runtime to run in.
    pub(crate) fn new(connector: D) -> Result<Self, StoreError> {
        let runtime = Handle::try_current().map_err(|error| StoreError::Refused(error.to_string()))?;
        let state = SqlPoolState {
            connections: Vec::new(),
            is_connecting: false,
            next: None,
            failed_attempts: 0,
            last_error: None,
        };
        let inner = SqlPoolInner { connector, state: Mutex::new(state), changed: Notify::new() };
        Ok(Self { inner: Arc::new(inner), runtime })
    }

    /// Sends a request on the connection with the fewest requests in flight. A request that was sent runs to its end;
    /// one whose caller is gone before is not sent.
    pub(crate) async fn call<T, A>(
        &self,
        request: impl FnOnce(Arc<D::Connection>) -> A + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        A: Future<Output = Result<T, StoreError>> + Send,
    {
        let slot = self.acquire().await?;
        self.run_to_end(async move {
            let answer = slot.connection.wait(request(Arc::clone(&slot.connection.connection))).await;
            if let Err(why) = &answer
                && ends_connection(why)
            {
                slot.inner.discard(&slot.connection, why);
            }
            answer
        })
        .await
    }

    /// Sends a request on its own connection, so that a long one delays no other.
    pub(crate) async fn call_alone<T, A>(
        &self,
        request: impl FnOnce(Arc<D::Connection>) -> A + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        A: Future<Output = Result<T, StoreError>> + Send,
    {
        let inner = Arc::clone(&self.inner);
        self.run_to_end(async move {
            inner.wait_to_connect().await;
            let connection = Arc::new(in_time(CONNECT_TIMEOUT, inner.connector.connect()).await?);
            in_time(ALONE_TIMEOUT, request(connection)).await
        })
        .await
    }

    /// Runs a request to its end, even if its caller goes away meanwhile.
    async fn run_to_end<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let dropped = |_| StoreError::unreachable("the request was dropped");
        self.runtime.spawn(request).await.map_err(dropped)?
    }

    /// Waits for a slot on a connection.
    async fn acquire(&self) -> Result<SqlSlot<D>, StoreError> {
        let end = Instant::now() + ACQUIRE_TIMEOUT;
        let failed_before = self.inner.lock().failed_attempts;
        loop {
            // Subscribes before it checks, so that no change is missed.
            let changed = self.inner.changed.notified();
            if let Some(why) = self.inner.lock().failed_since(failed_before) {
                return Err(why.not_connected());
            }
            if let Some(slot) = self.try_acquire()? {
                return Ok(slot);
            }
            if Instant::now() >= end {
                let is_empty = self.inner.lock().connections.is_empty();
                let why = if is_empty { "no connection in time" } else { "all connections are busy" };
                return Err(StoreError::NotConnected(why.to_owned()));
            }
            // No event tells when the next attempt may start, so this checks now and then.
            let _ = timeout_at(end.min(Instant::now() + RECONNECT_PAUSE), changed).await;
        }
    }

    /// A slot, if there is one now. Starts a connection where one more would help.
    fn try_acquire(&self) -> Result<Option<SqlSlot<D>>, StoreError> {
        let mut state = self.inner.lock();
        state.connections.retain(|connection| !connection.is_unusable());
        let least = state.connections.iter().min_by_key(|connection| connection.unanswered()).cloned();
        let unanswered = least.as_ref().map_or(usize::MAX, |connection| connection.unanswered());
        if unanswered > 0
            && state.connections.len() < D::Connection::MAX_CONNECTIONS
            && !state.is_connecting
            && state.may_connect()
        {
            state.is_connecting = true;
            let attempt = ConnectAttempt { inner: Arc::clone(&self.inner), connected: None };
            self.runtime.spawn(attempt.run());
        }
        match least {
            Some(connection) if unanswered < D::Connection::MAX_UNANSWERED => {
                Ok(Some(SqlSlot::new(&self.inner, connection)))
            }
            None if !state.is_connecting => {
                state.last_error.clone().map_or(Ok(None), |why| Err(why.not_connected()))
            }
            _ => Ok(None),
        }
    }
}

impl<D: SqlConnector> SqlPoolInner<D> {
    fn lock(&self) -> MutexGuard<'_, SqlPoolState<D::Connection>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until an attempt may start, and counts as one.
    async fn wait_to_connect(&self) {
        loop {
            let next = {
                let mut state = self.lock();
                if state.may_connect() {
                    return;
                }
                state.next
            };
            sleep_until(next.unwrap_or_else(Instant::now)).await;
        }
    }

    /// Gives up a connection, and the idle ones, which most likely broke with it, or have the same rights. The next one
    /// after a refusal is made at once: the server is there.
    fn discard(&self, connection: &Arc<PooledSqlConnection<D::Connection>>, why: &StoreError) {
        // After a refusal the other requests on it run to their end.
        let is_refused = matches!(why, StoreError::Refused(_));
        if is_refused {
            connection.retire();
        } else {
            connection.close();
        }
        let mut state = self.lock();
        state.connections.retain(|other| !Arc::ptr_eq(other, connection) && other.unanswered() > 0);
        if is_refused {
            state.next = None;
        } else {
            state.last_error = Some(why.clone());
        }
    }
}

impl<L> SqlPoolState<L> {
    /// Whether an attempt may start now; then the next one has to wait.
    fn may_connect(&mut self) -> bool {
        let now = Instant::now();
        if self.next.is_some_and(|next| now < next) {
            return false;
        }
        self.next = Some(now + reconnect_pause());
        true
    }

    /// Why nothing is connected, if an attempt has failed since this many had. An attempt that takes longer than the pause
    /// would otherwise be followed by the next one before anybody hears of it.
    fn failed_since(&self, failed_before: u64) -> Option<StoreError> {
        let has_failed = self.connections.is_empty() && self.failed_attempts != failed_before;
        if has_failed { self.last_error.clone() } else { None }
    }
}

/// An attempt in progress. However it ends, another may start after it.
struct ConnectAttempt<D: SqlConnector> {
    inner: Arc<SqlPoolInner<D>>,
    connected: Option<Result<D::Connection, StoreError>>,
}

impl<D: SqlConnector> ConnectAttempt<D> {
    async fn run(mut self) {
        self.connected = Some(in_time(CONNECT_TIMEOUT, self.inner.connector.connect()).await);
    }
}

impl<D: SqlConnector> Drop for ConnectAttempt<D> {
    fn drop(&mut self) {
        let mut state = self.inner.lock();
        state.is_connecting = false;
        match self.connected.take() {
            Some(Ok(connection)) => {
                state.connections.push(Arc::new(PooledSqlConnection::new(connection)));
                state.last_error = None;
            }
            Some(Err(why)) => {
                state.failed_attempts += 1;
                state.last_error = Some(why);
            }
            None => {}
        }
        self.inner.changed.notify_waiters();
    }
}

/// The slot of a request on a connection.
struct SqlSlot<D: SqlConnector> {
    inner: Arc<SqlPoolInner<D>>,
    connection: Arc<PooledSqlConnection<D::Connection>>,
}

impl<D: SqlConnector> SqlSlot<D> {
    fn new(inner: &Arc<SqlPoolInner<D>>, connection: Arc<PooledSqlConnection<D::Connection>>) -> Self {
        connection.begin();
        Self { inner: Arc::clone(inner), connection }
    }
}

impl<D: SqlConnector> Drop for SqlSlot<D> {
    fn drop(&mut self) {
        self.connection.end();
        self.inner.changed.notify_one();
    }
}

/// Whether no other request may use the connection. One that was refused ends, too: the next one may find the server that
/// takes writes, and MySQL reads a user's rights when he connects.
fn ends_connection(why: &StoreError) -> bool {
    !matches!(why, StoreError::WriteConflict | StoreError::Throttled(_))
}

async fn in_time<T>(
    time: Duration,
    request: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let late = |_| StoreError::unreachable("no answer in time");
    timeout(time, request).await.map_err(late)?
}

/// For one connect attempt: names, TLS and password.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// For a slot on a connection; the caller usually has a shorter deadline.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);

/// For a request on its own connection.
const ALONE_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
