//! Outcomes over HTTP/2: clients speak it to every proxy, and every proxy that can speaks it to the application.

use std::net::Ipv4Addr;
use std::time::Duration;

use http::{Request, Version};
use support::{eventually, polite};

use super::front::{Front, Proxy, Reporter};
use super::http2_from;
use super::outcomes::by_failures;
use super::site::{Site, Visit};

/// A proxy between two sides that speak HTTP/2, if it can.
struct Http2Front {
    front: Front,
    site: Site,
    /// What the application hears.
    version: Version,
}

impl Http2Front {
    /// One that reports answers, and counts by failures.
    fn reporting(reporter: Reporter) -> Self {
        let site = Site::start();
        let (front, version) = match reporter.proxy() {
            // Its `proxy_pass` speaks nothing newer.
            Proxy::Nginx => (Front::reporting(reporter, site.address, by_failures), Version::HTTP_11),
            proxy => {
                let front = Front::over_http2(proxy, Some(reporter), site.address, by_failures);
                (front, Version::HTTP_2)
            }
        };
        Self { front, site, version }
    }

    /// The statuses of so many POSTs at once on one connection of this client.
    fn post(&self, last: u8, target: &str, count: usize) -> Vec<u16> {
        polite::run(async {
            let send = http2_from(Ipv4Addr::new(127, 0, 8, last), self.front.http2).await;
            let mut answers = Vec::new();
            for _ in 0..count {
                let request = Request::builder().method("POST").uri(format!("http://app.test{target}"));
                let request = request.header("content-length", 0).body(()).unwrap();
                let mut ready = send.clone().ready().await.unwrap();
                answers.push(ready.send_request(request, true).unwrap().0);
            }
            let mut statuses = Vec::new();
            for answer in answers {
                let answer = answer.await.unwrap();
                assert_eq!(answer.headers().get(RECEIPT), None);
                statuses.push(answer.status().as_u16());
            }
            statuses
        })
    }

    fn settled(&self, outcome: &str) -> f64 {
        self.front.gate.metric("tollgate_attempts_total", &format!("outcome=\"{outcome}\""))
    }

    fn waits_for(&self, outcome: &str, count: f64) {
        let is_so = eventually(Duration::from_secs(20), || self.settled(outcome) >= count);
        assert!(is_so, "{outcome}: {} of {count}: {}", self.settled(outcome), self.front.said());
    }

    /// As many of these guesses are admitted, and reach the application, as the bucket has tokens.
    fn admits_no_more_than_the_bucket(&self, target: &str) {
        let mut statuses: Vec<u16> = std::thread::scope(|scope| {
            let guess = move || self.post(2, target, 50);
            let threads: Vec<_> = (0..2).map(|_| scope.spawn(guess)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        statuses.sort_unstable();
        assert_eq!(statuses, [[200_u16; 5].as_slice(), &[429; 95]].concat(), "{}", self.front.said());
        let visits = self.site.visits(target);
        assert_eq!(visits.len(), 5);
        assert!(visits.iter().all(|visit| visit.version == self.version), "{visits:?}");
    }

    fn show(self) {
        for chunk in 1..=25_u32 {
            // Not as many as the bucket holds: refunds of attempts that overlap leave out what time has returned meanwhile.
            assert_eq!(self.post(1, RIGHT, 4), [302_u16; 4], "{}", self.front.said());
            // A report may come after its answer, and until then its token is taken.
            self.waits_for("success", (4 * chunk).into());
        }
        let visits = self.site.visits(RIGHT);
        assert_eq!((visits.len(), self.settled("failure")), (100, 0.0));
        let shown = |visit: &Visit| visit.headers.get(RECEIPT).is_some_and(|it| !it.is_empty());
        assert!(!visits.iter().any(shown), "the application needs no receipt: {visits:?}");
        assert!(visits.iter().all(|visit| visit.version == self.version), "{visits:?}");
        self.admits_no_more_than_the_bucket(WRONG);
        self.waits_for("failure", 5.0);
        assert_eq!(self.post(2, RIGHT, 1), [429_u16]);
    }
}

#[test]
fn nginx_reports_answers_to_http2_by_njs() {
    Http2Front::reporting(Reporter::NginxByJs).show();
}

#[test]
fn nginx_reports_answers_to_http2_by_lua() {
    Http2Front::reporting(Reporter::NginxByLua).show();
}

#[test]
fn haproxy_reports_answers_over_http2() {
    Http2Front::reporting(Reporter::Haproxy).show();
}

#[test]
fn traefik_reports_answers_over_http2() {
    Http2Front::reporting(Reporter::Traefik).show();
}

#[test]
fn envoy_reports_answers_over_http2() {
    Http2Front::reporting(Reporter::Envoy).show();
}

#[test]
fn envoy_shows_answers_over_http2_in_its_streams() {
    Http2Front::reporting(Reporter::EnvoyProc).show();
}

/// Caddy cannot report answers: the application does, with its receipts.
#[test]
fn caddy_asks_over_http2_before_it_forwards() {
    let site = Site::start();
    let front = Front::over_http2(Proxy::Caddy, None, site.address, |file| file);
    let caddy = Http2Front { front, site, version: Version::HTTP_2 };
    caddy.admits_no_more_than_the_bucket(WRONG);
    let mut receipts: Vec<_> =
        caddy.site.visits(WRONG).iter().map(|visit| visit.headers[RECEIPT].clone()).collect();
    receipts.sort_unstable();
    receipts.dedup();
    assert_eq!(receipts.len(), 5, "{receipts:?}");
}

const RIGHT: &str = "/login?right";
const WRONG: &str = "/login?wrong";
const RECEIPT: &str = "x-tollgate-receipt";
