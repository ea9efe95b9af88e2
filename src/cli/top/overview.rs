//! The state of the gate: four pages of the admin API, read into types.
//!
//! Text loses its control characters when it is read, so nothing that comes later has to think of them. A page that the
//! gate does not offer, or that has another form, is missing alone; the others are shown.

use clap::ValueEnum;
use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::admin_api::{AdminGate, ApiRequest, is_shown, page};
use crate::observe::admin::pages::{ClientsPage, HistoryPage, LimitsPage, StatusPage};
use crate::time::Span;

/// Which clients are listed, in which order, and how often the gate is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OverviewQuery {
    pub(super) order: ClientOrder,
    pub(super) minutes: Minutes,
    /// Only those of this limit.
    pub(super) limit: Option<String>,
    /// From one answer to the next question.
    pub(super) every: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ClientOrder {
    /// Most refused attempts first
    Refused,
    /// Most attempts first
    Attempts,
    /// By address, of the most refused ones
    Client,
}

/// The time over which attempts are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Minutes {
    #[value(name = "1")]
    One,
    #[value(name = "10")]
    Ten,
    #[value(name = "60")]
    Sixty,
}

/// The pages, or for each why it cannot be shown.
#[derive(Debug)]
pub(super) struct Overview {
    pub(super) status: StatusPage,
    pub(super) limits: Result<LimitsPage, PlainError>,
    pub(super) clients: Result<ClientsPage, PlainError>,
    pub(super) history: Result<HistoryPage, PlainError>,
}

/// Why something is not shown or not done, in words that a terminal can show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct PlainError(String);

/// Asks the gate behind this socket for all pages. One that the gate does not give is an `error` in words.
///
/// # Errors
/// If no gate listens, or it does not say how it is.
pub(super) fn fetch(gate: &AdminGate, query: &OverviewQuery) -> anyhow::Result<Value> {
    let get = |path: &str| ApiRequest { method: "GET", path: path.to_owned(), body: None }.call(gate);
    let ask = |path: &str| {
        let answer = get(path).and_then(|response| match response.status {
            StatusCode::NOT_FOUND => anyhow::bail!("this gate does not offer it"),
            _ => response.success(),
        });
        let error = |error: anyhow::Error| [("error".to_owned(), Value::from(format!("{error:#}")))];
        answer.unwrap_or_else(|why| Value::from_iter(error(why)))
    };
    Ok(Value::from_iter([
        ("status", get("/api/v1/status")?.success()?),
        ("limits", ask("/api/v1/limits")),
        ("clients", ask(&query.path())),
        ("history", ask("/api/v1/history")),
    ]))
}

impl Overview {
    /// Reads what [`fetch`] gave.
    ///
    /// # Errors
    /// If the status is not one: then this is not a gate.
    pub(super) fn parse(pages: &Value) -> anyhow::Result<Self> {
        let status: StatusPage = page(&pages["status"])?;
        anyhow::ensure!(!status.version.is_empty(), "the status of the gate has another form");
        let (limits, clients, history) =
            (part(&pages["limits"]), part(&pages["clients"]), part(&pages["history"]));
        Ok(Self { status, limits, clients, history })
    }
}

fn part<P: DeserializeOwned>(answer: &Value) -> Result<P, PlainError> {
    match answer.get("error").and_then(Value::as_str) {
        Some(error) => Err(error.into()),
        None => Ok(page(answer)?),
    }
}

impl From<&str> for PlainError {
    fn from(text: &str) -> Self {
        Self(text.chars().filter(|letter| is_shown(*letter)).collect())
    }
}

impl From<anyhow::Error> for PlainError {
    fn from(error: anyhow::Error) -> Self {
        Self::from(&format!("{error:#}")[..])
    }
}

impl OverviewQuery {
    fn path(&self) -> String {
        let by = match self.order {
            ClientOrder::Refused | ClientOrder::Client => "refused",
            ClientOrder::Attempts => "attempts",
        };
        let mut path = format!("/api/v1/clients?by={by}&n={MAX_CLIENTS}&minutes={}", self.minutes.number());
        if let Some(limit) = &self.limit {
            path.push_str("&limit=");
            path.extend(utf8_percent_encode(limit, NON_ALPHANUMERIC));
        }
        path
    }
}

impl Minutes {
    pub(super) fn number(self) -> u32 {
        match self {
            Self::One => 1,
            Self::Ten => 10,
            Self::Sixty => 60,
        }
    }
}

/// More are no help to a person, and the search is among these.
const MAX_CLIENTS: usize = 200;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn query(limit: Option<&str>) -> OverviewQuery {
        let limit = limit.map(str::to_owned);
        OverviewQuery {
            order: ClientOrder::Client,
            minutes: Minutes::Sixty,
            limit,
            every: Span::from_secs(2),
        }
    }

    #[test]
    fn a_limit_is_named_in_the_question_whatever_its_letters() {
        assert_eq!(query(None).path(), "/api/v1/clients?by=refused&n=200&minutes=60");
        assert!(query(Some("a&b=ä")).path().ends_with("&limit=a%26b%3D%C3%A4"));
    }

    #[test]
    fn a_page_that_is_missing_or_has_another_form_leaves_the_others_alone() {
        let status = json!({"version": "1", "state": "running", "uptime": 1, "connections": 0,
                            "store": {"url": "memory", "up": true}});
        let pages = json!({"status": status, "limits": {"limits": [{"name": 1}]},
                           "clients": {"error": "not\u{1b}[2J here"}, "history": "none"});
        let overview = Overview::parse(&pages).unwrap();
        assert!(
            overview.limits.is_err_and(|why| why.to_string().contains("another form: invalid type: integer"))
        );
        assert!(overview.clients.is_err_and(|why| why.to_string() == "not[2J here"));
        assert!(overview.history.is_err());
        assert!(Overview::parse(&json!({"status": {}})).is_err());
    }
}
