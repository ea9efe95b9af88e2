//! Upstreams that speak TLS, and that have to prove who they are.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use support::authority::{Authority, Pair};
use support::{Gate, Launch, ONE_AN_HOUR, eventually, get_with, post_with};

/// An application that speaks TLS and answers every request with 200.
pub(crate) struct Secure {
    pub(crate) address: SocketAddr,
    /// Of each connection: the name that was asked for, the protocol that was agreed on, and what was sent.
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
}

pub(crate) type Seen = (Option<String>, Option<String>, String);

impl Secure {
    pub(crate) fn start(pair: &Pair) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (config, log) = (server_config(pair), Arc::clone(&seen));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (config, log) = (Arc::clone(&config), Arc::clone(&log));
                std::thread::spawn(move || {
                    let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
                    let mut buffer = [0; 4096];
                    while let Ok(length @ 1..) = stream.read(&mut buffer) {
                        let sent = String::from_utf8_lossy(&buffer[..length]).into_owned();
                        let name = stream.conn.server_name().map(str::to_owned);
                        let protocol = stream.conn.alpn_protocol();
                        let protocol = protocol.map(|name| String::from_utf8_lossy(name).into_owned());
                        log.lock().unwrap().push((name, protocol, sent));
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                    }
                });
            }
        });
        Self { address, seen }
    }
}

fn server_config(pair: &Pair) -> Arc<ServerConfig> {
    let chain = vec![CertificateDer::from_pem_slice(pair.cert.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

fn file(host: &str, port: u16) -> String {
    format!("upstream = \"https://{host}:{port}\"\n{ONE_AN_HOUR}[tls]\nupstream_ca = \"roots.pem\"\n")
}

fn gate(authority: &Authority, host: &str, port: u16) -> Gate {
    Launch::new(&file(host, port)).beside("roots.pem", &authority.pem).start()
}

#[test]
fn a_request_goes_over_tls_to_whom_the_authority_vouches_for() {
    let authority = Authority::new();
    let server = Secure::start(&authority.issue(&["localhost", "127.0.0.1"]));
    let port = server.address.port();
    for (host, name) in [("localhost", Some("localhost")), ("127.0.0.1", None)] {
        let gate = gate(&authority, host, port);
        for _ in 0..3 {
            assert_eq!(gate.ask(get_with("/", "")).status, 200, "{host}");
        }
        gate.drain("/login", "");
        let seen = std::mem::take(&mut *server.seen.lock().unwrap());
        assert_eq!(seen.len(), 4);
        for (asked, protocol, request) in seen {
            assert_eq!((asked.as_deref(), protocol.as_deref()), (name, Some("http/1.1")));
            assert!(
                request.contains("\r\nHost: app.test\r\n"),
                "the client's Host, whatever the certificate says: {request}"
            );
        }
    }
}

#[test]
fn an_upstream_that_cannot_prove_its_name_gets_no_request() {
    let (authority, strangers) = (Authority::new(), Authority::new());
    let impostors = [
        (authority.issue(&["other.test"]), "another name"),
        (strangers.issue(&["localhost"]), "another authority"),
        (authority.issue_until(&["localhost"], 2002), "expired"),
    ];
    for (pair, why) in &impostors {
        let server = Secure::start(pair);
        let gate = gate(&authority, "localhost", server.address.port());
        let answer = gate.ask(post_with("/login", ""));
        assert_eq!(answer.status, 502, "{why}");
        assert!(!answer.text().contains("certificate") && !answer.text().contains("localhost"), "{why}");
        assert_eq!(gate.metric("tollgate_upstream_errors_total", "reason=\"certificate\""), 1.0, "{why}");
        assert_eq!(gate.metric("tollgate_upstream_up", ""), 0.0, "{why}");
        assert!(server.seen.lock().unwrap().is_empty(), "{why}");
        let is_said = || gate.messages().contains("its certificate is not trusted, or not for its name");
        assert!(eventually(Duration::from_secs(5), is_said), "{}", gate.messages());
    }
}

#[test]
fn the_system_vouches_for_no_certificate_of_ours() {
    let authority = Authority::new();
    let server = Secure::start(&authority.issue(&["localhost"]));
    let config = format!("upstream = \"https://localhost:{}\"\n{ONE_AN_HOUR}", server.address.port());
    // Its roots, by the name that OpenSSL has for them.
    let launch = Launch::new(&config).beside("roots.pem", &Authority::new().pem);
    let gate = launch.environment("SSL_CERT_FILE", "roots.pem").start();
    assert_eq!(gate.ask(get_with("/", "")).status, 502);
    assert_eq!(gate.metric("tollgate_upstream_errors_total", "reason=\"certificate\""), 1.0);
    let launch = Launch::new(&config).beside("roots.pem", &authority.pem);
    let gate = launch.environment("SSL_CERT_FILE", "roots.pem").start();
    assert_eq!(gate.ask(get_with("/", "")).status, 200, "unless it does");
}

#[test]
fn an_upstream_without_tls_and_one_that_stalls_are_told_apart() {
    let authority = Authority::new();
    // It answers the first message of a handshake as Apache does: in clear text.
    let clear = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = clear.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in clear.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let to_clear = gate(&authority, "127.0.0.1", port);
    assert_eq!(to_clear.ask(get_with("/", "")).status, 502);
    assert_eq!(to_clear.metric("tollgate_upstream_errors_total", "reason=\"tls\""), 1.0);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let config = format!("{}[proxy]\nconnect_timeout = \"500ms\"\n", file("127.0.0.1", port));
    let to_silent = Launch::new(&config).beside("roots.pem", &authority.pem).start();
    assert_eq!(to_silent.ask(get_with("/", "")).status, 504);
    assert_eq!(to_silent.metric("tollgate_upstream_errors_total", "reason=\"connect_timeout\""), 1.0);
}

#[test]
fn another_authority_is_believed_from_the_next_request_on() {
    let (old, new) = (Authority::new(), Authority::new());
    let server = Secure::start(&old.issue(&["localhost"]));
    let gate = gate(&old, "localhost", server.address.port());
    assert_eq!(gate.ask(get_with("/", "")).status, 200);
    std::fs::write(gate.directory.join("roots.pem"), &new.pem).unwrap();
    assert!(eventually(Duration::from_secs(10), || gate.reloads().0 == 1), "the file is watched");
    // The connection that is kept was made by the old one's word.
    assert_eq!(gate.ask(get_with("/", "")).status, 502);
    std::fs::write(gate.directory.join("roots.pem"), "nonsense").unwrap();
    assert!(eventually(Duration::from_secs(10), || gate.reloads().1 == 1));
    assert!(eventually(Duration::from_secs(5), || gate.messages().contains("there are no roots to trust")));
}
