//! Many clients at several gates, on one thread, and the outcome of each of their attempts.
//!
//! Each client has one connection and one address, and makes its next attempt a moment after the answer to the last one.
//! An attempt counts in a stretch of time only if it was sent and answered within it, so a delay of this machine cannot
//! look like one admission too many.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Clients at work.
pub(crate) struct Load {
    begun: Instant,
    state: Arc<LoadState>,
    thread: JoinHandle<Vec<Attempt>>,
}

/// How far it is.
#[derive(Default)]
struct LoadState {
    is_over: AtomicBool,
    answered: AtomicUsize,
    /// Nanoseconds that an answer took at most since a test last began to ask.
    slowest: AtomicU64,
}

/// Who attempts, and how often.
#[derive(Clone, Copy)]
pub(crate) struct LoadPlan {
    /// Connections to each gate.
    pub(crate) connections: usize,
    /// Addresses that they come from; connections take turns.
    pub(crate) keys: usize,
    /// From an answer to the next attempt on the same connection.
    pub(crate) pause: Duration,
}

/// One attempt. Times since the load began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) gate: usize,
    pub(crate) key: usize,
    pub(crate) sent: Duration,
    pub(crate) answered: Duration,
    /// 0 if the connection ended without an answer.
    pub(crate) status: u16,
    pub(crate) has_retry_after: bool,
}

impl Load {
    /// Begins at once.
    pub(crate) fn start(gates: Vec<SocketAddr>, plan: LoadPlan) -> Self {
        let (begun, state) = (Instant::now(), Arc::<LoadState>::default());
        let own = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(all(gates, plan, begun, own))
        });
        Self { begun, state, thread }
    }

    /// Attempts that were answered so far.
    pub(crate) fn answered(&self) -> usize {
        self.state.answered.load(Ordering::Relaxed)
    }

    /// From now on [`slowest`](Self::slowest) tells of answers that come later.
    pub(crate) fn forget_slowest(&self) {
        self.state.slowest.store(0, Ordering::Relaxed);
    }

    /// How long an answer took at most.
    pub(crate) fn slowest(&self) -> Duration {
        Duration::from_nanos(self.state.slowest.load(Ordering::Relaxed))
    }

    /// Since it began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Makes no more attempts, waits for the last answers, and says what came of all of them.
    pub(crate) fn stop(self) -> Vec<Attempt> {
        self.state.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }

    /// The same; then the first client takes at this gate what is left, until it is refused and all is there that is due. A
    /// machine that is too busy to tell the store's time in time only delays it.
    pub(crate) fn stop_and_drain(
        self,
        address: SocketAddr,
        is_all: impl Fn(&[Attempt]) -> bool,
    ) -> Vec<Attempt> {
        let begun = self.begun;
        let mut attempts = self.stop();
        let state = Arc::default();
        let client = Client { gate: 0, address, key: 0, pause: Duration::ZERO, begun, state };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(client.drain(&mut attempts, is_all));
        attempts
    }
}

async fn all(gates: Vec<SocketAddr>, plan: LoadPlan, begun: Instant, state: Arc<LoadState>) -> Vec<Attempt> {
    let mut clients = Vec::new();
    for (gate, address) in gates.into_iter().enumerate() {
        for connection in 0..plan.connections {
            let key = connection % plan.keys;
            let client = Client { gate, address, key, pause: plan.pause, begun, state: Arc::clone(&state) };
            clients.push(tokio::spawn(client.run()));
        }
    }
    let mut attempts = Vec::new();
    for client in clients {
        attempts.extend(client.await.unwrap());
    }
    attempts
}

struct Client {
    gate: usize,
    address: SocketAddr,
    key: usize,
    pause: Duration,
    begun: Instant,
    state: Arc<LoadState>,
}

impl Client {
    async fn run(self) -> Vec<Attempt> {
        let (mut attempts, mut connection) = (Vec::new(), None);
        while !self.state.is_over.load(Ordering::Relaxed) {
            attempts.push(self.attempt(&mut connection).await);
            tokio::time::sleep(self.pause).await;
        }
        attempts
    }

