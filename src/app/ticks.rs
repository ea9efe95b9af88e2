//! When periodic tasks of the background wake up: all at the same instants, because on a quiet machine each wake-up
//! costs more than what it is for.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Sleeps until the next multiple of `period` since the first call in this process.
pub(super) async fn next_tick(period: Duration) {
    static START: OnceLock<Instant> = OnceLock::new();
    let (start, now) = (*START.get_or_init(Instant::now), Instant::now());
    let nanos = now.saturating_duration_since(start).as_nanos() % period.as_nanos().max(1);
    let passed = Duration::from_nanos(u64::try_from(nanos).unwrap_or_default());
    sleep_until(now + period.saturating_sub(passed)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tasks_with_the_same_period_wake_up_together_whenever_they_began() {
        let (short, long) = (Duration::from_secs(2), Duration::from_secs(4));
        next_tick(long).await;
        let start = Instant::now();
        let late = async {
            tokio::time::sleep(Duration::from_millis(700)).await;
            next_tick(short).await;
            start.elapsed()
        };
        let early = async {
            next_tick(long).await;
            start.elapsed()
        };
        assert_eq!(tokio::join!(late, early), (short, long));
    }
}
