//! What holds a place over TLS without a request: it gives way to a newcomer.

use std::net::TcpStream;
use std::time::Duration;

use support::authority::{Authority, TABLE};
use support::frames::{GOAWAY, Raw, request};
use support::{Client, Gate, Launch, Upstream, eventually, get_with};

const FILE: &str = "[proxy]\nconnections = 12\nheader_timeout = \"1h\"\nidle_timeout = \"1h\"\n";

fn started() -> (Upstream, Authority, Gate) {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let file = upstream.file(&format!("{FILE}{TABLE}"));
    let gate = Launch::new(&file).on_tls_too().with(&authority.issue(&["app.test"]), "server").start();
    (upstream, authority, gate)
}

fn gave_way(gate: &Gate) -> f64 {
    gate.metric("tollgate_connections_evicted_total", "")
}

/// From an address of its own.
fn newcomer_is_served(gate: &Gate, host: u8) -> Client {
    let mut client: Client = gate.connect_from([127, 0, 8, host].into());
    client.send(get_with("/", ""));
    assert_eq!(client.answer().status, 200);
    client
}

/// L11: connections of HTTP/2 on which nothing is asked for are told, and closed.
#[test]
fn a_connection_of_http2_without_streams_gives_way() {
    let (_upstream, authority, gate) = started();
    let mut held: Vec<Raw> = (0..12).map(|_| Raw::connect(&authority, gate.tls)).collect();
    let answered = |frame: &support::frames::Frame| frame.kind == 0;
    for raw in &mut held {
        assert!(raw.send(&request(1, "GET", "/")) && raw.until(Duration::from_secs(15), answered).1);
    }
    let _newcomers = [newcomer_is_served(&gate, 1), newcomer_is_served(&gate, 2)];
    let told = held
        .iter_mut()
        .filter_map(|raw| raw.until(Duration::from_millis(10), |frame| frame.kind == GOAWAY).1.then_some(()));
    assert_eq!(told.count(), 2);
    assert!(eventually(Duration::from_secs(10), || gave_way(&gate) >= 2.0));
}

/// L11: handshakes that do not go on.
#[test]
fn a_handshake_that_stalls_gives_way() {
    let (_upstream, _authority, gate) = started();
    let held: Vec<TcpStream> = (0..12).map(|_| TcpStream::connect(gate.tls).unwrap()).collect();
    assert!(eventually(Duration::from_secs(10), || gate.metric("tollgate_connections", "") >= 12.0));
    let newcomer = newcomer_is_served(&gate, 1);
    assert!(eventually(Duration::from_secs(5), || gave_way(&gate) >= 1.0));
    drop((newcomer, held));
}
