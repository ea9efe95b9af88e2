//! Which certificate a client sees, which versions are spoken, and sessions that are taken up again.

use std::sync::Arc;

use rustls::client::{Resumption, Tls12Resumption};
use rustls::{HandshakeKind, ProtocolVersion, SupportedProtocolVersion, version};

use support::authority::{Authority, BOTH, TABLE, connect_by, encrypted, seen};
use support::{Gate, Launch, ONE_AN_HOUR, Upstream, get_with, post};

#[test]
fn a_request_over_tls_is_limited_and_forwarded_like_any_other() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR));
    let mut client = authority.connect(gate.tls, "app.test");
    for status in [200, 429] {
        client.send(post("/login", "user=a"));
        assert_eq!(client.answer().status, status);
    }
    client.send(get_with("/", ""));
    assert_eq!(client.answer().text(), "ok", "the connection is kept");
    assert_eq!(client.tls().protocol_version(), Some(ProtocolVersion::TLSv1_3));
    assert_eq!(client.tls().alpn_protocol(), None, "a client that asks for no protocol");
    assert_eq!(gate.ask(post("/login", "user=a")).status, 429, "the bucket is the same without TLS");
}

#[test]
fn the_certificate_is_chosen_by_name_then_by_wildcard_and_is_the_first_otherwise() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let [first, wild, exact] =
        [&["first.test"], &["*.wild.test"], &["exact.wild.test"]].map(|names| authority.issue(names));
    let tables = "[tls]\ncertificates = [{ cert = \"first.pem\", key = \"first.key\" }, \
                  { cert = \"wild.pem\", key = \"wild.key\" }, { cert = \"exact.pem\", key = \"exact.key\" }]\n";
    let launch = Launch::new(&upstream.file(&format!("{ONE_AN_HOUR}{tables}"))).on_tls_too();
    let gate = launch.with(&first, "first").with(&wild, "wild").with(&exact, "exact").start();
    for (name, wanted) in [
        ("first.test", &first),
        ("a.wild.test", &wild),
        ("exact.wild.test", &exact),
        ("EXACT.wild.test", &exact),
        ("wild.test", &first),
        ("a.b.wild.test", &first),
        ("unknown.test", &first),
        // An address is no name, so the client sends no SNI.
        ("127.0.0.1", &first),
    ] {
        assert!(seen(&gate, name) == wanted.der(), "{name}");
    }
}

#[test]
fn the_first_protocol_that_both_speak_is_http_1_1() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR));
    let mut config = authority.client_config(BOTH);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let mut client = connect_by(&Arc::new(config), gate.tls, "app.test");
    client.send(get_with("/", ""));
    assert_eq!(client.answer().status, 200);
    assert_eq!(client.tls().alpn_protocol(), Some(&b"http/1.1"[..]));
}

#[test]
fn tls_1_2_is_spoken_unless_the_file_says_otherwise() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let config = upstream.file(ONE_AN_HOUR);
    let gate = authority.gate(&["app.test"], &config);
    assert!(is_served(&gate, &authority, &version::TLS12) && is_served(&gate, &authority, &version::TLS13));
    assert!(gate.reload(&format!("{config}{TABLE}minimum = \"1.3\"\n")));
    assert!(!is_served(&gate, &authority, &version::TLS12) && is_served(&gate, &authority, &version::TLS13));
}

#[test]
fn a_session_is_taken_up_again_even_after_a_reload() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR));
    for version in [&version::TLS13, &version::TLS12] {
        let config = Arc::new(authority.client_config(&[version]));
        assert_eq!(kind(&config, &gate), HandshakeKind::Full);
        assert_eq!(kind(&config, &gate), HandshakeKind::Resumed, "{version:?}");
        authority.issue(&["app.test"]).put(&gate, "server");
        assert!(gate.reload(&format!("{}{TABLE}", upstream.file(ONE_AN_HOUR))));
        assert_eq!(kind(&config, &gate), HandshakeKind::Resumed, "{version:?} after a reload");
    }
    // By an id instead of a ticket.
    let mut config = authority.client_config(&[&version::TLS12]);
    config.resumption = Resumption::in_memory_sessions(8).tls12_resumption(Tls12Resumption::SessionIdOnly);
    let config = Arc::new(config);
    assert_eq!([kind(&config, &gate), kind(&config, &gate)], [HandshakeKind::Full, HandshakeKind::Resumed]);
}

#[test]
fn a_session_of_one_name_is_none_of_another() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority.gate(&["a.test", "b.test"], &upstream.file(ONE_AN_HOUR));
    let config = Arc::new(authority.client_config(BOTH));
    assert_eq!(kind_for(&config, &gate, "a.test"), HandshakeKind::Full);
    assert_eq!(kind_for(&config, &gate, "b.test"), HandshakeKind::Full);
}

fn is_served(gate: &Gate, authority: &Authority, version: &'static SupportedProtocolVersion) -> bool {
    let config = Arc::new(authority.client_config(&[version]));
    let mut stream = encrypted(&config, gate.tls, "app.test");
    stream.conn.complete_io(&mut stream.sock).is_ok()
}

fn kind(config: &Arc<rustls::ClientConfig>, gate: &Gate) -> HandshakeKind {
    kind_for(config, gate, "app.test")
}

fn kind_for(config: &Arc<rustls::ClientConfig>, gate: &Gate, name: &str) -> HandshakeKind {
    let mut client = connect_by(config, gate.tls, name);
    client.send(get_with("/", ""));
    // With the answer come the tickets for the next time.
    assert_eq!(client.answer().status, 200);
    client.tls().handshake_kind().unwrap()
}

#[test]
fn the_example_works_with_certificates_of_its_names() {
    let authority = Authority::new();
    let folder = support::new_directory();
    for site in ["example.org", "example.net"] {
        let (pair, files) = (authority.issue(&[site]), folder.join(site));
        std::fs::create_dir(&files).unwrap();
        std::fs::write(files.join("fullchain.pem"), &pair.cert).unwrap();
        std::fs::write(files.join("privkey.pem"), &pair.key).unwrap();
    }
    std::fs::copy("examples/tls/gate.toml", folder.join("gate.toml")).unwrap();
    let loaded =
        tollgate::config::load(&tollgate::config::Sources::from_file(&folder.join("gate.toml")).unwrap());
    let said: String = loaded.diagnostics.iter().map(|found| found.render(false)).collect();
    assert_eq!(said, "");
    let config = loaded.config.unwrap();
    let names: Vec<&str> =
        config.front.tls.certificates.iter().map(|certificate| certificate.name()).collect();
    assert_eq!((names, config.process.files.len()), (vec!["example.org", "example.net"], 4));
    std::fs::remove_dir_all(folder).unwrap();
}
