//! Who pays for a guess whose account is in its body: the account where the proxy shows bodies, else the client. In every framing,
//! and up to the length that the documents name.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use support::{Client, eventually, polite};

use super::front::{Front, Proxy};
use super::http2_from;
use super::site::Site;

/// How a body comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Length,
    Chunked,
    /// Once the other side lets it.
    Expects,
    /// Without a length.
    Http2,
}

/// Who pays for an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Payer {
    Account,
    Client,
}

/// One guess at an account.
#[derive(Debug, Clone)]
struct AccountGuess {
    client: Ipv4Addr,
    account: String,
    way: Way,
    /// Bytes of the body, whose last are the account's; none more than these if 0.
    size: usize,
}

impl AccountGuess {
    fn body(&self) -> String {
        let form = format!("&user={}&password=guess", self.account);
        match self.size {
            0 => form[1..].to_owned(),
            size => format!("pad={}{form}", "x".repeat(size - form.len() - 4)),
        }
    }

    /// The status of the answer; none if the connection ends first, as it may where a long body is refused unread.
    fn send(&self, front: &Front) -> Option<u16> {
        match self.way {
            Way::Http2 => polite::run(self.send_over_http2(front.http2)),
            _ => self.send_over_http1(front.address),
        }
    }

    fn send_over_http1(&self, address: SocketAddr) -> Option<u16> {
        let body = self.body();
        let framing = match self.way {
            Way::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
            Way::Expects => format!("Content-Length: {}\r\nExpect: 100-continue\r\n", body.len()),
            Way::Length | Way::Http2 => format!("Content-Length: {}\r\n", body.len()),
        };
        let mut client = Client::connect_from(self.client, address);
        client.send(format!("{HEAD}{framing}\r\n"));
        match self.way {
            Way::Chunked => {
                client.send_what_goes(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).as_bytes());
            }
            Way::Expects => {
                let head = client.take_head_text();
                let status = head.split(' ').nth(1)?.parse().ok()?;
                if status != 100 {
                    return Some(status);
                }
                client.send(body);
            }
            Way::Length | Way::Http2 => client.send_what_goes(body.as_bytes()),
        }
        client.try_answer().map(|answer| answer.status)
    }

    async fn send_over_http2(&self, address: SocketAddr) -> Option<u16> {
        let mut send = http2_from(self.client, address).await.ready().await.ok()?;
        let request = Request::builder().method("POST").uri("http://app.test/login");
        let request = request.header("content-type", FORM).body(()).unwrap();
        let (response, mut out) = send.send_request(request, false).unwrap();
        out.send_data(Bytes::from(self.body()), true).unwrap();
        response.await.ok().map(|response| response.status().as_u16())
    }
}

/// A proxy with a bucket of five for each account, or with its file of the examples, which has one for each client.
struct Guarded {
    proxy: Proxy,
    payer: Payer,
    front: Front,
    site: Site,
}

impl Guarded {
    fn start(proxy: Proxy, payer: Payer) -> Self {
        let site = Site::start();
        let front = Front::start(proxy, site.address, |file| match payer {
            Payer::Account => by_account(&file),
            Payer::Client => file,
        });
        Self { proxy, payer, front, site }
    }

    /// A client that made no guess yet, by two numbers that nobody else has.
    fn client(kind: u8, number: u8) -> Ipv4Addr {
        Ipv4Addr::new(127, 0, 20 + kind, number)
    }

    /// Of more guesses than a bucket holds, exactly as many reach the application, each with its whole body.
    fn admits_no_more_than_the_bucket(&self, kind: u8, way: Way, size: usize) {
        let guesses: Vec<_> = (1..=GUESSES)
            .map(|number| match self.payer {
                Payer::Account => (Self::client(kind, number), format!("kind-{kind}")),
                Payer::Client => (Self::client(kind, 1), format!("kind-{kind}-{number}")),
            })
            .map(|(client, account)| AccountGuess { client, account, way, size })
            .collect();
        let statuses: Vec<_> = guesses.iter().map(|guess| guess.send(&self.front)).collect();
        let said = || format!("{:?} {way:?} {size}: {statuses:?}: {}", self.proxy, self.front.said());
        let (admitted, refused) = statuses.split_at(BUCKET);
        assert!(admitted.iter().all(|status| *status == Some(200)), "{}", said());
        let is_refused = |status: &Option<u16>| *status == Some(429) || (*status, size) == (None, BODY);
        assert!(refused.iter().all(is_refused), "{}", said());
        let visits = self.site.visits("/login");
        let bodies: Vec<_> = guesses.iter().map(AccountGuess::body).collect();
        let reached = visits.iter().filter(|visit| bodies.iter().any(|body| visit.body == *body)).count();
        assert_eq!(reached, BUCKET, "{}", said());
    }

    /// The status of one guess with a body of this size, and whether it reached the application.
    fn try_size(&self, kind: u8, way: Way, size: usize) -> (Option<u16>, bool) {
        let account = format!("size-{kind}");
        let guess = AccountGuess { client: Self::client(kind, 1), account, way, size };
        let status = guess.send(&self.front);
        let body = guess.body();
        (status, self.site.visits("/login").iter().any(|visit| visit.body == body))
    }

