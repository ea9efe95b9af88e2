//! Certificates of clients, as curl and openssl show them.

use std::process::Stdio;
use std::time::Duration;

use support::authority::{Authority, Pair};
use support::{Gate, Launch, Upstream, eventually, installed, post};

const LIMITS: &str = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"1 per 1h\"\n\
                      [limit.address.rates]\n\"cert:backup\" = \"3 per 1h\"\n\
                      [limit.certificate]\nkey = \"cert\"\nrate = \"2 per 1h\"\n";

struct Clients {
    gate: Gate,
    servers: Authority,
    people: Authority,
}

impl Clients {
    /// A gate that asks for certificates of `people`; `more` stands in its `[tls]`.
    fn of(limits: &str, more: &str) -> Self {
        let (servers, people) = (Authority::new(), Authority::new());
        let upstream = Upstream::start();
        let table = format!(
            "\n[tls]\ncertificates = [{{ cert = \"server.pem\", key = \"server.key\" }}]\nclient_ca = \"clients.pem\"\n{more}\n"
        );
        let launch = Launch::new(&format!("{}{table}", upstream.file(limits))).on_tls_too();
        let gate =
            launch.with(&servers.issue(&["app.test"]), "server").beside("clients.pem", &people.pem).start();
        std::fs::write(gate.directory.join("ca.pem"), &servers.pem).unwrap();
        std::mem::forget(upstream);
        Self { gate, servers, people }
    }

    /// The statuses of four sign-ins of a client with this certificate, each over a connection of its own.
    fn statuses(&self, certificate: Option<&Pair>) -> Vec<String> {
        let status = |_| self.curl(certificate, &["--interface", "127.0.0.1", &self.url()]);
        (0..4).map(status).collect()
    }

