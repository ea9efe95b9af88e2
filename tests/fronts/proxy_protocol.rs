//! A real HAProxy in front of the gate, in TCP mode, with all that it can put into a header.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use support::{Client, Gate, ONE_AN_HOUR, Upstream, eventually, free_port, get_with, installed, post_with};

/// A gate that trusts 127.0.0.1 only.
fn gate(upstream: &Upstream, version: &str) -> Gate {
    let trust = "[client]\ntrust = \"127.0.0.1\"\n";
    Gate::start(&upstream.file(&format!("{trust}{ONE_AN_HOUR}[proxy]\nproxy_protocol = \"{version}\"\n")))
}

/// HAProxy between clients and one gate; gone when dropped.
struct Haproxy {
    process: Child,
    address: SocketAddr,
}

impl Haproxy {
    fn start(gate: &Gate, options: &str) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let file = gate.directory.join("haproxy.cfg");
        let text = format!(
            "global\n  nbthread 1\ndefaults\n  mode tcp\n  timeout connect 5s\n  timeout client 20s\n  timeout server 20s\n\
             listen gate\n  bind {address}\n  option httpchk GET /well\n  http-check expect status 200\n  \
             server gate {} {options} check inter 200ms\n",
            gate.address
        );
        std::fs::write(&file, text).unwrap();
        let mut command = installed("haproxy", "haproxy");
        command
            .arg("-db")
            .arg("-f")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command.spawn().unwrap();
        let front = Self { process, address };
        assert!(eventually(Duration::from_secs(10), || TcpStream::connect(address).is_ok()), "it listens");
        front
    }

    fn connect_from(&self, last: u8) -> Client {
        Client::connect_from(Ipv4Addr::new(127, 0, 5, last), self.address)
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn haproxy_in_front_names_its_clients_in_every_form_it_knows() {
    for (version, options) in [
        ("v1", "send-proxy"),
        ("v2", "send-proxy-v2"),
        ("any", "send-proxy"),
        ("any", "send-proxy-v2 proxy-v2-options crc32c,unique-id,authority"),
        ("v2", "send-proxy-v2-ssl-cn proxy-v2-options crc32c"),
    ] {
        let upstream = Upstream::start();
        let gate = gate(&upstream, version);
        let front = Haproxy::start(&gate, options);
        for last in 1..=3 {
            let mut client = front.connect_from(last);
            client.send(post_with("/login", ""));
            assert_eq!(client.answer().status, 200, "{options}");
            client.send(post_with("/login", "X-Forwarded-For: 6.6.6.6\r\n"));
            assert_eq!(client.answer().status, 429, "{options}");
            let me = format!("/me/{last}");
            client.send(get_with(&me, ""));
            assert_eq!(client.answer().status, 200);
            let seen = upstream.requests();
            let mine = seen.iter().find(|request| request.target == me).unwrap();
            assert_eq!(mine.all("x-forwarded-for"), [format!("127.0.5.{last}")], "{options}");
        }
        // Its own checks come with a header as well, which names no client, or the proxy.
        let is_checked = || {
            let seen = upstream.requests();
            seen.iter()
                .any(|request| request.target == "/well" && request.all("x-forwarded-for") == ["127.0.0.1"])
        };
        assert!(eventually(Duration::from_secs(5), is_checked), "{options}");
        assert_eq!(gate.metric("tollgate_connections_refused_total", ""), 0.0, "{}", gate.messages());
    }
}

/// C12: the same HAProxy without the header.
#[test]
fn haproxy_without_the_header_reaches_no_upstream() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, "any");
    let front = Haproxy::start(&gate, "");
    let mut client = front.connect_from(1);
    client.send_what_goes(get_with("/", "").as_bytes());
    assert!(client.ends_within(Duration::from_secs(10)));
    assert!(upstream.requests().is_empty());
    let refused = || gate.metric("tollgate_connections_refused_total", "reason=\"proxy_protocol\"");
    assert!(eventually(Duration::from_secs(5), || refused() >= 1.0), "its checks");
}
