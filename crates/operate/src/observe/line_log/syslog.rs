//! Sends each line as a datagram to a syslog server, over a Unix socket or UDP.
//!
//! A server that was restarted has another socket, so a failed datagram is sent once more over a new connection. A
//! server that does not read holds up the log's own thread for a short time, and then loses the lines. The header of a
//! line is left to its format.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;

use super::LineSink;
use crate::observe::settings::SyslogAddress;
use crate::time::Span;

/// A connection to a syslog server.
#[derive(Debug)]
pub(super) struct SyslogSocket {
    address: SyslogAddress,
    connected: Option<ConnectedSocket>,
}

#[derive(Debug)]
enum ConnectedSocket {
    Unix(UnixDatagram),
    Udp(UdpSocket),
}

impl SyslogSocket {
    /// Connects with the first line.
    pub(super) fn new(address: SyslogAddress) -> Self {
        Self { address, connected: None }
    }

    fn send(&mut self, line: &[u8]) -> io::Result<()> {
        let socket = match self.connected.take() {
            Some(socket) => socket,
            None => ConnectedSocket::to(&self.address)?,
        };
        match &socket {
            ConnectedSocket::Unix(socket) => socket.send(line),
            ConnectedSocket::Udp(socket) => socket.send(line),
        }?;
        self.connected = Some(socket);
        Ok(())
    }
}

impl ConnectedSocket {
    fn to(address: &SyslogAddress) -> io::Result<Self> {
        match address {
            SyslogAddress::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                socket.set_write_timeout(Some(SEND_TIMEOUT.to_std()))?;
                Ok(Self::Unix(socket))
            }
            SyslogAddress::Udp { host, port } => {
                let none = || io::Error::new(ErrorKind::NotFound, format!("no address for {host}"));
                let server = (host.as_str(), *port).to_socket_addrs()?.next().ok_or_else(none)?;
                let any: SocketAddr = match server {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(server)?;
                socket.set_write_timeout(Some(SEND_TIMEOUT.to_std()))?;
                Ok(Self::Udp(socket))
            }
        }
    }
}

impl Write for SyslogSocket {
    /// Sends the first line.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let length = memchr::memchr(b'\n', lines).unwrap_or(lines.len());
        let was_connected = self.connected.is_some();
        match self.send(&lines[..length]) {
            Err(error) if was_connected && error.kind() != ErrorKind::WouldBlock => {
                self.send(&lines[..length])?;
            }
            sent => sent?,
        }
        Ok(lines.len().min(length + 1))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LineSink for SyslogSocket {
    fn replace(&mut self, _: File) {}
}

/// A server that reads needs far less for a datagram.
const SEND_TIMEOUT: Span = Span::from_millis(100);

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A path that is removed after the test.
    struct SocketPath(PathBuf);

    impl SocketPath {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("tollgate-{name}-{}", std::process::id()));
            let _ = std::fs::remove_file(&path);
            Self(path)
        }

        /// A server, in the place of an earlier one.
        fn serve(&self) -> UnixDatagram {
            let _ = std::fs::remove_file(&self.0);
            let server = UnixDatagram::bind(&self.0).unwrap();
            server.set_read_timeout(Some(Span::from_secs(5).to_std())).unwrap();
            server
        }
    }

    impl Drop for SocketPath {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn received(server: &UnixDatagram) -> String {
        let mut line = [0; 64];
        let length = server.recv(&mut line).unwrap();
        String::from_utf8_lossy(&line[..length]).into_owned()
    }

    #[test]
    fn each_line_is_a_datagram_without_its_line_feed() {
        let path = SocketPath::new("datagrams");
        let server = path.serve();
        SyslogSocket::new(SyslogAddress::Unix(path.0.clone())).write_all(b"one\ntwo\n").unwrap();
        assert_eq!([received(&server), received(&server)], ["one", "two"]);
    }

    #[test]
    fn a_restarted_server_gets_the_next_line() {
        let path = SocketPath::new("restarted");
        let mut socket = SyslogSocket::new(SyslogAddress::Unix(path.0.clone()));
        assert!(socket.write_all(b"none\n").is_err(), "there is no server yet");
        let first = path.serve();
        socket.write_all(b"one\n").unwrap();
        assert_eq!(received(&first), "one");
        drop(first);
        let second = path.serve();
        socket.write_all(b"two\n").unwrap();
        assert_eq!(received(&second), "two");
    }

    #[test]
    fn a_server_that_does_not_read_costs_lines_and_not_the_thread() {
        let path = SocketPath::new("stuck");
        let _server = path.serve();
        let mut socket = SyslogSocket::new(SyslogAddress::Unix(path.0.clone()));
        let lines = "x\n".repeat(100_000);
        let failed = socket.write_all(lines.as_bytes()).unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::WouldBlock);
    }
}
