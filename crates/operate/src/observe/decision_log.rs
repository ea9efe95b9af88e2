//! The log of every decision: one JSON object a line for each limit of each attempt.
//!
//! What an object holds is left to a [`DecisionForm`], how lines reach a file or a server to `line_log`. For a syslog
//! server each line begins with a header.

pub mod ecs;
pub mod ocsf;
mod security_event;
mod syslog_header;

use std::fmt::Debug;

use self::syslog_header::SyslogHeader;
use super::client_format::ClientFormatter;
use super::decision_line;
use super::line_log::LineFormat;
use super::settings::LogTarget;
use crate::event::{AccessLogEntry, AttemptRecord, LimitRecord};

/// Formats one line for each limit of an attempt.
#[derive(Debug)]
pub struct DecisionLines<F> {
    clients: ClientFormatter,
    header: Option<SyslogHeader>,
    form: F,
}

/// How a decision is written as an object.
pub trait DecisionForm: Debug + Send + Sync {
    /// Appends the object without a line feed; `second` as for [`LineFormat::write`].
    fn write(
        &self,
        line: &mut Vec<u8>,
        second: &str,
        clients: &ClientFormatter,
        entry: &AccessLogEntry,
        attempt: &AttemptRecord,
        record: &LimitRecord,
    );
}

/// The gate's own form: `log.schema = "tollgate"`.
#[derive(Debug)]
pub struct TollgateForm;

impl DecisionForm for TollgateForm {
    fn write(
        &self,
        line: &mut Vec<u8>,
        second: &str,
        clients: &ClientFormatter,
        entry: &AccessLogEntry,
        attempt: &AttemptRecord,
        record: &LimitRecord,
    ) {
        decision_line::write(line, second, clients, entry, attempt, record);
    }
}

impl<F: DecisionForm> DecisionLines<F> {
    /// Lines in this form for this target, with clients as `clients` writes them.
    #[must_use]
    pub fn new(target: &LogTarget, clients: ClientFormatter, form: F) -> Self {
        let header = match target {
            LogTarget::Syslog(_) => Some(SyslogHeader::of_this_process()),
            LogTarget::StandardOutput | LogTarget::File(_) => None,
        };
        Self { clients, header, form }
    }
}

impl<F: DecisionForm> LineFormat for DecisionLines<F> {
    fn second(&self) -> &'static str {
        "%Y-%m-%dT%H:%M:%S"
    }

    fn write(&self, text: &mut Vec<u8>, second: &str, entry: &AccessLogEntry) -> u64 {
        let Some(attempt) = entry.attempt.as_deref() else { return 0 };
        let mut lines = 0;
        for record in &attempt.limits {
            if let Some(header) = &self.header {
                header.write(text, second, entry.at, record.decision);
            }
            self.form.write(text, second, &self.clients, entry, attempt, record);
            text.push(b'\n');
            lines += 1;
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::samples::entry;
    use crate::observe::settings::{ClientsShown, SyslogAddress};
    use crate::policy::key::PrefixLengths;

    fn written(target: &LogTarget, entry: &AccessLogEntry) -> (Vec<String>, u64) {
        let mut text = Vec::new();
        let clients = ClientFormatter::new(ClientsShown::Full, PrefixLengths::default());
        let count =
            DecisionLines::new(target, clients, TollgateForm).write(&mut text, "2026-11-20T23:21:52", entry);
        (String::from_utf8(text).unwrap().lines().map(str::to_owned).collect(), count)
    }

    #[test]
    fn every_limit_of_an_attempt_has_a_line() {
        let (lines, count) = written(&LogTarget::StandardOutput, &entry());
        let limits: Vec<serde_json::Value> =
            lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&limits[0]["limit"], &limits[0]["verdict"]), (&"address".into(), &"refuse".into()));
        assert_eq!((&limits[1]["limit"], &limits[1]["verdict"]), (&"account".into(), &"admit".into()));
        assert_eq!((limits.len(), count), (2, 2));
    }

    #[test]
    fn a_request_that_is_no_attempt_has_none() {
        let other = AccessLogEntry { attempt: None, ..entry() };
        assert_eq!(written(&LogTarget::StandardOutput, &other), (Vec::new(), 0));
    }

    #[test]
    fn a_refusal_is_a_warning_for_syslog_and_anything_else_is_not() {
        let target = LogTarget::Syslog(SyslogAddress::Unix("/dev/log".into()));
        let (lines, _) = written(&target, &entry());
        let heads = lines.iter().map(|line| line.split_once(' ').unwrap().0);
        assert_eq!(heads.collect::<Vec<_>>(), ["<36>1", "<38>1"]);
        let (head, object) = lines[0].split_at(lines[0].find('{').unwrap());
        let fields: Vec<&str> = head.split_whitespace().collect();
        let process = std::process::id().to_string();
        assert_eq!((fields[1], fields[3]), ("2026-11-20T23:21:52.043Z", "tollgate"));
        assert_eq!((fields[4], fields[5], fields[6]), (&*process, "decision", "-"));
        assert!(serde_json::from_str::<serde_json::Value>(object).is_ok(), "{object}");
    }
}
