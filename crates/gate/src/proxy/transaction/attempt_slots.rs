//! The slots of an attempt, under the concurrency limits of its routes: taken before it is sent, or before its end is, and given
//! back at the head of the answer.
//!
//! The limits know no sockets and wait for nothing; here is the waiting. A client that leaves while it waits leaves the queue.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::policy::Route;
use crate::policy::slots::{ConcurrencyLimit, NoSlot, QueuedTurn, SlotEnd, SlotEntry, SlotRequest};
use crate::time::{Clock, Span, Time};

/// The slots of an attempt that is sent. Dropped, they are those of a client that has left.
#[derive(Debug)]
pub(super) struct AttemptSlots(SmallVec<[AttemptSlot; 1]>);

/// A slot, or a place in the queue for one.
#[derive(Debug)]
struct AttemptSlot {
    limit: Arc<dyn ConcurrencyLimit>,
    request: SlotRequest,
    clock: Clock,
    stage: SlotStage,
}

#[derive(Debug)]
enum SlotStage {
    Queued(Arc<QueuedTurn>),
    Held,
    Sent(Time),
    Ended,
}

impl AttemptSlots {
    /// Waits for a slot of each of these routes that has any.
    ///
    /// # Errors
    /// [`NoSlot`] if one of them has none in time; the others have theirs again.
    pub(super) async fn take<'l>(
        routes: impl Iterator<Item = &'l Route>,
        request: SlotRequest,
        clock: &Clock,
    ) -> Result<Self, NoSlot> {
        let mut slots: SmallVec<[AttemptSlot; 1]> = SmallVec::new();
        for limit in routes.filter_map(|route| route.permits.concurrency.as_ref()) {
            slots.push(AttemptSlot::take(limit, request, clock).await?);
        }
        let sent = clock.now();
        slots.iter_mut().for_each(|slot| slot.stage = SlotStage::Sent(sent));
        Ok(Self(slots))
    }

    /// Gives the slots back. `is_measured`: whether the time since they were taken tells how busy the application is.
    pub(super) fn end(mut self, is_measured: bool) {
        for slot in &mut self.0 {
            match slot.stage {
                SlotStage::Sent(sent) if is_measured => slot.end(SlotEnd::Answered { sent }),
                _ => slot.end(SlotEnd::Unmeasured),
            }
        }
    }
}

impl AttemptSlot {
    async fn take(
        limit: &Arc<dyn ConcurrencyLimit>,
        request: SlotRequest,
        clock: &Clock,
    ) -> Result<Self, NoSlot> {
        let slot = |stage| Self { limit: Arc::clone(limit), request, clock: clock.clone(), stage };
        match limit.enter(request, clock.now())? {
            SlotEntry::Slot => Ok(slot(SlotStage::Held)),
            SlotEntry::Queued(turn, longest) => {
                slot(SlotStage::Queued(Arc::clone(&turn))).wait(&turn, longest).await
            }
        }
    }

    async fn wait(mut self, turn: &Arc<QueuedTurn>, longest: Span) -> Result<Self, NoSlot> {
        let deadline = self.clock.now().after(longest);
        loop {
            let left = deadline.since(self.clock.now()).to_std();
            match tokio::time::timeout(left.min(TICK), poll_fn(|cx| turn.poll_end(cx))).await {
                Ok(Ok(())) => {
                    self.stage = SlotStage::Held;
                    return Ok(self);
                }
                Ok(Err(evicted)) => {
                    self.stage = SlotStage::Ended;
                    return Err(evicted);
                }
                Err(_) if left > TICK => self.limit.tick(self.clock.now()),
                Err(_) => break,
            }
        }
        if self.limit.leave_queue(self.request, turn) {
            self.stage = SlotStage::Held;
            return Ok(self);
        }
        self.stage = SlotStage::Ended;
        Err(self.limit.refuse(self.request, self.clock.now()))
    }

    fn end(&mut self, end: SlotEnd) {
        self.stage = SlotStage::Ended;
        self.limit.end(self.request, end, self.clock.now());
    }
}

impl Drop for AttemptSlot {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.stage, SlotStage::Ended) {
            SlotStage::Queued(turn) if !self.limit.leave_queue(self.request, &turn) => {}
            SlotStage::Queued(_) | SlotStage::Held => self.end(SlotEnd::Unmeasured),
            SlotStage::Sent(sent) => self.end(SlotEnd::Abandoned { sent }),
            SlotStage::Ended => {}
        }
    }
}

/// How often those who wait look whether slots have become free by time alone.
const TICK: Duration = Duration::from_millis(50);
