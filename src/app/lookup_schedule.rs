//! Looks up each of some names again when its last answer's time is over.
//!
//! The callers look up, know what an answer means, and say how long it holds.

use std::collections::BTreeMap;

use tokio::task::{JoinError, JoinSet};
use tokio::time::{Duration, Instant, sleep_until};

/// Names, and when each is looked up next.
#[derive(Debug)]
pub(super) struct LookupSchedule<N, A> {
    names: BTreeMap<N, LookupState>,
    running: JoinSet<(N, A)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LookupState {
    /// It was never looked up.
    New,
    Running,
    Due(Instant),
}

impl<N: Ord + Clone + Send + 'static, A: Send + 'static> LookupSchedule<N, A> {
    pub(super) fn new() -> Self {
        Self { names: BTreeMap::new(), running: JoinSet::new() }
    }

    /// Looks up these names, new ones at once, and no others.
    pub(super) fn set(&mut self, names: impl IntoIterator<Item = N>) {
        let former = std::mem::take(&mut self.names);
        let state = |name: N| {
            let state = former.get(&name).copied().unwrap_or(LookupState::New);
            (name, state)
        };
        self.names = names.into_iter().map(state).collect();
    }

    /// Looks up all names at once, as if all were new.
    pub(super) fn restart(&mut self) {
        self.running = JoinSet::new();
        self.names.values_mut().for_each(|state| *state = LookupState::New);
    }

    /// Looks up this name at once, unless that is under way.
    pub(super) fn renew(&mut self, name: &N) {
        if let Some(state @ LookupState::Due(_)) = self.names.get_mut(name) {
            *state = LookupState::New;
        }
    }

    /// Looks up this name again in so long.
    pub(super) fn again_in(&mut self, name: &N, pause: Duration) {
        if let Some(state) = self.names.get_mut(name) {
            *state = LookupState::Due(Instant::now() + pause);
        }
    }

    /// Until a lookup is due or under way; never ends without names. It ends at once where a name was never looked up.
    pub(super) async fn until_due(&self) {
        if self.running.is_empty() && !self.has_new() {
            until(self.next_due()).await;
        }
    }

    /// Whether a name was never looked up.
    pub(super) fn has_new(&self) -> bool {
        self.names.values().any(|state| *state == LookupState::New)
    }

    fn next_due(&self) -> Option<Instant> {
        let due = |state: &LookupState| match state {
            LookupState::Due(at) => Some(*at),
            LookupState::New | LookupState::Running => None,
        };
        self.names.values().filter_map(due).min()
    }

    /// Starts the lookups that are due. The next answers, each for a name that has to be looked up [again](Self::again_in). May
    /// be dropped and called again.
    pub(super) async fn answers<F: Future<Output = A> + Send + 'static>(
        &mut self,
        look_up: impl Fn(N) -> F,
    ) -> Vec<(N, A)> {
        loop {
            self.start_due(&look_up);
            let next = until(self.next_due().filter(|_| self.running.len() < MAX_LOOKUPS));
            let done = tokio::select! {
                Some(done) = self.running.join_next() => done,
                () = next => continue,
            };
            let mut answers = Vec::new();
            self.take(done, &mut answers);
            while let Some(done) = self.running.try_join_next() {
                self.take(done, &mut answers);
            }
            if !answers.is_empty() {
                return answers;
            }
        }
    }

    fn start_due<F: Future<Output = A> + Send + 'static>(&mut self, look_up: &impl Fn(N) -> F) {
        let now = Instant::now();
        for (name, state) in &mut self.names {
            let is_due = match *state {
                LookupState::New => true,
                LookupState::Running => false,
                LookupState::Due(at) => at <= now,
            };
            if is_due && self.running.len() < MAX_LOOKUPS {
                *state = LookupState::Running;
                let (name, lookup) = (name.clone(), look_up(name.clone()));
                self.running.spawn(async move { (name, lookup.await) });
            }
        }
    }

    fn take(&mut self, done: Result<(N, A), JoinError>, answers: &mut Vec<(N, A)>) {
        match done {
            Ok((name, answer)) if self.names.get(&name) == Some(&LookupState::Running) => {
                self.again_in(&name, RETRY);
                answers.push((name, answer));
            }
            Ok(_) => {}
            // Whose it was is not known.
            Err(_) => {
                let running = self.names.values_mut().filter(|state| **state == LookupState::Running);
                running.for_each(|state| *state = LookupState::Due(Instant::now() + RETRY));
            }
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Lookups under way at once.
const MAX_LOOKUPS: usize = 16;
/// For a name without another pause.
const RETRY: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    /// The names that are looked up next, and the second at which that is done.
    async fn next(
        schedule: &mut LookupSchedule<&'static str, ()>,
        start: Instant,
    ) -> (Vec<&'static str>, u64) {
        let answers = schedule.answers(async |_| {}).await;
        (answers.into_iter().map(|(name, ())| name).collect(), start.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn each_name_has_its_own_pause_and_a_new_one_none() {
        let (mut schedule, start) = (LookupSchedule::new(), Instant::now());
        schedule.set(["a"]);
        assert!(schedule.has_new());
        assert_eq!(next(&mut schedule, start).await, (vec!["a"], 0));
        schedule.again_in(&"a", Duration::from_secs(3600));
        schedule.set(["a", "b"]);
        schedule.until_due().await;
        assert_eq!(next(&mut schedule, start).await, (vec!["b"], 0));
        assert_eq!(next(&mut schedule, start).await, (vec!["b"], RETRY.as_secs()));
        schedule.set(["a"]);
        assert!(!schedule.has_new());
        assert_eq!(next(&mut schedule, start).await, (vec!["a"], 3600));
        schedule.again_in(&"a", Duration::from_secs(3600));
        schedule.restart();
        assert_eq!(next(&mut schedule, start).await, (vec!["a"], 3600));
        schedule.again_in(&"a", Duration::from_secs(3600));
        schedule.renew(&"a");
        assert_eq!(next(&mut schedule, start).await, (vec!["a"], 3600));
        schedule.set([]);
        let waited = tokio::time::timeout(Duration::from_secs(900), next(&mut schedule, start)).await;
        assert!(waited.is_err(), "there is nothing to look up");
    }
}
