//! What came of an attempt, as `POST /outcome` reports it: its outcome, or the head of the application's answer.
//!
//! A proxy reports the head as it came, and needs no policy for that; `engine` judges it by the rules of the attempt's routes.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;

use crate::engine::{AttemptReceipt, ReportedEnd};
use crate::policy::outcome::Outcome;
use crate::proxy::error::Error;

/// A report.
#[derive(Debug)]
pub(in crate::proxy) struct OutcomeReport<'a> {
    /// Whose end it is.
    pub(in crate::proxy) receipt: AttemptReceipt,
    /// The account that the attempt was for, if the application says so.
    pub(in crate::proxy) user: Option<Cow<'a, str>>,
    /// What came of it.
    pub(in crate::proxy) end: ReportedEnd,
}

impl<'a> OutcomeReport<'a> {
    /// Reads the body of a report. `may_answer`: whether heads of answers are taken.
    ///
    /// # Errors
    /// [`Error::MalformedReport`] and [`Error::NoSuchReceipt`].
    pub(in crate::proxy) fn read(body: &'a [u8], may_answer: bool) -> Result<Self, Error> {
        let written: WrittenReport<'a> = serde_json::from_slice(body).map_err(|_| Error::MalformedReport)?;
        let end = match (written.outcome, written.answer) {
            (Some(outcome), None) => ReportedEnd::Outcome(outcome.into()),
            (None, Some(answer)) if may_answer => answer.head().ok_or(Error::MalformedReport)?,
            _ => return Err(Error::MalformedReport),
        };
        Ok(Self { receipt: written.receipt.parse()?, user: written.user, end })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenReport<'a> {
    #[serde(borrow)]
    receipt: Cow<'a, str>,
    outcome: Option<WrittenOutcome>,
    answer: Option<WrittenAnswer>,
    #[serde(borrow)]
    user: Option<Cow<'a, str>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenOutcome {
    Failure,
    Success,
    Neutral,
}

/// The head of an answer. Each character of a value is a byte, as not every value is UTF-8.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAnswer {
    status: u16,
    headers: Vec<(String, String)>,
}

impl WrittenAnswer {
    /// `None` if it cannot be the head of an answer. Nothing is left out or corrected: a rule could depend on it.
    fn head(self) -> Option<ReportedEnd> {
        let mut headers = HeaderMap::new();
        for (name, value) in self.headers {
            let value: Vec<u8> = value.chars().map(u8::try_from).collect::<Result<_, _>>().ok()?;
            let line = (HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?);
            headers.try_append(line.0, line.1).ok()?;
        }
        Some(ReportedEnd::Answer { status: StatusCode::from_u16(self.status).ok()?, headers })
    }
}

impl From<WrittenOutcome> for Outcome {
    fn from(written: WrittenOutcome) -> Self {
        match written {
            WrittenOutcome::Failure => Self::Failure,
            WrittenOutcome::Success => Self::Success,
            WrittenOutcome::Neutral => Self::Neutral,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answer: &str, may_answer: bool) -> Option<ReportedEnd> {
        let receipt = "0".repeat(32);
        let body = format!("{{\"receipt\":\"{receipt}\",\"answer\":{answer}}}");
        OutcomeReport::read(body.as_bytes(), may_answer).ok().map(|report| report.end)
    }

    #[test]
    fn a_head_is_read_as_it_was_sent() {
        let head = r#"{"status":302,"headers":[["Location","/\u00e4?\"x\""],["set-cookie","a=1"],["Set-Cookie","b=2"]]}"#;
        let Some(ReportedEnd::Answer { status, headers }) = read(head, true) else { panic!("it is read") };
        assert_eq!((status.as_u16(), headers.len()), (302, 3));
        assert_eq!(headers["location"].as_bytes(), b"/\xe4?\"x\"");
        let cookies: Vec<_> = headers.get_all("set-cookie").iter().collect();
        assert_eq!(cookies, ["a=1", "b=2"]);
    }

    #[test]
    fn what_cannot_be_a_head_is_no_report() {
        for head in [
            "302",
            "{}",
            r#"{"status":302}"#,
            r#"{"status":"302","headers":[]}"#,
            r#"{"status":99,"headers":[]}"#,
            r#"{"status":1000,"headers":[]}"#,
            r#"{"status":302,"headers":{}}"#,
            r#"{"status":302,"headers":[["a"]]}"#,
            r#"{"status":302,"headers":[["","x"]]}"#,
            r#"{"status":302,"headers":[["a b","x"]]}"#,
            r#"{"status":302,"headers":[["a","x\ny"]]}"#,
            r#"{"status":302,"headers":[["a","\u0100"]]}"#,
            r#"{"status":302,"headers":[],"body":"x"}"#,
        ] {
            assert!(read(head, true).is_none(), "{head}");
        }
        assert!(read(r#"{"status":302,"headers":[]}"#, true).is_some());
        assert!(read(r#"{"status":302,"headers":[]}"#, false).is_none(), "where no answers are reported");
        let both = format!(
            "{{\"receipt\":\"{}\",\"outcome\":\"success\",\"answer\":{{\"status\":302,\"headers\":[]}}}}",
            "0".repeat(32)
        );
        assert!(OutcomeReport::read(both.as_bytes(), true).is_err());
    }

    #[test]
    fn thousands_of_headers_are_read_or_refused_without_a_panic() {
        let lines = vec![r#"["a",""]"#; 40_000].join(",");
        drop(read(&format!(r#"{{"status":200,"headers":[{lines}]}}"#), true));
        let lines: Vec<_> = (0..40_000).map(|number| format!(r#"["a{number}",""]"#)).collect();
        assert!(read(&format!(r#"{{"status":200,"headers":[{}]}}"#, lines.join(",")), true).is_none());
    }
}
