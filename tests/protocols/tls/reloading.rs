//! Certificates that change while the gate runs.

use std::fs;
use std::time::Duration;

use support::authority::{Authority, Pair, TABLE, seen};
use support::{Gate, ONE_AN_HOUR, Upstream, eventually, get_with};

#[test]
fn a_renewed_certificate_is_shown_without_a_word_and_connections_stay() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR));
    let mut client = authority.connect(gate.tls, "app.test");
    client.send(get_with("/", ""));
    assert_eq!(client.answer().status, 200);
    let new = authority.issue_until(&["app.test"], 2101);
    new.put(&gate, "server");
    assert!(is_shown(&gate, &new), "within a few seconds");
    assert_eq!(gate.reloads().0, 1);
    assert_eq!(expiry(&gate), 4_133_980_800.0, "2101-01-01");
    assert!(gate.messages().contains("`tls` changed"), "{}", gate.messages());
    client.send(get_with("/", ""));
    assert_eq!(client.answer().status, 200, "on the connection of before");
}

/// B12: a renewal that went wrong.
#[test]
fn a_bad_pair_is_refused_and_the_old_one_stays() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR));
    let old = Pair { cert: read(&gate, "server.pem"), key: read(&gate, "server.key") };
    let others = authority.issue(&["app.test"]);
    let expired = authority.issue_until(&["app.test"], 2002);
    let bad = [
        (Pair { cert: old.cert.clone(), key: others.key.clone() }, "is not the key of the certificate"),
        (Pair { cert: others.key.clone(), key: old.key.clone() }, "holds no certificate"),
        (Pair { cert: old.cert.clone(), key: old.cert.clone() }, "holds no private key"),
        (Pair { cert: truncated(&old.cert), key: old.key.clone() }, "holds"),
        (Pair { cert: String::new(), key: String::new() }, "holds no certificate"),
        (expired, "the new certificate of app.test has expired"),
    ];
    for (number, (pair, why)) in (1..).zip(&bad) {
        pair.put(&gate, "server");
        let is_refused = || gate.reloads().1 >= number;
        // A check between the two files is refused as well.
        assert!(
            eventually(Duration::from_secs(10), || is_refused() && gate.messages().contains(why)),
            "{why}"
        );
        assert!(seen(&gate, "app.test") == old.der(), "{why}");
        assert_eq!(gate.reloads().0, 0, "{why}");
    }
    let said = gate.messages();
    assert!(said.contains("gate.toml:") && said.contains("the old one stays"), "{said}");
    assert!(!said.contains("PRIVATE") && !said.contains("MIG"), "no key is shown: {said}");
    assert_eq!(expiry(&gate), 4_102_444_800.0, "2100-01-01, as before");
    fs::remove_file(gate.directory.join("server.key")).unwrap();
    let is_said = || gate.messages().contains("there is no such file");
    assert!(eventually(Duration::from_secs(10), is_said));
    assert!(seen(&gate, "app.test") == old.der());
    others.put(&gate, "server");
    assert!(is_shown(&gate, &others), "a good pair is taken over after all that");
}

#[test]
fn an_expired_certificate_is_told_of_and_no_reason_not_to_start() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let pair = authority.issue_until(&["app.test"], 2002);
    let config = format!("{}{TABLE}", upstream.file(ONE_AN_HOUR));
    let launch = support::Launch::new(&config).on_tls_too();
    let gate = launch.with(&pair, "server").start();
    assert!(gate.messages().contains("the certificate of `app.test` has expired"), "{}", gate.messages());
    assert_eq!(expiry(&gate), 1_009_843_200.0, "2002-01-01");
    assert!(gate.reload(&format!("{config}\n[log]\nlevel = \"debug\"\n")), "it runs already");
    assert!(seen(&gate, "app.test") == pair.der());
}

/// Whether the gate shows this certificate within a few looks at its files.
fn is_shown(gate: &Gate, pair: &Pair) -> bool {
    eventually(Duration::from_secs(10), || seen(gate, "app.test") == pair.der())
}

fn expiry(gate: &Gate) -> f64 {
    gate.metric("tollgate_certificate_expiry_seconds", "name=\"app.test\"")
}

fn read(gate: &Gate, name: &str) -> String {
    fs::read_to_string(gate.directory.join(name)).unwrap()
}

/// A file that is still being written.
fn truncated(pem: &str) -> String {
    pem[..pem.len() / 2].to_owned()
}
