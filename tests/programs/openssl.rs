//! What openssl offers to the gate, down to protocols that nobody should speak.

use std::process::Stdio;

use support::authority::Authority;
use support::{ONE_AN_HOUR, Upstream, get_with, installed};

/// B13: outdated protocols and ciphers.
#[test]
fn weak_protocols_and_ciphers_are_refused() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR));
    let speaks = |arguments: &str| {
        let mut command = installed("openssl", "openssl");
        command.args(["s_client", "-connect", &gate.tls.to_string(), "-servername", "app.test"]);
        command.args(arguments.split_whitespace()).stdin(Stdio::null());
        let said = command.output().unwrap();
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(!text.contains("unknown option"), "{text}");
        said.status.success() && text.contains("Cipher is ") && !text.contains("Cipher is (NONE)")
    };
    for good in [
        "-tls1_3",
        "-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256",
        "-tls1_2 -cipher ECDHE-ECDSA-AES256-GCM-SHA384",
        "-tls1_2 -cipher ECDHE-ECDSA-CHACHA20-POLY1305",
    ] {
        assert!(speaks(good), "{good}");
    }
    for weak in [
        "-tls1 -cipher ALL:@SECLEVEL=0",
        "-tls1_1 -cipher ALL:@SECLEVEL=0",
        "-tls1_2 -cipher aNULL:eNULL:@SECLEVEL=0",
        "-tls1_2 -cipher kRSA:@SECLEVEL=0",
        "-tls1_2 -cipher kDHE:@SECLEVEL=0",
        "-tls1_2 -cipher AES128-SHA:AES256-SHA:@SECLEVEL=0",
        "-tls1_2 -cipher ECDHE-ECDSA-AES128-SHA:ECDHE-ECDSA-AES256-SHA:@SECLEVEL=0",
        "-tls1_2 -cipher ECDHE-ECDSA-AES128-SHA256:ECDHE-ECDSA-AES256-SHA384:@SECLEVEL=0",
        "-tls1_3 -ciphersuites TLS_AES_128_CCM_SHA256",
    ] {
        assert!(!speaks(weak), "{weak}");
    }
    let mut client = authority.connect(gate.tls, "app.test");
    client.send(get_with("/", "Connection: close\r\n"));
    assert_eq!(client.answer().status, 200);
}
