//! The worker watchdog: reports workers that make no progress.
//!
//! It only reports: in the log, in `/readyz`, and to systemd by sending no more keep-alives, after which systemd
//! restarts the gate. It runs on the background runtime, so a stall there silences the keep-alives too.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::service_manager::{self, State};
use crate::observe::readiness::Readiness;
use crate::proxy::downstream::heartbeat::Heartbeat;

/// Watches the workers; never ends. `interval` is how often systemd wants a keep-alive.
pub(super) async fn watch(heartbeats: &[Arc<Heartbeat>], readiness: &Readiness, interval: Option<Duration>) {
    let mut seen: Vec<(u64, Instant)> =
        heartbeats.iter().map(|heartbeat| (heartbeat.beats(), Instant::now())).collect();
    let mut notified: Option<Instant> = None;
    let pause = interval.map_or(CHECK_INTERVAL, |interval| interval.min(CHECK_INTERVAL));
    loop {
        let mut all_move = true;
        for (number, (heartbeat, (beats, since))) in heartbeats.iter().zip(&mut seen).enumerate() {
            if heartbeat.beats() != *beats {
                (*beats, *since) = (heartbeat.beats(), Instant::now());
            }
            let stalled = since.elapsed() >= STALL_TIMEOUT;
            all_move &= !stalled;
            report(number, stalled, readiness);
        }
        if let Some(interval) = interval
            && all_move
            && notified.is_none_or(|at| at.elapsed() + pause > interval)
        {
            service_manager::notify(&[State::Watchdog]);
            notified = Some(Instant::now());
        }
        tokio::time::sleep(pause).await;
    }
}

fn report(number: usize, stalled: bool, readiness: &Readiness) {
    let what = format!("worker-{number} stands still");
    match (readiness.set_reason(&what, stalled), stalled) {
        (false, _) => {}
        (true, true) => tracing::error!("{what}: it has served no client for {STALL_TIMEOUT:?}"),
        (true, false) => tracing::info!("worker-{number} moves again"),
    }
}

const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Five missed heartbeats: a worker sends one each second.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    /// H17: a worker that never returns from its work.
    #[tokio::test(start_paused = true)]
    async fn a_worker_that_stands_still_is_told_until_it_moves() {
        let (heartbeats, readiness) = ([Arc::<Heartbeat>::default(), Arc::default()], Readiness::default());
        // Halfway between two checks, so that the order in which the runtime polls does not matter.
        let steps = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            for second in 0..30 {
                heartbeats[0].beat();
                if !(5..20).contains(&second) {
                    heartbeats[1].beat();
                }
                // The last beat before was seen at 5, the first one after at 21.
                let expected = (10..=20).contains(&second).then(|| "worker-1 stands still".to_owned());
                assert_eq!(readiness.reasons(), expected, "second {second}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            () = watch(&heartbeats, &readiness, None) => {}
            () = steps => {}
        }
    }
}
