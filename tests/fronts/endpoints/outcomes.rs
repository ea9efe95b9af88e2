//! Real proxies with the files of `examples/endpoints` that report answers: `count = "failures"` holds behind them.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use support::endpoint::{nginx, report};
use support::{Answer, Client, Reply, Upstream, eventually, get_with, post_with};

use super::front::{Front, Reporter};

/// A proxy that reports, a gate with a bucket of five for failures, and an application.
struct Reported {
    front: Front,
    application: Upstream,
    /// Whether the application answers what waits.
    is_free: Arc<AtomicBool>,
}

impl Reported {
    fn start(reporter: Reporter) -> Self {
        let is_free = Arc::new(AtomicBool::new(false));
        let freed = Arc::clone(&is_free);
        let application = Upstream::answering(move |request, _| answer(request, &freed));
        let front = Front::reporting(reporter, application.address, by_failures);
        Self { front, application, is_free }
    }

    fn client(&self, last: u8) -> Client {
        Client::connect_from(Ipv4Addr::new(127, 0, 8, last), self.front.address)
    }

    fn ask(&self, last: u8, request: &str) -> Answer {
        let mut client = self.client(last);
        client.send(request);
        client.answer()
    }

    fn reached(&self, target: &str) -> usize {
        self.application.requests().iter().filter(|request| request.target == target).count()
    }

    fn settled(&self, outcome: &str) -> f64 {
        self.front.gate.metric("tollgate_attempts_total", &format!("outcome=\"{outcome}\""))
    }

    /// Waits until this many attempts had this outcome.
    fn waits_for(&self, outcome: &str, count: f64) {
        let is_so = eventually(Duration::from_secs(20), || self.settled(outcome) >= count);
        assert!(is_so, "{outcome}: {} of {count}: {}", self.settled(outcome), self.front.said());
    }

    /// What every proxy shows.
    fn show(mut self) {
        self.admits_all_right_passwords();
        self.admits_as_many_wrong_ones_as_the_bucket_has();
        self.reports_no_receipt_of_a_client();
        self.shows_no_receipt();
        let answer = self.answer_without_a_gate();
        let shown = (answer.status, answer.header("location"));
        assert_eq!(shown, (302, Some("/home")), "{}", self.front.said());
    }

    /// What Envoy shows that lets the gate see the answer before its client.
    fn show_by_stream(mut self) {
        self.admits_all_right_passwords();
        self.admits_as_many_wrong_ones_as_the_bucket_has();
        self.reports_no_receipt_of_a_client();
        self.shows_no_receipt();
        self.fails_if_the_application_is_gone();
        assert_eq!(self.answer_without_a_gate().status, 503, "{}", self.front.said());
    }

    fn admits_all_right_passwords(&self) {
        let mut client = self.client(1);
        for number in 1..=500_u16 {
            client.send(post_with(RIGHT, ""));
            let answer = client.answer();
            assert_eq!(answer.status, 302, "sign-in {number}: {}", self.front.said());
            assert_eq!(answer.header("x-tollgate-receipt"), None);
            // A report may come after its answer, and until then its token is taken.
            if number % 5 == 0 {
                self.waits_for("success", number.into());
            }
        }
        assert_eq!((self.reached(RIGHT), self.settled("failure")), (500, 0.0));
    }

