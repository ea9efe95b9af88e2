//! Turns the notifications of a shared store into events.
//!
//! It counts and writes nothing. The store is in a lower layer than events and does not know them.

use std::sync::Arc;

use crate::event::{Event, Events, Fallback, StoreCallResult, StoreChange, StoreEvent};
use crate::store::shared::{AvailabilityChange, CallStatus, OnError, StoreObserver};
use crate::time::Span;

/// An observer that emits each notification as an event.
#[must_use]
pub fn store_observer(events: Events) -> Arc<dyn StoreObserver> {
    Arc::new(StoreEvents(events))
}

struct StoreEvents(Events);

impl StoreObserver for StoreEvents {
    fn call_finished(&self, result: CallStatus, took: Span) {
        let result = match result {
            CallStatus::Ok => StoreCallResult::Ok,
            CallStatus::Conflict => StoreCallResult::Conflict,
            CallStatus::Timeout => StoreCallResult::Timeout,
            CallStatus::Throttled => StoreCallResult::Throttled,
            CallStatus::Error => StoreCallResult::Error,
        };
        self.0.emit(&Event::Store(StoreEvent::Called { result, took }));
    }

    fn availability_changed(&self, change: &AvailabilityChange<'_>) {
        self.0.emit(&Event::Store(StoreEvent::Up(store_change(change))));
    }

    fn availability_reported(&self, change: &AvailabilityChange<'_>) {
        self.0.emit(&Event::Store(StoreEvent::Report(store_change(change))));
    }

    fn failed(&self, state: &AvailabilityChange<'_>) {
        self.0.emit(&Event::Store(StoreEvent::Failed(store_change(state))));
    }

    fn server_left(&self, server: &str, is_store_up: bool) {
        self.0.emit(&Event::Store(StoreEvent::ServerLeft { server, is_store_up }));
    }

    fn warned(&self, what: &str) {
        self.0.emit(&Event::Store(StoreEvent::Warning(what)));
    }

    fn refused_by_mirror(&self, limit: &Arc<str>) {
        self.0.emit(&Event::Store(StoreEvent::Mirrored { limit }));
    }

    fn admitted_by_lease(&self, limit: &Arc<str>) {
        self.0.emit(&Event::Store(StoreEvent::Leased(limit)));
    }

    fn race_lost(&self, limit: &Arc<str>) {
        self.0.emit(&Event::Store(StoreEvent::RaceLost(limit)));
    }

    fn fell_back(&self, on_error: OnError) {
        self.0.emit(&Event::Store(StoreEvent::FellBack(match on_error {
            OnError::Local => Fallback::Local,
            OnError::Allow => Fallback::Allow,
            OnError::Deny => Fallback::Deny,
        })));
    }
}

fn store_change<'a>(change: &AvailabilityChange<'a>) -> StoreChange<'a> {
    let &AvailabilityChange { server, up, is_store_up, why } = change;
    StoreChange { server, up, is_store_up, why }
}
