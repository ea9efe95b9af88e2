//! Swaps of several buckets that are sent as one request.
//!
//! The buckets of an attempt are decided by one batch each. The batches of a group wait for each other at their first
//! call: the last one that wants to write, or that needs no call, sends the swaps of all. Whatever follows a lost race
//! each batch does alone. Deciding is left to [`batch`](super::batch).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::SharedStore;
use crate::{StoreError, Swap, SwapRequest};

/// A batch's place in a group. Dropping it leaves the group, which then does not wait for this batch.
pub(super) struct GroupMember(Arc<SwapGroup>);

struct SwapGroup {
    shared: Arc<SharedStore>,
    state: Mutex<GroupState>,
}

struct GroupState {
    /// Members that are not at their first call yet.
    missing: usize,
    swaps: Vec<(SwapRequest, SwapSender)>,
}

type SwapSender = oneshot::Sender<Result<Swap, StoreError>>;

impl GroupMember {
    /// The members of a group of so many.
    pub(super) fn group(shared: &Arc<SharedStore>, count: usize) -> Vec<Self> {
        let state = Mutex::new(GroupState { missing: count, swaps: Vec::with_capacity(count) });
        let group = Arc::new(SwapGroup { shared: Arc::clone(shared), state });
        (0..count).map(|_| Self(Arc::clone(&group))).collect()
    }

    /// Swaps together with the others.
    pub(super) async fn swap(self, swap: SwapRequest) -> Result<Swap, StoreError> {
        let (sender, result) = oneshot::channel();
        self.0.lock().swaps.push((swap, sender));
        drop(self);
        result.await.unwrap_or_else(|_| Err(StoreError::unreachable("the request was dropped")))
    }
}

impl Drop for GroupMember {
    fn drop(&mut self) {
        let swaps = {
            let mut state = self.0.lock();
            state.missing -= 1;
            if state.missing > 0 || state.swaps.is_empty() {
                return;
            }
            std::mem::take(&mut state.swaps)
        };
        let shared = &self.0.shared;
        shared.runtime.spawn(send(Arc::clone(shared), swaps));
    }
}

impl SwapGroup {
    fn lock(&self) -> MutexGuard<'_, GroupState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A batch that has gone away is not told.
async fn send(shared: Arc<SharedStore>, swaps: Vec<(SwapRequest, SwapSender)>) {
    let (swaps, senders): (Vec<_>, Vec<_>) = swaps.into_iter().unzip();
    match shared.swap_all(swaps).await {
        Ok(results) => {
            for (sender, result) in senders.into_iter().zip(results) {
                let _ = sender.send(result);
            }
        }
        Err(error) => {
            for sender in senders {
                let _ = sender.send(Err(error.clone()));
            }
        }
    }
}
