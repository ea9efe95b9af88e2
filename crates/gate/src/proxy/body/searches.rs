//! Threads that search long bodies, so that a worker never does: fair between client prefixes, one at a time for each.
//!
//! A search takes microseconds for a sign-in and tenths of a second for megabytes. Its threads have a lower priority
//! than workers. Among the prefixes that wait, the one whose searches were shortest so far is served next, so that long
//! bodies do not delay short ones of other prefixes. The [memory](super::memory) of bodies bounds how much waits. What
//! is searched for is left to `transaction::body_search`.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use tokio::sync::oneshot;

/// The searches of all workers.
#[derive(Debug, Clone)]
pub struct BodySearches(Arc<SearchQueue>);

/// A client's prefix; all clients without a known address share `None`.
type Owner = Option<IpAddr>;

struct SearchQueue {
    state: Mutex<SearchQueueState>,
    has_ready: Condvar,
}

#[derive(Default)]
struct SearchQueueState {
    /// The prefixes with a search that waits or runs.
    owners: BTreeMap<Owner, OwnerSearches>,
    /// Those of which none runs, by the bytes that were searched for them.
    ready: BTreeSet<(u64, Owner)>,
    /// Those bytes of the prefix that was served last. A prefix that comes again begins here.
    served: u64,
}

struct OwnerSearches {
    waiting: VecDeque<BodySearchJob>,
    searched: u64,
}

struct BodySearchJob {
    bytes: u64,
    run: Box<dyn FnOnce() + Send>,
}

impl BodySearches {
    /// Starts the threads; each calls `prepare` before it searches anything, to lower its priority and its rights.
    ///
    /// # Errors
    /// A thread cannot start.
    pub fn start(threads: usize, prepare: impl Fn() + Clone + Send + 'static) -> io::Result<Self> {
        let queue = Arc::new(SearchQueue { state: Mutex::default(), has_ready: Condvar::new() });
        for number in 0..threads.max(1) {
            let (queue, prepare) = (Arc::clone(&queue), prepare.clone());
            thread::Builder::new().name(format!("search-{number}")).spawn(move || {
                prepare();
                loop {
                    queue.run_next();
                }
            })?;
        }
        Ok(Self(queue))
    }

    /// Searches a body of so many bytes of this prefix, in turn. A search whose client hung up meanwhile is left out.
    pub(in crate::proxy) async fn run<T: Send + 'static>(
        &self,
        owner: Owner,
        bytes: usize,
        search: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let (sender, receiver) = oneshot::channel::<Result<T, Box<dyn Any + Send>>>();
        let run = Box::new(move || {
            if !sender.is_closed() {
                let _ = sender.send(catch_unwind(AssertUnwindSafe(search)));
            }
        });
        self.0.push(owner, BodySearchJob { bytes: bytes as u64, run });
        match receiver.await {
            Ok(Ok(found)) => found,
            // It ends the connection as a panic of the worker does.
            Ok(Err(panic)) => resume_unwind(panic),
            Err(gone) => resume_unwind(Box::new(gone)),
        }
    }
}

impl SearchQueue {
    fn state(&self) -> MutexGuard<'_, SearchQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, owner: Owner, job: BodySearchJob) {
        self.state().push(owner, job);
        self.has_ready.notify_one();
    }

    /// Waits for the next search and runs it.
    fn run_next(&self) {
        let mut state = self.state();
        let (owner, job) = loop {
            match state.take() {
                Some(next) => break next,
                None => state = self.has_ready.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(state);
        (job.run)();
        if self.state().ended(owner) {
            self.has_ready.notify_one();
        }
    }
}

impl SearchQueueState {
    fn push(&mut self, owner: Owner, job: BodySearchJob) {
        match self.owners.get_mut(&owner) {
            Some(searches) => searches.waiting.push_back(job),
            None => {
                self.ready.insert((self.served, owner));
                let searches = OwnerSearches { waiting: VecDeque::from([job]), searched: self.served };
                self.owners.insert(owner, searches);
            }
        }
    }

    /// The next search, whose prefix has no other until it [ended](Self::ended).
    fn take(&mut self) -> Option<(Owner, BodySearchJob)> {
        let (searched, owner) = self.ready.pop_first()?;
        self.served = searched;
        let searches = self.owners.get_mut(&owner)?;
        let job = searches.waiting.pop_front()?;
        searches.searched = searched.saturating_add(job.bytes);
        Some((owner, job))
    }

    /// A search of this prefix ended. Returns whether another one of it is ready.
    fn ended(&mut self, owner: Owner) -> bool {
        let Some(searches) = self.owners.get(&owner) else { return false };
        if searches.waiting.is_empty() {
            self.owners.remove(&owner);
            return false;
        }
        self.ready.insert((searches.searched, owner))
    }
}

impl std::fmt::Debug for SearchQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SearchQueue({} prefixes)", self.state().owners.len())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn owner(host: u8) -> Owner {
        Some(Ipv4Addr::new(192, 0, 2, host).into())
    }

    fn job(bytes: u64) -> BodySearchJob {
        BodySearchJob { bytes, run: Box::new(|| ()) }
    }

    fn taken(state: &mut SearchQueueState) -> Option<(Owner, u64)> {
        state.take().map(|(owner, job)| (owner, job.bytes))
    }

    #[test]
    fn one_prefix_has_one_search_at_a_time() {
        let mut state = SearchQueueState::default();
        (1..=3).for_each(|bytes| state.push(owner(1), job(bytes)));
        assert_eq!(taken(&mut state), Some((owner(1), 1)));
        assert_eq!(taken(&mut state), None);
        assert!(state.ended(owner(1)));
        assert_eq!(taken(&mut state), Some((owner(1), 2)));
        assert!(state.ended(owner(1)));
        assert_eq!(taken(&mut state), Some((owner(1), 3)));
        assert!(!state.ended(owner(1)) && state.owners.is_empty() && state.ready.is_empty());
    }

    #[test]
    fn whoever_had_less_is_next() {
        let mut state = SearchQueueState::default();
        (0..5).for_each(|_| state.push(owner(1), job(8 << 20)));
        assert_eq!(taken(&mut state), Some((owner(1), 8 << 20)));
        (0..5).for_each(|_| state.push(owner(2), job(5000)));
        state.ended(owner(1));
        for _ in 0..5 {
            assert_eq!(taken(&mut state), Some((owner(2), 5000)), "before any long one of the other");
            state.ended(owner(2));
        }
        assert_eq!(taken(&mut state), Some((owner(1), 8 << 20)));
    }

    #[tokio::test]
    async fn what_a_search_finds_comes_back_and_a_panic_ends_no_thread() {
        let searches = BodySearches::start(1, || ()).unwrap();
        assert_eq!(searches.run(owner(1), 1, || 7).await, 7);
        let failing = searches.clone();
        let failed = tokio::spawn(async move {
            failing.run(owner(1), 1, || resume_unwind(Box::new("as the test wants it"))).await
        });
        assert!(failed.await.is_err_and(|error| error.is_panic()));
        assert_eq!(searches.run(owner(2), 1, || 8).await, 8);
    }
}
