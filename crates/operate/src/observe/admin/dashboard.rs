//! The dashboard at `/`: one page without outside resources, and what it draws over time.
//!
//! The page is put together once. Its Content-Security-Policy allows the hashes of the page's style and scripts and
//! nothing else, so that no name that a client chose can ever run in an operator's browser.

use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{self, HeaderValue};
use http::{Method, StatusCode};
use sha2::{Digest, Sha256};

use super::asker::SeenSites;
use super::pages::HistoryPage;
use super::response::{AdminResponse, json_response, not_allowed, respond};
use crate::observe::history::{AttemptHistory, HistoryStep, HourOfAttempts};
use crate::observe::metrics::Metrics;

/// The handler of the page and its figures.
#[derive(Debug)]
pub(super) struct DashboardApi {
    pub(super) history: Arc<AttemptHistory>,
    pub(super) metrics: Arc<Metrics>,
}

/// The pages by path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DashboardPath {
    Page,
    History,
    Routes,
}

impl DashboardPath {
    pub(super) fn parse(path: &str) -> Option<Self> {
        match path {
            "/" => Some(Self::Page),
            "/api/v1/history" => Some(Self::History),
            "/api/v1/routes" => Some(Self::Routes),
            _ => None,
        }
    }
}

impl DashboardApi {
    pub(super) fn handle(&self, page: DashboardPath, method: &Method, seen: &SeenSites) -> AdminResponse {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return not_allowed("GET, HEAD");
        }
        match page {
            DashboardPath::Page => whole_page(),
            DashboardPath::History => json_response(StatusCode::OK, &history(&self.history.hour())),
            DashboardPath::Routes => {
                let mut page = self.metrics.routes_page();
                seen.narrow_routes(&mut page);
                json_response(StatusCode::OK, &page)
            }
        }
    }
}

fn whole_page() -> AdminResponse {
    let mut response = respond(StatusCode::OK, "text/html; charset=utf-8", PAGE.html.as_str());
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, PAGE.policy.as_str()),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    response
}

/// The last hour. Steps before the gate's start are `None`.
fn history(hour: &HourOfAttempts) -> HistoryPage {
    let missing = AttemptHistory::STEPS.saturating_sub(hour.steps.len());
    let list = |count: fn(&HistoryStep) -> u64| -> Vec<Option<u64>> {
        let known = hour.steps.iter().map(|step| Some(count(step)));
        std::iter::repeat_n(None, missing).chain(known).collect()
    };
    HistoryPage {
        seconds: AttemptHistory::STEP.to_std().as_secs(),
        end: hour.end.as_nanos() / 1_000_000_000,
        admitted: list(|step| step.admitted),
        refused: list(|step| step.refused),
        observed: list(|step| step.observed),
    }
}

struct DashboardPage {
    html: String,
    policy: String,
}

static PAGE: LazyLock<DashboardPage> = LazyLock::new(|| {
    let style = concat!(
        include_str!("../../../assets/dashboard/uplot.css"),
        include_str!("../../../assets/dashboard/style.css")
    );
    let uplot = include_str!("../../../assets/dashboard/uplot.js");
    let html = include_str!("../../../assets/dashboard/page.html")
        .replacen("{{style}}", style, 1)
        .replacen("{{uplot}}", uplot, 1)
        .replacen("{{script}}", SCRIPT, 1);
    let policy = format!(
        "default-src 'none'; script-src {} {}; style-src {}; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        source(uplot),
        source(SCRIPT),
        source(style)
    );
    DashboardPage { html, policy }
});

/// The parts of the page's own script, each of one idea. They run as one, in this order.
const SCRIPT: &str = concat!(
    include_str!("../../../assets/dashboard/script/page.js"),
    include_str!("../../../assets/dashboard/script/api.js"),
    include_str!("../../../assets/dashboard/script/gate.js"),
    include_str!("../../../assets/dashboard/script/trouble.js"),
    include_str!("../../../assets/dashboard/script/chart.js"),
    include_str!("../../../assets/dashboard/script/clients.js"),
    include_str!("../../../assets/dashboard/script/client_rows.js"),
    include_str!("../../../assets/dashboard/script/overrides.js"),
    include_str!("../../../assets/dashboard/script/limits.js"),
    include_str!("../../../assets/dashboard/script/decisions.js"),
    include_str!("../../../assets/dashboard/script/refresh.js"),
);

/// The hash of an inline script or style, as CSP Level 3 (2.3.1) writes it.
fn source(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    #[test]
    fn the_page_names_no_outside_resource_and_allows_its_own_scripts_only() {
        assert!(!PAGE.html.contains("{{"), "every part is filled in");
        for outside in ["src=\"http", "href=\"http", "@import", "url(http"] {
            assert!(!PAGE.html.contains(outside), "{outside}");
        }
        let response = whole_page();
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(policy.matches("'sha256-").count(), 3);
    }

    #[test]
    fn every_part_of_the_script_is_in_the_page() {
        let parts =
            std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/dashboard/script")).unwrap();
        for part in parts {
            let path = part.unwrap().path();
            assert!(PAGE.html.contains(&std::fs::read_to_string(&path).unwrap()), "{}", path.display());
        }
    }

    #[test]
    fn steps_before_the_start_are_none() {
        let step = HistoryStep { admitted: 3, refused: 2, observed: 1 };
        let shown = history(&HourOfAttempts { end: Time::from_nanos(7_000_000_000), steps: vec![step] });
        assert_eq!((shown.end, shown.seconds), (7, 5));
        let refused = shown.refused;
        assert_eq!((refused.len(), refused[0], refused[719]), (720, None, Some(2)));
    }
}