    async fn drain(self, attempts: &mut Vec<Attempt>, is_all: impl Fn(&[Attempt]) -> bool) {
        let (deadline, mut connection) = (Instant::now() + DRAIN, None);
        while Instant::now() < deadline {
            let attempt = self.attempt(&mut connection).await;
            attempts.push(attempt);
            if attempt.status != 200 {
                if is_all(attempts) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    async fn attempt(&self, connection: &mut Option<TcpStream>) -> Attempt {
        let sent = self.begun.elapsed();
        let answer = self.answer(connection).await;
        let (status, has_retry_after) = answer.unwrap_or_else(|_| {
            *connection = None;
            (0, false)
        });
        let (gate, key, answered) = (self.gate, self.key, self.begun.elapsed());
        let took = u64::try_from((answered - sent).as_nanos()).unwrap_or(u64::MAX);
        self.state.slowest.fetch_max(took, Ordering::Relaxed);
        self.state.answered.fetch_add(1, Ordering::Relaxed);
        Attempt { gate, key, sent, answered, status, has_retry_after }
    }

    async fn answer(&self, connection: &mut Option<TcpStream>) -> std::io::Result<(u16, bool)> {
        // One that was closed or reset while it was idle is none: every client looks before it sends.
        drop(connection.take_if(|stream| {
            // Not `try_read`, which tells what the runtime heard last.
            let read = socket2::SockRef::from(&*stream).peek(&mut [std::mem::MaybeUninit::uninit()]);
            !matches!(read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        }));
        if connection.is_none() {
            let socket = TcpSocket::new_v4()?;
            socket.bind((address_of(self.key), 0).into())?;
            *connection = Some(socket.connect(self.address).await?);
        }
        let Some(stream) = connection else { return Err(std::io::ErrorKind::NotConnected.into()) };
        stream.set_nodelay(true)?;
        stream.write_all(ATTEMPT).await?;
        let Answer { status, has_retry_after, closes } = answer(stream).await?;
        if closes {
            *connection = None;
        }
        Ok((status, has_retry_after))
    }
}

const DRAIN: Duration = Duration::from_secs(15);

/// Where the clients with this number come from.
pub(crate) fn address_of(key: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 1, u8::try_from(key + 1).unwrap())
}

struct Answer {
    status: u16,
    has_retry_after: bool,
    /// Whether it is the last on its connection.
    closes: bool,
}

async fn answer(stream: &mut TcpStream) -> std::io::Result<Answer> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&buffer[..length]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let body: usize = field("content-length").map_or(0, |length| length.trim().parse().unwrap());
        if bytes.len() >= end + 4 + body {
            let closes = field("connection").is_some_and(|value| value.contains("close"));
            let (status, has_retry_after) = (head[9..12].parse().unwrap(), field("retry-after").is_some());
            return Ok(Answer { status, has_retry_after, closes });
        }
    }
}

/// How many of these were admitted.
pub(crate) fn admitted(attempts: &[Attempt]) -> usize {
    attempts.iter().filter(|attempt| attempt.status == 200).count()
}

/// By how many tokens the worst stretch of time has more admissions than `burst` and what `rate` (a second) brings in it; of
/// admissions that were sent and answered within it. Nothing above zero is right.
pub(crate) fn worst_excess<'a>(attempts: impl Iterator<Item = &'a Attempt>, burst: f64, rate: f64) -> f64 {
    let admitted: Vec<&Attempt> = attempts.filter(|attempt| attempt.status == 200).collect();
    let (mut by_answer, mut by_sending) = (admitted.clone(), admitted);
    by_answer.sort_by_key(|attempt| attempt.answered);
    by_sending.sort_by_key(|attempt| attempt.sent);
    let excess_from = |first: &&Attempt| {
        let mut count = 0.0;
        let mut worst = f64::MIN;
        for attempt in by_answer.iter().filter(|attempt| attempt.sent >= first.sent) {
            count += 1.0;
            let time = (attempt.answered - first.sent).as_secs_f64();
            worst = worst.max(count - burst - rate * time);
        }
        worst
    };
    by_sending.iter().map(excess_from).fold(f64::MIN, f64::max)
}

/// The time that this part of a hundred of the attempts did not exceed.
pub(crate) fn percentile<'a>(attempts: impl Iterator<Item = &'a Attempt>, percent: usize) -> Duration {
    let mut times: Vec<Duration> = attempts.map(|attempt| attempt.answered - attempt.sent).collect();
    times.sort();
    let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(at).copied().unwrap_or_default()
}

const ATTEMPT: &[u8] = b"POST /login HTTP/1.1\r\nHost: app.test\r\nContent-Length: 0\r\n\r\n";
