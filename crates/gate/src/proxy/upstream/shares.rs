//! Which of the upstreams that an SRV record names is next (RFC 2782): of those that are up, the ones of the lowest priority,
//! each as often as its weight says.
//!
//! The RFC draws lots. Turns give the same shares, evenly, and can be tested; they are those of nginx: each upstream gains its
//! weight, the one that has most is next and pays the sum.

use std::cell::RefCell;

use smallvec::SmallVec;

use super::TargetShare;

/// The turns of one worker.
#[derive(Debug)]
pub(super) struct ShareTurns {
    shares: Vec<TargetShare>,
    credits: RefCell<Vec<i64>>,
}

impl ShareTurns {
    pub(super) fn new(shares: &[TargetShare]) -> Self {
        Self { shares: shares.to_vec(), credits: RefCell::new(vec![0; shares.len()]) }
    }

    /// All upstreams by their positions: whose turn it is, then in case that fails those of the same priority that are closest
    /// to their turn, those of higher priorities, and those that are down.
    pub(super) fn next(&self, is_down: impl Fn(usize) -> bool) -> SmallVec<[usize; 4]> {
        let rank = |(at, share): (usize, &TargetShare)| (is_down(at), share.priority);
        let ranks: SmallVec<[(bool, u16); 4]> = self.shares.iter().enumerate().map(rank).collect();
        let mut credits = self.credits.borrow_mut();
        let mut sum = 0_i64;
        let lowest = ranks.iter().min().copied();
        for ((rank, share), credit) in ranks.iter().zip(&self.shares).zip(credits.iter_mut()) {
            if Some(*rank) == lowest {
                *credit = credit.saturating_add(share.points());
                sum = sum.saturating_add(share.points());
            }
        }
        let mut order: SmallVec<[usize; 4]> = (0..ranks.len()).collect();
        order.sort_by_key(|&at| (ranks.get(at), credits.get(at).map(|credit| -credit)));
        if let Some(credit) = order.first().and_then(|&first| credits.get_mut(first)) {
            *credit = credit.saturating_sub(sum);
        }
        order
    }
}

impl TargetShare {
    /// A weight of 0 is a very small one.
    fn points(self) -> i64 {
        (i64::from(self.weight) * 256).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(shares: &[(u16, u16)]) -> ShareTurns {
        let share = |&(priority, weight): &(u16, u16)| TargetShare { priority, weight };
        ShareTurns::new(&shares.iter().map(share).collect::<Vec<_>>())
    }

    /// How often each is first.
    fn counts(turns: &ShareTurns, times: usize, down: &[usize]) -> Vec<usize> {
        let mut counts = vec![0; turns.shares.len()];
        for _ in 0..times {
            counts[turns.next(|at| down.contains(&at))[0]] += 1;
        }
        counts
    }

    #[test]
    fn the_lowest_priority_that_is_up_shares_by_weight() {
        let turns = turns(&[(20, 1), (10, 3), (10, 1)]);
        assert_eq!(counts(&turns, 8, &[]), [0, 6, 2]);
        assert_eq!(counts(&turns, 8, &[1]), [0, 0, 8]);
        assert_eq!(counts(&turns, 8, &[1, 2]), [8, 0, 0]);
        assert_eq!(counts(&turns, 400, &[0, 1, 2]), [0, 300, 100], "all down: as if all were up");
    }

    #[test]
    fn what_fails_is_followed_by_its_equals_then_by_higher_priorities_then_by_those_that_are_down() {
        let turns = turns(&[(30, 0), (20, 0), (10, 5), (10, 1), (10, 9)]);
        assert_eq!(turns.next(|at| at == 4)[..], [2, 3, 1, 0, 4]);
    }

    #[test]
    fn weights_of_zero_are_equal_among_themselves_and_next_to_nothing_among_others() {
        assert_eq!(counts(&turns(&[(1, 0), (1, 0)]), 10, &[]), [5, 5]);
        assert_eq!(counts(&turns(&[(1, 0), (1, 1)]), 257 * 4, &[]), [4, 1024]);
        assert_eq!(counts(&turns(&[(0, u16::MAX)]), 3, &[]), [3]);
        assert!(turns(&[]).next(|_| false).is_empty());
    }
}
