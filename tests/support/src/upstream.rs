//! An application behind the gate that keeps every byte and answers as it is told.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::eventually;
use super::strict::{self, Request};

/// A listening upstream; its threads end with the test's process.
pub struct Upstream {
    pub address: SocketAddr,
    log: Log,
    stopped: Arc<AtomicBool>,
}

/// What the upstream does after a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Sends these bytes and waits for the next request.
    Bytes(Vec<u8>),
    /// Sends these bytes and closes.
    BytesAndClose(Vec<u8>),
    /// Waits this long first.
    After(Duration, Box<Self>),
    /// Sends these bytes, then sends back whatever comes (a tunnel, as for WebSocket).
    Echo(Vec<u8>),
    /// Sends these one after the other, with a pause before each but the first.
    Pieces(Vec<Vec<u8>>, Duration),
    /// Nothing, ever.
    Silence,
}

/// Where all connections write what they get.
type Log = Arc<Mutex<Received>>;

#[derive(Default)]
struct Received {
    /// The bytes of each connection, in the order in which the connections came.
    connections: Vec<Vec<u8>>,
    /// Those that brought something: a gate connects once when it starts, to say whether it can.
    heard: HashSet<usize>,
    /// The connection on which something came last.
    latest: usize,
    /// The connection of each complete request, in the order in which the requests came.
    arrivals: Vec<usize>,
}

type Script = Arc<dyn Fn(&[u8], usize) -> Reply + Send + Sync>;

impl Upstream {
    /// Answers every request with 200 and keeps the connection.
    pub fn start() -> Self {
        Self::answering(|_, _| Reply::ok())
    }

    /// Answers what this says about the bytes of a request and its number on its connection, from 0.
    pub fn answering(script: impl Fn(&[u8], usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::at(TcpListener::bind("127.0.0.1:0").unwrap(), script)
    }

    /// The same at this address.
    pub fn at(listener: TcpListener, script: impl Fn(&[u8], usize) -> Reply + Send + Sync + 'static) -> Self {
        let address = listener.local_addr().unwrap();
        let (log, stopped) = (Log::default(), Arc::new(AtomicBool::new(false)));
        let (script, shared, stop): (Script, _, _) =
            (Arc::new(script), Arc::clone(&log), Arc::clone(&stopped));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let (script, log) = (Arc::clone(&script), Arc::clone(&shared));
                std::thread::spawn(move || serve(stream, &script, &log));
            }
        });
        Self { address, log, stopped }
    }

    /// The line of the file that sends everything here.
    pub fn line(&self) -> String {
        format!("upstream = \"http://{}\"\n", self.address)
    }

    /// A file with this upstream and these tables.
    pub fn file(&self, tables: &str) -> String {
        format!("{}{tables}", self.line())
    }

    /// What was received, by connection. Those that never brought anything are left out.
    pub fn connections(&self) -> Vec<Vec<u8>> {
        let log = self.log.lock().unwrap();
        let all = log.connections.iter().enumerate();
        all.filter(|(at, _)| log.heard.contains(at)).map(|(_, bytes)| bytes.clone()).collect()
    }

    /// All bytes received, whatever the connection.
    pub fn bytes(&self) -> Vec<u8> {
        self.connections().concat()
    }

    /// Whether these bytes were received anywhere.
    pub fn saw(&self, needle: &str) -> bool {
        self.bytes().windows(needle.len()).any(|window| window == needle.as_bytes())
    }

    /// All complete requests, as they came; panics if anything received could be read in two ways.
    pub fn requests(&self) -> Vec<Request> {
        let (connections, arrivals) = {
            let log = self.log.lock().unwrap();
            (log.connections.clone(), log.arrivals.clone())
        };
        let mut unread: Vec<_> = connections.iter().map(|bytes| self.read(bytes).into_iter()).collect();
        let mut requests: Vec<_> =
            arrivals.iter().filter_map(|&connection| unread[connection].next()).collect();
        requests.extend(unread.into_iter().flatten());
        requests
    }

    fn read(&self, bytes: &[u8]) -> Vec<Request> {
        match strict::parse(bytes) {
            Ok(recorded) => recorded.requests,
            Err(why) => panic!("ambiguous ({why}): {:?}", String::from_utf8_lossy(bytes)),
        }
    }

    /// The request that came last.
    pub fn last(&self) -> Request {
        let bytes = {
            let log = self.log.lock().unwrap();
            log.connections.get(log.latest).cloned().unwrap_or_default()
        };
        self.read(&bytes).pop().expect("a request reached the upstream")
    }

    /// Forgets what was received on connections so far; open ones go on being recorded.
    pub fn forget(&self) {
        let mut log = self.log.lock().unwrap();
        log.connections.iter_mut().for_each(Vec::clear);
        log.arrivals.clear();
    }

    /// Waits until this many complete requests have come.
    pub fn wait_for(&self, count: usize) {
        assert!(
            eventually(Duration::from_secs(10), || self.requests().len() >= count),
            "{} of {count} requests came",
            self.requests().len()
        );
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        // Wakes the accepting thread, so that the port is free again.
        let _ = TcpStream::connect(self.address);
    }
}

