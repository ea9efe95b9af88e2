//! One connection to a memcached server: requests are pipelined and answered in order.
//!
//! It ends with the first thing that is not as it should be, and everybody who waits on it is told; making another one is
//! [`keeper`](super::reconnect)'s business. The surprising thing: the answer to a question that nobody waits for any more
//! still has its place in the order, and is read and thrown away.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::request::{Epoch, MemcachedReply, MemcachedRequest};
use super::response::{MemcachedResponse, ResponseReader};
use super::stats::Stats;
use crate::store::compare_and_swap::{Namespace, StoreError};

/// A question, and whom to tell what came of it.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) request: MemcachedRequest,
    pub(super) reply: oneshot::Sender<Result<MemcachedReply, StoreError>>,
}

/// A connection on which the server has shown that it is one.
#[derive(Debug)]
pub(super) struct MemcachedConnection {
    pub(super) stream: TcpStream,
    pub(super) protocol: MemcachedProtocol,
}

/// Who waits for what, and what is to be written; no socket.
#[derive(Debug)]
pub(super) struct MemcachedProtocol {
    names: Namespace,
    reader: ResponseReader,
    epoch: Epoch,
    /// The server's clock in seconds, and when it said so.
    clock: (u64, Instant),
    next_opaque: u32,
    waiting: VecDeque<(u32, PendingRequest, Stats)>,
    to_write: Vec<u8>,
    /// Until when the next answer has to be there, if anybody waits.
    reply_due: Instant,
}

/// How long the next answer may take.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

/// As many questions are on their way on one connection, and as many again wait to be.
pub(super) const MAX_WAITING: usize = 1024;

impl MemcachedConnection {
    /// Asks and answers until it breaks, and says why; or until nobody is left who could ask.
    pub(super) async fn serve(
        mut self,
        questions: &mut mpsc::Receiver<PendingRequest>,
    ) -> Option<StoreError> {
        let error = self.run(questions).await?;
        for (_, asked, _) in self.protocol.waiting.drain(..) {
            // Whoever gave up does not listen.
            let _ = asked.reply.send(Err(error.clone()));
        }
        Some(error)
    }

    async fn run(&mut self, questions: &mut mpsc::Receiver<PendingRequest>) -> Option<StoreError> {
        let Self { stream, protocol: talk } = self;
        let (mut reader, mut writer) = stream.split();
        let mut buffer = vec![0; 16 * 1024];
        let mut asked = Vec::new();
        loop {
            let room = MAX_WAITING - talk.waiting.len();
            tokio::select! {
                read = reader.read(&mut buffer) => match read {
                    Ok(0) => return Some(unreachable(&"it closed the connection")),
                    Ok(length) => {
                        if let Err(error) = talk.feed(&buffer[..length]) {
                            return Some(error);
                        }
                    }
                    Err(error) => return Some(unreachable(&error)),
                },
                written = writer.write(&talk.to_write), if !talk.to_write.is_empty() => match written {
                    Ok(length) => drop(talk.to_write.drain(..length)),
                    Err(error) => return Some(unreachable(&error)),
                },
                count = questions.recv_many(&mut asked, room), if room > 0 => {
                    if count == 0 {
                        return None;
                    }
                    asked.drain(..).for_each(|asked| talk.send(asked));
                }
                () = sleep_until(talk.reply_due), if !talk.waiting.is_empty() => {
                    return Some(unreachable(&"it has not answered for a second"));
                }
            }
        }
    }
}

impl MemcachedProtocol {
    /// Between two who have met; `clock` is what the server said now.
    pub(super) fn new(names: Namespace, answers: ResponseReader, epoch: Epoch, clock: u64) -> Self {
        let now = Instant::now();
        Self {
            names,
            reader: answers,
            epoch,
            clock: (clock, now),
            next_opaque: 0,
            waiting: VecDeque::new(),
            to_write: Vec::new(),
            reply_due: now,
        }
    }

    fn send(&mut self, asked: PendingRequest) {
        if asked.reply.is_closed() {
            return;
        }
        if self.waiting.is_empty() {
            self.reply_due = Instant::now() + REPLY_TIMEOUT;
        }
        let opaque = self.next_opaque;
        self.next_opaque = opaque.wrapping_add(1);
        let now = self.server_time();
        asked.request.write(&self.names, self.epoch, now, opaque, &mut self.to_write);
        self.waiting.push_back((opaque, asked, Stats::default()));
    }

    /// Rounded up: it dates what has to stand for long.
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

    /// Tells whoever asked; an error is one of the whole connection.
    fn complete(&mut self, answer: MemcachedResponse) -> Result<(), StoreError> {
        let Some((expected, asked, stats)) = self.waiting.front_mut() else {
            return Err(unexpected(&"an answer to no question"));
        };
        let is_stats = matches!(asked.request, MemcachedRequest::Stats);
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
                asked.request.read(answer, self.epoch)
            }
            _ => return Err(unexpected(&"the answer to another question")),
        };
        if let Err(error @ StoreError::UnexpectedResponse(_)) = reply {
            return Err(error);
        }
        if let Some((_, asked, _)) = self.waiting.pop_front() {
            // Whoever gave up does not listen.
            let _ = asked.reply.send(reply);
        }
        Ok(())
    }
}

pub(super) fn unreachable(why: &dyn std::fmt::Display) -> StoreError {
    StoreError::Unreachable(why.to_string())
}

pub(super) fn unexpected(why: &dyn std::fmt::Display) -> StoreError {
    StoreError::UnexpectedResponse(why.to_string())
}

/// What follows is out of step, because it may take our record for commands.
pub(super) fn misunderstood(why: &str) -> StoreError {
    StoreError::Refused(format!("it does not take our questions (memcached 1.6.18 does): {why}"))
}

/// Writes all of it.
pub(super) async fn write_all(stream: &mut TcpStream, bytes: &[u8]) -> Result<(), StoreError> {
    stream.write_all(bytes).await.map_err(|error| unreachable(&error))
}

/// Waits for the next answer, before anybody asks on this connection.
pub(super) async fn read_response(
    stream: &mut TcpStream,
    answers: &mut ResponseReader,
) -> Result<MemcachedResponse, StoreError> {
    let mut buffer = [0; 4096];
    loop {
        if let Some(answer) = answers.next_response().map_err(|error| unexpected(&error))? {
            return Ok(answer);
        }
        match stream.read(&mut buffer).await {
            Ok(0) => return Err(unreachable(&"it closed the connection")),
            Ok(length) => answers.feed(&buffer[..length]),
            Err(error) => return Err(unreachable(&error)),
        }
    }
}
