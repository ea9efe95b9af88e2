//! Real proxies with the files of `examples/endpoints`, in front of a real application: each asks the gate.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use support::{Answer, Client, Upstream, post_with};
use tokio::net::TcpSocket;

use self::front::{Front, Proxy};

mod accounts;
mod bodies;
mod front;
mod held_back;
mod http2;
mod outcomes;
mod site;

/// A proxy in front of an application that keeps every request.
struct Recorded {
    front: Front,
    application: Upstream,
}

impl Recorded {
    fn start(proxy: Proxy) -> Self {
        let application = Upstream::start();
        let front = Front::start(proxy, application.address, |file| file);
        Self { front, application }
    }

    fn said(&self) -> String {
        self.front.said()
    }

    fn ask(&self, last: u8, request: &str) -> Answer {
        let mut client = Client::connect_from(Ipv4Addr::new(127, 0, 8, last), self.front.address);
        client.send(request);
        client.answer()
    }

    fn sign_in(&self, last: u8, lines: &str) -> Answer {
        self.ask(last, &post_with("/login", lines))
    }

    /// Sign-ins that reached the application.
    fn reached(&self) -> usize {
        self.application.requests().iter().filter(|request| request.target == "/login").count()
    }

    /// What every proxy shows. `without_gate` is the status when the gate is gone.
    fn show(self, without_gate: u16) {
        for _ in 0..5 {
            assert_eq!(self.sign_in(1, "").status, 200, "{}", self.said());
        }
        let receipts = self.receipts();
        assert!(receipts.len() == 5 && receipts.iter().all(|receipt| receipt.len() == 32), "{receipts:?}");
        self.show_refusals(without_gate);
    }

    /// What Envoy shows that needs no receipts.
    fn show_by_stream(self, without_gate: u16) {
        for _ in 0..5 {
            assert_eq!(self.sign_in(1, "").status, 200, "{}", self.said());
        }
        assert_eq!(self.receipts(), [""; 0]);
        self.show_refusals(without_gate);
    }

    /// What the application was told of its attempts.
    fn receipts(&self) -> Vec<String> {
        let requests = self.application.requests();
        let all = requests.iter().flat_map(|request| request.all("x-tollgate-receipt"));
        all.map(|receipt| (*receipt).to_owned()).collect()
    }

    fn show_refusals(mut self, without_gate: u16) {
        self.refuses_the_sixth();
        self.is_not_fooled();
        self.admits_no_more_than_the_bucket();
        self.front.gate.signal("KILL");
        assert!(self.front.gate.exit_status(Duration::from_secs(5)).is_some());
        let reached = self.reached();
        assert_eq!(self.sign_in(3, "").status, without_gate, "{}", self.said());
        assert_eq!(self.reached(), reached, "without the gate nothing is forwarded");
    }

    /// What Envoy shows that asks by its descriptors.
    fn show_by_calls(mut self) {
        for left in (0..5).rev() {
            let answer = self.sign_in(1, "");
            assert_eq!(answer.status, 200, "{}", self.said());
            assert_eq!(answer.header("x-ratelimit-remaining"), Some(left.to_string().as_str()), "{answer:?}");
        }
        let sixth = self.sign_in(1, "");
        assert_eq!(sixth.status, 429, "{}", self.said());
        assert!((700..=720).contains(&sixth.retry_after()), "{sixth:?}");
        assert!(sixth.header("ratelimit").is_some_and(|limit| limit.starts_with("\"address\";r=0;t=")));
        assert_eq!(self.ask(1, &support::get_with("/login", "")).status, 200, "the form is free");
        assert_eq!(self.sign_in(4, "").status, 200, "another client");
        for line in LIES.split_inclusive("\r\n").chain([LIES]) {
            assert_eq!(self.sign_in(1, line.trim_start()).status, 429, "{line}");
        }
        // What the gate cannot understand is refused, and not let through.
        assert_eq!(self.ask(5, &post_with("/login%zz", "")).status, 429, "{}", self.said());
        self.admits_no_more_than_the_bucket();
        self.front.gate.signal("KILL");
        assert!(self.front.gate.exit_status(Duration::from_secs(5)).is_some());
        let reached = self.reached();
        assert_eq!(self.sign_in(3, "").status, 503, "{}", self.said());
        assert_eq!(self.reached(), reached, "without the gate nothing is forwarded");
    }

