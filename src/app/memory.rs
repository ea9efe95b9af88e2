//! Lets nobody new in before the memory is used up, because the kernel would end the gate and with it everybody.
//!
//! Looks some times a second, on the background runtime; where there is no limit it has nothing to do. The surprising
//! thing: what is held down is the number of connections, to those that were there when memory became short. To turn
//! everybody away would be for good where the memory of those who left stays with the process.

mod limit;

use std::time::Duration;

use self::limit::{Limits, Usage};
use crate::net::guard::Guard;

/// Watches until it is dropped.
pub(super) async fn watch(guard: &Guard) {
    let limits = Limits::of_this_process();
    let mut shortage = Shortage::default();
    loop {
        tokio::time::sleep(PERIOD).await;
        let before = shortage.ceiling;
        shortage.looks(limits.tightest(), guard.present());
        if before == shortage.ceiling {
            continue;
        }
        guard.keep_below(shortage.ceiling);
        match (before, shortage.ceiling) {
            (None, Some(most)) => tracing::warn!("memory is short: no more than {most} connections"),
            (Some(_), None) => tracing::info!("memory is there again"),
            _ => {}
        }
    }
}

/// How many connections there may be because of the memory.
#[derive(Debug, Default)]
struct Shortage {
    ceiling: Option<usize>,
}

impl Shortage {
    /// `present` is how many there are.
    fn looks(&mut self, usage: Option<Usage>, present: usize) {
        let Some(usage) = usage.filter(|usage| usage.exceeds(ENOUGH_AGAIN)) else {
            self.ceiling = None;
            return;
        };
        if usage.exceeds(SHORT) {
            let most = present.min(self.ceiling.unwrap_or(usize::MAX));
            // What those who are in do takes more and more: places that come free stay so.
            let most = if usage.exceeds(ALMOST_NONE) { most - most.div_ceil(8) } else { most };
            self.ceiling = Some(most.max(FEWEST));
        }
    }
}

/// In which a client with a fast line brings less than a tenth of any memory.
const PERIOD: Duration = Duration::from_millis(50);
/// Percent of what there may be.
const ENOUGH_AGAIN: u64 = 85;
const SHORT: u64 = 90;
const ALMOST_NONE: u64 = 95;
/// So many do not matter, and an operator wants to see something.
const FEWEST: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(shortage: &mut Shortage, percent: u64, present: usize) -> Option<usize> {
        shortage.looks(Some(Usage { used: percent, limit: 100 }), present);
        shortage.ceiling
    }

    #[test]
    fn connections_are_held_to_those_that_were_there_until_there_is_enough_again() {
        let mut shortage = Shortage::default();
        assert_eq!(looked(&mut shortage, 89, 500), None);
        assert_eq!(looked(&mut shortage, 90, 500), Some(500));
        assert_eq!(looked(&mut shortage, 91, 400), Some(400), "whoever leaves is not replaced");
        assert_eq!(looked(&mut shortage, 87, 300), Some(400), "and may be while there is less");
        assert_eq!(looked(&mut shortage, 84, 300), None);
    }

    #[test]
    fn where_those_who_are_in_take_ever_more_ever_fewer_are_let_in_but_never_nobody() {
        let mut shortage = Shortage::default();
        assert_eq!(looked(&mut shortage, 95, 800), Some(700));
        assert_eq!(looked(&mut shortage, 96, 800), Some(612));
        for _ in 0..100 {
            looked(&mut shortage, 99, 800);
        }
        assert_eq!(shortage.ceiling, Some(FEWEST));
    }

    #[test]
    fn without_a_limit_there_is_no_ceiling() {
        let mut shortage = Shortage { ceiling: Some(5) };
        shortage.looks(None, 9);
        assert_eq!(shortage.ceiling, None);
    }
}
