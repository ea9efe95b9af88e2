//! The pool on fake connections: it is tested for its timing, which needs no database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::*;

/// Connects or fails after a delay, and counts.
#[derive(Default)]
struct Fake {
    attempts: Arc<AtomicUsize>,
    is_down: Arc<AtomicBool>,
    /// How long an attempt takes.
    delay: Duration,
}

struct FakeLink;

impl SqlConnector for Fake {
    type Connection = FakeLink;

    fn connect(&self) -> SqlConnecting<'_, FakeLink> {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        let is_down = self.is_down.load(Ordering::Relaxed);
        Box::pin(async move {
            sleep(self.delay).await;
            if is_down { Err(StoreError::NotConnected("down".to_owned())) } else { Ok(FakeLink) }
        })
    }
}

impl SqlConnection for FakeLink {
    const MAX_UNANSWERED: usize = 2;
    const MAX_CONNECTIONS: usize = 3;
    const SILENCE_TIMEOUT: Duration = Duration::from_secs(1);

    fn is_broken(&self) -> bool {
        false
    }

    fn close(&self) {}
}

async fn after(time: Duration) -> Result<(), StoreError> {
    sleep(time).await;
    Ok(())
}

/// Runs on the real clock, in one thread.
fn within_a_runtime(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(test);
}

#[test]
fn connections_are_made_by_need_and_bounded() {
    within_a_runtime(async {
        let fake = Fake::default();
        let attempts = Arc::clone(&fake.attempts);
        let pool = Arc::new(SqlPool::new(fake).unwrap());
        for _ in 0..10 {
            assert_eq!(pool.call(|_| after(Duration::ZERO)).await, Ok(()));
        }
        assert_eq!(attempts.load(Ordering::Relaxed), 1, "one after the other, one is enough");
        let calls: Vec<_> = (0..12)
            .map(|_| {
                let pool = Arc::clone(&pool);
                tokio::spawn(async move { pool.call(|_| after(Duration::from_millis(200))).await })
            })
            .collect();
        for task in calls {
            assert_eq!(task.await.unwrap(), Ok(()));
        }
        assert!((2..=3).contains(&attempts.load(Ordering::Relaxed)));
    });
}

#[test]
fn a_request_without_a_connection_fails_at_once_and_attempts_to_connect_are_few() {
    within_a_runtime(async {
        let fake = Fake::default();
        let (attempts, is_down) = (Arc::clone(&fake.attempts), Arc::clone(&fake.is_down));
        is_down.store(true, Ordering::Relaxed);
        let pool = SqlPool::new(fake).unwrap();
        let begun = Instant::now();
        let mut requests = 0;
        while begun.elapsed() < Duration::from_millis(500) {
            let result = timeout(Duration::from_millis(20), pool.call(|_| after(Duration::ZERO))).await;
            assert_eq!(result, Ok(Err(StoreError::NotConnected("down".to_owned()))));
            requests += 1;
            sleep(Duration::from_millis(1)).await;
        }
        let attempts = attempts.load(Ordering::Relaxed);
        assert!(requests > 50 && (2..=5).contains(&attempts), "{requests} requests, {attempts} attempts");
        is_down.store(false, Ordering::Relaxed);
        sleep(RECONNECT_PAUSE * 2).await;
        assert_eq!(pool.call(|_| after(Duration::ZERO)).await, Ok(()));
    });
}

#[test]
fn an_attempt_longer_than_the_pause_tells_its_error_to_who_waits_for_it() {
    within_a_runtime(async {
        let fake = Fake { delay: RECONNECT_PAUSE * 2, ..Fake::default() };
        fake.is_down.store(true, Ordering::Relaxed);
        let pool = SqlPool::new(fake).unwrap();
        let begun = Instant::now();
        let result = pool.call(|_| after(Duration::ZERO)).await;
        assert_eq!(result, Err(StoreError::NotConnected("down".to_owned())));
        assert!(begun.elapsed() < ACQUIRE_TIMEOUT / 2, "{:?}", begun.elapsed());
    });
}

#[test]
fn a_connection_that_says_nothing_is_given_up_and_one_that_is_slow_is_not() {
    within_a_runtime(async {
        let fake = Fake::default();
        let attempts = Arc::clone(&fake.attempts);
        let pool = Arc::new(SqlPool::new(fake).unwrap());
        let begun = Instant::now();
        let result = pool.call(|_| after(Duration::from_secs(60))).await;
        assert!(matches!(result, Err(StoreError::Unreachable(_))), "{result:?}");
        assert!(begun.elapsed() < Duration::from_millis(1300), "{:?}", begun.elapsed());
        sleep(RECONNECT_PAUSE * 2).await;
        assert_eq!(pool.call(|_| after(Duration::from_millis(900))).await, Ok(()));
        assert_eq!(attempts.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn a_question_whose_asker_is_gone_before_it_was_sent_is_not_sent() {
    within_a_runtime(async {
        let fake = Fake::default();
        fake.is_down.store(true, Ordering::Relaxed);
        let is_down = Arc::clone(&fake.is_down);
        let pool = SqlPool::new(fake).unwrap();
        let sent = Arc::new(AtomicUsize::new(0));
        for _ in 0..3 {
            let sent = Arc::clone(&sent);
            let call = pool.call(move |_| async move {
                sent.fetch_add(1, Ordering::Relaxed);
                Ok(())
            });
            let _ = timeout(Duration::ZERO, call).await;
        }
        is_down.store(false, Ordering::Relaxed);
        sleep(RECONNECT_PAUSE * 2).await;
        assert_eq!(pool.call(|_| after(Duration::ZERO)).await, Ok(()));
        assert_eq!(sent.load(Ordering::Relaxed), 0);
    });
}
