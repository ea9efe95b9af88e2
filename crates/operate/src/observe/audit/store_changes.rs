//! When a shared store was away, for the audit log: changes wait here until a task writes them.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use serde_json::json;
use tokio::sync::Notify;

use super::AuditEntry;
use super::gate_lines::{STORE_BACK, STORE_LOST};
use crate::event::{Event, EventListener, Fallback, StoreChange, StoreEvent};
use crate::time::{Clock, Time};

/// Hears of the store.
#[derive(Debug)]
pub struct StoreChanges {
    clock: Clock,
    waiting: Mutex<VecDeque<(Time, AuditEntry)>>,
    came: Notify,
    /// Attempts that were decided without the store: by this gate's memory, admitted, refused.
    fallen_back: [AtomicU64; 3],
}

impl StoreChanges {
    /// None yet.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, waiting: Mutex::default(), came: Notify::new(), fallen_back: Default::default() }
    }

    /// The next change, with its time.
    pub async fn next(&self) -> (Time, AuditEntry) {
        loop {
            let next = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            match next {
                Some(change) => return change,
                None => self.came.notified().await,
            }
        }
    }

    fn note(&self, change: &StoreChange<'_>) {
        let what = if change.is_store_up { STORE_BACK } else { STORE_LOST };
        let [local, allow, deny] = [0, 1, 2].map(|at: usize| self.fallen_back[at].swap(0, Relaxed));
        let after = json!({ "server": change.server, "why": change.why, "local": local, "allow": allow, "deny": deny });
        let entry = AuditEntry::of_gate(what, std::process::id(), after);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // A store that comes and goes faster than a disk writes lines is told of later.
        if waiting.len() < MAX_WAITING {
            waiting.push_back((self.clock.now(), entry));
        }
        drop(waiting);
        self.came.notify_one();
    }
}

impl EventListener for StoreChanges {
    fn on_event(&self, event: &Event<'_>) {
        let Event::Store(event) = event else { return };
        match event {
            StoreEvent::Up(change) => self.note(change),
            StoreEvent::FellBack(how) => {
                let at = match how {
                    Fallback::Local => 0,
                    Fallback::Allow => 1,
                    Fallback::Deny => 2,
                };
                self.fallen_back[at].fetch_add(1, Relaxed);
            }
            _ => {}
        }
    }
}

/// Changes that wait for the disk.
const MAX_WAITING: usize = 64;
