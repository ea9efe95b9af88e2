//! Frames of HTTP/2 by hand (RFC 9113), for what no library would send.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Encrypted;
use crate::authority::{Authority, BOTH, encrypted};

/// A connection on which anything may be sent.
pub struct Raw {
    stream: Encrypted,
    read: Vec<u8>,
}

/// A frame as it came.
#[derive(Debug)]
#[allow(dead_code, reason = "only the tests of restarts tell streams apart")]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

impl Raw {
    /// After the preface and empty settings.
    pub fn connect(authority: &Authority, address: SocketAddr) -> Self {
        let mut config = authority.client_config(BOTH);
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self::over(encrypted(&Arc::new(config), address, "app.test"))
    }

    /// The same over TLS that agrees on HTTP/2.
    pub fn over(stream: Encrypted) -> Self {
        stream.sock.set_nodelay(true).unwrap();
        stream.sock.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut raw = Self { stream, read: Vec::new() };
        assert!(raw.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") && raw.send(&frame(SETTINGS, 0, 0, &[])));
        raw
    }

    /// Whether it could be sent.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).and_then(|()| self.stream.flush()).is_ok()
    }

    /// All frames until one fits, the connection ends or the time is over; whether one did.
    pub fn until(&mut self, at_most: Duration, fits: impl Fn(&Frame) -> bool) -> (Vec<Frame>, bool) {
        let (end, mut frames) = (Instant::now() + at_most, Vec::new());
        loop {
            while let Some(frame) = self.take() {
                let found = fits(&frame);
                frames.push(frame);
                if found {
                    return (frames, true);
                }
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.fill(left) {
                return (frames, false);
            }
        }
    }

    /// Whether the gate ends the connection, with a word (GOAWAY) or without.
    pub fn is_ended(&mut self, at_most: Duration) -> bool {
        let (_, said) = self.until(at_most, |frame| frame.kind == GOAWAY);
        said || !self.send(&frame(PING, 0, 0, &[0; 8])) || !self.is_alive()
    }

    /// Whether a PING is answered.
    pub fn is_alive(&mut self) -> bool {
        let token = *b"are you?";
        self.send(&frame(PING, 0, 0, &token))
            && self.until(Duration::from_secs(5), |frame| frame.kind == PING && frame.payload == token).1
    }

    fn take(&mut self) -> Option<Frame> {
        let length = usize::from(*self.read.first()?) << 16
            | usize::from(*self.read.get(1)?) << 8
            | usize::from(*self.read.get(2)?);
        if self.read.len() < 9 + length {
            return None;
        }
        let frame: Vec<u8> = self.read.drain(..9 + length).collect();
        let stream = u32::from_be_bytes(frame[5..9].try_into().unwrap());
        Some(Frame { kind: frame[3], flags: frame[4], stream, payload: frame[9..].to_vec() })
    }

    /// Whether the connection goes on.
    fn fill(&mut self, at_most: Duration) -> bool {
        match self.receive(at_most) {
            Ok(length) => length > 0,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }

    /// How many bytes of TLS came, none at the end. What could not be sent does not matter: a gate that closes its half
    /// has said something before.
    fn receive(&mut self, at_most: Duration) -> std::io::Result<usize> {
        self.stream.sock.set_read_timeout(Some(at_most)).unwrap();
        let length = self.stream.conn.read_tls(&mut self.stream.sock)?;
        let state = self.stream.conn.process_new_packets().map_err(std::io::Error::other)?;
        let known = self.read.len();
        self.read.resize(known + state.plaintext_bytes_to_read(), 0);
        self.stream.conn.reader().read_exact(&mut self.read[known..])?;
        Ok(length)
    }

    /// Reads until the gate closes its half.
    ///
    /// # Errors
    /// If it does not in this time, or with a reset.
    pub fn end(&mut self, at_most: Duration) -> std::io::Result<()> {
        while self.receive(at_most)? > 0 {}
        Ok(())
    }
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head[..], payload].concat()
}

/// A block of literal headers without indexing (RFC 7541, 6.2.2).
pub fn block(headers: &[(&str, &str)]) -> Vec<u8> {
    let literal = |(name, value): &(&str, &str)| [vec![0], text(name), text(value)].concat();
    headers.iter().flat_map(literal).collect()
}

/// A text without Huffman's code.
pub fn text(text: &str) -> Vec<u8> {
    let (mut bytes, mut left) = (Vec::new(), text.len());
    if left < 127 {
        bytes.push(u8::try_from(left).unwrap());
    } else {
        bytes.push(127);
        left -= 127;
        while left >= 128 {
            bytes.push(u8::try_from(left % 128 + 128).unwrap());
            left /= 128;
        }
        bytes.push(u8::try_from(left).unwrap());
    }
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// The pseudo-headers of a request.
pub fn asks<'t>(method: &'t str, path: &'t str) -> [(&'t str, &'t str); 4] {
    [(":method", method), (":scheme", "https"), (":authority", "app.test"), (":path", path)]
}

/// A request without a body.
pub fn request(stream: u32, method: &str, path: &str) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &block(&asks(method, path)))
}
