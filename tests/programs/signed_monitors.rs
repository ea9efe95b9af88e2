//! Requests that Cloudflare's `web-bot-auth` signs: a monitor of the file has a rate of its own, and nobody else has it.
//!
//! `scripts/fetch-web-bot-auth` brings the program.

use std::net::Ipv4Addr;

use support::{Gate, Launch, Upstream, installed, root};

/// `test-key-ed25519` (RFC 9421, B.1.4), which everybody knows.
const DIRECTORY: &str = r#"{ "purpose": "monitoring", "keys": [{ "kty": "RSA", "n": "AA", "e": "AQAB" },
    { "kty": "OKP", "crv": "Ed25519", "x": "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs", "use": "sig" }] }"#;
const SIGNER: &str = r"
const { signatureHeaders } = require('web-bot-auth');
const { Ed25519Signer } = require('web-bot-auth/crypto');
const [url, agent, key, seconds] = process.argv.slice(1);
const jwk = { kty: 'OKP', crv: 'Ed25519', d: 'n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU',
  x: 'JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs' };
(async () => {
  const signer = await Ed25519Signer.fromJWK(jwk);
  const headers = agent ? { 'Signature-Agent': agent } : {};
  const request = new Request(url, { method: 'POST', headers });
  const created = new Date();
  const expires = new Date(created.getTime() + Number(seconds) * 1000);
  const signed = await signatureHeaders(request, signer, { created, expires, ...(key && { key }) });
  for (const [name, value] of Object.entries({ ...headers, ...signed })) process.stdout.write(`${name}: ${value}\r\n`);
})();";

/// The lines that sign a request for this address, good for some seconds.
fn signed(url: &str, agent: &str, key: &str, seconds: u32) -> String {
    let place = root().join("target/tools/web-bot-auth");
    assert!(place.join("node_modules").is_dir(), "this test needs scripts/fetch-web-bot-auth");
    let mut node = installed("node", "nodejs");
    node.current_dir(place).args(["-e", SIGNER, url, agent, key, &seconds.to_string()]);
    let output = node.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// One attempt of each address, three of the monitor's, and five of each account.
fn gate(application: &Upstream) -> Gate {
    let file = application.file(
        "[monitor.probe]\nkeys = \"directory.json\"\n[route.login]\nmatch = \"POST /login\"\nuser = \"form:user\"\n\
         [limit.address]\nrate = \"1 per 1h\"\n[limit.address.rates]\n\"signed:probe\" = \"3 per 1h\"\n\
         [limit.account]\nkey = \"user\"\nrate = \"5 per 1h\"\n",
    );
    Launch::new(&file).beside("directory.json", DIRECTORY).start()
}

/// The status of a sign-in of this account with these lines.
fn sign_in(gate: &Gate, last: u8, lines: &str, user: &str) -> u16 {
    let mut client = gate.connect_from(Ipv4Addr::new(127, 0, 0, last));
    let body = format!("user={user}");
    let form = "Content-Type: application/x-www-form-urlencoded";
    client.send(format!(
        "POST /login HTTP/1.1\r\nHost: app.test\r\n{lines}{form}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    client.answer().status
}

#[test]
fn a_signed_request_has_the_rate_of_its_monitor() {
    let application = Upstream::start();
    let gate = gate(&application);
    let forms = [("", ""), ("\"https://agent.test\"", ""), ("a=\"https://agent.test\"", "a")];
    let forms = forms.map(|(agent, key)| signed("http://app.test/login", agent, key, 60));
    assert_eq!([sign_in(&gate, 1, "", "alice"), sign_in(&gate, 1, "", "alice")], [200, 429]);
    for form in &forms {
        assert_eq!(sign_in(&gate, 1, form, "alice"), 200, "{form}");
    }
    assert_eq!(sign_in(&gate, 1, &forms[0], "alice"), 429, "its own bucket is empty");
    assert!(application.saw("Signature-Input: sig1="), "the application gets the signature");
    assert_eq!(sign_in(&gate, 2, &forms[0], "alice"), 200, "the bucket of another address");
    // One of the address, and four of the monitor.
    assert_eq!(sign_in(&gate, 2, &forms[0], "alice"), 429, "the account is no exception");
    assert_eq!(sign_in(&gate, 2, &forms[0], "bob"), 200, "another account");
    assert_eq!(gate.metric("tollgate_bad_signatures_total", ""), 0.0);
}

#[test]
fn a_signature_that_does_not_hold_is_none() {
    let application = Upstream::start();
    let gate = gate(&application);
    let good = signed("http://app.test/login", "\"https://agent.test\"", "", 60);
    let altered = [
        signed("http://other.test/login", "", "", 60),
        signed("http://app.test/login", "", "", 3600),
        good.replace("https://agent", "https://other"),
        good.replace("Signature-Agent", "X-Agent"),
        good.replace("created=1", "created=2"),
        good.replace(";alg=\"ed25519\"", ""),
    ];
    for (number, lines) in altered.iter().enumerate() {
        let last = 10 + u8::try_from(number).unwrap();
        assert_eq!([sign_in(&gate, last, lines, ""), sign_in(&gate, last, lines, "")], [200, 429], "{lines}");
    }
    assert!(gate.metric("tollgate_bad_signatures_total", "") >= 12.0);
    let stranger = good.replace("keyid=\"poqk", "keyid=\"qoqk");
    let before = gate.metric("tollgate_bad_signatures_total", "");
    assert_eq!([sign_in(&gate, 30, &stranger, ""), sign_in(&gate, 30, &stranger, "")], [200, 429]);
    assert_eq!(
        gate.metric("tollgate_bad_signatures_total", ""),
        before,
        "nothing is verified for a stranger"
    );
    assert_eq!([sign_in(&gate, 31, &good, ""), sign_in(&gate, 31, &good, "")], [200; 2]);
}

#[test]
fn a_signature_that_expires_gives_nothing_even_to_a_head_that_was_refused() {
    let application = Upstream::start();
    let gate = gate(&application);
    // Refused by the monitor's bucket while it holds, and by that of the address when it has expired.
    let long = signed("http://app.test/login", "", "", 30);
    let statuses: Vec<u16> = (0..6).map(|_| sign_in(&gate, 1, &long, "")).collect();
    assert_eq!(statuses, [200, 200, 200, 429, 429, 429]);
    // Its own address has another bucket, which only strangers pay from.
    let is_a_stranger = || sign_in(&gate, 1, &long, "") == 200;
    assert!(support::eventually(std::time::Duration::from_secs(60), is_a_stranger));
    // One that had expired before it came first.
    let short = signed("http://app.test/login", "", "", 1);
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!([sign_in(&gate, 2, &short, ""), sign_in(&gate, 2, &short, "")], [200, 429]);
}
