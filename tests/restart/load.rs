//! Clients that ask without a pause, each on a connection of its own: kept as long as the gate keeps it, or new each time.
//!
//! What they take for a failure is what a browser or a load generator would: no connection, one that ends without an answer to
//! what was sent, a 5xx.

use std::io::{ErrorKind, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use support::read_some;

/// Clients at work.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Tally>>,
}

/// What became of their requests.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) admitted: usize,
    pub(crate) refused: usize,
    pub(crate) failures: Vec<String>,
}

impl Load {
    /// So many clients, each with a request of its own.
    pub(crate) fn start(count: u8, address: SocketAddr, keep: bool, request: impl Fn(u8) -> String) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let client = |number| {
            let (stop, request) = (Arc::clone(&stop), request(number));
            std::thread::spawn(move || ask_until(&stop, address, keep, request.as_bytes()))
        };
        let clients = (0..count).map(client).collect();
        Self { stop, clients }
    }

    /// What they got.
    pub(crate) fn stop(self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Tally::default();
        for client in self.clients {
            let one = client.join().unwrap();
            all.admitted += one.admitted;
            all.refused += one.refused;
            all.failures.extend(one.failures);
        }
        all
    }
}

fn ask_until(stop: &AtomicBool, address: SocketAddr, keep: bool, request: &[u8]) -> Tally {
    let (mut tally, mut kept) = (Tally::default(), None);
    while !stop.load(Ordering::Relaxed) {
        match ask(&mut kept, address, request) {
            Ok((200, _)) => tally.admitted += 1,
            Ok((429, _)) => tally.refused += 1,
            Ok((status, _)) => tally.failures.push(format!("status {status}")),
            Err(error) => {
                kept = None;
                tally.failures.push(error.to_string());
            }
        }
        if !keep {
            kept = None;
        }
    }
    tally
}

/// Status and whether the connection stays.
fn ask(kept: &mut Option<TcpStream>, address: SocketAddr, request: &[u8]) -> std::io::Result<(u16, bool)> {
    // One that was closed while it was idle is none: every client looks before it sends.
    if let Some(stream) = kept.take_if(|stream| is_closed(stream)) {
        drop(stream);
    }
    let stream = match kept {
        Some(stream) => stream,
        None => kept.insert(connect(address)?),
    };
    stream.write_all(request)?;
    let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let length = read_some(stream, &mut buffer)?;
        if length == 0 {
            return Err(std::io::Error::other(format!("closed after {} bytes of the answer", read.len())));
        }
        read.extend_from_slice(&buffer[..length]);
        let text = String::from_utf8_lossy(&read).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        if body.len() < length.and_then(|length| length.parse().ok()).unwrap_or(0) {
            continue;
        }
        let stays = !head.contains("connection: close");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        if !stays {
            *kept = None;
        }
        return Ok((status, stays));
    }
}

fn is_closed(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let seen = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    !matches!(seen, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

/// This machine may have no port left for a moment, with many tests at once, and that says nothing about the gate.
fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let has_no_port =
        |error: &std::io::Error| matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable);
    for _ in 0..500 {
        match connect_once(address) {
            Err(error) if has_no_port(&error) => std::thread::sleep(Duration::from_millis(10)),
            connected => return connected,
        }
    }
    connect_once(address)
}

fn connect_once(address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    // No port is used up by a connection that the gate has closed.
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    socket.connect_timeout(&address.into(), PATIENCE)?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

const PATIENCE: Duration = Duration::from_secs(10);