    /// What curl writes of its sign-ins: the statuses.
    fn curl(&self, certificate: Option<&Pair>, more: &[&str]) -> String {
        let mut command = installed("curl", "curl");
        command.args(["-sS", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20", "-d", "a=b"]);
        command.arg("--cacert").arg(self.gate.directory.join("ca.pem"));
        command.arg("--resolve").arg(format!("app.test:{}:127.0.0.1", self.gate.tls.port()));
        if let Some(pair) = certificate {
            pair.put(&self.gate, "client");
            command.arg("--cert").arg(self.gate.directory.join("client.pem"));
            command.arg("--key").arg(self.gate.directory.join("client.key"));
        }
        let output = command.args(more).output().unwrap();
        // It is shown if the test fails.
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn url(&self) -> String {
        format!("https://app.test:{}/login", self.gate.tls.port())
    }
}

#[test]
fn a_certificate_names_its_client_and_has_a_bucket_of_its_own() {
    let clients = Clients::of(LIMITS, "");
    let (backup, mirror) = (clients.people.issue_to(&["backup"]), clients.people.issue_to(&["mirror"]));
    assert_eq!(clients.statuses(Some(&backup)), ["200", "200", "429", "429"], "two for the certificate");
    assert_eq!(clients.statuses(Some(&mirror)), ["200", "429", "429", "429"], "one for the address");
    assert_eq!(clients.statuses(None), ["429"; 4], "whose bucket is empty now");
    let renewed = clients.people.issue_to(&["backup"]);
    assert_eq!(clients.statuses(Some(&renewed)), ["429"; 4], "another certificate of the same name");
}

#[test]
fn a_name_is_the_same_in_every_version_of_http_and_tls_and_on_every_connection_of_a_client() {
    let versions = [
        ["--http1.1", "--tlsv1.3"],
        ["--http2", "--tlsv1.3"],
        ["--http1.1", "--tls-max=1.2"],
        ["--http2", "--tls-max=1.2"],
    ];
    for [http, tls] in versions {
        let clients = Clients::of(LIMITS, "");
        let (backup, url) = (clients.people.issue_to(&["backup"]), clients.url());
        let tls: Vec<&str> = tls.split('=').collect();
        let one_connection = [&[http][..], &tls, &["-o", "/dev/null", &url, &url]].concat();
        assert_eq!(clients.curl(Some(&backup), &one_connection), "200200", "{http} {tls:?}");
        assert_eq!(clients.curl(Some(&backup), &one_connection), "429429", "{http} {tls:?}");
    }
    let clients = Clients::of(LIMITS, "");
    let (backup, url) = (clients.people.issue_to(&["backup"]), clients.url());
    // curl would resume the session on the second connection.
    let two_connections = ["--http1.1", "-H", "Connection: close", "-o", "/dev/null", &url, &url];
    assert_eq!(clients.curl(Some(&backup), &two_connections), "200200");
}

#[test]
fn an_expired_certificate_ends_the_handshake() {
    let clients = Clients::of(LIMITS, "");
    let old = clients.people.issue_to_until(&["backup"], 2020);
    assert_eq!(clients.statuses(Some(&old)), ["000"; 4]);
    assert_eq!(clients.statuses(None), ["200", "429", "429", "429"], "without it the address pays");
}

#[test]
fn a_client_that_shows_no_name_pays_for_its_address() {
    let limit =
        "[route.login]\nmatch = \"POST /login\"\n[limit.certificate]\nkey = \"cert\"\nrate = \"1 per 1h\"\n";
    let clients = Clients::of(limit, "");
    let odd = clients.people.issue_to(&["backup", "mirror"]);
    assert_eq!(clients.statuses(Some(&odd)), ["200", "429", "429", "429"]);
    assert_eq!(clients.statuses(None), ["429"; 4], "two names are none");
    let other = clients.curl(None, &["--interface", "127.0.0.9", &clients.url()]);
    assert_eq!(other, "200", "another address");
    let nameless = clients.people.issue_to(&[]);
    assert_eq!(clients.statuses(Some(&nameless)), ["429"; 4], "and neither is no name");
    let head = "X-SSL-Client-S-DN: CN=backup\r\nX-Client-Cert: backup\r\nX-SSL-Client-Verify: SUCCESS\r\n";
    let plain = clients.gate.ask(support::post_with("/login", head));
    assert_eq!(plain.status, 429, "a header is no certificate");
    let spoofed = ["--interface", "127.0.0.1", "-H", "X-SSL-Client-S-DN: CN=backup", &clients.url()];
    assert_eq!(clients.curl(None, &spoofed), "429", "and not over TLS either");
}

#[test]
fn a_certificate_of_another_authority_ends_the_handshake() {
    let clients = Clients::of(LIMITS, "");
    let foreign = clients.servers.issue_to(&["backup"]);
    assert_eq!(clients.statuses(Some(&foreign)), ["000"; 4]);
    assert_eq!(clients.gate.ask(post("/login", "a=b")).status, 200, "and takes no token");
}

#[test]
fn a_client_without_a_certificate_is_turned_away_where_one_is_required() {
    let clients = Clients::of(LIMITS, "client_auth = \"require\"");
    assert_eq!(clients.statuses(None), ["000"; 4]);
    let backup = clients.people.issue_to(&["backup"]);
    assert_eq!(clients.statuses(Some(&backup))[..2], ["200", "200"]);
}

/// A resumed session would pass by the authorities.
#[test]
fn no_session_is_resumed_and_new_authorities_count_at_once() {
    let clients = Clients::of(LIMITS, "client_auth = \"require\"");
    let backup = clients.people.issue_to(&["backup"]);
    backup.put(&clients.gate, "client");
    let handshakes = || {
        let mut command = installed("openssl", "openssl");
        command.args([
            "s_client",
            "-connect",
            &clients.gate.tls.to_string(),
            "-servername",
            "app.test",
            "-reconnect",
        ]);
        command.args(["-tls1_2", "-cert"]).arg(clients.gate.directory.join("client.pem"));
        command.arg("-key").arg(clients.gate.directory.join("client.key")).stdin(Stdio::null());
        let output = command.output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let said = handshakes();
    assert!(said.contains("New, TLSv1.2") && !said.contains("Reused,"), "{said}");
    std::fs::write(clients.gate.directory.join("clients.pem"), &clients.servers.pem).unwrap();
    let is_refused = || clients.statuses(Some(&backup)) == ["000"; 4];
    assert!(eventually(Duration::from_secs(20), is_refused), "the new authorities are in force");
}