    fn admits_as_many_wrong_ones_as_the_bucket_has(&self) {
        let admitted: usize = std::thread::scope(|scope| {
            let guess = || (0..10).filter(|_| self.ask(2, &post_with(WRONG, "")).status == 200).count();
            let threads: Vec<_> = (0..10).map(|_| scope.spawn(guess)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((admitted, self.reached(WRONG)), (5, 5), "{}", self.front.said());
        self.waits_for("failure", 5.0);
        assert_eq!(self.ask(2, &post_with(RIGHT, "")).status, 429);
        assert_eq!(self.settled("failure"), 5.0);
    }

    /// C12: a client knows a receipt, and asks for an answer that would be a success.
    fn reports_no_receipt_of_a_client(&self) {
        let mut gate = Client::connect(self.front.endpoint);
        gate.send(nginx("POST", "/login", "192.0.2.1", "X-Original-Body: 0\r\n"));
        let receipt = gate.answer().header("x-tollgate-receipt").unwrap().to_owned();
        for name in ["X-Tollgate-Receipt", "x_tollgate_receipt"] {
            assert_eq!(self.ask(3, &get_with("/page?right", &format!("{name}: {receipt}\r\n"))).status, 302);
            assert_eq!(self.ask(3, &post_with(RIGHT, &format!("{name}: {receipt}\r\n"))).status, 302);
        }
        self.waits_for("success", 502.0);
        let said = format!("{{\"receipt\":\"{receipt}\",\"outcome\":\"success\"}}");
        for path in ["/outcome", "/_tollgate/outcome"] {
            let request = report(&said).replace("/outcome", path);
            assert!(matches!(self.ask(3, &request).status, 200 | 404), "{path}");
        }
        assert_eq!(self.settled("success"), 502.0);
        let mut gate = Client::connect(self.front.endpoint);
        gate.send(report(&said.replace("success", "failure")));
        assert_eq!(gate.answer().status, 204, "it is open still");
    }

    fn shows_no_receipt(&self) {
        let requests = self.application.requests();
        let receipts: Vec<_> =
            requests.iter().flat_map(|request| request.all("x-tollgate-receipt")).collect();
        assert!(
            receipts.iter().all(|receipt| receipt.is_empty()),
            "the application needs none: {receipts:?}"
        );
    }

    /// An answer of Envoy's own is no success, whatever the rules say of it.
    fn fails_if_the_application_is_gone(&self) {
        let before = self.settled("failure");
        assert_eq!(self.ask(6, &post_with("/login?gone", "")).status, 503, "{}", self.front.said());
        self.waits_for("failure", before + 1.0);
    }

    /// The answer if the gate goes between the question and the answer.
    fn answer_without_a_gate(&mut self) -> Answer {
        let mut client = self.client(4);
        client.send(post_with("/login?right&held", ""));
        assert!(eventually(Duration::from_secs(20), || self.reached("/login?right&held") == 1));
        self.front.gate.signal("KILL");
        assert!(self.front.gate.exit_status(Duration::from_secs(5)).is_some());
        self.is_free.store(true, Ordering::Relaxed);
        client.answer()
    }
}

/// The gate's file of the examples where proxies report answers, and failures count.
pub(super) fn by_failures(file: String) -> String {
    let file = file.replace("\"forward-auth\"\n", "\"forward-auth\"\nanswers = true\n");
    let success = "success = { status = 302, location = \"/home*\", set_cookie = \"session\" }";
    let file = file.replace("\"POST /login\"", &format!("\"POST /login\"\n{success}"));
    file.replace("\"5 per 1h\"", "\"5 per 1h\"\ncount = \"failures\"")
}

/// 302 for what has `right` in its target, 200 for all else.
fn answer(request: &[u8], is_free: &AtomicBool) -> Reply {
    let target = request.split(|&byte| byte == b'\r').next().map(String::from_utf8_lossy).unwrap_or_default();
    if target.contains("held") {
        assert!(eventually(Duration::from_secs(30), || is_free.load(Ordering::Relaxed)));
    }
    if target.contains("gone") {
        return Reply::BytesAndClose(Vec::new());
    }
    if !target.contains("right") {
        return Reply::ok();
    }
    Reply::text(
        "HTTP/1.1 302 Found\r\nLocation: /home\r\nSet-Cookie: lang=en\r\nSet-Cookie: session=1; Path=/\r\n\
         X-Text: \"\\\t\u{e4}\r\nContent-Length: 0\r\n\r\n",
    )
}

#[test]
fn nginx_reports_answers_by_njs() {
    Reported::start(Reporter::NginxByJs).show();
}

#[test]
fn nginx_reports_answers_by_lua() {
    Reported::start(Reporter::NginxByLua).show();
}

#[test]
fn haproxy_reports_answers() {
    Reported::start(Reporter::Haproxy).show();
}

#[test]
fn envoy_reports_answers() {
    Reported::start(Reporter::Envoy).show();
}

#[test]
fn envoy_shows_answers_in_its_streams() {
    Reported::start(Reporter::EnvoyProc).show_by_stream();
}

#[test]
fn traefik_reports_answers() {
    Reported::start(Reporter::Traefik).show();
}

const RIGHT: &str = "/login?right";
const WRONG: &str = "/login?wrong";
