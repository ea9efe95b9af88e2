//! A client that sends what it is told and reads one answer at a time.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustls::{ClientConnection, StreamOwned};
use socket2::{Domain, Socket, Type};

/// One connection to the gate.
pub struct Client {
    stream: Wire,
    read: Vec<u8>,
}

/// TLS that a client speaks.
pub type Encrypted = StreamOwned<ClientConnection, TcpStream>;

/// Reads what there is. A test that sends signals starts processes, and hears of their ends while it waits.
pub fn read_some(stream: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match stream.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// What a client speaks over.
enum Wire {
    Plain(TcpStream),
    Tls(Box<Encrypted>),
}

impl Wire {
    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => &stream.sock,
        }
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(stream) => read_some(stream, buffer),
            Self::Tls(stream) => read_some(stream, buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// One answer, as read from the wire.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case, values without the blanks around them.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Status codes of the 1xx answers before this one.
    pub interim: Vec<u16>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect_timeout(&address, PATIENCE).expect("the gate accepts connections"))
    }

    pub fn connect_from(source: Ipv4Addr, address: SocketAddr) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
        socket.connect_timeout(&address.into(), PATIENCE).expect("the gate accepts connections");
        Self::over(socket.into())
    }

    /// Over a connection that exists already.
    pub fn over_tcp(stream: TcpStream) -> Self {
        Self::over(stream)
    }

    fn over(stream: TcpStream) -> Self {
        set_up(&stream);
        Self { stream: Wire::Plain(stream), read: Vec::new() }
    }

    /// Over TLS, of which the handshake is made when something is sent.
    pub fn over_tls(stream: Encrypted) -> Self {
        set_up(&stream.sock);
        Self { stream: Wire::Tls(Box::new(stream)), read: Vec::new() }
    }

    /// The TLS that it speaks.
    pub fn tls(&self) -> &ClientConnection {
        match &self.stream {
            Wire::Tls(stream) => &stream.conn,
            Wire::Plain(_) => panic!("it speaks no TLS"),
        }
    }

    /// Sends all of it.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the gate takes what is sent");
    }

    /// Sends it and does not mind if the gate has closed the connection.
    pub fn send_what_goes(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Says that nothing more will be sent.
    pub fn finish(&self) {
        let _ = self.stream.tcp().shutdown(Shutdown::Write);
    }

    /// A second handle on the same connection, for sending while another reads.
    pub fn sender(&self) -> TcpStream {
        self.stream.tcp().try_clone().unwrap()
    }

    /// The next answer.
    pub fn answer(&mut self) -> Answer {
        self.try_answer().expect("the gate answers before it closes")
    }

    /// The next answer; `None` if the connection ends first.
    pub fn try_answer(&mut self) -> Option<Answer> {
        self.read_answer(true)
    }

    /// The next answer, which is to a HEAD request and so has no body.
    pub fn answer_to_head(&mut self) -> Answer {
        self.read_answer(false).expect("the gate answers before it closes")
    }

    /// The next head, as it was written.
    pub fn take_head_text(&mut self) -> String {
        self.take_head().expect("the gate answers before it closes") + "\r\n\r\n"
    }

    /// So many bytes.
    pub fn take_bytes(&mut self, count: usize) -> String {
        String::from_utf8(self.take(count).expect("the gate sends so much")).unwrap()
    }

    /// Whether the gate ends the connection within this time; what it sends before is dropped.
    pub fn ends_within(&mut self, at_most: Duration) -> bool {
        self.end_within(at_most).is_some()
    }

    /// Whether the gate ends the connection in peace (a FIN and not a reset) within this time.
    pub fn ends_well_within(&mut self, at_most: Duration) -> bool {
        self.end_within(at_most) == Some(End::Finished)
    }

    /// All bytes until the end of the connection, or until nothing came for a while.
    pub fn rest(&mut self, at_most: Duration) -> Vec<u8> {
        self.end_within(at_most);
        std::mem::take(&mut self.read)
    }

    /// All bytes until the connection ends, and, if it did within this time, whether in peace.
    pub fn all_until_the_end(&mut self, at_most: Duration) -> (Vec<u8>, Option<bool>) {
        let end = self.end_within(at_most);
        (std::mem::take(&mut self.read), end.map(|end| end == End::Finished))
    }

    fn end_within(&mut self, at_most: Duration) -> Option<End> {
        let end = Instant::now() + at_most;
        let mut found = None;
        while found.is_none() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.stream.tcp().set_read_timeout(Some(left)).unwrap();
            found = self.fill();
        }
        self.stream.tcp().set_read_timeout(Some(PATIENCE)).unwrap();
        found.filter(|end| *end != End::Silent)
    }

    /// Reads some more; says how the connection ended if it did.
    fn fill(&mut self) -> Option<End> {
        let mut buffer = [0; 16 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => Some(End::Finished),
            Ok(length) => {
                self.read.extend_from_slice(&buffer[..length]);
                None
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Some(End::Silent)
            }
            Err(_) => Some(End::Reset),
        }
    }

    fn read_answer(&mut self, with_body: bool) -> Option<Answer> {
        let mut interim = Vec::new();
        loop {
            let head = self.take_head()?;
            let mut lines = head.split("\r\n");
            let status: u16 = lines.next()?.split(' ').nth(1)?.parse().ok()?;
            let headers: Vec<(String, String)> = lines.filter_map(parse_line).collect();
            if (100..200).contains(&status) && status != 101 {
                interim.push(status);
                continue;
            }
            let mut answer = Answer { status, headers, body: Vec::new(), interim };
            let has_body = with_body && !matches!(status, 101 | 204 | 304);
            answer.body = if has_body { self.take_body(&answer)? } else { Vec::new() };
            return Some(answer);
        }
    }

    fn take_head(&mut self) -> Option<String> {
        let end = loop {
            if let Some(at) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            self.fill_or_complain()?;
        };
        let head: Vec<u8> = self.read.drain(..end + 4).take(end).collect();
        Some(String::from_utf8_lossy(&head).into_owned())
    }

    fn take_body(&mut self, answer: &Answer) -> Option<Vec<u8>> {
        if answer.header("transfer-encoding").is_some() {
            return self.take_chunks();
        }
        match answer.header("content-length") {
            Some(length) => self.take(length.parse().ok()?),
            None => {
                while self.fill_or_complain().is_some() {}
                Some(std::mem::take(&mut self.read))
            }
        }
    }

    fn take_chunks(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.take_line()?;
            let length = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
            if length == 0 {
                while !self.take_line()?.is_empty() {}
                return Some(body);
            }
            body.extend(self.take(length)?);
            self.take(2)?;
        }
    }

    fn take_line(&mut self) -> Option<String> {
        let end = loop {
            if let Some(at) = self.read.windows(2).position(|two| two == b"\r\n") {
                break at;
            }
            self.fill_or_complain()?;
        };
        let line: Vec<u8> = self.read.drain(..end + 2).take(end).collect();
        Some(String::from_utf8_lossy(&line).into_owned())
    }

    /// The next `length` bytes.
    pub fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.read.len() < length {
            self.fill_or_complain()?;
        }
        Some(self.read.drain(..length).collect())
    }

    fn fill_or_complain(&mut self) -> Option<()> {
        match self.fill() {
            None => Some(()),
            Some(End::Silent) => {
                panic!("no answer within {PATIENCE:?}; so far: {:?}", String::from_utf8_lossy(&self.read))
            }
            Some(_) => None,
        }
    }
}

impl Answer {
    /// The value of the first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Whether the answer says that the connection ends with it.
    pub fn closes(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// Whole seconds to wait.
    pub fn retry_after(&self) -> u64 {
        let value = self.header("retry-after").expect("a refusal says how long to wait");
        assert!(value.bytes().all(|byte| byte.is_ascii_digit()), "whole seconds: {value:?}");
        value.parse().unwrap()
    }
}

fn set_up(stream: &TcpStream) {
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
}

fn parse_line(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    Some((name.to_ascii_lowercase(), value.trim().to_owned()))
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Finished,
    Reset,
    Silent,
}

/// Longer than anything should take on a busy machine; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(15);
