//! A proxy between a gate and PostgreSQL that understands where messages begin and end, and answers wrongly by a seed.
//!
//! It refuses a statement before the server has seen it, in the words of a server under contention (40001, 40P01, and
//! XX000 as YugabyteDB says it), or lets the server run it and loses the answer with the connection. The gate cannot
//! tell the two apart, and must not guess.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;

/// The proxy; it stops accepting when dropped.
pub struct Wire {
    shared: Arc<Shared>,
    port: u16,
}

struct Shared {
    server: SocketAddr,
    random: AtomicU64,
    /// Of a hundred statements, how many are refused before they are executed, and how many answers are lost after.
    refused: AtomicU32,
    lost: AtomicU32,
    refusals: AtomicU64,
    losses: AtomicU64,
    is_over: AtomicBool,
}

impl Wire {
    /// Stands before the server at this port; forwards everything until it is told otherwise.
    pub fn before(port: u16, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            server: SocketAddr::from(([127, 0, 0, 1], port)),
            random: AtomicU64::new(seed),
            refused: AtomicU32::new(0),
            lost: AtomicU32::new(0),
            refusals: AtomicU64::new(0),
            losses: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().filter_map(Result::ok) {
                if serving.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let serving = Arc::clone(&serving);
                // A connection that breaks is what this is for.
                thread::spawn(move || drop(serving.serve(client)));
            }
        });
        Self { shared, port: own }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// So many of a hundred statements from now on.
    pub fn faults(&self, refused: u32, lost: u32) {
        self.shared.refused.store(refused, Ordering::Relaxed);
        self.shared.lost.store(lost, Ordering::Relaxed);
    }

    /// Statements that were refused before the server saw them, and answers that were lost.
    pub fn done(&self) -> (u64, u64) {
        (self.shared.refusals.load(Ordering::Relaxed), self.shared.losses.load(Ordering::Relaxed))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // Wakes it up.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// One statement's fate.
enum Fate {
    Done,
    Refused(&'static str, &'static str),
    Lost,
}

impl Shared {
    /// One client: questions are handed on one by one, each up to its Sync, and its answer is read before the next.
    fn serve(&self, mut client: TcpStream) -> std::io::Result<()> {
        client.set_nodelay(true)?;
        let mut server = TcpStream::connect(self.server)?;
        server.set_nodelay(true)?;
        // The startup message has no letter; passwords follow until the server is ready.
        server.write_all(&untyped(&mut client)?)?;
        let mut is_ready = false;
        while !is_ready {
            let (kind, message) = typed(&mut server)?;
            client.write_all(&message)?;
            let is_question = kind == b'R' && matches!(message[8], 3 | 5 | 10 | 11);
            is_ready = kind == b'Z';
            if is_question {
                server.write_all(&typed(&mut client)?.1)?;
            }
        }
        loop {
            let question = statement(&mut client)?;
            match self.fate(&question) {
                Fate::Done => answer(&mut server, &question, &mut client)?,
                Fate::Refused(code, words) => client.write_all(&refusal(code, words))?,
                Fate::Lost => {
                    answer(&mut server, &question, &mut std::io::sink())?;
                    return client.shutdown(Shutdown::Both);
                }
            }
        }
    }

    /// Only statements about buckets have a fate: the others would hide what is tested.
    fn fate(&self, question: &[u8]) -> Fate {
        let is_ours = question.windows(8).any(|window| window == b"_buckets") && question[0] == b'P';
        let drawn = u32::try_from(self.draw() % 100).unwrap();
        let (refused, lost) = (self.refused.load(Ordering::Relaxed), self.lost.load(Ordering::Relaxed));
        if is_ours && drawn < refused {
            self.refusals.fetch_add(1, Ordering::Relaxed);
            let (code, words) = REFUSALS[usize::try_from(self.draw() % 4).unwrap()];
            Fate::Refused(code, words)
        } else if is_ours && drawn < refused + lost {
            self.losses.fetch_add(1, Ordering::Relaxed);
            Fate::Lost
        } else {
            Fate::Done
        }
    }

    /// SplitMix64.
    fn draw(&self) -> u64 {
        let mut z = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Everything up to where the client waits for an answer: Sync, a simple query, or the end.
fn statement(client: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut question = Vec::new();
    loop {
        let (kind, message) = typed(client)?;
        question.extend(message);
        if matches!(kind, b'S' | b'Q' | b'X') {
            return Ok(question);
        }
    }
}

/// Asks the server, and hands on what it says until it is ready again.
fn answer(server: &mut TcpStream, question: &[u8], to: &mut impl Write) -> std::io::Result<()> {
    server.write_all(question)?;
    let mut said = Vec::new();
    loop {
        let (kind, message) = typed(server)?;
        said.extend(message);
        if kind == b'Z' {
            return to.write_all(&said);
        }
    }
}

fn typed(from: &mut TcpStream) -> std::io::Result<(u8, Vec<u8>)> {
    let mut kind = [0];
    from.read_exact(&mut kind)?;
    let message = [&kind[..], &untyped(from)?].concat();
    Ok((kind[0], message))
}

/// A length that counts itself, and what it measures.
fn untyped(from: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let mut message = length.to_vec();
    message.resize(usize::try_from(u32::from_be_bytes(length)).unwrap().max(4), 0);
    from.read_exact(&mut message[4..])?;
    Ok(message)
}

/// ErrorResponse and ReadyForQuery.
fn refusal(code: &str, words: &str) -> Vec<u8> {
    let fields = format!("SERROR\0VERROR\0C{code}\0M{words}\0\0");
    let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
    [b"E", &length[..], fields.as_bytes(), b"Z\0\0\0\x05I"].concat()
}

const REFUSALS: [(&str, &str); 4] = [
    ("40001", "could not serialize access due to concurrent update"),
    ("40P01", "deadlock detected"),
    ("XX000", "Query error: Restart read required at: { read: { physical: 1 } }"),
    ("XX000", "Operation failed. Try again: 5f conflicts with higher priority transaction: 6e"),
];
