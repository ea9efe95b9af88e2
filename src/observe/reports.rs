//! What an operator wants to hear at once: begin and end of alarms, and guesses that worked, as JSON.
//!
//! Reports wait here, because a listener to events may not block. Sending is left to `webhook.rs`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Uri;
use serde_json::json;

use super::timestamp::rfc3339;
use crate::event::{AlarmChange, GuessWorked};
use crate::policy::Alarm;

/// Reports that wait to be sent.
#[derive(Debug, Default)]
pub struct WaitingReports(Mutex<ReportQueues>);

#[derive(Debug, Default)]
struct ReportQueues {
    /// They go first: guesses may be many.
    of_alarms: Vec<Report>,
    of_guesses: Vec<Report>,
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
        }
    }

    /// Adds a guess that worked, if its route reports them.
    pub fn add_guess(&self, guess: &GuessWorked<'_>) {
        let Some(url) = guess.route.defences.alarms().find_map(Alarm::report_to).cloned() else { return };
        let guesses = &mut self.waiting().of_guesses;
        if guesses.len() < MAX_GUESSES {
            let (route, body) = (Arc::clone(&guess.route.name), body_of_guess(guess));
            guesses.push(Report { route, url, body });
        }
    }

    pub(super) fn take(&self) -> impl Iterator<Item = Report> {
        let ReportQueues { of_alarms, of_guesses } = std::mem::take(&mut *self.waiting());
        of_alarms.into_iter().chain(of_guesses)
    }

    fn waiting(&self) -> MutexGuard<'_, ReportQueues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As in `{"event":"guess_worked","route":"login",...}`.
fn body_of_guess(guess: &GuessWorked<'_>) -> String {
    let value = json!({
        "event": "guess_worked",
        "route": *guess.route.name,
        "time": rfc3339(guess.at),
        "account": format!("{:012x}", guess.account),
        "failures": guess.failures,
        "gate": rustix::system::uname().nodename().to_string_lossy(),
    });
    value.to_string()
}

/// As in `{"event":"attack_begin","route":"login",...}`.
fn body_of_alarm(change: &AlarmChange<'_>) -> String {
    let value = json!({
        "event": format!("{}_{}", change.words.event, if change.begins { "begin" } else { "end" }),
        "route": change.route,
        "time": rfc3339(change.at),
        "failures_per_minute": change.figures.failures,
        "share": (change.figures.share * 1000.0).round() / 1000.0,
        "gate": rustix::system::uname().nodename().to_string_lossy(),
    });
    value.to_string()
}

/// Guesses that wait at once; further ones are dropped.
const MAX_GUESSES: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::samples::alarm;

    #[test]
    fn a_report_says_what_where_and_when() {
        let url = "http://a/".parse().unwrap();
        let said: serde_json::Value = serde_json::from_str(&body_of_alarm(&alarm(&url))).unwrap();
        assert_eq!((&said["event"], &said["route"]), (&"attack_begin".into(), &"login".into()));
        assert_eq!(said["time"], "2026-11-20T23:21:52.043Z");
        assert_eq!((&said["failures_per_minute"], &said["share"]), (&90.into(), &0.95.into()));
    }
}
