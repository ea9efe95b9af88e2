//! HTTP/2 flood check: charges frames that carry nothing (PING, SETTINGS, empty DATA, tiny window updates) against
//! useful bytes.
//!
//! h2 handles such frames in no memory, but without a limit. The check reads frame heads and changes no byte. No type
//! of frame is forbidden: each costs a little, and requests, bodies and responses earn credit, so a client that
//! downloads may update windows as often as it likes. A burst of requests is passed on a few at a time, as the worker's
//! [`budget`](crate::proxy::downstream::budget) allows.

use std::cell::Cell;
use std::io::{ErrorKind, Result};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use crate::proxy::downstream::budget::BudgetHandle;
use crate::proxy::tap::Tap;

/// Charges the frames of a client.
pub(super) struct FloodCheck {
    next: FrameState,
    flood_cost: FloodCost,
    budget: BudgetHandle,
    /// Requests arrive in a burst, so reads are small.
    in_burst: bool,
    /// The number of the latest stream (RFC 9113, 5.1.1).
    last_stream: u32,
    /// How many streams the client began, whatever became of them.
    begun: Rc<Cell<u64>>,
}

/// The part of a frame that comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameState {
    /// The head of a frame, and how many of its bytes were read.
    Head([u8; HEAD], usize),
    /// A number of bytes to skip.
    Bytes(usize),
}

/// The cost of the frames so far, less the credit: a useful byte is worth one.
#[derive(Debug)]
struct FloodCost {
    cost: u64,
    since: Instant,
}

impl FloodCheck {
    /// The check of a new connection; counts the streams that the client begins.
    pub(super) fn new(budget: BudgetHandle, begun: Rc<Cell<u64>>) -> Self {
        let (next, flood_cost) = (FrameState::Bytes(PREFACE), FloodCost::zero());
        Self { next, flood_cost, budget, in_burst: true, last_stream: 0, begun }
    }

    /// Charges the frames in these bytes, and returns the number of requests among them.
    fn count(&mut self, mut bytes: &[u8]) -> usize {
        let mut requests = 0;
        while let Some(&byte) = bytes.first() {
            match &mut self.next {
                FrameState::Bytes(left) => {
                    let here = (*left).min(bytes.len());
                    *left -= here;
                    bytes = bytes.get(here..).unwrap_or_default();
                }
                FrameState::Head(head, filled) => {
                    if let Some(slot) = head.get_mut(*filled) {
                        *slot = byte;
                    }
                    *filled += 1;
                    bytes = bytes.get(1..).unwrap_or_default();
                    if *filled < HEAD {
                        continue;
                    }
                    let [a, b, c, kind, flags, stream @ ..] = *head;
                    let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                    self.next = FrameState::Bytes(length);
                    requests += usize::from(kind == HEADERS);
                    self.flood_cost.charge(kind, flags, length);
                    let stream = u32::from_be_bytes(stream) & MAX_STREAM;
                    if kind == HEADERS && stream > self.last_stream {
                        self.last_stream = stream;
                        self.begun.set(self.begun.get() + 1);
                    }
                }
            }
            if self.next == FrameState::Bytes(0) {
                self.next = FrameState::Head([0; HEAD], 0);
            }
        }
        requests
    }
}

impl FloodCost {
    fn zero() -> Self {
        Self { cost: 0, since: Instant::now() }
    }

    fn charge(&mut self, kind: u8, flags: u8, length: usize) {
        match kind {
            // Bounded elsewhere: their number by the streams, their length by the header list size.
            HEADERS => self.credit(2 * FRAME_COST),
            CONTINUATION => {}
            DATA if length > 0 && flags & PADDED == 0 => self.credit(length as u64),
            _ => self.cost += FRAME_COST,
        }
        if self.cost > MAX_COST {
            self.decay();
        }
    }

    fn credit(&mut self, amount: u64) {
        self.cost = self.cost.saturating_sub(amount);
    }

    /// Credits a frame a second: some clients send PING all day. The clock is read only if the connection would end.
    fn decay(&mut self) {
        let now = Instant::now();
        let passed = now.saturating_duration_since(self.since);
        self.since = now;
        self.credit(passed.as_secs().saturating_mul(FRAME_COST));
        // The fraction of a second counts next time.
        self.since -= Duration::from_nanos(u64::from(passed.subsec_nanos()));
    }
}

impl Tap for FloodCheck {
    fn poll_read_limit(&mut self, cx: &Context<'_>) -> Poll<Result<usize>> {
        ready!(self.budget.poll_ready(cx));
        Poll::Ready(Ok(if self.in_burst { BURST_READ } else { usize::MAX }))
    }

    fn read(&mut self, bytes: &[u8]) -> Result<usize> {
        let requests = self.count(bytes);
        self.budget.spend(requests);
        self.in_burst = requests >= BURST;
        if self.flood_cost.cost > MAX_COST { Err(ErrorKind::InvalidData.into()) } else { Ok(bytes.len()) }
    }

    fn wrote(&mut self, count: usize) {
        self.flood_cost.credit(count as u64);
    }
}

/// Length of the connection preface, `PRI * HTTP/2.0...` (RFC 9113, 3.4).
const PREFACE: usize = 24;
/// Length of a frame head (RFC 9113, 4.1).
const HEAD: usize = 9;
const DATA: u8 = 0;
const PADDED: u8 = 8;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
/// The largest number of a stream; one bit more is reserved.
const MAX_STREAM: u32 = u32::MAX >> 1;

/// Requests in one read that make it a burst.
const BURST: usize = 4;
/// Bytes per read during a burst; the shortest requests have less than twenty.
const BURST_READ: usize = 256;

/// The cost of a frame in useful bytes: more than the length of the response to a PING.
const FRAME_COST: u64 = 64;
/// More than a client with a hundred streams sends at once.
const MAX_FRAMES: u64 = 2_000;
const MAX_COST: u64 = MAX_FRAMES * FRAME_COST;

#[cfg(test)]
mod tests {
    use super::*;

    /// The cost of these frames, as [`FloodCheck::count`] charges them.
    fn cost_of(frames: &[(u8, u8, usize)]) -> u64 {
        let mut cost = FloodCost::zero();
        frames.iter().for_each(|&(kind, flags, length)| cost.charge(kind, flags, length));
        cost.cost
    }

    #[test]
    fn what_brings_nothing_adds_up_and_what_brings_something_pays() {
        assert_eq!(cost_of(&[(6, 0, 8), (4, 0, 0), (DATA, 0, 0), (DATA, PADDED, 100)]), 4 * FRAME_COST);
        assert_eq!(cost_of(&[(6, 0, 8), (8, 0, 4), (HEADERS, 4, 30)]), 0);
        assert_eq!(cost_of(&[(6, 0, 8), (DATA, 0, 16_384)]), 0);
        assert_eq!(cost_of(&[(6, 0, 8), (DATA, 0, 1)]), FRAME_COST - 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_frame_a_second_costs_nothing_for_however_long() {
        let mut cost = FloodCost::zero();
        for _ in 0..100_000 {
            tokio::time::advance(Duration::from_secs(1)).await;
            cost.charge(6, 0, 8);
            assert!(cost.cost <= MAX_COST, "{cost:?}");
        }
        (0..4_100).for_each(|_| cost.charge(6, 0, 8));
        assert!(cost.cost > MAX_COST);
    }
}
