//! The worker watchdog: reports workers that make no progress.
//!
//! A worker at rest is called now and then, and has to answer. The watchdog only reports: in the log, in `/readyz`, and to
//! systemd by sending no more keep-alives, after which systemd restarts the gate. It runs on the background runtime, so a stall there silences the keep-alives too.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::service_manager::{self, State};
use super::ticks::next_tick;
use crate::observe::readiness::Readiness;
use crate::proxy::downstream::heartbeat::Heartbeat;

/// Watches the workers; never ends. `interval` is how often systemd expects a keep-alive.
pub(super) async fn watch(heartbeats: &[Arc<Heartbeat>], readiness: &Readiness, interval: Option<Duration>) {
    let mut watched: Vec<WatchedWorker> = heartbeats.iter().map(WatchedWorker::new).collect();
    let mut notified: Option<Instant> = None;
    let at_most = |pause: Duration| interval.map_or(pause, |interval| interval.min(pause));
    loop {
        let (mut all_move, mut all_rest) = (true, true);
        for (number, worker) in watched.iter_mut().enumerate() {
            let stalled = worker.look();
            all_move &= !stalled;
            all_rest &= worker.heartbeat.rests();
            report(number, stalled, readiness);
        }
        let pause = at_most(if all_rest { REST_INTERVAL } else { CHECK_INTERVAL });
        if let Some(interval) = interval
            && all_move
            && notified.is_none_or(|at| at.elapsed() + pause > interval)
        {
            service_manager::notify(&[State::Watchdog]);
            notified = Some(Instant::now());
        }
        next_tick(pause).await;
    }
}

/// What was seen of a worker.
struct WatchedWorker<'w> {
    heartbeat: &'w Heartbeat,
    beats: u64,
    /// Since when the next beat is due.
    since: Instant,
    /// It rested at the last look, and was not called.
    rests: bool,
}

impl<'w> WatchedWorker<'w> {
    fn new(heartbeat: &'w Arc<Heartbeat>) -> Self {
        Self { heartbeat, beats: heartbeat.beats(), since: Instant::now(), rests: false }
    }

    /// Looks, and calls a worker that rests, at every second look: the one between sees the answer. Returns whether the
    /// worker stands still.
    fn look(&mut self) -> bool {
        let beats = self.heartbeat.beats();
        let rests = self.heartbeat.rests() && !self.heartbeat.is_called();
        let has_beaten = beats != self.beats;
        if has_beaten || rests || self.rests {
            self.since = Instant::now();
        }
        self.beats = beats;
        self.rests = rests && (has_beaten || !self.heartbeat.call());
        self.since.elapsed() >= STALL_TIMEOUT
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
/// While all workers rest.
const REST_INTERVAL: Duration = Duration::from_secs(2);
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

    /// H17: a worker that never returns from its rest.
    #[tokio::test(start_paused = true)]
    async fn a_worker_at_rest_has_to_answer() {
        let (heartbeats, readiness) = ([Arc::<Heartbeat>::default()], Readiness::default());
        let steps = async {
            for _ in 0..3 {
                assert!(heartbeats[0].rest().await, "it is called");
                heartbeats[0].beat();
                assert_eq!(readiness.reasons(), None);
            }
            tokio::time::sleep(STALL_TIMEOUT + REST_INTERVAL * 3).await;
            assert_eq!(readiness.reasons(), Some("worker-0 stands still".to_owned()));
            heartbeats[0].beat();
            tokio::time::sleep(REST_INTERVAL * 2).await;
            assert_eq!(readiness.reasons(), None);
        };
        tokio::select! {
            () = watch(&heartbeats, &readiness, None) => {}
            () = steps => {}
        }
    }
}
