//! The pages for operators: `/livez`, `/readyz`, `/metrics`, single buckets and the gate as a whole, on sockets of
//! their own.
//!
//! They share no listener, runtime or path with clients, and change something only for callers on a Unix socket. A
//! caller over TCP may be a page in the operator's own browser, so `Host` and `Origin` are checked before anything
//! else.

mod buckets;
mod control;
mod response;
mod router;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use self::buckets::Grammar;
pub use self::control::{ControlApi, Reloaded};

use self::buckets::BucketsApi;
use self::router::{Caller, handle};
use super::metrics::Metrics;
use super::readiness::Readiness;
use crate::engine::Engine;
use crate::event::Operator;
use crate::time::Span;

/// The handlers of all admin pages.
#[derive(Debug)]
pub struct Admin {
    metrics: Arc<Metrics>,
    draining: Arc<AtomicBool>,
    readiness: Arc<Readiness>,
    buckets: Option<BucketsApi>,
    control: Option<ControlApi>,
}

/// A bound socket for operators.
#[derive(Debug)]
pub enum AdminSocket {
    /// Callers may be any browser.
    Tcp(TcpListener),
    /// The permissions of the file decide who may call.
    Unix(UnixListener),
}

impl Admin {
    /// `draining` makes `/readyz` answer 503.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>, draining: Arc<AtomicBool>) -> Self {
        Self { metrics, draining, readiness: Arc::default(), buckets: None, control: None }
    }

    /// Adds the reasons for which `/readyz` answers 503 as well.
    #[must_use]
    pub fn with_readiness(self, readiness: Arc<Readiness>) -> Self {
        Self { readiness, ..self }
    }

    /// Adds the pages about single buckets. `grammar` parses rates and durations as the file does.
    #[must_use]
    pub fn with_buckets(self, engine: Arc<Engine>, grammar: Grammar) -> Self {
        Self { buckets: Some(BucketsApi::new(engine, grammar)), ..self }
    }

    /// Adds the pages about the gate as a whole.
    #[must_use]
    pub fn with_control(self, control: ControlApi) -> Self {
        Self { control: Some(control), ..self }
    }

    /// Answers callers until `shutdown` resolves. Needs a tokio runtime with time and I/O, not one of a worker.
    pub async fn serve(self: Arc<Self>, socket: AdminSocket, shutdown: impl Future<Output = ()>) {
        // The permit moves into the task, so a slow caller costs a permit and nothing else.
        let permits = Arc::new(Semaphore::new(MAX_CALLERS));
        let mut shutdown = pin!(shutdown);
        loop {
            let accepted = async {
                let permit = Arc::clone(&permits).acquire_owned().await;
                (permit, socket.accept().await)
            };
            let (permit, stream) = tokio::select! {
                () = &mut shutdown => return,
                accepted = accepted => accepted,
            };
            let Ok(permit) = permit else { return };
            match stream {
                Ok(stream) => self.spawn_connection(stream, permit),
                // Most likely out of descriptors; an immediate retry would fail too.
                Err(_) => tokio::time::sleep(AFTER_FAILURE.to_std()).await,
            }
        }
    }

    fn spawn_connection(self: &Arc<Self>, stream: AdminStream, permit: OwnedSemaphorePermit) {
        let admin = Arc::clone(self);
        match stream {
            AdminStream::Tcp(stream) => {
                let caller = Caller::Tcp { to: stream.local_addr().ok().as_ref().map(SocketAddr::ip) };
                tokio::spawn(admin.serve_connection(stream, caller, permit));
            }
            AdminStream::Unix(stream) => {
                let peer = stream.peer_cred().ok();
                let by = Operator { uid: peer.map(|peer| peer.uid()), pid: peer.and_then(|peer| peer.pid()) };
                tokio::spawn(admin.serve_connection(stream, Caller::Unix(by), permit));
            }
        }
    }

    async fn serve_connection(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        caller: Caller,
        _permit: OwnedSemaphorePermit,
    ) {
        let service =
            service_fn(|request| async { Ok::<_, Infallible>(handle(&self, caller, request).await) });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT.to_std())
            // One request a connection: an idle caller holds no permit that others wait for.
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        let _ = tokio::time::timeout(WHOLE_TIMEOUT.to_std(), connection).await;
    }
}

enum AdminStream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl AdminSocket {
    async fn accept(&self) -> io::Result<AdminStream> {
        Ok(match self {
            Self::Tcp(listener) => AdminStream::Tcp(listener.accept().await?.0),
            Self::Unix(listener) => AdminStream::Unix(listener.accept().await?.0),
        })
    }
}

impl From<TcpListener> for AdminSocket {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<UnixListener> for AdminSocket {
    fn from(listener: UnixListener) -> Self {
        Self::Unix(listener)
    }
}

const MAX_CALLERS: usize = 64;
const HEADER_TIMEOUT: Span = Span::from_secs(5);
const WHOLE_TIMEOUT: Span = Span::from_secs(30);
const AFTER_FAILURE: Span = Span::from_millis(100);

#[cfg(test)]
mod tests;
