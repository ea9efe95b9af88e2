//! Turns the notifications of a shared store into events.
//!
//! It counts and writes nothing. The store is in a lower layer than events and does not know them.

use std::sync::Arc;

use crate::event::{Event, Events, Fallback, StoreCallResult};
use crate::store::shared::{CallOutcome, OnError, StoreObserver};
use crate::time::Span;

/// An observer that emits each notification as an event.
#[must_use]
pub fn store_observer(events: Events) -> Arc<dyn StoreObserver> {
    Arc::new(StoreEvents(events))
}

struct StoreEvents(Events);

impl StoreObserver for StoreEvents {
    fn call_finished(&self, result: CallOutcome, took: Span) {
        let result = match result {
            CallOutcome::Ok => StoreCallResult::Ok,
            CallOutcome::Conflict => StoreCallResult::Conflict,
            CallOutcome::Timeout => StoreCallResult::Timeout,
            CallOutcome::Error => StoreCallResult::Error,
        };
        self.0.emit(&Event::StoreCalled { result, took });
    }

    fn availability_changed(&self, up: bool, why: &str) {
        self.0.emit(&Event::StoreUp { up, why });
    }

    fn warned(&self, what: &str) {
        self.0.emit(&Event::StoreWarning(what));
    }

    fn refused_by_mirror(&self, limit: &Arc<str>) {
        self.0.emit(&Event::Mirrored { limit });
    }

    fn race_lost(&self, limit: &Arc<str>) {
        self.0.emit(&Event::RaceLost(limit));
    }

    fn fell_back(&self, on_error: OnError) {
        self.0.emit(&Event::FellBack(match on_error {
            OnError::Local => Fallback::Local,
            OnError::Allow => Fallback::Allow,
            OnError::Deny => Fallback::Deny,
        }));
    }
}