impl Reply {
    /// 200 with a short body on a connection that stays.
    pub fn ok() -> Self {
        Self::text("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok")
    }

    pub fn text(answer: &str) -> Self {
        Self::Bytes(answer.as_bytes().to_vec())
    }

    pub fn text_and_close(answer: &str) -> Self {
        Self::BytesAndClose(answer.as_bytes().to_vec())
    }

    pub fn after(self, pause: Duration) -> Self {
        Self::After(pause, Box::new(self))
    }
}

fn serve(mut stream: TcpStream, script: &Script, log: &Log) {
    let _ = stream.set_nodelay(true);
    let index = {
        let mut log = log.lock().unwrap();
        log.connections.push(Vec::new());
        log.connections.len() - 1
    };
    let mut pending = Vec::new();
    for number in 0.. {
        let note = |bytes: &[u8]| log.lock().unwrap().note(index, bytes);
        let Some(request) = next_request(&mut stream, &mut pending, note) else { return };
        log.lock().unwrap().arrivals.push(index);
        if !reply(&mut stream, script(&request, number), log, index) {
            return;
        }
    }
}

impl Received {
    fn note(&mut self, connection: usize, bytes: &[u8]) {
        self.heard.insert(connection);
        self.connections[connection].extend_from_slice(bytes);
        self.latest = connection;
    }
}

/// Whether the connection goes on.
fn reply(stream: &mut TcpStream, reply: Reply, log: &Log, index: usize) -> bool {
    match reply {
        Reply::Bytes(bytes) => stream.write_all(&bytes).is_ok(),
        Reply::BytesAndClose(bytes) => {
            let _ = stream.write_all(&bytes);
            false
        }
        Reply::After(pause, then) => {
            // The slowness of the upstream is what the test is about.
            std::thread::sleep(pause);
            self::reply(stream, *then, log, index)
        }
        Reply::Echo(bytes) => {
            let _ = stream.write_all(&bytes);
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                log.lock().unwrap().note(index, &buffer[..length]);
                let _ = stream.write_all(&buffer[..length]);
            }
            false
        }
        Reply::Pieces(pieces, pause) => pieces.iter().enumerate().all(|(number, piece)| {
            if number > 0 {
                std::thread::sleep(pause);
            }
            stream.write_all(piece).is_ok()
        }),
        Reply::Silence => {
            let mut buffer = [0; 4096];
            while let Ok(1..) = stream.read(&mut buffer) {}
            false
        }
    }
}

/// The bytes of the next request by its own framing, leniently; `None` when the connection ends.
fn next_request(
    stream: &mut TcpStream,
    pending: &mut Vec<u8>,
    mut note: impl FnMut(&[u8]),
) -> Option<Vec<u8>> {
    let mut buffer = [0; 16 * 1024];
    loop {
        if let Some(length) = request_length(pending) {
            return Some(pending.drain(..length).collect());
        }
        match stream.read(&mut buffer) {
            Ok(length @ 1..) => {
                note(&buffer[..length]);
                pending.extend_from_slice(&buffer[..length]);
            }
            _ => return None,
        }
    }
}

fn request_length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    if text.contains("\r\ntransfer-encoding: chunked\r\n") {
        return chunks_end(&bytes[head..]).map(|length| head + length);
    }
    let length = text.split("\r\ncontent-length:").nth(1).and_then(|rest| rest.split("\r\n").next());
    let total = head + length.and_then(|digits| digits.trim().parse::<usize>().ok()).unwrap_or(0);
    (bytes.len() >= total).then_some(total)
}

fn chunks_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let line = bytes[at..].windows(2).position(|two| two == b"\r\n")?;
        let digits = String::from_utf8_lossy(&bytes[at..at + line]).into_owned();
        let length = usize::from_str_radix(digits.split(';').next()?.trim(), 16).ok()?;
        at += line + 2;
        if length == 0 {
            // Trailers stand before the empty line.
            let from = at - 2;
            return bytes[from..].windows(4).position(|four| four == b"\r\n\r\n").map(|end| from + end + 4);
        }
        at += length + 2;
        if at > bytes.len() {
            return None;
        }
    }
}
