//! The choices of the operator: order, time, limit, search and the selected row, and the question that is open.
//!
//! It knows neither the gate nor the terminal: keys and overviews come in, wishes go out.

mod keys;
mod rows;

use super::overview::{Overview, OverviewQuery, PlainError};
use crate::observe::admin::pages::ClientPart;
use crate::time::Span;

/// The state of the live view.
pub(super) struct TopState {
    overview: Overview,
    query: OverviewQuery,
    /// In lower case.
    search: String,
    selected: Option<RowId>,
    prompt: Prompt,
    is_paused: bool,
    message: Option<FooterMessage>,
    /// Why the gate did not answer last.
    outage: Option<PlainError>,
    /// Since the last answer.
    age: Span,
}

/// What the keys are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Prompt {
    Browse,
    Search,
    Help,
    Confirm(OperatorAction),
}

/// What a row is about; it stays selected while its place in the list changes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RowId {
    limit: String,
    client: Option<String>,
    account: Option<String>,
}

/// A change in the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OperatorAction {
    /// Reset the bucket of this address to full.
    Reset { client: String, limit: String },
    /// No limit sees this address or prefix for an hour.
    Exempt { client: String },
}

/// The effect of a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyEffect {
    None,
    Quit,
    /// The gate has to be asked again at once.
    Refresh,
    Act(OperatorAction),
}

/// One line at the bottom, until the next key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FooterMessage {
    pub(super) text: String,
    pub(super) is_error: bool,
}

impl TopState {
    pub(super) fn new(overview: Overview, query: OverviewQuery) -> Self {
        Self {
            overview,
            query,
            search: String::new(),
            selected: None,
            prompt: Prompt::Browse,
            is_paused: false,
            message: None,
            outage: None,
            age: Span::ZERO,
        }
    }

    pub(super) fn overview(&self) -> &Overview {
        &self.overview
    }

    pub(super) fn query(&self) -> &OverviewQuery {
        &self.query
    }

    pub(super) fn search(&self) -> &str {
        &self.search
    }

    pub(super) fn prompt(&self) -> &Prompt {
        &self.prompt
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub(super) fn message(&self) -> Option<&FooterMessage> {
        self.message.as_ref()
    }

    pub(super) fn outage(&self) -> Option<&PlainError> {
        self.outage.as_ref()
    }

    /// Since the last answer, where that is longer than two rounds.
    pub(super) fn staleness(&self) -> Option<Span> {
        let rounds = Span::from_nanos(self.query.every.as_nanos().saturating_mul(2)).max(MIN_STALENESS);
        (self.age > rounds && !self.is_paused).then_some(self.age)
    }

    pub(super) fn set_age(&mut self, age: Span) {
        self.age = age;
    }

    /// Takes a new overview; without one the last one stays, with the reason.
    pub(super) fn update(&mut self, overview: Result<Overview, PlainError>) {
        match overview {
            Ok(overview) => (self.overview, self.outage) = (overview, None),
            Err(why) => self.outage = Some(why),
        }
    }

    /// Says what came of an action.
    pub(super) fn say_done(&mut self, action: &OperatorAction, done: Result<(), PlainError>) {
        let (text, is_error) = match (done, action) {
            (Ok(()), OperatorAction::Reset { client, limit }) => {
                (format!("{client} is reset under `{limit}`"), false)
            }
            (Ok(()), OperatorAction::Exempt { client }) => (format!("{client} is exempt for an hour"), false),
            (Err(why), OperatorAction::Reset { .. }) => (format!("not reset: {why}"), true),
            (Err(why), OperatorAction::Exempt { .. }) => (format!("not exempted: {why}"), true),
        };
        self.message = Some(FooterMessage { text, is_error });
    }

    fn refuse(&mut self, text: &str) {
        self.message = Some(FooterMessage { text: text.to_owned(), is_error: true });
    }
}

impl RowId {
    fn of(row: &ClientPart) -> Self {
        Self { limit: row.limit.clone(), client: row.client.clone(), account: row.account.clone() }
    }
}

/// A busy machine may be late by a round.
const MIN_STALENESS: Span = Span::from_secs(5);

#[cfg(test)]
mod tests;