    fn refuses_the_sixth(&self) {
        let sixth = self.sign_in(1, "Accept: application/problem+json\r\n");
        assert_eq!(sixth.status, 429, "{}", self.said());
        assert!((700..=720).contains(&sixth.retry_after()), "{}", sixth.retry_after());
        assert!(
            sixth.header("ratelimit").is_some_and(|limit| limit.contains("\"address\";r=0")),
            "{sixth:?}"
        );
        assert!(sixth.header("content-type").unwrap().starts_with("application/problem+json"), "{sixth:?}");
        assert!(
            sixth.text().contains(&format!("\"retry_after\":{}", sixth.retry_after())),
            "{}",
            sixth.text()
        );
        let page = self.sign_in(1, "Accept: text/html\r\n");
        assert!(page.status == 429 && page.text().contains("<title>"), "{}", page.text());
        assert_eq!(self.ask(1, &support::get_with("/login", "")).status, 200, "the form is free");
        assert_eq!(self.sign_in(4, "").status, 200, "another client");
        assert_eq!(self.reached(), 7);
    }

    /// C12: a client says what only proxies may say.
    fn is_not_fooled(&self) {
        for line in LIES.split_inclusive("\r\n").chain([LIES]) {
            assert_eq!(self.sign_in(1, line.trim_start()).status, 429, "{line}");
        }
        let page = self.ask(1, &support::get_with("/page", "X-Tollgate-Receipt: 0123\r\n"));
        assert_eq!(page.status, 200);
        let requests = self.application.requests();
        let of_page = requests.iter().find(|request| request.target == "/page").unwrap();
        assert!(
            of_page.all("x-tollgate-receipt").iter().all(|receipt| !receipt.contains("0123")),
            "a client's own is removed"
        );
    }

    fn admits_no_more_than_the_bucket(&self) {
        let before = self.reached();
        let admitted: usize = std::thread::scope(|scope| {
            let guess = || (0..20).filter(|_| self.sign_in(2, "").status == 200).count();
            let threads: Vec<_> = (0..25).map(|_| scope.spawn(guess)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((admitted, self.reached() - before), (5, 5), "{}", self.said());
    }
}

/// A connection over HTTP/2 in clear text, from this client.
async fn http2_from(client: Ipv4Addr, address: SocketAddr) -> SendRequest<Bytes> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((client, 0))).unwrap();
    let (send, connection) = h2::client::handshake(socket.connect(address).await.unwrap()).await.unwrap();
    tokio::spawn(async move {
        // How it ends is seen on its streams.
        let _ = connection.await;
    });
    send
}

#[test]
fn nginx_asks_before_it_forwards() {
    Recorded::start(Proxy::Nginx).show(500);
}

#[test]
fn haproxy_asks_before_it_forwards() {
    Recorded::start(Proxy::Haproxy).show(503);
}

#[test]
fn caddy_asks_before_it_forwards() {
    Recorded::start(Proxy::Caddy).show(502);
}

#[test]
fn traefik_asks_before_it_forwards() {
    Recorded::start(Proxy::Traefik).show(500);
}

#[test]
fn envoy_asks_before_it_forwards() {
    Recorded::start(Proxy::Envoy).show(503);
}

#[test]
fn envoy_asks_its_rate_limit_service_before_it_forwards() {
    Recorded::start(Proxy::EnvoyRls).show_by_calls();
}

#[test]
fn envoy_asks_its_external_authorization_before_it_forwards() {
    Recorded::start(Proxy::EnvoyAuthz).show(503);
}

#[test]
fn envoy_asks_its_external_processing_before_it_forwards() {
    Recorded::start(Proxy::EnvoyProc).show_by_stream(503);
}

/// The snippet that the documentation had made it log two.
#[test]
fn traefik_has_nothing_to_warn_of_in_its_file() {
    let recorded = Recorded::start(Proxy::Traefik);
    assert_eq!(recorded.sign_in(1, "").status, 200);
    let said = recorded.said();
    // Traefik says this of every entry point that passes paths on as they are, and the gate reads them in every way.
    let is_known = |line: &str| line.contains("reject some encoded characters");
    assert!(said.lines().all(is_known), "{said}");
}

/// What only proxies may say.
const LIES: &str = "X-Original-URI: /harmless\r\nX-Original-Method: GET\r\nX-Forwarded-Uri: /harmless\r\n\
                    X-Forwarded-Method: GET\r\nX-Forwarded-Host: other.test\r\nX-Forwarded-For: 6.6.6.6\r\n\
                    X-Real-IP: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nX-Original-Body: 0\r\n\
                    X-Tollgate-Receipt: 0123\r\n";
