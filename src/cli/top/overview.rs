//! What the gate says of itself: four pages of the admin API, read into types.
//!
//! Text loses its control characters when it is read, so nothing that comes later has to think of them. A page that the
//! gate does not offer, or that has another form, is missing alone; the others are shown.

mod plain_text;

use std::path::Path;

use clap::ValueEnum;
use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(super) use self::plain_text::PlainText;
use super::super::admin_api::ApiRequest;
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
    pub(super) status: GateStatus,
    pub(super) limits: Result<LimitList, PlainText>,
    pub(super) clients: Result<ClientList, PlainText>,
    pub(super) history: Result<DecisionHistory, PlainText>,
}

/// `/api/v1/status`.
#[derive(Debug, Deserialize)]
pub(super) struct GateStatus {
    pub(super) version: PlainText,
    pub(super) state: PlainText,
    pub(super) mode: Option<PlainText>,
    /// Seconds.
    pub(super) uptime: u64,
    pub(super) connections: u64,
    pub(super) store: StoreHealth,
    #[serde(default)]
    pub(super) upstreams: Vec<UpstreamHealth>,
    #[serde(default)]
    pub(super) warnings: Vec<PlainText>,
    /// The routes that are under attack.
    #[serde(default)]
    pub(super) attacks: Vec<PlainText>,
}

#[derive(Debug, Deserialize)]
pub(super) struct StoreHealth {
    pub(super) url: PlainText,
    pub(super) up: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct UpstreamHealth {
    pub(super) upstream: PlainText,
    pub(super) up: bool,
}

/// `/api/v1/limits`.
#[derive(Debug, Deserialize)]
pub(super) struct LimitList {
    pub(super) limits: Vec<ListedLimit>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ListedLimit {
    pub(super) name: PlainText,
    pub(super) mode: PlainText,
    pub(super) spec: PlainText,
    /// The limit beside which this one is judged.
    pub(super) candidate_of: Option<PlainText>,
    pub(super) buckets: Option<u64>,
    #[serde(default)]
    pub(super) decisions: DecisionCounts,
}

/// Since the gate started.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DecisionCounts {
    pub(super) admit: u64,
    pub(super) refuse: u64,
    pub(super) observe: u64,
    pub(super) exempt: u64,
}

/// `/api/v1/clients`.
#[derive(Debug, Deserialize)]
pub(super) struct ClientList {
    pub(super) clients: Vec<ListedClient>,
}

/// One client or one account, under one limit.
#[derive(Debug, Deserialize)]
pub(super) struct ListedClient {
    pub(super) limit: PlainText,
    /// An address or a prefix.
    pub(super) client: Option<PlainText>,
    /// The keyed hash of an account's name.
    pub(super) account: Option<PlainText>,
    pub(super) attempts: u64,
    pub(super) refused: u64,
    /// The counts are too high by this at most.
    #[serde(default)]
    pub(super) error: u64,
    /// Below zero with `debt`.
    pub(super) tokens: Option<f64>,
    pub(super) burst: Option<f64>,
    /// Seconds until the next token.
    pub(super) next: Option<f64>,
}

/// `/api/v1/history`: how many decisions each step brought; the last one is the newest.
#[derive(Debug, Deserialize)]
pub(super) struct DecisionHistory {
    /// The length of a step.
    pub(super) seconds: u64,
    pub(super) admitted: Vec<Option<f64>>,
    pub(super) refused: Vec<Option<f64>>,
}

/// Asks the gate behind this socket for all pages.
///
/// # Errors
/// If no gate listens, or it does not say how it is.
pub(super) fn fetch(socket: &Path, query: &OverviewQuery) -> anyhow::Result<Value> {
    let get = |path: String| ApiRequest { method: "GET", path, body: None }.call(socket);
    let page = |path: String| {
        let response = get(path).and_then(|response| match response.status {
            StatusCode::NOT_FOUND => anyhow::bail!("this gate does not offer it"),
            _ => response.success(),
        });
        response.unwrap_or_else(|error| json!({"error": format!("{error:#}")}))
    };
    Ok(json!({
        "status": get("/api/v1/status".into())?.success()?,
        "limits": page("/api/v1/limits".into()),
        "clients": page(query.path()),
        "history": page("/api/v1/history".into()),
    }))
}

impl Overview {
    /// Reads what [`fetch`] gave.
    ///
    /// # Errors
    /// If the status is not one: then this is no gate.
    pub(super) fn parse(pages: &Value) -> anyhow::Result<Self> {
        let status = GateStatus::deserialize(&pages["status"])
            .map_err(|error| anyhow::anyhow!("the status of the gate has another form: {error}"))?;
        Ok(Self {
            status,
            limits: part(&pages["limits"]),
            clients: part(&pages["clients"]),
            history: part(&pages["history"]),
        })
    }
}

fn part<T: DeserializeOwned>(page: &Value) -> Result<T, PlainText> {
    match page.get("error") {
        Some(error) => Err(PlainText::from(error)),
        None => T::deserialize(page).map_err(|error| {
            let words = format!("the gate's answer has another form: {error}");
            PlainText::from(&Value::String(words))
        }),
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
                           "clients": {"error": "not\u{1b}[2J here"}, "history": {}});
        let overview = Overview::parse(&pages).unwrap();
        assert!(
            overview.limits.is_err_and(|why| why.as_str().contains("another form: missing field `mode`"))
        );
        assert!(overview.clients.is_err_and(|why| why.as_str() == "not[2J here"));
        assert!(overview.history.is_err());
        assert!(Overview::parse(&json!({"status": {}})).is_err());
    }
}
