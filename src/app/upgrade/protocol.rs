//! The upgrade protocol between the old and the new process: sockets, ready, snapshot, serving.
//!
//! A socket pair that the new process has for its standard input. The surprising thing: sockets travel with single bytes that are
//! read apart from all else, because a descriptor that nobody asks for is lost.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// One end.
#[derive(Debug)]
pub(in crate::app) struct UpgradeChannel(UnixStream);

/// What the new process says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::app) enum Message {
    /// It could serve.
    Ready = b'r',
    /// It does.
    Serving = b's',
}

impl UpgradeChannel {
    /// For this end; nobody on it waits longer than that for the other.
    pub(in crate::app) fn new(stream: UnixStream, patience: Duration) -> io::Result<Self> {
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self(stream))
    }

    /// Says one word.
    pub(in crate::app) fn send_message(&mut self, word: Message) -> io::Result<()> {
        self.0.write_all(&[word as u8])
    }

    /// Waits for this word.
    pub(in crate::app) fn expect_message(&mut self, word: Message) -> io::Result<()> {
        let mut said = [0];
        self.0.read_exact(&mut said)?;
        if said == [word as u8] { Ok(()) } else { Err(unexpected()) }
    }

    /// Sends something; nothing is something else than no bytes.
    pub(in crate::app) fn send_bytes(&mut self, bytes: Option<&[u8]>) -> io::Result<()> {
        let length = bytes.map_or(NOTHING, |bytes| bytes.len() as u64);
        self.0.write_all(&length.to_le_bytes())?;
        self.0.write_all(bytes.unwrap_or_default())
    }

    /// What was sent, if it is not longer than that.
    pub(in crate::app) fn receive_bytes(&mut self, longest: u64) -> io::Result<Option<Vec<u8>>> {
        let mut length = [0; 8];
        self.0.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        if length == NOTHING {
            return Ok(None);
        }
        if length > longest {
            return Err(unexpected());
        }
        // Room for what has come, not for what somebody says will come.
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
            let (sockets, mut room) = ([socket], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
            let mut message = SendAncillaryBuffer::new(&mut room);
            message.push(SendAncillaryMessage::ScmRights(&sockets));
            sendmsg(&self.0, &[IoSlice::new(b"+")], &mut message, SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }

    /// The sockets that were sent.
    pub(in crate::app) fn receive_sockets(&mut self) -> io::Result<Vec<(String, OwnedFd)>> {
        let count = self.receive_bytes(8)?.and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
        let count = count.filter(|count| *count <= MAX_SOCKETS).ok_or_else(unexpected)?;
        (0..count).map(|_| self.receive_socket()).collect()
    }

    fn receive_socket(&mut self) -> io::Result<(String, OwnedFd)> {
        let name = self.receive_bytes(MAX_NAME_LEN)?.and_then(|bytes| String::from_utf8(bytes).ok());
        let (mut byte, mut room) = ([0], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
        let mut message = RecvAncillaryBuffer::new(&mut room);
        recvmsg(self.0.as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut message, RecvFlags::CMSG_CLOEXEC)?;
        let mut sockets = message.drain().filter_map(|part| match part {
            RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
            _ => None,
        });
        name.zip(sockets.next()).ok_or_else(unexpected)
    }
}

fn unexpected() -> io::Error {
    io::Error::other("the other process says something else than expected")
}

const NOTHING: u64 = u64::MAX;
const MAX_NAME_LEN: u64 = 4096;
/// A socket for each worker at each address.
const MAX_SOCKETS: u64 = 100_000;

/// Says that standard input leads to the gate that serves. Not `TOLLGATE_...`, which would be a setting.
pub(super) const UPGRADE_ENV: &str = "TAKES_OVER_TOLLGATE";

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn pair() -> (UpgradeChannel, UpgradeChannel) {
        let (one, other) = UnixStream::pair().unwrap();
        let wire = |stream| UpgradeChannel::new(stream, Duration::from_secs(5)).unwrap();
        (wire(one), wire(other))
    }

    #[test]
    fn sockets_words_and_bytes_arrive_as_they_were_sent() {
        let (mut old, mut new) = pair();
        let sockets = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let named = sockets.iter().zip(["a", "b", ""]).map(|(socket, name)| (name, socket.as_fd()));
        old.send_sockets(named).unwrap();
        let passed = new.receive_sockets().unwrap();
        assert_eq!(passed.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "b", ""]);
        for ((_, passed), socket) in passed.into_iter().zip(&sockets) {
            let (passed, address) = (TcpListener::from(passed), socket.local_addr().unwrap());
            let _client = TcpStream::connect(address).unwrap();
            assert_eq!(passed.local_addr().unwrap(), address);
            passed.accept().unwrap();
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
        assert!(pair().1.expect_message(Message::Ready).is_err(), "nobody is there");
    }
}
