//! Caps connections while memory is short, before the kernel kills the process.
//!
//! It looks 20 times a second while any worker works, on the background runtime; without a memory limit it does nothing.
//! While memory is short, open connections are capped at the number that was open when the shortage began. To refuse all new
//! connections would be wrong: memory of closed ones may stay with the process for good.

mod limit;

use std::sync::Arc;
use std::time::Duration;

use self::limit::{MemoryLimits, MemoryUsage};
use crate::net::connection_limit::ConnectionLimit;
use crate::proxy::downstream::heartbeat::{Heartbeat, until_any_works};

/// Watches until it is dropped.
pub(super) async fn watch(connection_limit: &ConnectionLimit, heartbeats: &[Arc<Heartbeat>]) {
    let limits = MemoryLimits::of_this_process();
    let mut memory = MemoryCeiling::default();
    loop {
        tokio::time::sleep(PERIOD).await;
        let before = memory.ceiling;
        memory.update(limits.tightest(), connection_limit.active());
        if before == memory.ceiling {
            if before.is_none() {
                until_any_works(heartbeats).await;
            }
            continue;
        }
        connection_limit.set_ceiling(memory.ceiling);
        match (before, memory.ceiling) {
            (None, Some(max)) => tracing::warn!("memory is short: no more than {max} connections"),
            (Some(_), None) => tracing::info!("memory is no longer short"),
            _ => {}
        }
    }
}

/// How many connections the memory allows; no ceiling while there is enough.
#[derive(Debug, Default)]
struct MemoryCeiling {
    ceiling: Option<usize>,
}

impl MemoryCeiling {
    /// `active` is the number of open connections.
    fn update(&mut self, usage: Option<MemoryUsage>, active: usize) {
        let Some(usage) = usage.filter(|usage| usage.exceeds(LOW_WATERMARK)) else {
            self.ceiling = None;
            return;
        };
        if usage.exceeds(HIGH_WATERMARK) {
            let max = active.min(self.ceiling.unwrap_or(usize::MAX));
            // The open connections still need more and more: lower the ceiling further.
            let max = if usage.exceeds(CRITICAL_WATERMARK) { max - max.div_ceil(8) } else { max };
            self.ceiling = Some(max.max(MIN_CONNECTIONS));
        }
    }
}

/// Within this time even a client with a fast line sends less than a tenth of the memory.
const PERIOD: Duration = Duration::from_millis(50);
/// Percent of the memory limit.
const LOW_WATERMARK: u64 = 85;
const HIGH_WATERMARK: u64 = 90;
const CRITICAL_WATERMARK: u64 = 95;
/// Few connections cost little memory, and an operator has to get in.
const MIN_CONNECTIONS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn ceiling_at(memory: &mut MemoryCeiling, percent: u64, active: usize) -> Option<usize> {
        memory.update(Some(MemoryUsage { used: percent, limit: 100 }), active);
        memory.ceiling
    }

    #[test]
    fn connections_are_held_to_those_that_were_there_until_there_is_enough_again() {
        let mut memory = MemoryCeiling::default();
        assert_eq!(ceiling_at(&mut memory, 89, 500), None);
        assert_eq!(ceiling_at(&mut memory, 90, 500), Some(500));
        assert_eq!(ceiling_at(&mut memory, 91, 400), Some(400), "a closed connection is not replaced");
        assert_eq!(ceiling_at(&mut memory, 87, 300), Some(400), "and may be while there is less");
        assert_eq!(ceiling_at(&mut memory, 84, 300), None);
    }

    #[test]
    fn while_open_connections_take_ever_more_memory_ever_fewer_are_accepted_but_never_none() {
        let mut memory = MemoryCeiling::default();
        assert_eq!(ceiling_at(&mut memory, 95, 800), Some(700));
        assert_eq!(ceiling_at(&mut memory, 96, 800), Some(612));
        for _ in 0..100 {
            ceiling_at(&mut memory, 99, 800);
        }
        assert_eq!(memory.ceiling, Some(MIN_CONNECTIONS));
    }

    #[test]
    fn without_a_limit_there_is_no_ceiling() {
        let mut memory = MemoryCeiling { ceiling: Some(5) };
        memory.update(None, 9);
        assert_eq!(memory.ceiling, None);
    }
}
