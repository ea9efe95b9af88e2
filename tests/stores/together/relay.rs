//! A relay between gates and a store that simulates faults of networks and servers.
//!
//! It knows no protocol. A fault affects open connections as well, at once, because networks fail this way.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

/// The wire; it is cut when dropped.
pub(crate) struct Relay {
    port: u16,
    mode: watch::Sender<Mode>,
    accepted: Arc<AtomicUsize>,
    _end: oneshot::Sender<()>,
}

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Pass,
    /// Bytes are taken and go nowhere.
    BlackHole,
    /// What comes is handed on this much later.
    Delay(Duration),
    /// A peer that sends something, or connects, is cut off.
    Reset,
    /// Answers are as long as they should be and say something else.
    Garbage,
    /// Half of an answer, and then the end.
    Truncate,
    /// One byte at a time.
    Slices,
    /// The question arrives, and instead of the answer the connection ends.
    LostAnswer,
}

impl Relay {
    /// Before the server whose address this URL names; and the URL that names the relay instead.
    pub(crate) fn before(url: &str) -> (Self, String) {
        let (before, behind) = url.split_once("127.0.0.1:").unwrap();
        let digits = behind.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(behind.len());
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, behind[..digits].parse().unwrap()));
        let relay = Self::to(server);
        let own = format!("{before}127.0.0.1:{}{}", relay.port, &behind[digits..]);
        (relay, own)
    }

    fn to(server: SocketAddr) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mode, modes) = watch::channel(Mode::Pass);
        let (end, ends) = oneshot::channel();
        let accepted = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&accepted);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::select! {
                    () = accept(TcpListener::from_std(listener).unwrap(), server, modes, counter) => {}
                    _ = ends => {}
                }
            });
        });
        Self { port, mode, accepted, _end: end }
    }

    pub(crate) fn turn(&self, mode: Mode) {
        self.mode.send(mode).unwrap();
    }

    /// How many connections it has accepted.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

async fn accept(
    listener: TcpListener,
    server: SocketAddr,
    modes: watch::Receiver<Mode>,
    accepted: Arc<AtomicUsize>,
) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        accepted.fetch_add(1, Ordering::Relaxed);
        if *modes.borrow() != Mode::Reset {
            tokio::spawn(serve(client, server, modes.clone()));
        }
    }
}

/// Until either side ends, or is ended. Then both are.
async fn serve(client: TcpStream, server: SocketAddr, modes: watch::Receiver<Mode>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        () = carry(from_client, to_server, modes.clone(), false) => {}
        () = carry(from_server, to_client, modes, true) => {}
    }
}

async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut modes: watch::Receiver<Mode>,
    is_answer: bool,
) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        // What was sent meanwhile is late, not lost: so it is with TCP.
        let _ = modes.wait_for(|mode| *mode != Mode::BlackHole).await;
        let mode = *modes.borrow();
        let bytes = &mut buffer[..length];
        match mode {
            Mode::Delay(time) => tokio::time::sleep(time).await,
            Mode::Reset => return,
            Mode::LostAnswer if is_answer => return,
            Mode::Garbage if is_answer => {
                bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(37) ^ 0x5a)
            }
            Mode::Truncate if is_answer => {
                let _ = to.write_all(&bytes[..length / 2]).await;
                return;
            }
            _ => {}
        }
        let pieces = if mode == Mode::Slices { 1 } else { length };
        for piece in bytes.chunks(pieces) {
            if to.write_all(piece).await.is_err() {
                return;
            }
        }
    }
}
