//! Certificates of clients that a trusted proxy passes on: they name the same clients as in handshakes with the gate.

use std::net::Ipv4Addr;
use std::sync::Arc;

use support::authority::{Authority, Pair, connect_by};
use support::{Answer, Gate, Launch, Upstream, post_with};

const LIMITS: &str = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"1 per 1h\"\n\
                      [limit.address.rates]\n\"cert:backup\" = \"9 per 1h\"\n\"cert:mirror\" = \"9 per 1h\"\n\
                      [limit.certificate]\nkey = \"cert\"\nrate = \"2 per 1h\"\n";

/// A gate that trusts 127.0.0.2, and asks its own clients for certificates.
struct PassedCertificates {
    gate: Gate,
    application: Upstream,
    servers: Authority,
    people: Authority,
}

impl PassedCertificates {
    fn by(certificate: &str, rest: &str) -> Self {
        let (servers, people, application) = (Authority::new(), Authority::new(), Upstream::start());
        let file = format!(
            "client.trust = \"127.0.0.2\"\nclient.certificate = \"{certificate}\"\n{}{rest}\n[tls]\n\
             certificates = [{{ cert = \"server.pem\", key = \"server.key\" }}]\nclient_ca = \"clients.pem\"\n",
            application.file(LIMITS)
        );
        let launch = Launch::new(&file).on_tls_too().with(&servers.issue(&["app.test"]), "server");
        let gate = launch.beside("clients.pem", &people.pem).start();
        Self { gate, application, servers, people }
    }

    /// A sign-in of a client that the proxy names, with these lines.
    fn through_the_proxy(&self, lines: &str) -> Answer {
        self.from(2, &format!("X-Forwarded-For: 203.0.113.7\r\n{lines}"))
    }

    fn from(&self, last: u8, lines: &str) -> Answer {
        let mut client = self.gate.connect_from(Ipv4Addr::new(127, 0, 0, last));
        client.send(post_with("/login", lines));
        client.answer()
    }

    /// The same of a client that comes by itself.
    fn directly(&self, certificate: &Pair) -> u16 {
        let config = Arc::new(self.servers.client_config_with(certificate));
        let mut client = connect_by(&config, self.gate.tls, "app.test");
        client.send(post_with("/login", ""));
        client.answer().status
    }
}

/// What a proxy says of a certificate.
type HeaderLine = fn(&Pair) -> String;
const WAYS: [(&str, HeaderLine); 2] = [("client-cert", client_cert), ("xfcc", forwarded_client_cert)];

/// As HAProxy does by `ssl_c_der,base64`.
fn client_cert(pair: &Pair) -> String {
    let lines = pair.cert.lines().filter(|line| !line.starts_with("-----"));
    format!("Client-Cert: :{}:\r\n", lines.collect::<String>())
}

