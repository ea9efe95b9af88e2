//! Hands on what a shared store says of itself, as events.
//!
//! It counts nothing and writes nothing. The surprising thing: it exists because the store stands below events and does not know
//! them.

use std::sync::Arc;

use crate::event::{Answer, Event, Events};
use crate::store::shared::{Answered, Witness};
use crate::time::Span;

/// Whoever listens to events hears the store, too.
#[must_use]
pub fn witness(events: Events) -> Arc<dyn Witness> {
    Arc::new(Telling(events))
}

struct Telling(Events);

impl Witness for Telling {
    fn answered(&self, result: Answered, took: Span) {
        let result = match result {
            Answered::Ok => Answer::Ok,
            Answered::Lost => Answer::Lost,
            Answered::Timeout => Answer::Timeout,
            Answered::Error => Answer::Error,
        };
        self.0.emit(&Event::StoreAsked { result, took });
    }

    fn turned(&self, up: bool, why: &str) {
        self.0.emit(&Event::StoreUp { up, why });
    }

    fn noticed(&self, what: &str) {
        self.0.emit(&Event::StoreNoticed(what));
    }
}
