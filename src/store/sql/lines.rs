//! The connections of one gate to its database: made by need, a bounded number, one attempt at a time.
//!
//! Nothing is asked twice here. The surprising thing: whoever asks while nothing is connected waits only for an attempt
//! that is on its way; after one that failed, questions fail at once until the next one may begin.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::line::{Line, Link};
use crate::store::compare_and_swap::{StoreError, Version};

/// How a connection is made. Names are looked up each time, so a database that has moved is found.
pub(in crate::store) trait Dial: Send + Sync + 'static {
    /// What it gives.
    type Link: Link;

    /// One attempt.
    fn dial(&self) -> Dialled<'_, Self::Link>;
}

/// An attempt to connect.
pub(in crate::store) type Dialled<'a, L> = Pin<Box<dyn Future<Output = Result<L, StoreError>> + Send + 'a>>;

/// The connections to one database.
pub(in crate::store) struct Lines<D: Dial> {
    shared: Arc<Shared<D>>,
    runtime: Handle,
}

struct Shared<D: Dial> {
    dial: D,
    state: Mutex<State<D::Link>>,
    changed: Notify,
}

struct State<L> {
    lines: Vec<Arc<Line<L>>>,
    is_dialling: bool,
    /// When the next attempt may begin.
    next: Option<Instant>,
    /// What came of the last attempt, or of the last connection.
    why: Option<StoreError>,
}

impl<D: Dial> Lines<D> {
    /// None yet.
    ///
    /// # Errors
    /// If there is no runtime here to ask in.
    pub(in crate::store) fn new(dial: D) -> Result<Self, StoreError> {
        let runtime = Handle::try_current().map_err(|error| StoreError::Refused(error.to_string()))?;
        let state = State { lines: Vec::new(), is_dialling: false, next: None, why: None };
        let shared = Shared { dial, state: Mutex::new(state), changed: Notify::new() };
        Ok(Self { shared: Arc::new(shared), runtime })
    }

    /// Asks through the connection that has least to do. A question that has been sent is carried to its end, one whose
    /// asker is gone before is not sent.
    pub(in crate::store) async fn ask<T, A>(
        &self,
        question: impl FnOnce(Arc<D::Link>) -> A + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        A: Future<Output = Result<T, StoreError>> + Send,
    {
        let place = self.place().await?;
        self.carry(async move {
            let answer = place.line.wait(question(Arc::clone(&place.line.link))).await;
            if let Err(why @ (StoreError::Unreachable(_) | StoreError::Garbled(_))) = &answer {
                place.shared.lose(&place.line, why);
            }
            answer
        })
        .await
    }

    /// Asks through a connection of its own: what takes long stands in nobody's way.
    pub(in crate::store) async fn ask_alone<T, A>(
        &self,
        question: impl FnOnce(Arc<D::Link>) -> A + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        A: Future<Output = Result<T, StoreError>> + Send,
    {
        let shared = Arc::clone(&self.shared);
        self.carry(async move {
            shared.turn().await;
            let link = Arc::new(in_time(DIALLING, shared.dial.dial()).await?);
            in_time(ALONE, question(link)).await
        })
        .await
    }

    /// To its end, even if whoever asked goes away meanwhile.
    async fn carry<T: Send + 'static>(
        &self,
        asking: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let dropped = |_| StoreError::Unreachable("the question was dropped".to_owned());
        self.runtime.spawn(asking).await.map_err(dropped)?
    }

    /// Waits until a connection has a place.
    async fn place(&self) -> Result<Place<D>, StoreError> {
        let end = Instant::now() + PATIENCE;
        loop {
            // Listens before it looks, so nothing is missed between.
            let changed = self.shared.changed.notified();
            if let Some(place) = self.seize()? {
                return Ok(place);
            }
            if Instant::now() >= end {
                let is_empty = self.shared.lock().lines.is_empty();
                let why = if is_empty { "no connection in time" } else { "all connections are busy" };
                return Err(StoreError::Unreachable(why.to_owned()));
            }
            // Nobody says when the next attempt may begin, so that is looked for now and then.
            let _ = timeout_at(end.min(Instant::now() + PAUSE), changed).await;
        }
    }

    /// A place, if there is one now; begins a connection where one more would help.
    fn seize(&self) -> Result<Option<Place<D>>, StoreError> {
        let mut state = self.shared.lock();
        state.lines.retain(|line| !line.is_over());
        let least = state.lines.iter().min_by_key(|line| line.asking()).cloned();
        let asking = least.as_ref().map_or(usize::MAX, |line| line.asking());
        if asking > 0 && state.lines.len() < D::Link::MOST && !state.is_dialling && state.may_dial() {
            state.is_dialling = true;
            let dialling = Dialling { shared: Arc::clone(&self.shared), outcome: None };
            self.runtime.spawn(dialling.run());
        }
        match least {
            Some(line) if asking < D::Link::AT_ONCE => Ok(Some(Place::new(&self.shared, line))),
            None if !state.is_dialling => state.why.clone().map_or(Ok(None), Err),
            _ => Ok(None),
        }
    }
}

impl<D: Dial> Shared<D> {
    fn lock(&self) -> MutexGuard<'_, State<D::Link>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until an attempt may begin, and counts as one.
    async fn turn(&self) {
        loop {
            let next = {
                let mut state = self.lock();
                if state.may_dial() {
                    return;
                }
                state.next
            };
            sleep_until(next.unwrap_or_else(Instant::now)).await;
        }
    }

