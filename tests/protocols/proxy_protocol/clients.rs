//! The address in the header is the client, for everything, and for nothing more than a client.

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::proxy_protocol::{block, connect, file, gate, v1, v2};
use support::{
    Client, Gate, Launch, ONE_AN_HOUR, Reply, Upstream, binary, eventually, get_with, post_with, root,
};

/// The status of an attempt to sign in, and the address that the application hears with it.
fn attempt(gate: &Gate, upstream: &Upstream, header: &[u8]) -> (u16, String) {
    upstream.forget();
    let mut client = connect(gate, header);
    client.send(post_with("/login", "Connection: close\r\n"));
    let status = client.answer().status;
    let heard =
        if status == 200 { upstream.last().all("x-forwarded-for").join(" | ") } else { String::new() };
    (status, heard)
}

#[test]
fn each_client_behind_the_proxy_has_a_bucket_and_an_address() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, "any", "");
    for (header, address) in [
        (v1("198.51.100.7"), "198.51.100.7"),
        (v2(Ipv4Addr::new(198, 51, 100, 8)), "198.51.100.8"),
        (v1("2001:db8::7"), "2001:db8::7"),
        (v1("::ffff:198.51.100.9"), "198.51.100.9"),
    ] {
        assert_eq!(attempt(&gate, &upstream, &header), (200, address.to_owned()));
        assert_eq!(attempt(&gate, &upstream, &header).0, 429, "{address}");
    }
    let same = v2(Ipv4Addr::new(198, 51, 100, 7));
    assert_eq!(attempt(&gate, &upstream, &same).0, 429, "a client is one whatever the version");
}

/// C13: a proxy that sends a health check, or names no client, is a client of its own address.
#[test]
fn a_header_that_names_no_client_leaves_the_proxy_as_the_client() {
    let headers = [
        block(0x20, 0, b""),
        block(0x20, 0x11, &[198, 51, 100, 7, 127, 0, 0, 1, 0, 1, 0, 80]),
        block(0x21, 0, b""),
        block(0x21, 0x31, &[b'/'; 216]),
        b"PROXY UNKNOWN\r\n".to_vec(),
        b"PROXY UNKNOWN 198.51.100.7 127.0.0.1 4242 80\r\n".to_vec(),
    ];
    let upstream = Upstream::start();
    for header in headers {
        let gate = gate(&upstream, "any", "");
        assert_eq!(attempt(&gate, &upstream, &header), (200, "127.0.0.1".to_owned()), "{header:?}");
        assert_eq!(attempt(&gate, &upstream, &header).0, 429);
        assert_eq!(attempt(&gate, &upstream, &v1("198.51.100.7")).0, 200, "and no other client is");
    }
}

/// C12: a client behind the proxy that claims another address.
#[test]
fn forwarded_headers_are_believed_only_of_a_client_that_is_a_proxy_of_ours_itself() {
    let upstream = Upstream::start();
    let file = file("any", "").replace("\"127.0.0.1\"", "[\"127.0.0.1\", \"10.0.0.0/8\"]");
    let gate = Gate::start(&upstream.file(&file));
    let heard = |source: &str| {
        let mut client = connect(&gate, &v1(source));
        client.send(get_with("/", "X-Forwarded-For: 203.0.113.5\r\n"));
        assert_eq!(client.answer().status, 200);
        upstream.last().all("x-forwarded-for").join(" | ")
    };
    assert_eq!(heard("198.51.100.7"), "198.51.100.7");
    assert_eq!(heard("10.1.2.3"), "203.0.113.5, 10.1.2.3");
    let attempt = |source: &str, said: &str| {
        let mut client = connect(&gate, &v1(source));
        client.send(post_with("/login", &format!("X-Forwarded-For: {said}\r\n")));
        client.answer().status
    };
    assert_eq!((attempt("198.51.100.7", "203.0.113.1"), attempt("198.51.100.7", "203.0.113.2")), (200, 429));
    assert_eq!((attempt("10.1.2.3", "203.0.113.3"), attempt("10.1.2.3", "203.0.113.3")), (200, 429));
    assert_eq!(attempt("10.1.2.3", "203.0.113.4"), 200);
}

#[test]
fn the_access_log_names_the_client_and_not_the_proxy() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&format!("{}[log]\naccess = \"access.log\"\n", file("v1", ""))));
    let mut client = connect(&gate, &v1("198.51.100.7"));
    client.send(get_with("/", ""));
    assert_eq!(client.answer().status, 200);
    let log = gate.directory.join("access.log");
    let is_named = || std::fs::read_to_string(&log).is_ok_and(|text| text.starts_with("198.51.100.7 "));
    assert!(eventually(Duration::from_secs(5), is_named));
}

/// H4: the bounds on connections are the client's; the proxy has none.
#[test]
fn a_client_behind_the_proxy_has_no_more_connections_than_others() {
    let slow = |request: &[u8], _| {
        if request.starts_with(b"GET /slow") { Reply::Silence } else { Reply::ok() }
    };
    let upstream = Upstream::answering(slow);
    let gate = gate(&upstream, "any", "client_max = 2");
    let is_served = |client: &mut Client| {
        client.send_what_goes(get_with("/", "").as_bytes());
        client.try_answer().is_some_and(|answer| answer.status == 200)
    };
    let mut held: Vec<Client> = (0..2).map(|_| connect(&gate, &v1("198.51.100.7"))).collect();
    held.iter_mut().for_each(|client| client.send(get_with("/slow", "")));
    upstream.wait_for(2);
    assert!(!is_served(&mut connect(&gate, &v1("198.51.100.7"))), "the third is turned away");
    assert_eq!(gate.metric("tollgate_connections_refused_total", "reason=\"client_max\""), 1.0);
    assert!(gate.messages().contains("198.51.100.7"), "{}", gate.messages());
    for other in 1..=5 {
        let mut client = connect(&gate, &v1(&format!("198.51.100.{}", 100 + other)));
        assert!(is_served(&mut client), "another one is not");
    }
    drop(held);
    let again = || is_served(&mut connect(&gate, &v1("198.51.100.7")));
    assert!(eventually(Duration::from_secs(5), again), "places come free");
}

