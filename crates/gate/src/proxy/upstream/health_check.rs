//! Active health checks of an upstream: one request, and what its answers in a row mean.
//!
//! An ill upstream is left out while another one of its group is not; `upstream` chooses, and tries ill ones where there is no
//! other. When checks are due is left to the application. `health` holds what requests find out.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;

use super::{Health, connect};
use crate::event::{Event, Failure};
use crate::net::http_client::HttpConnection;
use crate::proxy::settings::{HealthTerms, ProxySettings};

/// The request of a health check. An answer below 400 passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthProbe {
    /// GET or HEAD.
    pub method: Method,
    /// Path and query.
    pub target: PathAndQuery,
}

/// What a check changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthChange {
    /// The upstream is ill now, with the reason of the last failure.
    Ill(String),
    /// It is well again.
    Well,
}

/// What is known of an upstream by its checks.
#[derive(Debug, Default)]
pub(super) struct CheckState(Mutex<Checks>);

#[derive(Debug, Default)]
struct Checks {
    /// `None` where nothing is checked.
    probe: Option<HealthProbe>,
    has_result: bool,
    /// Results in a row that contradict the state.
    contrary: u32,
    /// Why the last check failed, if it did.
    failure: Option<String>,
}

impl CheckState {
    fn lock(&self) -> MutexGuard<'_, Checks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Health {
    /// Has the upstream checked by this probe from now on, or no longer.
    pub fn set_probe(&self, probe: Option<&HealthProbe>) {
        let mut checks = self.checks.lock();
        if checks.probe.as_ref() != probe {
            *checks = Checks { probe: probe.cloned(), ..Checks::default() };
            if probe.is_none() {
                self.set_ill(false);
            }
        }
    }

    /// Whether it has a probe.
    #[must_use]
    pub fn is_checked(&self) -> bool {
        self.checks.lock().probe.is_some()
    }

    /// Why the last check failed; `None` if it passed, or there was none.
    #[must_use]
    pub fn check_failure(&self) -> Option<String> {
        self.checks.lock().failure.clone()
    }

    /// Checks the upstream once, on its own connection. What that changed, if anything.
    pub async fn check(&self, settings: &ProxySettings) -> Option<HealthChange> {
        let probe = self.checks.lock().probe.clone()?;
        let timeout = settings.health.timeout.to_std();
        let result = match tokio::time::timeout(timeout, self.probe(&probe, settings)).await {
            Ok(Ok(answer)) => {
                let result = answer.passes().map_err(|error| error.to_string());
                // So that the application does not see its connection break; what it sends no longer matters.
                let _ = tokio::time::timeout(REST_TIMEOUT, answer.read_rest()).await;
                result
            }
            Ok(Err(ProbeError::Exhausted)) => return None,
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer within {timeout:?}")),
        };
        self.note(&probe, result, settings.health)
    }

    async fn probe(&self, probe: &HealthProbe, settings: &ProxySettings) -> Result<ProbeAnswer, ProbeError> {
        let within = settings.health.timeout.to_std();
        let (stream, _) = connect::open(self, settings, within).await?;
        let request = Request::builder()
            .method(&probe.method)
            .uri(probe.target.as_str())
            .header(HOST, self.host.clone())
            .header(USER_AGENT, HeaderValue::from_static("tollgate"))
            .header(CONNECTION, HeaderValue::from_static("close"))
            .body(Full::default());
        let mut unsent = request.ok();
        let mut connection = HttpConnection::over(stream).await.map_err(ProbeError::other)?;
        let response = connection.send(&mut unsent).await.map_err(ProbeError::other)?;
        Ok(ProbeAnswer { response, _connection: connection })
    }

    /// Counts a result. The first one counts alone, so that a gate that starts does not rely on an upstream that is ill.
    fn note(
        &self,
        probe: &HealthProbe,
        result: Result<(), String>,
        terms: HealthTerms,
    ) -> Option<HealthChange> {
        let mut checks = self.checks.lock();
        if checks.probe.as_ref() != Some(probe) {
            return None;
        }
        let has_passed = result.is_ok();
        self.events.emit(&Event::UpstreamChecked { upstream: self.name(), passed: has_passed });
        checks.failure = result.err();
        let is_first = !mem::replace(&mut checks.has_result, true);
        if has_passed != self.is_ill() {
            checks.contrary = 0;
            if has_passed {
                self.succeeded();
            }
            return None;
        }
        checks.contrary += 1;
        let needed = if has_passed { terms.rises } else { terms.falls };
        if checks.contrary < needed && !is_first {
            return None;
        }
        checks.contrary = 0;
        self.set_ill(!has_passed);
        Some(checks.failure.clone().map_or(HealthChange::Well, HealthChange::Ill))
    }
}

