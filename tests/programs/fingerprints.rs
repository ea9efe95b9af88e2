//! `key = "ja4+user"`: programs told apart by the first message of their TLS, as curl and openssl send it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use support::authority::Authority;
use support::{Gate, Launch, Upstream, installed};

const LIMITS: &str = "[route.login]\nmatch = \"POST /login\"\nuser = \"form:log\"\n\
                      [limit.address]\nrate = \"100 per 1h\"\n\
                      [limit.program]\nkey = \"ja4+user\"\nrate = \"2 per 1h\"\n[device]\naddresses = true\n";

fn launch(upstream: &Upstream) -> (Gate, String) {
    let authority = Authority::new();
    let table = "\n[tls]\ncertificates = [{ cert = \"server.pem\", key = \"server.key\" }]\n";
    let launch = Launch::new(&format!("{}{table}", upstream.file(LIMITS))).on_tls_too();
    let gate = launch.with(&authority.issue(&["app.test"]), "server").start();
    let url = format!("https://127.0.0.1:{}/login", gate.tls.port());
    (gate, url)
}

/// The statuses of three sign-ins by curl, each over a connection of its own, and all from one address.
fn statuses(url: &str, arguments: &[&str]) -> Vec<String> {
    let status = |_| {
        let mut command = installed("curl", "curl");
        command.args(["-sk", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20"]);
        let output = command.args(["-d", "log=alice"]).args(arguments).arg(url).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    (0..3).map(status).collect()
}

#[test]
fn each_program_has_a_bucket_of_its_own_and_plain_http_that_of_its_address() {
    let upstream = Upstream::start();
    let (gate, url) = launch(&upstream);
    assert_eq!(statuses(&url, &[]), ["200", "200", "429"]);
    assert_eq!(statuses(&url, &["--http1.1"]), ["200", "200", "429"], "another protocol");
    assert_eq!(statuses(&url, &["--tls-max", "1.2"]), ["200", "200", "429"], "another version");
    assert_eq!(statuses(&url, &["--tls-max", "1.2"]), ["429", "429", "429"], "the same again");
    let plain = format!("http://{}/login", gate.address);
    assert_eq!(statuses(&plain, &[]), ["200", "200", "429"]);
    assert_eq!(statuses(&plain, &["-A", "another"]), ["429", "429", "429"]);
    assert_eq!(statuses(&plain, &["--interface", "127.0.0.9"]), ["200", "200", "429"], "another address");
}

#[test]
fn openssl_is_told_from_curl_and_a_name_in_the_message_from_none() {
    let upstream = Upstream::start();
    let (gate, url) = launch(&upstream);
    let by_openssl = |name: &str| {
        let request = "POST /login HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\
                       Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\nlog=alice";
        let mut command = installed("openssl", "openssl");
        command.args(["s_client", "-quiet", "-connect", &format!("127.0.0.1:{}", gate.tls.port()), name]);
        command.args(if name == "-servername" { &["app.test"][..] } else { &[] });
        let mut client =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        client.stdin.as_mut().unwrap().write_all(request.as_bytes()).unwrap();
        // Its input stays open: with `-quiet` openssl ends with the connection.
        let mut output = String::new();
        client.stdout.as_mut().unwrap().read_to_string(&mut output).unwrap();
        client.wait().unwrap();
        output.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(statuses(&url, &["--http1.1"]), ["200", "200", "429"]);
    for name in ["-servername", "-noservername"] {
        let statuses: Vec<String> = (0..3).map(|_| by_openssl(name)).collect();
        assert_eq!(statuses, ["200", "200", "429"], "{name}");
    }
}

#[test]
fn an_operator_names_a_program_by_its_fingerprint() {
    let upstream = Upstream::start();
    let (gate, url) = launch(&upstream);
    assert_eq!(statuses(&url, &[]), ["200", "200", "429"]);
    let key = "ja4+user:t13i000000_000000000000_000000000000,alice";
    let mut command = installed("curl", "curl");
    command.arg("-sS").arg("--unix-socket").arg(gate.admin_socket());
    let output = command.arg(format!("http://localhost/api/v1/buckets/{key}")).output().unwrap();
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&shown["buckets"][0]["limit"], &shown["buckets"][0]["tokens"]),
        (&"program".into(), &2.into())
    );
}

/// The port of a relay that passes the first 200 bytes of a client on in pieces of this size.
fn in_pieces(gate: &Gate, size: usize) -> u16 {
    let (listener, to) = (TcpListener::bind("127.0.0.1:0").unwrap(), gate.tls);
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut server) = (client.unwrap(), TcpStream::connect(to).unwrap());
            server.set_nodelay(true).unwrap();
            let (mut back, mut answers) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut answers, &mut back));
            let mut first = [0; 200];
            client.read_exact(&mut first).unwrap();
            for piece in first.chunks(size) {
                server.write_all(piece).unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::spawn(move || std::io::copy(&mut client, &mut server));
        }
    });
    port
}

#[test]
fn a_first_message_in_pieces_is_put_together_and_one_in_too_many_has_no_fingerprint() {
    let upstream = Upstream::start();
    let (gate, url) = launch(&upstream);
    let by_way_of = |size| format!("https://127.0.0.1:{}/login", in_pieces(&gate, size));
    assert_eq!(statuses(&by_way_of(90), &[]), ["200", "200", "429"]);
    assert_eq!(statuses(&url, &[]), ["429", "429", "429"], "the same program");
    assert_eq!(statuses(&by_way_of(2), &[]), ["200", "200", "429"], "pays for its address");
    assert_eq!(statuses(&by_way_of(2), &["--tls-max", "1.2"]), ["429", "429", "429"], "whatever it is");
}
