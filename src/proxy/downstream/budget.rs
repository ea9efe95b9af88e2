//! The work budget of one loop iteration of a worker: bursts of HTTP/2 requests, and TLS handshakes.
//!
//! A worker does what is ready in turn, so its rounds are as long as all that is wanted at once, and everybody waits
//! several of them for an answer. Here stands how much of the dearest is begun in one; the rest waits where it is, in the
//! sockets. The surprising thing: nobody is slowed down who is alone, because an empty round takes no time.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

/// One worker's.
#[derive(Debug, Default)]
pub(super) struct WorkBudget {
    /// Of this round.
    left: Cell<usize>,
    waiters: RefCell<VecDeque<Rc<BudgetWaiter>>>,
    waiter_added: Notify,
}

/// What a connection passes with, time and again.
#[derive(Debug)]
pub(super) struct BudgetHandle {
    budget: Rc<WorkBudget>,
    waiter: Rc<BudgetWaiter>,
}

#[derive(Debug, Default)]
struct BudgetWaiter {
    /// Set while it waits.
    waker: RefCell<Option<Waker>>,
    /// It has waited, and others that came later have not.
    is_granted: Cell<bool>,
}

impl WorkBudget {
    pub(super) fn handle(self: &Rc<Self>) -> BudgetHandle {
        BudgetHandle { budget: Rc::clone(self), waiter: Rc::default() }
    }

    /// Begins one round after the other, for ever.
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
        for waiting in self.waiters.borrow_mut().drain(..calls) {
            waiting.is_granted.set(true);
            waiting.waker.take().into_iter().for_each(Waker::wake);
        }
    }
}

impl BudgetHandle {
    /// Whether something may be begun in this round; if not, the task is woken in another one.
    pub(super) fn poll_ready(&self, cx: &Context<'_>) -> Poll<()> {
        let WorkBudget { left, waiters: waiting, waiter_added: somebody } = &*self.budget;
        if left.get() > 0 && (waiting.borrow().is_empty() || self.waiter.is_granted.get()) {
            return Poll::Ready(());
        }
        if self.waiter.waker.replace(Some(cx.waker().clone())).is_none() {
            waiting.borrow_mut().push_back(Rc::clone(&self.waiter));
            somebody.notify_one();
        }
        Poll::Pending
    }

    /// So much was begun: a request is one.
    pub(super) fn spend(&self, count: usize) {
        self.waiter.is_granted.set(false);
        self.budget.left.set(self.budget.left.get().saturating_sub(count));
    }

    /// Waits for a round with room for a handshake.
    pub(super) async fn ready_for_handshake(&self) {
        poll_fn(|cx| self.poll_ready(cx)).await;
        self.spend(HANDSHAKE_COST);
    }
}

/// Lets all run that are ready.
async fn yield_to_ready_tasks() {
    let mut had_their_turn = false;
    poll_fn(|cx| {
        if had_their_turn {
            return Poll::Ready(());
        }
        had_their_turn = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Requests: half a millisecond, all that follows from them included.
const ROUND_BUDGET: usize = 16;
/// Those that wait take four or more each.
const MAX_WAKES: usize = 4;
/// A private key is used in it.
const HANDSHAKE_COST: usize = 8;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::LocalSet;

    use super::*;

    /// However many come at once.
    #[tokio::test]
    async fn a_round_begins_with_so_much_and_all_have_their_turn_in_the_end() {
        let everybody_comes_and_passes = async {
            let (turnstile, passed) = (Rc::new(WorkBudget::default()), Rc::new(Cell::new(0)));
            for _ in 0..500 {
                let (ticket, passed) = (turnstile.handle(), Rc::clone(&passed));
                tokio::task::spawn_local(async move {
                    poll_fn(|cx| ticket.poll_ready(cx)).await;
                    ticket.spend(1);
                    passed.set(passed.get() + 1);
                });
            }
            for round in 1..=200 {
                turnstile.refill();
                tokio::time::sleep(Duration::from_millis(1)).await;
                assert!(passed.get() <= round * ROUND_BUDGET, "{} in {round} rounds", passed.get());
            }
            assert_eq!(passed.get(), 500);
        };
        LocalSet::new().run_until(everybody_comes_and_passes).await;
    }

    #[tokio::test]
    async fn who_asks_again_while_it_waits_stands_in_the_queue_once() {
        let turnstile = Rc::new(WorkBudget::default());
        let ticket = turnstile.handle();
        for _ in 0..100 {
            let asked = tokio::time::timeout(Duration::ZERO, poll_fn(|cx| ticket.poll_ready(cx)));
            assert!(asked.await.is_err());
        }
        assert_eq!(turnstile.waiters.borrow().len(), 1);
    }
}
