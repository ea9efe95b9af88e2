//! Caps connections while memory is short, before the kernel kills the process.
//!
//! Looks some times a second, on the background runtime; where there is no limit it has nothing to do. The surprising
//! thing: what is held down is the number of connections, to those that were there when memory became short. To turn
//! everybody away would be for good where the memory of those who left stays with the process.

mod limit;

use std::time::Duration;

use self::limit::{MemoryLimits, MemoryUsage};
use crate::net::connection_limit::ConnectionLimit;

/// Watches until it is dropped.
pub(super) async fn watch(guard: &ConnectionLimit) {
    let limits = MemoryLimits::of_this_process();
    let mut shortage = MemoryCeiling::default();
    loop {
        tokio::time::sleep(PERIOD).await;
        let before = shortage.ceiling;
        shortage.update(limits.tightest(), guard.active());
        if before == shortage.ceiling {
            continue;
        }
        guard.set_ceiling(shortage.ceiling);
        match (before, shortage.ceiling) {
            (None, Some(most)) => tracing::warn!("memory is short: no more than {most} connections"),
            (Some(_), None) => tracing::info!("memory is there again"),
            _ => {}
        }
    }
}

/// How many connections there may be because of the memory.
#[derive(Debug, Default)]
struct MemoryCeiling {
    ceiling: Option<usize>,
}

impl MemoryCeiling {
    /// `present` is how many there are.
    fn update(&mut self, usage: Option<MemoryUsage>, present: usize) {
        let Some(usage) = usage.filter(|usage| usage.exceeds(LOW_WATERMARK)) else {
            self.ceiling = None;
            return;
        };
        if usage.exceeds(HIGH_WATERMARK) {
            let most = present.min(self.ceiling.unwrap_or(usize::MAX));
            // What those who are in do takes more and more: places that come free stay so.
            let most = if usage.exceeds(CRITICAL_WATERMARK) { most - most.div_ceil(8) } else { most };
            self.ceiling = Some(most.max(MIN_CONNECTIONS));
        }
    }
}

/// In which a client with a fast line brings less than a tenth of any memory.
const PERIOD: Duration = Duration::from_millis(50);
/// Percent of what there may be.
const LOW_WATERMARK: u64 = 85;
const HIGH_WATERMARK: u64 = 90;
const CRITICAL_WATERMARK: u64 = 95;
/// So many do not matter, and an operator wants to see something.
const MIN_CONNECTIONS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(shortage: &mut MemoryCeiling, percent: u64, present: usize) -> Option<usize> {
        shortage.update(Some(MemoryUsage { used: percent, limit: 100 }), present);
        shortage.ceiling
    }

    #[test]
    fn connections_are_held_to_those_that_were_there_until_there_is_enough_again() {
        let mut shortage = MemoryCeiling::default();
        assert_eq!(looked(&mut shortage, 89, 500), None);
        assert_eq!(looked(&mut shortage, 90, 500), Some(500));
        assert_eq!(looked(&mut shortage, 91, 400), Some(400), "whoever leaves is not replaced");
        assert_eq!(looked(&mut shortage, 87, 300), Some(400), "and may be while there is less");
        assert_eq!(looked(&mut shortage, 84, 300), None);
    }

    #[test]
    fn where_those_who_are_in_take_ever_more_ever_fewer_are_let_in_but_never_nobody() {
        let mut shortage = MemoryCeiling::default();
        assert_eq!(looked(&mut shortage, 95, 800), Some(700));
        assert_eq!(looked(&mut shortage, 96, 800), Some(612));
        for _ in 0..100 {
            looked(&mut shortage, 99, 800);
        }
        assert_eq!(shortage.ceiling, Some(MIN_CONNECTIONS));
    }

    #[test]
    fn without_a_limit_there_is_no_ceiling() {
        let mut shortage = MemoryCeiling { ceiling: Some(5) };
        shortage.update(None, 9);
        assert_eq!(shortage.ceiling, None);
    }
}