    /// Gives a connection up, and those that nobody is using: they most likely broke with it.
    fn lose(&self, line: &Arc<Line<D::Link>>, why: &StoreError) {
        line.cut();
        let mut state = self.lock();
        state.lines.retain(|other| !Arc::ptr_eq(other, line) && other.asking() > 0);
        state.why = Some(why.clone());
    }
}

impl<L> State<L> {
    /// Whether an attempt may begin now; then the next one may not for a while.
    fn may_dial(&mut self) -> bool {
        let now = Instant::now();
        if self.next.is_some_and(|next| now < next) {
            return false;
        }
        // A hundred gates that lost their database together do not come back together.
        let jitter = Duration::from_millis(Version::random().0 % 50);
        self.next = Some(now + PAUSE + jitter);
        true
    }
}

/// An attempt on its way. However it ends, somebody may begin the next one.
struct Dialling<D: Dial> {
    shared: Arc<Shared<D>>,
    outcome: Option<Result<D::Link, StoreError>>,
}

impl<D: Dial> Dialling<D> {
    async fn run(mut self) {
        self.outcome = Some(in_time(DIALLING, self.shared.dial.dial()).await);
    }
}

impl<D: Dial> Drop for Dialling<D> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_dialling = false;
        match self.outcome.take() {
            Some(Ok(link)) => {
                state.lines.push(Arc::new(Line::new(link)));
                state.why = None;
            }
            Some(Err(why)) => state.why = Some(why),
            None => {}
        }
        self.shared.changed.notify_waiters();
    }
}

/// A question's place on a connection.
struct Place<D: Dial> {
    shared: Arc<Shared<D>>,
    line: Arc<Line<D::Link>>,
}

impl<D: Dial> Place<D> {
    fn new(shared: &Arc<Shared<D>>, line: Arc<Line<D::Link>>) -> Self {
        line.begin();
        Self { shared: Arc::clone(shared), line }
    }
}

impl<D: Dial> Drop for Place<D> {
    fn drop(&mut self) {
        self.line.end();
        self.shared.changed.notify_one();
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
const PAUSE: Duration = Duration::from_millis(100);

/// For one attempt to connect, names and TLS and password.
const DIALLING: Duration = Duration::from_secs(3);

/// For a place on a connection; whoever asks has a shorter deadline as a rule.
const PATIENCE: Duration = Duration::from_secs(3);

/// For what is asked through a connection of its own.
const ALONE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
