//! Two thousand slow uploads, and two thousand readers that read nothing: the memory that they take, and who is served
//! beside them.
//!
//! `docs/internals/bounds.md` has the bound: the memory for bodies, and what each connection also holds.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use support::{Gate, eventually, get_with};

use crate::idle::raise_descriptors;

/// Bounds on one address and on its connections are out of the way.
const FILE: &str = "[proxy]\nclient_max = 5_000\nclient_rate = \"off\"\nheader_timeout = \"2m\"\n\
                    body_timeout = \"2m\"\n[log]\naccess = \"\"\n";
const CROWD: usize = 2000;
const MEBIBYTE: usize = 1 << 20;
/// `proxy.body_memory`, in KiB.
const BODY_MEMORY: u64 = 64 << 10;

/// What each of a crowd does.
#[derive(Clone, Copy, PartialEq)]
enum Slow {
    /// Sends 64 KiB of a body of 1 MiB, and then 700 bytes a second.
    Upload,
    /// Reads nothing of an answer of 1 MiB.
    Reader,
}

impl Slow {
    /// What a connection has beside the memory for bodies, in KiB: 64 KiB that are unsent of an answer, or twice that of a
    /// body that is not read ahead, and the connection itself.
    fn each(self) -> u64 {
        match self {
            Self::Upload => 144,
            Self::Reader => 80,
        }
    }

    fn start(self, stream: &mut TcpStream) {
        match self {
            Self::Reader => stream.write_all(get_with("/long", "").as_bytes()).unwrap(),
            Self::Upload => {
                let head = format!("POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: {MEBIBYTE}\r\n\r\n");
                stream.write_all(&[head.as_bytes(), &[b'x'; 64 << 10]].concat()).unwrap();
            }
        }
    }
}

/// An application that answers as soon as a request is whole, of which a connection costs a thread and nothing else.
fn application() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

fn serve(mut stream: TcpStream) {
    static LONG: [u8; MEBIBYTE] = [b'x'; MEBIBYTE];
    let (mut head, mut byte) = (Vec::new(), [0]);
    while let Ok(1) = stream.read(&mut byte) {
        head.push(byte[0]);
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        if head.starts_with(b"POST") && stream.read_exact(&mut vec![0; MEBIBYTE]).is_err() {
            return;
        }
        let body = if head.starts_with(b"GET /long") { &LONG[..] } else { b"ok" };
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        if stream.write_all(answer.as_bytes()).and_then(|()| stream.write_all(body)).is_err() {
            return;
        }
        head.clear();
    }
}

/// Connections from so many addresses that have begun what they do.
fn crowd(gate: &Gate, slow: Slow, addresses: usize) -> Vec<TcpStream> {
    let connect = |number: usize| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        // The gate notices early that nothing is read.
        socket.set_recv_buffer_size(4096).unwrap();
        let host = u8::try_from(number % addresses + 1).unwrap();
        socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 11, host), 0)).into()).unwrap();
        socket.connect_timeout(&gate.address.into(), Duration::from_secs(15)).unwrap();
        let mut stream = TcpStream::from(socket);
        slow.start(&mut stream);
        stream.set_nonblocking(true).unwrap();
        stream
    };
    (0..CROWD).map(connect).collect()
}

/// For three seconds and ten answers; what a client of another address is answered.
fn answered_beside(slow: Slow, addresses: usize) -> Vec<u16> {
    let gate = started();
    let honest = || {
        let mut client = gate.connect_from(Ipv4Addr::new(127, 0, 12, 1));
        client.send(get_with("/", "Connection: close\r\n"));
        client.answer().status
    };
    let crowd = crowd(&gate, slow, addresses);
    let (start, mut statuses) = (Instant::now(), Vec::new());
    while start.elapsed() < Duration::from_secs(3) || statuses.len() < 10 {
        go_on(&crowd, slow);
        statuses.push(honest());
    }
    statuses
}

fn takes_a_bounded_memory(slow: Slow) {
    let gate = started();
    assert_eq!(gate.ask(get_with("/", "Connection: close\r\n")).status, 200);
    let before = gate.memory();
    let crowd = crowd(&gate, slow, 200);
    let (start, mut most) = (Instant::now(), gate.memory());
    while start.elapsed() < Duration::from_secs(4) {
        go_on(&crowd, slow);
        most = most.max(gate.memory());
    }
    drop(crowd);
    let is_given_back = || gate.metric("tollgate_connections", "") == 0.0 && gate.memory() < before + KEPT;
    let gives_back = eventually(Duration::from_secs(30), is_given_back);
    let bound = BODY_MEMORY + CROWD as u64 * slow.each();
    eprintln!("{before} KiB before, at most {most}, {} when they have gone", gate.memory());
    assert!(most < before + bound, "{before} to {most} KiB, and {bound} are allowed");
    assert!(most > before + BODY_MEMORY, "{before} to {most} KiB: no crowd was there");
    assert!(gives_back, "{before} to {} KiB when it has gone", gate.memory());
}

fn started() -> Gate {
    assert!(raise_descriptors() > 2 * CROWD, "ulimit -n");
    Gate::start(&format!("upstream = \"http://{}\"\n{FILE}", application()))
}

/// 700 bytes a second of each upload. Whose buffers are full has sent enough.
fn go_on(crowd: &[TcpStream], slow: Slow) {
    if slow == Slow::Upload {
        crowd.iter().for_each(|mut stream| drop(stream.write(&[b'x'; 70])));
    }
    std::thread::sleep(Duration::from_millis(100));
}

/// H2: more bodies than there is memory for, from 200 addresses.
#[test]
fn two_thousand_slow_uploads_take_a_bounded_memory() {
    takes_a_bounded_memory(Slow::Upload);
}

/// H3: more answers than there is memory for, to 200 addresses.
#[test]
fn two_thousand_slow_readers_take_a_bounded_memory() {
    takes_a_bounded_memory(Slow::Reader);
}

/// H2: an address that takes all that one may have.
#[test]
fn others_are_answered_beside_two_thousand_slow_uploads_of_one_address() {
    let statuses = answered_beside(Slow::Upload, 1);
    assert!(statuses.iter().all(|&status| status == 200), "{statuses:?}");
}

/// H3: the same by reading nothing.
#[test]
fn others_are_answered_beside_two_thousand_slow_readers_of_one_address() {
    let statuses = answered_beside(Slow::Reader, 1);
    assert!(statuses.iter().all(|&status| status == 200), "{statuses:?}");
}

/// H2: two addresses, of which each has half of the connections to the application, and so no more than its share.
#[test]
fn others_are_answered_beside_two_thousand_slow_uploads_of_two_addresses() {
    let statuses = answered_beside(Slow::Upload, 2);
    assert!(statuses.iter().all(|&status| status == 200), "{statuses:?}");
}

/// H3: the same by reading nothing.
#[test]
fn others_are_answered_beside_two_thousand_slow_readers_of_two_addresses() {
    let statuses = answered_beside(Slow::Reader, 2);
    assert!(statuses.iter().all(|&status| status == 200), "{statuses:?}");
}

/// What the allocator may keep when a crowd has gone, in KiB.
const KEPT: u64 = 48 << 10;
