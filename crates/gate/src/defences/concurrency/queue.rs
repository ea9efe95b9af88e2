//! The queue for slots: prefixes of clients have one turn after the other, those of known owners first.
//!
//! The last slots of a full queue go to those who have the fewest: a newcomer takes the place of the last request of the prefix
//! that waits with most ("drop from the longest queue", as in RFC 8290, 4.1.3).

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use crate::policy::slots::{QueuedTurn, SlotRequest};

/// All requests that wait.
#[derive(Debug, Default)]
pub(super) struct SlotQueue {
    known: WaitingPrefixes,
    strangers: WaitingPrefixes,
    /// Known ones that had their turn since the last stranger.
    known_in_row: u32,
}

/// Requests of one kind of clients.
#[derive(Debug, Default)]
struct WaitingPrefixes {
    /// The prefixes of `waiting`, in the order of their turns.
    turns: VecDeque<Prefix>,
    waiting: HashMap<Prefix, VecDeque<Arc<QueuedTurn>>>,
    count: u32,
}

type Prefix = Option<IpAddr>;

/// What a prefix has of the slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SlotShare {
    Less,
    /// It waits for those that have less.
    Half,
    /// All that one prefix may have.
    All,
}

impl SlotQueue {
    /// All that wait.
    pub(super) fn len(&self) -> u32 {
        self.known.count + self.strangers.count
    }

    /// Those that have their turn no later than a new one of this kind.
    pub(super) fn ahead(&self, is_known: bool) -> u32 {
        if is_known { self.known.count } else { self.len() }
    }

    /// Puts a request into the queue, which holds `most` of its kind. Returns the one that has lost its place for it.
    ///
    /// # Errors
    /// Unit, if there is no place.
    pub(super) fn push(
        &mut self,
        request: SlotRequest,
        turn: &Arc<QueuedTurn>,
        most: u32,
    ) -> Result<Option<Arc<QueuedTurn>>, ()> {
        let kind = self.of(request.is_known);
        let evicted = if kind.count < most { None } else { Some(kind.evict_for(request.prefix).ok_or(())?) };
        kind.push(request.prefix, Arc::clone(turn));
        Ok(evicted)
    }

    /// The next request that has its turn. `strangers_may`: whether theirs may come. `share_of` tells what the prefix of a request
    /// has already.
    pub(super) fn pop(
        &mut self,
        strangers_may: bool,
        share_of: impl Fn(SlotRequest) -> SlotShare,
    ) -> Option<(SlotRequest, Arc<QueuedTurn>)> {
        let is_strangers_turn = self.known_in_row >= MAX_KNOWN_IN_ROW;
        for is_known in [!is_strangers_turn, is_strangers_turn] {
            if !is_known && !strangers_may {
                continue;
            }
            let of_prefix = |prefix| share_of(SlotRequest { prefix, is_known });
            if let Some((prefix, turn)) = self.of(is_known).pop(of_prefix) {
                self.known_in_row = if is_known { self.known_in_row.saturating_add(1) } else { 0 };
                return Some((SlotRequest { prefix, is_known }, turn));
            }
        }
        None
    }

    /// Takes a request out of the queue.
    pub(super) fn remove(&mut self, request: SlotRequest, turn: &Arc<QueuedTurn>) {
        self.of(request.is_known).remove(request.prefix, turn);
    }

    fn of(&mut self, is_known: bool) -> &mut WaitingPrefixes {
        if is_known { &mut self.known } else { &mut self.strangers }
    }
}

impl WaitingPrefixes {
    fn push(&mut self, prefix: Prefix, turn: Arc<QueuedTurn>) {
        let waiting = self.waiting.entry(prefix).or_default();
        if waiting.is_empty() {
            self.turns.push_back(prefix);
        }
        waiting.push_back(turn);
        self.count += 1;
    }

    fn pop(&mut self, share_of: impl Fn(Prefix) -> SlotShare) -> Option<(Prefix, Arc<QueuedTurn>)> {
        let first = |most| self.turns.iter().position(|&prefix| share_of(prefix) <= most);
        let at = first(SlotShare::Less).or_else(|| first(SlotShare::Half))?;
        let prefix = self.turns.remove(at)?;
        let waiting = self.waiting.get_mut(&prefix)?;
        let turn = waiting.pop_front()?;
        match waiting.is_empty() {
            true => drop(self.waiting.remove(&prefix)),
            false => self.turns.push_back(prefix),
        }
        self.count -= 1;
        Some((prefix, turn))
    }

    /// Takes the last request of the prefix with most, if that has more than this one would have.
    fn evict_for(&mut self, newcomer: Prefix) -> Option<Arc<QueuedTurn>> {
        let own = self.waiting.get(&newcomer).map_or(0, VecDeque::len);
        let (&prefix, waiting) = self.waiting.iter_mut().max_by_key(|(_, waiting)| waiting.len())?;
        if waiting.len() <= own + 1 {
            return None;
        }
        let evicted = waiting.back().map(Arc::clone)?;
        self.remove(prefix, &evicted);
        Some(evicted)
    }

