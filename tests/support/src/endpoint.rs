//! A gate with a decision endpoint, and the questions that proxies ask it.

use std::net::{Ipv4Addr, SocketAddr};

use crate::{Answer, Client, Gate, Launch, Upstream, free_port};

/// A gate with a decision endpoint.
pub struct Edge {
    pub gate: Gate,
    pub address: SocketAddr,
    /// For the listener that the gate has besides.
    pub upstream: Upstream,
}

impl Edge {
    /// With these routes and limits, and these lines for the endpoint.
    pub fn start(tables: &str, endpoint: &str) -> Self {
        let upstream = Upstream::start();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let kind =
            format!("[endpoint.edge]\nkind = \"forward-auth\"\nlisten = \"http://{address}\"\n{endpoint}");
        let gate = Launch::new(&upstream.file(&format!("{tables}\n{kind}\n"))).start();
        Self { gate, address, upstream }
    }

    /// The answer to these bytes on a connection of their own.
    pub fn ask(&self, question: impl AsRef<[u8]>) -> Answer {
        self.ask_from(Ipv4Addr::LOCALHOST, question)
    }

    pub fn ask_from(&self, asker: Ipv4Addr, question: impl AsRef<[u8]>) -> Answer {
        let mut client = Client::connect_from(asker, self.address);
        client.send(question);
        client.answer()
    }

    /// The receipt of an admitted attempt.
    pub fn receipt(&self, question: impl AsRef<[u8]>) -> String {
        let answer = self.ask(question);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.header("x-tollgate-receipt").expect("a receipt for what was taken").to_owned()
    }

    /// The status of a report with this body.
    pub fn report(&self, body: &str) -> u16 {
        self.ask(report(body)).status
    }
}

/// The report of an outcome.
pub fn report(body: &str) -> String {
    format!("POST /outcome HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// One way to ask: by method, target, client and further lines.
pub type Form = fn(&str, &str, &str, &str) -> String;

pub const FORMS: [Form; 3] = [nginx, forwarded, itself];

/// As nginx asks.
pub fn nginx(method: &str, target: &str, client: &str, lines: &str) -> String {
    format!(
        "GET /auth HTTP/1.0\r\nHost: app.test\r\nX-Original-Method: {method}\r\nX-Original-URI: {target}\r\n\
         X-Forwarded-For: {client}\r\nX-Forwarded-Proto: http\r\n{lines}\r\n"
    )
}

/// As Traefik and Caddy ask.
pub fn forwarded(method: &str, target: &str, client: &str, lines: &str) -> String {
    format!(
        "GET / HTTP/1.1\r\nHost: 127.0.0.1:9181\r\nX-Forwarded-Method: {method}\r\nX-Forwarded-Uri: {target}\r\n\
         X-Forwarded-Host: app.test\r\nX-Forwarded-Proto: https\r\nX-Forwarded-For: {client}\r\n{lines}\r\n"
    )
}

/// As Envoy asks.
pub fn itself(method: &str, target: &str, client: &str, lines: &str) -> String {
    format!(
        "{method} {target} HTTP/1.1\r\nHost: app.test\r\nX-Forwarded-For: {client}\r\nContent-Length: 0\r\n{lines}\r\n"
    )
}