/// As Envoy and nginx encode it.
fn forwarded_client_cert(pair: &Pair) -> String {
    let encode = |byte: u8| match byte {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    let cert: String = pair.cert.bytes().map(encode).collect();
    format!("X-Forwarded-Client-Cert: Hash=00;Cert=\"{cert}\"\r\n")
}

#[test]
fn a_certificate_has_one_bucket_by_whichever_way_it_comes() {
    for (word, line) in WAYS {
        let passed = PassedCertificates::by(word, "");
        let [backup, mirror] = ["backup", "mirror"].map(|name| passed.people.issue_to(&[name]));
        assert_eq!(passed.directly(&backup), 200, "{word}");
        assert_eq!(passed.through_the_proxy(&line(&backup)).status, 200, "{word}");
        assert_eq!(passed.through_the_proxy(&line(&backup)).status, 429, "{word}");
        assert_eq!(passed.directly(&backup), 429, "{word}");
        assert_eq!(passed.through_the_proxy(&line(&mirror)).status, 200, "{word}: another certificate");
        let last = passed.application.last();
        let header = line(&mirror);
        let (name, value) = header.trim_end().split_once(": ").unwrap();
        assert_eq!(last.all(name), [value], "the application gets it");
        assert_eq!(passed.directly(&mirror), 200, "{word}");
        assert_eq!(passed.directly(&mirror), 429, "{word}");
    }
}

#[test]
fn a_client_names_no_certificate_by_itself() {
    for (word, line) in WAYS {
        let keep = "[proxy]\nkeep = [\"Client-Cert*\", \"X-Forwarded-*\"]\nunderscores = \"pass\"\n";
        let passed = PassedCertificates::by(word, keep);
        let backup = line(&passed.people.issue_to(&["backup"]));
        let odd = backup.replace("Client-Cert:", "Client_Cert:");
        assert_eq!(
            passed.from(9, &format!("{backup}{backup}{odd}Client-Cert-Chain: x\r\n")).status,
            200,
            "{word}"
        );
        let last = passed.application.last();
        let names = last.names_as_cgi();
        let mine = if word == "xfcc" { "X_FORWARDED_CLIENT_CERT" } else { "CLIENT_CERT" };
        assert!(!names.iter().any(|name| name.to_uppercase().replace('-', "_").ends_with(mine)), "{names:?}");
        assert_eq!(passed.from(9, &backup).status, 429, "its address pays");
        let real = passed.people.issue_to(&["backup"]);
        assert_eq!([passed.directly(&real), passed.directly(&real)], [200; 2], "{word}: no token was taken");
    }
}

/// L13: a proxy passes on what its own clients send by names that it does not know.
#[test]
fn the_application_gets_no_certificate_that_the_gate_does_not_read() {
    const NAMES: [&str; 3] = ["client-cert", "client-cert-chain", "x-forwarded-client-cert"];
    let chain = "Client-Cert-Chain: :QQ==:\r\n";
    for ((word, line), (_, other)) in WAYS.into_iter().zip(WAYS.into_iter().rev()) {
        let passed = PassedCertificates::by(word, "");
        let [backup, ghost] = ["backup", "ghost"].map(|name| passed.people.issue_to(&[name]));
        let read = line(&backup);
        let lines = format!("{read}{}{chain}", other(&ghost));
        assert_eq!(passed.through_the_proxy(&lines).status, 200, "{word}");
        let last = passed.application.last();
        let (_, value) = read.trim_end().split_once(": ").unwrap();
        assert_eq!(NAMES.map(|name| last.all(name)).concat(), [value], "{word}");
    }
    let passed = PassedCertificates::by("client-cert", "[proxy]\nkeep = [\"Client-Cert-Chain\"]\n");
    let backup = client_cert(&passed.people.issue_to(&["backup"]));
    for (from, kept) in [(2, 1), (9, 0)] {
        let lines = format!("X-Forwarded-For: 203.0.113.{from}\r\n{backup}{chain}");
        assert_eq!(passed.from(from, &lines).status, 200);
        assert_eq!(passed.application.last().all("client-cert-chain").len(), kept, "{from}");
    }
}

#[test]
fn a_proxy_that_passes_on_two_certificates_or_nonsense_gets_400() {
    let passed = PassedCertificates::by("client-cert", "");
    let backup = client_cert(&passed.people.issue_to(&["backup"]));
    let twice = backup.repeat(2);
    for lines in [
        twice.as_str(),
        "Client-Cert: backup\r\n",
        "Client-Cert: :QQ==:\r\n",
        "Client-Cert-Chain: :QQ==:\r\n",
    ] {
        assert_eq!(passed.through_the_proxy(lines).status, 400, "{lines}");
    }
    assert!(passed.application.requests().is_empty());
    assert_eq!(passed.through_the_proxy(&format!("{backup}Client-Cert-Chain: :QQ==:\r\n")).status, 200);
    assert_eq!(passed.through_the_proxy("").status, 200, "a client without one pays for its address");
    assert_eq!(
        passed.through_the_proxy("X-Forwarded-Client-Cert: nonsense\r\n").status,
        429,
        "the other header"
    );
}

#[test]
fn a_kept_refusal_tells_certificates_apart() {
    let passed = PassedCertificates::by("client-cert", "");
    let backup = client_cert(&passed.people.issue_to(&["backup"]));
    let statuses: Vec<u16> = (0..8).map(|_| passed.through_the_proxy(&backup).status).collect();
    assert_eq!(statuses, [200, 200, 429, 429, 429, 429, 429, 429]);
    let mirror = client_cert(&passed.people.issue_to(&["mirror"]));
    assert_eq!(passed.through_the_proxy(&mirror).status, 200);
    assert_eq!(passed.through_the_proxy(&backup).status, 429);
}
