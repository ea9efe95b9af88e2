//! One connection to a memcached server: requests are pipelined and answered in order.
//!
//! It ends with the first error, which all its callers get; the next connection is left to
//! [`reconnect`](super::reconnect). The response to a request whose caller has given up still has its turn in the
//! order, and is read and dropped.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::request::{Epoch, MemcachedReply, MemcachedRequest};
use super::response::{MemcachedResponse, ResponseReader};
use super::stats::Stats;
use crate::compare_and_swap::{Namespace, StoreError};

/// A request, and where its reply goes.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) request: MemcachedRequest,
    pub(super) reply: oneshot::Sender<Result<MemcachedReply, StoreError>>,
}

/// A connection after its handshake.
#[derive(Debug)]
pub(super) struct MemcachedConnection {
    pub(super) stream: TcpStream,
    pub(super) protocol: MemcachedProtocol,
}

/// The requests in flight, and the bytes to be written; no socket.
#[derive(Debug)]
pub(super) struct MemcachedProtocol {
    names: Namespace,
    reader: ResponseReader,
    epoch: Epoch,
    /// The server's clock in seconds, and when it was read.
    clock: (u64, Instant),
    next_opaque: u32,
    waiting: VecDeque<(u32, PendingRequest, Stats)>,
    to_write: Vec<u8>,
    /// When the next response is due, if a request waits.
    reply_due: Instant,
}

/// How long the next response may take.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

/// The maximum number of requests in flight on one connection; as many again may be queued.
pub(super) const MAX_WAITING: usize = 1024;

impl MemcachedConnection {
    /// Serves requests until the connection breaks, and returns why; `None` once no caller is left.
    pub(super) async fn serve(mut self, requests: &mut mpsc::Receiver<PendingRequest>) -> Option<StoreError> {
        let error = self.run(requests).await?;
        for (_, pending, _) in self.protocol.waiting.drain(..) {
            // The receiver is gone if the caller has given up.
            let _ = pending.reply.send(Err(error.clone()));
        }
        Some(error)
    }

    async fn run(&mut self, requests: &mut mpsc::Receiver<PendingRequest>) -> Option<StoreError> {
        let Self { stream, protocol } = self;
        let (mut reader, mut writer) = stream.split();
        let mut buffer = vec![0; 16 * 1024];
        let mut received = Vec::new();
        loop {
            let free = MAX_WAITING - protocol.waiting.len();
            tokio::select! {
                read = reader.read(&mut buffer) => match read {
                    Ok(0) => return Some(StoreError::unreachable("it closed the connection")),
                    Ok(length) => {
                        if let Err(error) = protocol.feed(&buffer[..length]) {
                            return Some(error);
                        }
                    }
                    Err(error) => return Some(StoreError::unreachable(error)),
                },
                written = writer.write(&protocol.to_write), if !protocol.to_write.is_empty() => match written {
                    Ok(length) => drop(protocol.to_write.drain(..length)),
                    Err(error) => return Some(StoreError::unreachable(error)),
                },
                count = requests.recv_many(&mut received, free), if free > 0 => {
                    if count == 0 {
                        return None;
                    }
                    received.drain(..).for_each(|request| protocol.send(request));
                }
                () = sleep_until(protocol.reply_due), if !protocol.waiting.is_empty() => {
                    return Some(StoreError::unreachable("it has not answered for a second"));
                }
            }
        }
    }
}

impl MemcachedProtocol {
    /// The protocol after a handshake; `clock` is the server's present time in seconds.
    pub(super) fn new(names: Namespace, reader: ResponseReader, epoch: Epoch, clock: u64) -> Self {
        let now = Instant::now();
        Self {
            names,
            reader,
            epoch,
            clock: (clock, now),
            next_opaque: 0,
            waiting: VecDeque::new(),
            to_write: Vec::new(),
            reply_due: now,
        }
    }

    fn send(&mut self, pending: PendingRequest) {
        if pending.reply.is_closed() {
            return;
        }
        if self.waiting.is_empty() {
            self.reply_due = Instant::now() + REPLY_TIMEOUT;
        }
        let opaque = self.next_opaque;
        self.next_opaque = opaque.wrapping_add(1);
        let now = self.server_time();
        pending.request.write(&self.names, self.epoch, now, opaque, &mut self.to_write);
        self.waiting.push_back((opaque, pending, Stats::default()));
    }

    /// The server's time in seconds, rounded up, because it dates records that must not expire early.
    fn server_time(&self) -> u64 {
        let (clock, at) = self.clock;
        clock.saturating_add(at.elapsed().as_secs()).saturating_add(2)
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.reader.feed(bytes);
        while let Some(answer) = self.reader.next_response().map_err(|error| unexpected(&error))? {
            self.complete(answer)?;
            self.reply_due = Instant::now() + REPLY_TIMEOUT;
        }
        Ok(())
    }

    /// Sends a response to its caller; an error concerns the whole connection.
    fn complete(&mut self, answer: MemcachedResponse) -> Result<(), StoreError> {
        let Some((expected, pending, stats)) = self.waiting.front_mut() else {
            return Err(unexpected(&"a response without a request"));
        };
        let is_stats = matches!(pending.request, MemcachedRequest::Stats);
        let reply = match answer {
            MemcachedResponse::Refused(why) => Err(StoreError::Refused(why)),
            MemcachedResponse::Misunderstood(why) => return Err(misunderstood(&why)),
            line @ MemcachedResponse::Stat(..) if is_stats => {
                stats.note(&line);
                return Ok(());
            }
            MemcachedResponse::End if is_stats => {
                self.clock = (stats.time, Instant::now());
                Ok(MemcachedReply::Stats(*stats))
            }
            MemcachedResponse::Meta { opaque, .. } if !is_stats && opaque == Some(*expected) => {
                pending.request.read(answer, self.epoch)
            }
            _ => return Err(unexpected(&"the response to another request")),
        };
        if let Err(error @ StoreError::UnexpectedResponse(_)) = reply {
            return Err(error);
        }
        if let Some((_, pending, _)) = self.waiting.pop_front() {
            // The receiver is gone if the caller has given up.
            let _ = pending.reply.send(reply);
        }
        Ok(())
    }
}

pub(super) fn unexpected(why: &dyn std::fmt::Display) -> StoreError {
    StoreError::UnexpectedResponse(why.to_string())
}

/// The error of a server that does not understand a request. It is one of the whole connection, because the server may
/// take the following record for commands.
pub(super) fn misunderstood(why: &str) -> StoreError {
    StoreError::Refused(format!("it does not understand our requests (memcached 1.6.18 does): {why}"))
}

/// Writes all of it.
pub(super) async fn write_all(stream: &mut TcpStream, bytes: &[u8]) -> Result<(), StoreError> {
    stream.write_all(bytes).await.map_err(StoreError::unreachable)
}

/// Waits for the next response during a handshake.
pub(super) async fn read_response(
    stream: &mut TcpStream,
    reader: &mut ResponseReader,
) -> Result<MemcachedResponse, StoreError> {
    let mut buffer = [0; 4096];
    loop {
        if let Some(answer) = reader.next_response().map_err(|error| unexpected(&error))? {
            return Ok(answer);
        }
        match stream.read(&mut buffer).await {
            Ok(0) => return Err(StoreError::unreachable("it closed the connection")),
            Ok(length) => reader.feed(&buffer[..length]),
            Err(error) => return Err(StoreError::unreachable(error)),
        }
    }
}
