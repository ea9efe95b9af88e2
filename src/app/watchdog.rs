//! The worker watchdog: reports workers that make no progress.
//!
//! It can only say so: in the log, to whoever asks `/readyz`, and to systemd by keeping silent, which then starts the gate anew.
//! The surprising thing: it is asked on the background runtime, so that it falls silent too if that one hangs.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::service_manager::{self, State};
use crate::observe::readiness::Readiness;
use crate::proxy::downstream::heartbeat::Heartbeat;

/// Watches them for ever.
pub(super) async fn watch(pulses: &[Arc<Heartbeat>], trouble: &Readiness, watchdog: Option<Duration>) {
    let mut seen: Vec<(u64, Instant)> = pulses.iter().map(|pulse| (pulse.beats(), Instant::now())).collect();
    let mut told: Option<Instant> = None;
    let pause = watchdog.map_or(CHECK_INTERVAL, |interval| interval.min(CHECK_INTERVAL));
    loop {
        let mut all_move = true;
        for (number, (pulse, (beats, since))) in pulses.iter().zip(&mut seen).enumerate() {
            if pulse.beats() != *beats {
                (*beats, *since) = (pulse.beats(), Instant::now());
            }
            let stands = since.elapsed() >= STALL_TIMEOUT;
            all_move &= !stands;
            report(number, stands, trouble);
        }
        if let Some(interval) = watchdog
            && all_move
            && told.is_none_or(|told| told.elapsed() + pause > interval)
        {
            service_manager::notify(&[State::Watchdog]);
            told = Some(Instant::now());
        }
        tokio::time::sleep(pause).await;
    }
}

fn report(number: usize, stands: bool, trouble: &Readiness) {
    let what = format!("worker-{number} stands still");
    match (trouble.set_reason(&what, stands), stands) {
        (false, _) => {}
        (true, true) => tracing::error!("{what}: for {STALL_TIMEOUT:?} nobody there was served"),
        (true, false) => tracing::info!("worker-{number} moves again"),
    }
}

const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Workers move once a second.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    /// H17: a worker that does not come back from what it does.
    #[tokio::test(start_paused = true)]
    async fn a_worker_that_stands_still_is_told_until_it_moves() {
        let (pulses, trouble) = ([Arc::<Heartbeat>::default(), Arc::default()], Readiness::default());
        // Between two looks, so that it does not matter which of the two the runtime asks first.
        let steps = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            for second in 0..30 {
                pulses[0].beat();
                if !(5..20).contains(&second) {
                    pulses[1].beat();
                }
                // The last beat before was seen at 5, the first one after at 21.
                let expected = (10..=20).contains(&second).then(|| "worker-1 stands still".to_owned());
                assert_eq!(trouble.reasons(), expected, "second {second}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            () = watch(&pulses, &trouble, None) => {}
            () = steps => {}
        }
    }
}
