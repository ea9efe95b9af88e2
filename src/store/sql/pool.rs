//! The connection pool of one database: filled on demand, bounded, one connect attempt at a time.
//!
//! Nothing is asked twice here. The surprising thing: whoever asks while nothing is connected waits only for an attempt
//! that is on its way; after one that failed, questions fail at once until the next one may begin.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::pooled_connection::{PooledSqlConnection, SqlConnection};
use crate::store::compare_and_swap::{RecordVersion, StoreError};

/// How a connection is made. Names are looked up each time, so a database that has moved is found.
pub(in crate::store) trait SqlConnector: Send + Sync + 'static {
    /// What it gives.
    type Connection: SqlConnection;

    /// One attempt.
    fn connect(&self) -> SqlConnecting<'_, Self::Connection>;
}

/// An attempt to connect.
pub(in crate::store) type SqlConnecting<'a, L> =
    Pin<Box<dyn Future<Output = Result<L, StoreError>> + Send + 'a>>;

/// The connections to one database.
pub(in crate::store) struct SqlPool<D: SqlConnector> {
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
    /// When the next attempt may begin.
    next: Option<Instant>,
    /// What came of the last attempt, or of the last connection.
    why: Option<StoreError>,
}

impl<D: SqlConnector> SqlPool<D> {
    /// None yet.
    ///
    /// # Errors
    /// If there is no runtime here to ask in.
    pub(in crate::store) fn new(dial: D) -> Result<Self, StoreError> {
        let runtime = Handle::try_current().map_err(|error| StoreError::Refused(error.to_string()))?;
        let state = SqlPoolState { connections: Vec::new(), is_connecting: false, next: None, why: None };
        let shared = SqlPoolInner { connector: dial, state: Mutex::new(state), changed: Notify::new() };
        Ok(Self { inner: Arc::new(shared), runtime })
    }

    /// Asks through the connection that has least to do. A question that has been sent is carried to its end, one whose
    /// asker is gone before is not sent.
    pub(in crate::store) async fn call<T, A>(
        &self,
        question: impl FnOnce(Arc<D::Connection>) -> A + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        A: Future<Output = Result<T, StoreError>> + Send,
    {
        let place = self.acquire().await?;
        self.run_to_end(async move {
            let answer = place.connection.wait(question(Arc::clone(&place.connection.connection))).await;
            if let Err(why @ (StoreError::Unreachable(_) | StoreError::UnexpectedResponse(_))) = &answer {
                place.inner.discard(&place.connection, why);
            }
            answer
        })
        .await
    }

    /// Asks through a connection of its own: what takes long stands in nobody's way.
    pub(in crate::store) async fn call_alone<T, A>(
        &self,
        question: impl FnOnce(Arc<D::Connection>) -> A + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        A: Future<Output = Result<T, StoreError>> + Send,
    {
        let shared = Arc::clone(&self.inner);
        self.run_to_end(async move {
            shared.wait_to_connect().await;
            let link = Arc::new(in_time(CONNECT_TIMEOUT, shared.connector.connect()).await?);
            in_time(ALONE_TIMEOUT, question(link)).await
        })
        .await
    }

    /// To its end, even if whoever asked goes away meanwhile.
    async fn run_to_end<T: Send + 'static>(
        &self,
        asking: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let dropped = |_| StoreError::Unreachable("the question was dropped".to_owned());
        self.runtime.spawn(asking).await.map_err(dropped)?
    }

    /// Waits until a connection has a place.
    async fn acquire(&self) -> Result<SqlSlot<D>, StoreError> {
        let end = Instant::now() + ACQUIRE_TIMEOUT;
        loop {
            // Listens before it looks, so nothing is missed between.
            let changed = self.inner.changed.notified();
            if let Some(place) = self.try_acquire()? {
                return Ok(place);
            }
            if Instant::now() >= end {
                let is_empty = self.inner.lock().connections.is_empty();
                let why = if is_empty { "no connection in time" } else { "all connections are busy" };
                return Err(StoreError::Unreachable(why.to_owned()));
            }
            // Nobody says when the next attempt may begin, so that is looked for now and then.
            let _ = timeout_at(end.min(Instant::now() + RECONNECT_PAUSE), changed).await;
        }
    }

    /// A place, if there is one now; begins a connection where one more would help.
    fn try_acquire(&self) -> Result<Option<SqlSlot<D>>, StoreError> {
        let mut state = self.inner.lock();
        state.connections.retain(|line| !line.is_unusable());
        let least = state.connections.iter().min_by_key(|line| line.in_flight()).cloned();
        let asking = least.as_ref().map_or(usize::MAX, |line| line.in_flight());
        if asking > 0
            && state.connections.len() < D::Connection::MAX_CONNECTIONS
            && !state.is_connecting
            && state.may_connect()
        {
            state.is_connecting = true;
            let dialling = ConnectAttempt { inner: Arc::clone(&self.inner), outcome: None };
            self.runtime.spawn(dialling.run());
        }
        match least {
            Some(line) if asking < D::Connection::MAX_IN_FLIGHT => Ok(Some(SqlSlot::new(&self.inner, line))),
            None if !state.is_connecting => state.why.clone().map_or(Ok(None), Err),
            _ => Ok(None),
        }
    }
}

impl<D: SqlConnector> SqlPoolInner<D> {
    fn lock(&self) -> MutexGuard<'_, SqlPoolState<D::Connection>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until an attempt may begin, and counts as one.
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

