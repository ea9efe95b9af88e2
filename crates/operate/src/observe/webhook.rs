//! Sends [reports](super::reports) to web servers of the operator's: POSTed JSON.
//!
//! Each report is its own task, never in a request's way, and is tried again for a while. Reports are not kept
//! beyond a restart. Their order is not promised: each says when it happened. Messages name the route and never the
//! address, which may hold a secret.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, Uri};
use http_body_util::Full;
use tokio::task::JoinSet;
use tollgate_base::http_client::{HttpClientError, exchange};

use super::reports::{Report, WaitingReports};
use crate::net::tls::Trust;
use crate::time::Span;

/// The reports that are under way.
#[derive(Debug, Default)]
pub struct Webhooks(JoinSet<()>);

/// Why a report did not arrive.
#[derive(Debug, thiserror::Error)]
enum ReportError {
    #[error("no answer within {} s", TIMEOUT.to_std().as_secs())]
    Timeout,
    #[error(transparent)]
    Http(#[from] HttpClientError),
    #[error("no request: {0}")]
    Request(#[from] http::Error),
    #[error("it answers {0}")]
    Status(http::StatusCode),
}

impl Webhooks {
    /// Sends the reports since the last call. Needs a tokio runtime with time and I/O. `trust` is for webhooks by `https`.
    pub fn send(&mut self, reports: &WaitingReports, trust: Option<&Trust>) {
        reports.take().for_each(|report| self.post(report, trust));
    }

    fn post(&mut self, Report { route, url, body }: Report, trust: Option<&Trust>) {
        self.forget_finished();
        if self.0.len() >= MAX_REPORTS {
            tracing::error!(route = &*route, "a webhook was not called: too many others wait for an answer");
            return;
        }
        let (route, trust) = (route.to_string(), trust.cloned());
        self.0.spawn(Delivery { route, url, body: body.into(), trust }.deliver());
    }

    /// Frees the reports that have ended.
    pub fn forget_finished(&mut self) {
        while self.0.try_join_next().is_some() {}
    }
}

struct Delivery {
    route: String,
    url: Uri,
    body: Bytes,
    trust: Option<Trust>,
}

impl Delivery {
    async fn deliver(self) {
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=MAX_TRIES {
            let sent = tokio::time::timeout(TIMEOUT.to_std(), self.post()).await;
            match sent.unwrap_or(Err(ReportError::Timeout)) {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(route = self.route, attempt, %error, "a webhook was not reached")
                }
            }
            if attempt < MAX_TRIES {
                tokio::time::sleep(pause.to_std()).await;
                pause = pause.times(2).min(MAX_PAUSE);
            }
        }
        tracing::error!(route = self.route, "a webhook was not reached: its report is lost");
    }

    async fn post(&self) -> Result<(), ReportError> {
        let request = Request::post(&self.url).header(CONTENT_TYPE, "application/json");
        let request = request.body(Full::new(self.body.clone()))?;
        let status = exchange(request, self.trust.as_ref(), MAX_ANSWER).await?.status();
        if status.is_success() { Ok(()) } else { Err(ReportError::Status(status)) }
    }
}

/// Reports under way at once; further ones are dropped.
const MAX_REPORTS: usize = 100;
const MAX_TRIES: u32 = 10;
const TIMEOUT: Span = Span::from_secs(10);
const FIRST_PAUSE: Span = Span::from_secs(1);
const MAX_PAUSE: Span = Span::from_secs(300);
const MAX_ANSWER: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::net::tls::{self, Acceptor, Certificate, MinVersion, SessionCache};
    use crate::observe::samples::alarm;

    #[tokio::test]
    async fn a_webhook_by_https_is_told_if_its_certificate_is_trusted() {
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = Certificate::from_pem(
            pair.cert.pem().as_bytes(),
            pair.signing_key.serialize_pem().as_bytes(),
            "c",
        );
        let acceptor = Acceptor::new(
            &[certificate.unwrap()],
            MinVersion::default(),
            &SessionCache::new(),
            &["http/1.1"],
            None,
        )
        .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}/hook", listener.local_addr().unwrap().port());
        let server = tokio::spawn(async move {
            let mut requests = Vec::new();
            for _ in 0..2 {
                let (stream, _) = listener.accept().await.unwrap();
                let Ok(mut stream) = tls::accept(stream, &acceptor).await else { continue };
                let mut head = vec![0; 4096];
                let length = stream.read(&mut head).await.unwrap();
                requests.push(String::from_utf8_lossy(&head[..length]).into_owned());
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
            }
            requests
        });
        let trust = |roots| Trust::new(roots).unwrap();
        let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let report = |trust| Delivery {
            route: "login".to_owned(),
            url: url.parse().unwrap(),
            body: "{}".into(),
            trust,
        };
        let refused = report(Some(trust(vec![other.cert.der().clone()]))).post().await;
        assert!(matches!(refused, Err(ReportError::Http(HttpClientError::Connect(_)))), "{refused:?}");
        report(Some(trust(vec![pair.cert.der().clone()]))).post().await.unwrap();
        let requests = server.await.unwrap();
        assert!(requests.len() == 1 && requests[0].starts_with("POST /hook HTTP/1.1\r\n"), "{requests:?}");
        let unknown = report(None).post().await;
        let is_expected =
            |error: &HttpClientError| matches!(error, HttpClientError::Connect(_) | HttpClientError::NoRoots);
        assert!(matches!(&unknown, Err(ReportError::Http(error)) if is_expected(error)), "{unknown:?}");
    }

    #[tokio::test]
    async fn reports_beyond_the_bound_are_dropped() {
        // It accepts and never answers.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let (mut webhooks, reports) = (Webhooks::default(), WaitingReports::default());
        (0..MAX_REPORTS + 50).for_each(|_| reports.add_alarm(&alarm(&url)));
        webhooks.send(&reports, None);
        assert_eq!(webhooks.0.len(), MAX_REPORTS);
    }
}