    fn remove(&mut self, prefix: Prefix, turn: &Arc<QueuedTurn>) {
        let Some(waiting) = self.waiting.get_mut(&prefix) else { return };
        let before = waiting.len();
        waiting.retain(|other| !Arc::ptr_eq(other, turn));
        let is_removed = waiting.len() < before;
        if waiting.is_empty() {
            self.waiting.remove(&prefix);
            self.turns.retain(|other| *other != prefix);
        }
        self.count -= u32::from(is_removed);
    }
}

/// Known ones that have their turn before one stranger, at most: an account cannot keep all others out.
const MAX_KNOWN_IN_ROW: u32 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    fn request(is_known: bool, client: u8) -> SlotRequest {
        SlotRequest { prefix: Some(IpAddr::from([192, 0, 2, client])), is_known }
    }

    fn push(queue: &mut SlotQueue, is_known: bool, client: u8) -> Arc<QueuedTurn> {
        let turn = Arc::default();
        assert!(queue.push(request(is_known, client), &turn, 8).unwrap().is_none());
        turn
    }

    fn pop(queue: &mut SlotQueue) -> Option<(bool, u8)> {
        let (request, _) = queue.pop(true, |_| SlotShare::Less)?;
        let Some(IpAddr::V4(address)) = request.prefix else { return None };
        Some((request.is_known, address.octets()[3]))
    }

    #[test]
    fn prefixes_have_one_turn_after_the_other() {
        let mut queue = SlotQueue::default();
        for client in [1, 1, 1, 1, 2, 3] {
            push(&mut queue, false, client);
        }
        let order: Vec<_> = std::iter::from_fn(|| pop(&mut queue)).map(|(_, client)| client).collect();
        assert_eq!(order, [1, 2, 3, 1, 1, 1]);
        assert!(queue.len() == 0 && queue.strangers.waiting.is_empty() && queue.strangers.turns.is_empty());
    }

    #[test]
    fn known_ones_come_first_and_one_stranger_after_seven_of_them() {
        let mut queue = SlotQueue::default();
        (0..2).for_each(|_| drop(push(&mut queue, false, 1)));
        (0..8).for_each(|_| drop(push(&mut queue, true, 2)));
        let order: Vec<_> = std::iter::from_fn(|| pop(&mut queue)).map(|(is_known, _)| is_known).collect();
        let expected = [[true; 7].as_slice(), &[false, true, false]].concat();
        assert_eq!(order, expected);
    }

    #[test]
    fn strangers_wait_while_they_may_not_come() {
        let mut queue = SlotQueue::default();
        push(&mut queue, false, 1);
        (0..8).for_each(|_| drop(push(&mut queue, true, 2)));
        let popped = std::iter::from_fn(|| queue.pop(false, |_| SlotShare::Less));
        let known = popped.filter(|(request, _)| request.is_known);
        assert_eq!((known.count(), queue.len()), (8, 1));
    }

    #[test]
    fn a_prefix_with_its_share_waits_for_those_without_and_for_nobody_else() {
        let mut queue = SlotQueue::default();
        for client in [1, 1, 2] {
            push(&mut queue, false, client);
        }
        let mut next = |share| {
            let is_first = |waiting| waiting == request(false, 1);
            queue.pop(true, |waiting| if is_first(waiting) { share } else { SlotShare::Less })
        };
        let mut client = |share| next(share).map(|(request, _)| request);
        assert_eq!(client(SlotShare::Half), Some(request(false, 2)));
        assert_eq!(client(SlotShare::Half), Some(request(false, 1)));
        assert_eq!(client(SlotShare::All), None, "it has all that one may have");
        assert_eq!(client(SlotShare::Half), Some(request(false, 1)));
    }

    #[test]
    fn a_full_queue_takes_the_place_from_the_prefix_that_waits_with_most() {
        let mut queue = SlotQueue::default();
        let first: Vec<_> = (0..8).map(|_| push(&mut queue, false, 1)).collect();
        let mut push = |client| queue.push(request(false, client), &Arc::default(), 8);
        assert!(push(1).is_err(), "from itself it takes none");
        for client in 2..=5 {
            assert!(
                push(client)
                    .unwrap()
                    .is_some_and(|evicted| Arc::ptr_eq(&evicted, &first[9 - usize::from(client)]))
            );
        }
        // Four of the first are left: it may lose more, until it has as many as anybody.
        for client in 6..=8 {
            assert!(push(client).unwrap().is_some());
        }
        assert!(push(9).is_err(), "each has one");
        assert_eq!(queue.len(), 8);
    }

    #[test]
    fn those_who_leave_are_forgotten() {
        let mut queue = SlotQueue::default();
        let (first, second) = (push(&mut queue, false, 1), push(&mut queue, false, 2));
        queue.remove(request(false, 1), &first);
        queue.remove(request(false, 1), &first);
        assert_eq!((queue.len(), pop(&mut queue)), (1, Some((false, 2))));
        queue.remove(request(false, 2), &second);
        assert!(pop(&mut queue).is_none() && queue.len() == 0);
    }
}
