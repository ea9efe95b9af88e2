//! The header in front of TLS: it is read first, and everything behind it is the handshake.

use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};

use crate::proxy_protocol::{file, v1, v2};
use support::authority::{Authority, BOTH};
use support::{Client, Upstream, get_with, post_with};

#[test]
fn a_client_that_speaks_tls_behind_the_proxy_is_itself() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority.gate(&["app.test"], &upstream.file(&file("any", "")));
    let config = std::sync::Arc::new(authority.client_config(BOTH));
    let connect = |header: &[u8], at_once: bool| {
        let mut connection =
            ClientConnection::new(std::sync::Arc::clone(&config), "app.test".try_into().unwrap()).unwrap();
        let mut first = header.to_vec();
        if at_once {
            connection.write_tls(&mut first).unwrap();
        }
        let mut stream = TcpStream::connect(gate.tls).unwrap();
        stream.write_all(&first).unwrap();
        Client::over_tls(StreamOwned::new(connection, stream))
    };
    for (header, address) in [
        (v1("198.51.100.7"), "198.51.100.7"),
        (v2(Ipv4Addr::new(198, 51, 100, 8)), "198.51.100.8"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
    ] {
        for (at_once, status) in [(true, 200), (false, 429)] {
            let mut client = connect(&header, at_once);
            client.send(post_with("/login", ""));
            assert_eq!(client.answer().status, status, "{address}");
            client.send(get_with("/", ""));
            assert_eq!(client.answer().status, 200);
            let seen = upstream.last();
            assert_eq!(
                (seen.all("x-forwarded-for"), seen.all("x-forwarded-proto")),
                (vec![address], vec!["https"])
            );
        }
    }
    let mut without = authority.connect(gate.tls, "app.test");
    without.send_what_goes(get_with("/", "").as_bytes());
    assert!(without.ends_within(Duration::from_secs(2)), "a handshake is no header");
    assert_eq!(gate.metric("tollgate_connections_refused_total", "reason=\"proxy_protocol\""), 1.0);
    assert_eq!(gate.metric("tollgate_connections_refused_total", "reason=\"tls\""), 0.0);
}