    fn show(&self) {
        let kinds = SIZES.iter().flat_map(|&size| WAYS.iter().map(move |&way| (way, size)));
        for (kind, (way, size)) in (0..).zip(kinds) {
            self.admits_no_more_than_the_bucket(kind, way, size);
        }
        // One byte more than `route.body`.
        let longer = match self.payer {
            Payer::Account => (Some(413), false),
            Payer::Client => (Some(200), true),
        };
        for (kind, way) in (50..).zip(WAYS) {
            assert_eq!(self.try_size(kind, way, BODY + 1), longer, "{way:?}: {}", self.front.said());
        }
        // More than Traefik, and Envoy's buffers, hold.
        if self.payer == Payer::Account {
            let status = if self.proxy == Proxy::Traefik { 401 } else { 413 };
            let seen = self.try_size(60, Way::Http2, 2 << 20);
            assert_eq!(seen, (Some(status), false), "{}", self.front.said());
        }
    }

    /// The beginning of a body fills 64 KiB and names one account; what follows names another, which the application takes.
    fn shows_no_beginning_as_a_whole(&self) {
        let beginning = format!("user=other&pad={}", "x".repeat(BODY - 15));
        assert_eq!(beginning.len(), BODY);
        let rest = "&user=anna&password=guess";
        let length = format!("Content-Length: {}\r\n\r\n", BODY + rest.len());
        let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
        let framings = [
            (length, beginning.clone(), rest.to_owned()),
            ("Transfer-Encoding: chunked\r\n\r\n".to_owned(), chunk(&beginning), chunk(rest) + "0\r\n\r\n"),
        ];
        let decided = || self.front.gate.metric("tollgate_decisions_total", "");
        for (number, (framing, beginning, rest)) in (1..).zip(framings) {
            let mut client = Client::connect_from(Self::client(70, number), self.front.address);
            client.send(format!("{HEAD}{framing}"));
            client.send(beginning);
            // A proxy that takes the beginning for the body asks now.
            let before = decided();
            let asked = || decided() > before;
            assert!(!eventually(Duration::from_millis(500), asked), "{}", self.front.said());
            client.send_what_goes(rest.as_bytes());
            assert_eq!(client.answer().status, 413, "{}", self.front.said());
        }
        assert!(self.site.visits("/login").is_empty());
    }
}

/// The gate's file of the examples with a bucket for each account.
fn by_account(file: &str) -> String {
    let old = ["\"forward-auth\"\n", "match = \"POST /login\"\n", "[limit.address]\n"];
    let new = [
        "\"forward-auth\"\nbodies = true\n",
        "match = \"POST /login\"\nuser = \"form:user\"\n",
        "[limit.account]\nkey = \"user\"\n",
    ];
    old.iter().zip(new).fold(file.to_owned(), |file, (old, new)| {
        assert!(file.contains(old), "{file}");
        file.replace(old, new)
    })
}

#[test]
fn nginx_lets_the_client_pay_for_bodies() {
    Guarded::start(Proxy::Nginx, Payer::Client).show();
}

#[test]
fn haproxy_lets_the_client_pay_for_bodies() {
    Guarded::start(Proxy::Haproxy, Payer::Client).show();
}

#[test]
fn caddy_lets_the_client_pay_for_bodies() {
    Guarded::start(Proxy::Caddy, Payer::Client).show();
}

#[test]
fn traefik_lets_the_account_in_a_body_pay() {
    Guarded::start(Proxy::Traefik, Payer::Account).show();
}

#[test]
fn envoy_lets_the_account_in_a_body_pay() {
    Guarded::start(Proxy::Envoy, Payer::Account).show();
}

#[test]
fn envoy_with_its_external_authorization_lets_the_account_in_a_body_pay() {
    Guarded::start(Proxy::EnvoyAuthz, Payer::Account).show();
}

#[test]
fn envoy_with_its_external_processing_lets_the_account_in_a_body_pay() {
    Guarded::start(Proxy::EnvoyProc, Payer::Account).show();
}

/// M6: Envoy asks when its buffer is full, and does not say that more follows if it is full to the byte.
#[test]
fn envoy_shows_no_beginning_of_a_body_as_a_whole() {
    for proxy in [Proxy::Envoy, Proxy::EnvoyAuthz, Proxy::EnvoyProc] {
        Guarded::start(proxy, Payer::Account).shows_no_beginning_as_a_whole();
    }
}

const WAYS: [Way; 4] = [Way::Length, Way::Chunked, Way::Expects, Way::Http2];
/// A short form, and as long a one as the gate reads.
const SIZES: [usize; 2] = [0, BODY];
/// `route.body` by default.
const BODY: usize = 64 << 10;
/// Of `gate.toml`.
const BUCKET: usize = 5;
const GUESSES: u8 = 7;
const FORM: &str = "application/x-www-form-urlencoded";
const HEAD: &str =
    "POST /login HTTP/1.1\r\nHost: app.test\r\nContent-Type: application/x-www-form-urlencoded\r\n";
