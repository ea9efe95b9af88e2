//! The upgrade protocol between the old and the new process: sockets, ready, snapshot, serving.
//!
//! The channel is a socket pair; the new process has its end as standard input. Each socket travels with one byte that
//! is read apart from all else: a read that does not ask for descriptors loses them.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// One end of the channel.
#[derive(Debug)]
pub(in crate::app) struct UpgradeChannel(UnixStream);

/// A report of the new process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::app) enum Message {
    /// It is able to serve.
    Ready = b'r',
    /// It serves.
    Serving = b's',
}

impl UpgradeChannel {
    /// Makes this end. Each read and write fails after `timeout`.
    pub(in crate::app) fn new(stream: UnixStream, timeout: Duration) -> io::Result<Self> {
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Self(stream))
    }

    /// Sends one message.
    pub(in crate::app) fn send_message(&mut self, message: Message) -> io::Result<()> {
        self.0.write_all(&[message as u8])
    }

    /// Waits for this message; another one is an error.
    pub(in crate::app) fn expect_message(&mut self, message: Message) -> io::Result<()> {
        let mut byte = [0];
        self.0.read_exact(&mut byte)?;
        if byte == [message as u8] { Ok(()) } else { Err(unexpected()) }
    }

    /// Sends bytes with their length; `None` differs from no bytes.
    pub(in crate::app) fn send_bytes(&mut self, bytes: Option<&[u8]>) -> io::Result<()> {
        let length = bytes.map_or(NOTHING, |bytes| bytes.len() as u64);
        self.0.write_all(&length.to_le_bytes())?;
        self.0.write_all(bytes.unwrap_or_default())
    }

    /// Receives bytes; more than `max_len` are an error.
    pub(in crate::app) fn receive_bytes(&mut self, max_len: u64) -> io::Result<Option<Vec<u8>>> {
        let mut length = [0; 8];
        self.0.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        if length == NOTHING {
            return Ok(None);
        }
        if length > max_len {
            return Err(unexpected());
        }
        // Grows with the bytes that arrive, not with the length that the peer claims.
        let mut bytes = Vec::new();
        (&self.0).take(length).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == length { Ok(Some(bytes)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Sends sockets, each with its name.
    pub(in crate::app) fn send_sockets<'s>(
        &mut self,
        sockets: impl ExactSizeIterator<Item = (&'s str, BorrowedFd<'s>)>,
    ) -> io::Result<()> {
        self.send_bytes(Some(&(sockets.len() as u64).to_le_bytes()))?;
        for (name, socket) in sockets {
            self.send_bytes(Some(name.as_bytes()))?;
            let (sockets, mut space) = ([socket], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
            let mut message = SendAncillaryBuffer::new(&mut space);
            message.push(SendAncillaryMessage::ScmRights(&sockets));
            sendmsg(&self.0, &[IoSlice::new(b"+")], &mut message, SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }

    /// Receives the sockets, each with its name.
    pub(in crate::app) fn receive_sockets(&mut self) -> io::Result<Vec<(String, OwnedFd)>> {
        let count = self.receive_bytes(8)?.and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
        let count = count.filter(|count| *count <= MAX_SOCKETS).ok_or_else(unexpected)?;
        (0..count).map(|_| self.receive_socket()).collect()
    }

    fn receive_socket(&mut self) -> io::Result<(String, OwnedFd)> {
        let name = self.receive_bytes(MAX_NAME_LEN)?.and_then(|bytes| String::from_utf8(bytes).ok());
        let (mut byte, mut space) = ([0], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
        let mut message = RecvAncillaryBuffer::new(&mut space);
        recvmsg(self.0.as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut message, RecvFlags::CMSG_CLOEXEC)?;
        let mut sockets = message.drain().filter_map(|part| match part {
            RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
            _ => None,
        });
        name.zip(sockets.next()).ok_or_else(unexpected)
    }
}

fn unexpected() -> io::Error {
    io::Error::other("unexpected message from the other process")
}

const NOTHING: u64 = u64::MAX;
const MAX_NAME_LEN: u64 = 4096;
/// One for each worker at each address.
const MAX_SOCKETS: u64 = 100_000;

/// Says that standard input leads to the old process. A name `TOLLGATE_...` would be a setting.
pub(super) const UPGRADE_ENV: &str = "TAKES_OVER_TOLLGATE";

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn pair() -> (UpgradeChannel, UpgradeChannel) {
        let (one, other) = UnixStream::pair().unwrap();
        let channel = |stream| UpgradeChannel::new(stream, Duration::from_secs(5)).unwrap();
        (channel(one), channel(other))
    }

    #[test]
    fn sockets_words_and_bytes_arrive_as_they_were_sent() {
        let (mut old, mut new) = pair();
        let sockets = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let named = sockets.iter().zip(["a", "b", ""]).map(|(socket, name)| (name, socket.as_fd()));
        old.send_sockets(named).unwrap();
        let received = new.receive_sockets().unwrap();
        assert_eq!(received.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "b", ""]);
        for ((_, received), socket) in received.into_iter().zip(&sockets) {
            let (received, address) = (TcpListener::from(received), socket.local_addr().unwrap());
            let _client = TcpStream::connect(address).unwrap();
            assert_eq!(received.local_addr().unwrap(), address);
            received.accept().unwrap();
        }
        new.send_message(Message::Ready).unwrap();
        old.expect_message(Message::Ready).unwrap();
        old.send_bytes(Some(b"buckets")).unwrap();
        old.send_bytes(None).unwrap();
        assert_eq!(new.receive_bytes(7).unwrap().unwrap(), b"buckets");
        assert_eq!(new.receive_bytes(7).unwrap(), None);
    }

    #[test]
    fn what_is_too_long_broken_off_or_another_word_is_an_error() {
        let (mut old, mut new) = pair();
        old.send_bytes(Some(b"buckets")).unwrap();
        assert!(new.receive_bytes(6).is_err());
        let (mut old, mut new) = pair();
        old.send_message(Message::Serving).unwrap();
        assert!(new.expect_message(Message::Ready).is_err());
        let (mut old, mut new) = pair();
        old.0.write_all(&9_u64.to_le_bytes()).unwrap();
        old.0.write_all(b"buck").unwrap();
        drop(old);
        assert!(new.receive_bytes(100).is_err());
        let (mut old, mut new) = pair();
        old.send_bytes(Some(&1_u64.to_le_bytes())).unwrap();
        old.send_bytes(Some(b"a name and no socket")).unwrap();
        old.0.write_all(b"+").unwrap();
        assert!(new.receive_sockets().is_err());
        assert!(pair().1.expect_message(Message::Ready).is_err(), "the other end is closed");
    }
}