/// H4: likewise for how fast new ones may come.
#[test]
fn a_client_behind_the_proxy_connects_no_faster_than_others() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, "any", "client_rate = \"1 per 1h burst 3\"");
    let served = |source: &str| {
        let mut client = connect(&gate, &v1(source));
        client.send_what_goes(get_with("/", "Connection: close\r\n").as_bytes());
        client.try_answer().is_some()
    };
    assert_eq!((0..5).filter(|_| served("198.51.100.7")).count(), 3);
    assert!(served("198.51.100.8"));
    assert_eq!(gate.metric("tollgate_connections_refused_total", "reason=\"client_rate\""), 2.0);
}

/// C12: on a Unix socket the proxy is trusted if `trust` says so; otherwise every connection is closed.
#[test]
fn a_proxy_on_a_unix_socket_is_believed_where_the_file_says_so() {
    let upstream = Upstream::start();
    for (trust, believed) in [("\"127.0.0.1\"", false), ("[\"127.0.0.1\", \"unix:\"]", true)] {
        let file = upstream.file(&file("any", "").replace("\"127.0.0.1\"", trust));
        let gate = Launch::new(&file).on_unix_socket_too().start();
        let ask = |header: &[u8]| {
            let mut stream = UnixStream::connect(gate.directory.join("gate.sock")).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            // One that is turned away may be so before anything was sent.
            let _ =
                stream.write_all(&[header, post_with("/login", "Connection: close\r\n").as_bytes()].concat());
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            answer.get(9..12).unwrap_or("none").to_owned()
        };
        let said =
            [v1("198.51.100.7"), v2(Ipv4Addr::new(198, 51, 100, 7)), v1("198.51.100.8"), block(0x20, 0, b"")];
        let said = said.map(|header| ask(&header));
        assert_eq!(said, if believed { ["200", "429", "200", "200"] } else { ["none"; 4] });
    }
}

#[test]
fn a_reload_asks_for_headers_from_the_next_connection_on() {
    let upstream = Upstream::start();
    let (without, with) = (format!("[client]\ntrust = \"127.0.0.1\"\n{ONE_AN_HOUR}"), file("v2", ""));
    let gate = Gate::start(&upstream.file(&without));
    let mut before = gate.connect();
    before.send(get_with("/", ""));
    assert_eq!(before.answer().status, 200);
    assert!(gate.reload(&upstream.file(&with)));
    let ask = |header: &[u8]| {
        let mut client = gate.connect();
        client.send_what_goes(&[header, get_with("/", "").as_bytes()].concat());
        client.try_answer().map(|answer| answer.status)
    };
    let header = v2(Ipv4Addr::new(198, 51, 100, 7));
    // Each worker follows within a second, or at its next request.
    assert!(eventually(Duration::from_secs(5), || ask(&header) == Some(200)));
    assert!(eventually(Duration::from_secs(5), || ask(b"").is_none()));
    before.send(get_with("/", ""));
    assert_eq!(before.answer().status, 200, "a connection that was there has not to say it again");
    assert!(gate.reload(&upstream.file(&without)));
    assert!(eventually(Duration::from_secs(5), || ask(b"") == Some(200)));
}

/// A balancer of bytes in front, and before it a proxy whose networks are published.
#[test]
fn a_proxy_that_is_trusted_by_name_names_the_client_when_its_list_has_it() {
    let upstream = Upstream::start();
    let tables = file("v1", "").replace("\"127.0.0.1\"", "[\"127.0.0.1\", \"@fastly\"]");
    let gate = Gate::start(&upstream.file(&tables));
    let status = |peer: &str, client: &str| {
        let mut connection = connect(&gate, &v1(peer));
        connection.send(post_with("/login", &format!("X-Forwarded-For: {client}\r\n")));
        connection.answer().status
    };
    assert_eq!([status("151.101.1.1", "198.51.100.1"), status("151.101.1.2", "198.51.100.1")], [200, 429]);
    assert_eq!([status("8.8.8.1", "198.51.100.2"), status("8.8.8.1", "198.51.100.3")], [200, 429]);
    let list = std::fs::read_to_string(root().join("assets/proxies/fastly.txt")).unwrap();
    std::fs::write(gate.directory.join("list.txt"), list + "8.8.8.0/24\n").unwrap();
    let mut update = std::process::Command::new(binary());
    update.current_dir(&gate.directory).args([
        "-c",
        "gate.toml",
        "trust",
        "update",
        "fastly",
        "--from",
        "list.txt",
    ]);
    let (ok, _) = gate.reloads();
    assert!(update.output().unwrap().status.success());
    assert!(eventually(Duration::from_secs(20), || gate.reloads().0 > ok), "it watches the list");
    assert_eq!([status("8.8.8.1", "198.51.100.4"), status("8.8.8.2", "198.51.100.4")], [200, 429]);
    assert_eq!(status("8.8.8.1", "198.51.100.5"), 200);
}
