//! The work budget of one loop iteration of a worker: bursts of HTTP/2 requests, and TLS handshakes.
//!
//! A worker runs its ready tasks in turn, so an iteration takes as long as all of them, and a request waits several
//! iterations for its response. The budget bounds the expensive work begun per iteration; the rest waits in the
//! sockets. A client alone is not slowed down, because an iteration without other work takes no time. `http2` and
//! `handshake` spend the budget.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

/// The budget of one worker.
#[derive(Debug, Default)]
pub(super) struct WorkBudget {
    /// Units left in this iteration.
    left: Cell<usize>,
    waiters: RefCell<VecDeque<Rc<BudgetWaiter>>>,
    waiter_added: Notify,
}

/// The access of one connection to the budget.
#[derive(Debug)]
pub(super) struct BudgetHandle {
    budget: Rc<WorkBudget>,
    waiter: Rc<BudgetWaiter>,
}

#[derive(Debug, Default)]
struct BudgetWaiter {
    /// Set while it waits.
    waker: RefCell<Option<Waker>>,
    /// It has waited, and goes before later ones.
    is_granted: Cell<bool>,
}

impl WorkBudget {
    pub(super) fn handle(self: &Rc<Self>) -> BudgetHandle {
        BudgetHandle { budget: Rc::clone(self), waiter: Rc::default() }
    }

    /// Refills the budget once per iteration, for ever.
    pub(super) async fn run(&self) {
        loop {
            self.refill();
            if self.waiters.borrow().is_empty() {
                self.waiter_added.notified().await;
            }
            yield_to_ready_tasks().await;
        }
    }

    fn refill(&self) {
        self.left.set(ROUND_BUDGET);
        let calls = self.waiters.borrow().len().min(MAX_WAKES);
        for waiter in self.waiters.borrow_mut().drain(..calls) {
            waiter.is_granted.set(true);
            waiter.waker.take().into_iter().for_each(Waker::wake);
        }
    }
}

impl BudgetHandle {
    /// Ready if work may begin in this iteration; otherwise the task is woken in a later one.
    pub(super) fn poll_ready(&self, cx: &Context<'_>) -> Poll<()> {
        let WorkBudget { left, waiters, waiter_added } = &*self.budget;
        if left.get() > 0 && (waiters.borrow().is_empty() || self.waiter.is_granted.get()) {
            return Poll::Ready(());
        }
        if self.waiter.waker.replace(Some(cx.waker().clone())).is_none() {
            waiters.borrow_mut().push_back(Rc::clone(&self.waiter));
            waiter_added.notify_one();
        }
        Poll::Pending
    }

    /// Spends units: a request costs one.
    pub(super) fn spend(&self, count: usize) {
        self.waiter.is_granted.set(false);
        self.budget.left.set(self.budget.left.get().saturating_sub(count));
    }

    /// Waits until a handshake may begin.
    pub(super) async fn ready_for_handshake(&self) {
        poll_fn(|cx| self.poll_ready(cx)).await;
        self.spend(HANDSHAKE_COST);
    }
}

/// Lets all ready tasks run.
async fn yield_to_ready_tasks() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if has_yielded {
            return Poll::Ready(());
        }
        has_yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Units per iteration. 16 requests take about half a millisecond, with all work that follows from them.
const ROUND_BUDGET: usize = 16;
/// Waiters woken per iteration: each takes four units or more.
const MAX_WAKES: usize = 4;
/// Units: a handshake uses a private key.
const HANDSHAKE_COST: usize = 8;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::LocalSet;

    use super::*;

    #[tokio::test]
    async fn a_round_begins_with_so_much_and_all_have_their_turn_in_the_end() {
        let all_pass = async {
            let (budget, passed) = (Rc::new(WorkBudget::default()), Rc::new(Cell::new(0)));
            for _ in 0..500 {
                let (handle, passed) = (budget.handle(), Rc::clone(&passed));
                tokio::task::spawn_local(async move {
                    poll_fn(|cx| handle.poll_ready(cx)).await;
                    handle.spend(1);
                    passed.set(passed.get() + 1);
                });
            }
            for round in 1..=200 {
                budget.refill();
                tokio::time::sleep(Duration::from_millis(1)).await;
                assert!(passed.get() <= round * ROUND_BUDGET, "{} in {round} rounds", passed.get());
            }
            assert_eq!(passed.get(), 500);
        };
        LocalSet::new().run_until(all_pass).await;
    }

    #[tokio::test]
    async fn who_asks_again_while_it_waits_stands_in_the_queue_once() {
        let budget = Rc::new(WorkBudget::default());
        let handle = budget.handle();
        for _ in 0..100 {
            let ready = tokio::time::timeout(Duration::ZERO, poll_fn(|cx| handle.poll_ready(cx)));
            assert!(ready.await.is_err());
        }
        assert_eq!(budget.waiters.borrow().len(), 1);
    }
}