/// The answer to a check.
struct ProbeAnswer {
    response: Response<Incoming>,
    _connection: HttpConnection,
}

impl ProbeAnswer {
    fn passes(&self) -> Result<(), ProbeError> {
        let status = self.response.status();
        if status.as_u16() < 400 { Ok(()) } else { Err(ProbeError::Status(status)) }
    }

    async fn read_rest(mut self) {
        let mut left = MAX_BODY;
        while let Some(Ok(frame)) = self.response.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            let Some(rest) = left.checked_sub(length.max(1)) else { return };
            left = rest;
        }
    }
}

/// Why a check did not pass.
#[derive(Debug, thiserror::Error)]
enum ProbeError {
    /// This machine is to blame.
    #[error("this machine has no descriptor, port or memory for a connection")]
    Exhausted,
    #[error("cannot connect")]
    Connect,
    #[error("its certificate is not trusted, or not for its name")]
    Certificate,
    #[error("it does not speak TLS with us")]
    Tls,
    #[error("it answers {0}")]
    Status(StatusCode),
    #[error("{0}")]
    Other(String),
}

impl ProbeError {
    fn other(error: impl ToString) -> Self {
        Self::Other(error.to_string())
    }
}

impl From<Failure> for ProbeError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Exhausted => Self::Exhausted,
            Failure::Certificate => Self::Certificate,
            Failure::Tls => Self::Tls,
            Failure::Connect
            | Failure::ConnectTimeout
            | Failure::Timeout
            | Failure::Broken(_)
            | Failure::Busy => Self::Connect,
        }
    }
}

/// Bytes of an answer's body that are read.
const MAX_BODY: usize = 256 * 1024;
/// For that.
const REST_TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Events;
    use crate::proxy::upstream::UpstreamAddress;
    use crate::time::Clock;

    /// What each of these results in a row changed.
    fn changes(health: &Health, results: &[bool]) -> Vec<Option<bool>> {
        let probe = health.checks.lock().probe.clone().unwrap();
        let result = |has_passed: &bool| if *has_passed { Ok(()) } else { Err("it is ill".to_owned()) };
        let note = |has_passed| health.note(&probe, result(has_passed), HealthTerms::default());
        let changes = results.iter().map(note);
        changes.map(|change| change.map(|change| change == HealthChange::Well)).collect()
    }

    fn checked() -> std::sync::Arc<Health> {
        let address = UpstreamAddress::Unix("/nowhere".into());
        let health = Health::new(address, 1, Clock::system(), Events::default());
        health.set_probe(Some(&probe()));
        health
    }

    fn probe() -> HealthProbe {
        HealthProbe { method: Method::GET, target: PathAndQuery::from_static("/healthz") }
    }

    #[test]
    fn three_failures_in_a_row_make_it_ill_and_two_passes_in_a_row_well() {
        let health = checked();
        assert_eq!(changes(&health, &[true, false, false, true, false, false]), [None; 6]);
        assert!(!health.is_down());
        assert_eq!(changes(&health, &[false]), [Some(false)]);
        assert!(health.is_down() && health.check_failure().is_some());
        health.succeeded();
        assert!(health.is_down(), "a request that passes does not make it well");
        assert_eq!(changes(&health, &[true, false, true, true]), [None, None, None, Some(true)]);
        assert!(!health.is_down());
    }

    #[test]
    fn the_first_result_counts_alone() {
        let health = checked();
        assert_eq!(changes(&health, &[false]), [Some(false)]);
        let health = checked();
        assert_eq!(changes(&health, &[true, false]), [None, None]);
    }

    #[test]
    fn without_a_probe_it_is_not_ill_and_results_of_another_one_do_not_count() {
        let health = checked();
        assert_eq!(changes(&health, &[false]), [Some(false)]);
        health.set_probe(Some(&probe()));
        assert!(health.is_down(), "the same probe");
        health.set_probe(None);
        assert!(!health.is_down() && !health.is_checked());
        assert_eq!(health.note(&probe(), Err("late".to_owned()), HealthTerms::default()), None);
        assert!(!health.is_down() && health.check_failure().is_none());
    }

    #[test]
    fn a_pass_ends_the_pause_after_a_request_that_could_not_connect() {
        let health = checked();
        health.failed(Failure::Connect);
        assert!(health.is_down());
        assert_eq!(changes(&health, &[true]), [None]);
        assert!(!health.is_down());
    }
}