    /// Gives a connection up, and those that nobody is using: they most likely broke with it.
    fn discard(&self, line: &Arc<PooledSqlConnection<D::Connection>>, why: &StoreError) {
        line.close();
        let mut state = self.lock();
        state.connections.retain(|other| !Arc::ptr_eq(other, line) && other.in_flight() > 0);
        state.why = Some(why.clone());
    }
}

impl<L> SqlPoolState<L> {
    /// Whether an attempt may begin now; then the next one may not for a while.
    fn may_connect(&mut self) -> bool {
        let now = Instant::now();
        if self.next.is_some_and(|next| now < next) {
            return false;
        }
        // A hundred gates that lost their database together do not come back together.
        let jitter = Duration::from_millis(RecordVersion::random().0 % 50);
        self.next = Some(now + RECONNECT_PAUSE + jitter);
        true
    }
}

/// An attempt on its way. However it ends, somebody may begin the next one.
struct ConnectAttempt<D: SqlConnector> {
    inner: Arc<SqlPoolInner<D>>,
    outcome: Option<Result<D::Connection, StoreError>>,
}

impl<D: SqlConnector> ConnectAttempt<D> {
    async fn run(mut self) {
        self.outcome = Some(in_time(CONNECT_TIMEOUT, self.inner.connector.connect()).await);
    }
}

impl<D: SqlConnector> Drop for ConnectAttempt<D> {
    fn drop(&mut self) {
        let mut state = self.inner.lock();
        state.is_connecting = false;
        match self.outcome.take() {
            Some(Ok(link)) => {
                state.connections.push(Arc::new(PooledSqlConnection::new(link)));
                state.why = None;
            }
            Some(Err(why)) => state.why = Some(why),
            None => {}
        }
        self.inner.changed.notify_waiters();
    }
}

/// A question's place on a connection.
struct SqlSlot<D: SqlConnector> {
    inner: Arc<SqlPoolInner<D>>,
    connection: Arc<PooledSqlConnection<D::Connection>>,
}

impl<D: SqlConnector> SqlSlot<D> {
    fn new(shared: &Arc<SqlPoolInner<D>>, line: Arc<PooledSqlConnection<D::Connection>>) -> Self {
        line.begin();
        Self { inner: Arc::clone(shared), connection: line }
    }
}

impl<D: SqlConnector> Drop for SqlSlot<D> {
    fn drop(&mut self) {
        self.connection.end();
        self.inner.changed.notify_one();
    }
}

async fn in_time<T>(
    time: Duration,
    asking: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let late = |_| StoreError::Unreachable("no answer in time".to_owned());
    timeout(time, asking).await.map_err(late)?
}

/// Between the beginnings of two attempts to connect, and up to half as long again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// For one attempt to connect, names and TLS and password.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// For a place on a connection; whoever asks has a shorter deadline as a rule.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);

/// For what is asked through a connection of its own.
const ALONE_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
