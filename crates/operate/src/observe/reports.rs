//! What an operator is told at once: begin and end of alarms, guesses that worked, and troubles of the gate, as JSON.
//!
//! Alarms and guesses go to the webhook of their route, troubles to every webhook of the file. Reports wait here, because a
//! listener to events may not block. Sending is left to `webhook.rs`.

use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Uri;
use serde::Serialize;
use tokio::sync::Notify;

use super::timestamp::rfc3339;
use crate::event::{AlarmChange, GuessWorked, Trouble};
use crate::policy::{Alarm, Policy};
use crate::time::Time;

/// Reports that wait to be sent.
#[derive(Debug, Default)]
pub struct WaitingReports {
    queues: Mutex<ReportQueues>,
    added: Notify,
}

#[derive(Debug, Default)]
struct ReportQueues {
    /// They go first: guesses may be many.
    of_alarms: Vec<Report>,
    of_guesses: Vec<Report>,
    /// Every webhook of the rules in force, with the first route that names it.
    webhooks: Vec<(Arc<str>, Uri)>,
}

/// One report.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) route: Arc<str>,
    pub(super) url: Uri,
    pub(super) body: String,
}

impl WaitingReports {
    /// Adds begin or end of an alarm, if its route reports them.
    pub fn add_alarm(&self, change: &AlarmChange<'_>) {
        if let Some(url) = change.report_to.cloned() {
            let report = Report { route: change.route.into(), url, body: body_of_alarm(change) };
            self.waiting().of_alarms.push(report);
            self.added.notify_one();
        }
    }

    /// Sends troubles to the webhooks of these rules from now on.
    pub fn set_webhooks(&self, policy: &Policy) {
        let mut webhooks: Vec<(Arc<str>, Uri)> = Vec::new();
        for (route, alarm) in policy.alarms() {
            let Some(url) = alarm.report_to() else { continue };
            if !webhooks.iter().any(|(_, known)| known == url) {
                webhooks.push((Arc::clone(route), url.clone()));
            }
        }
        self.waiting().webhooks = webhooks;
    }

    /// Adds a trouble, if there is a webhook.
    pub fn add_trouble(&self, trouble: &Trouble<'_>) {
        let mut waiting = self.waiting();
        let webhooks = waiting.webhooks.clone();
        let has_room = waiting.of_alarms.len() < MAX_TROUBLES;
        for (route, url) in webhooks.into_iter().filter(|_| has_room) {
            waiting.of_alarms.push(Report { route, url, body: body_of_trouble(trouble) });
        }
        self.added.notify_one();
    }

    /// Resolves when a report waits.
    pub async fn added(&self) {
        self.added.notified().await;
    }

    /// Adds a guess that worked, if its route reports them.
    pub fn add_guess(&self, guess: &GuessWorked<'_>) {
        let Some(url) = guess.route.defences.alarms().find_map(Alarm::report_to).cloned() else { return };
        let guesses = &mut self.waiting().of_guesses;
        if guesses.len() < MAX_GUESSES {
            let (route, body) = (Arc::clone(&guess.route.name), body_of_guess(guess));
            guesses.push(Report { route, url, body });
            self.added.notify_one();
        }
    }

    pub(super) fn take(&self) -> impl Iterator<Item = Report> {
        let mut waiting = self.waiting();
        let (alarms, guesses) = (take(&mut waiting.of_alarms), take(&mut waiting.of_guesses));
        alarms.into_iter().chain(guesses)
    }

    fn waiting(&self) -> MutexGuard<'_, ReportQueues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A report as it is sent; keys that do not apply are absent.
#[derive(Serialize, Default)]
struct ReportBody<'a> {
    event: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<&'a str>,
    time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    failures_per_minute: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failures: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    gate: String,
}

impl ReportBody<'_> {
    fn new(event: impl Into<String>, at: Time) -> Self {
        let gate = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { event: event.into(), time: rfc3339(at), gate, ..Self::default() }
    }

    fn json(&self) -> String {
        // Only a map with keys that are no strings cannot be written.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// As in `{"event":"guess_worked","route":"login",...}`.
fn body_of_guess(guess: &GuessWorked<'_>) -> String {
    let (account, failures) = (Some(format!("{:012x}", guess.account)), Some(guess.failures));
    let route = Some(&*guess.route.name);
    ReportBody { route, account, failures, ..ReportBody::new("guess_worked", guess.at) }.json()
}

/// As in `{"event":"attack_begin","route":"login",...}`.
fn body_of_alarm(change: &AlarmChange<'_>) -> String {
    let event = format!("{}_{}", change.words.event, if change.begins { "begin" } else { "end" });
    let share = (change.figures.share * 1000.0).round() / 1000.0;
    let (failures_per_minute, share) = (Some(change.figures.failures), Some(share));
    let route = Some(change.route);
    ReportBody { route, failures_per_minute, share, ..ReportBody::new(event, change.at) }.json()
}

/// As in `{"event":"store_down","why":"cannot connect",...}`.
fn body_of_trouble(trouble: &Trouble<'_>) -> String {
    let subject = Some(trouble.subject).filter(|subject| !subject.is_empty());
    let why = Some(trouble.why);
    ReportBody { subject, why, ..ReportBody::new(trouble.kind.name(), trouble.at) }.json()
}

/// Guesses that wait at once; further ones are dropped.
const MAX_GUESSES: usize = 100;
/// Reports that wait at once before a trouble is dropped.
const MAX_TROUBLES: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TroubleKind;
    use crate::observe::samples::{AT, alarm};

    #[test]
    fn a_report_says_what_where_and_when() {
        let url = "http://a/".parse().unwrap();
        let said: serde_json::Value = serde_json::from_str(&body_of_alarm(&alarm(&url))).unwrap();
        assert_eq!((&said["event"], &said["route"]), (&"attack_begin".into(), &"login".into()));
        assert_eq!(said["time"], "2026-11-20T23:21:52.043Z");
        assert_eq!((&said["failures_per_minute"], &said["share"]), (&90.into(), &0.95.into()));
        let trouble = Trouble { kind: TroubleKind::StoreDown, subject: "", why: "cannot connect", at: AT };
        let said: serde_json::Value = serde_json::from_str(&body_of_trouble(&trouble)).unwrap();
        let keys: Vec<_> = said.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["event", "gate", "time", "why"]);
        assert_eq!((&said["event"], &said["why"]), (&"store_down".into(), &"cannot connect".into()));
    }
}
