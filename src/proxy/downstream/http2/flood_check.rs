//! HTTP/2 flood check: charges frames that carry nothing (PING, SETTINGS, empty DATA, tiny window updates) against
//! useful bytes.
//!
//! h2 answers or forgets each of them in no memory, but for ever. It reads heads of frames along the way and changes
//! nothing. The surprising thing: no kind of frame is forbidden. Each costs a little, and what a connection is for
//! (requests, bodies, answers) pays for it, so whoever downloads may open windows as often as it likes. Requests that
//! come in a heap are handed on a few at a time, as many as the worker's [`WorkBudget`](crate::proxy::downstream::budget) lets through.

use std::io::{ErrorKind, Result};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use crate::proxy::downstream::budget::BudgetHandle;
use crate::proxy::tap::Tap;

/// Counts the frames of a client.
pub(super) struct FloodCheck {
    next: FrameState,
    flood_cost: FloodCost,
    budget: BudgetHandle,
    /// Requests come in a heap, so little is read at once.
    in_burst: bool,
}

/// What the next byte is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameState {
    /// The head of a frame, of which so much is here.
    Head([u8; HEAD], usize),
    /// So many bytes that nobody looks at.
    Bytes(usize),
}

/// What the frames so far have cost, less what was paid: a byte of use is worth one.
#[derive(Debug)]
struct FloodCost {
    cost: u64,
    since: Instant,
}

impl FloodCheck {
    /// At the beginning of a connection.
    pub(super) fn new(ticket: BudgetHandle) -> Self {
        Self {
            next: FrameState::Bytes(PREFACE),
            flood_cost: FloodCost::zero(),
            budget: ticket,
            in_burst: true,
        }
    }

    /// How many requests there are in what came.
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
                    if let Some(place) = head.get_mut(*filled) {
                        *place = byte;
                    }
                    *filled += 1;
                    bytes = bytes.get(1..).unwrap_or_default();
                    if *filled < HEAD {
                        continue;
                    }
                    let [a, b, c, kind, flags, ..] = *head;
                    let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                    self.next = FrameState::Bytes(length);
                    requests += usize::from(kind == HEADERS);
                    self.flood_cost.charge(kind, flags, length);
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
            // How many there may be is bounded by the streams, and how long they are by the list of headers.
            HEADERS => self.credit(2 * FRAME_COST),
            CONTINUATION => {}
            DATA if length > 0 && flags & PADDED == 0 => self.credit(length as u64),
            _ => self.cost += FRAME_COST,
        }
        if self.cost > MAX_COST {
            self.decay();
        }
    }

    fn credit(&mut self, worth: u64) {
        self.cost = self.cost.saturating_sub(worth);
    }

    /// A frame a second costs nothing: some clients ask all day whether a connection still stands. The time is asked
    /// for only where it would end.
    fn decay(&mut self) {
        let now = Instant::now();
        let passed = now.saturating_duration_since(self.since);
        self.since = now;
        self.credit(passed.as_secs().saturating_mul(FRAME_COST));
        // What is less than a second is not lost.
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

/// `PRI * HTTP/2.0` and what belongs to it (RFC 9113, 3.4).
const PREFACE: usize = 24;
/// RFC 9113, 4.1.
const HEAD: usize = 9;
const DATA: u8 = 0;
const PADDED: u8 = 8;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;

/// Requests in what was read at once.
const BURST: usize = 4;
/// Bytes; the shortest requests have less than twenty.
const BURST_READ: usize = 256;

/// What a frame costs, in bytes of use: more than the answer to a PING is long.
const FRAME_COST: u64 = 64;
/// Two thousand frames ahead: more than a client sends at once that has a hundred streams.
const MAX_COST: u64 = 2_000 * FRAME_COST;

#[cfg(test)]
mod tests {
    use super::*;

    /// As [`FloodCheck::count`] sees it, without a socket.
    fn cost_of(frames: &[(u8, u8, usize)]) -> u64 {
        let mut owed = FloodCost::zero();
        frames.iter().for_each(|&(kind, flags, length)| owed.charge(kind, flags, length));
        owed.cost
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
        let mut owed = FloodCost::zero();
        for _ in 0..100_000 {
            tokio::time::advance(Duration::from_secs(1)).await;
            owed.charge(6, 0, 8);
            assert!(owed.cost <= MAX_COST, "{owed:?}");
        }
        (0..4_100).for_each(|_| owed.charge(6, 0, 8));
        assert!(owed.cost > MAX_COST);
    }
}
