//! Listening sockets, and an accept loop that never fails.
//!
//! Each worker thread has its own TCP socket on the same port (`SO_REUSEPORT`), so that the kernel spreads
//! connections and no lock is shared. That option would also let a second gate share the port unnoticed, so a plain
//! socket is bound first to find out whether the port is free. Limits are left to
//! [`connection_limit`](super::connection_limit).

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::Path;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, UnixListener};

use super::inherited::InheritedSockets;
use super::socket_file::SocketFile;
use super::stream::{NetStream, PeerAddr};

/// An address to listen at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// A TCP address; `[::]` takes IPv4 as well, and IPv4 alone where the kernel has no IPv6.
    Tcp(SocketAddr),
    /// The same for TLS.
    Tls(SocketAddr),
    /// A Unix socket.
    Unix(SocketFile),
    /// The socket that systemd passes under this name: TCP, with or without TLS, or a Unix socket.
    Systemd {
        /// `FileDescriptorName=` of the socket unit.
        name: String,
        /// Whether clients speak TLS.
        tls: bool,
    },
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}"),
            Self::Tls(address) => write!(f, "https://{address}"),
            Self::Unix(file) => write!(f, "unix:{}", file.path.display()),
            Self::Systemd { name, tls: false } => write!(f, "systemd:{name}"),
            Self::Systemd { name, tls: true } => write!(f, "systemd+https:{name}"),
        }
    }
}

/// A bound socket that is not yet part of a runtime, so that it can be bound before there are threads.
#[derive(Debug)]
pub struct BoundSocket {
    address: ListenAddress,
    /// The name of the address as in the file: port 0 stays 0.
    socket_name: String,
    socket: Socket,
    /// It was passed to this process.
    inherited: bool,
    /// Its callers.
    pub callers: Callers,
}

/// An address that cannot be listened at.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen at {address}: {error}{}", hint(address, error))]
pub struct BindError {
    address: ListenAddress,
    error: io::Error,
}

impl ListenAddress {
    /// Binds sockets at this address, one for each of `count` workers, or takes the inherited ones, whatever their
    /// number.
    ///
    /// # Errors
    /// [`BindError`], with what would help.
    pub fn bind(
        &self,
        count: usize,
        inherited: &mut InheritedSockets,
    ) -> Result<Vec<BoundSocket>, BindError> {
        let bound = match inherited.take(&self.socket_name()) {
            sockets if sockets.is_empty() => self.try_bind(count, inherited),
            sockets => sockets.into_iter().map(|socket| self.adopt(socket)).collect(),
        };
        bound.map_err(|error| BindError { address: self.clone(), error })
    }

    /// The same for one socket; a new Unix socket is accessible to this user only.
    ///
    /// # Errors
    /// [`BindError`], with what would help.
    pub fn bind_private(&self, inherited: &mut InheritedSockets) -> Result<BoundSocket, BindError> {
        let mut bound = self.bind(1, inherited)?;
        let first = bound.pop().ok_or_else(|| io::ErrorKind::NotFound.into());
        let private = first.and_then(|bound: BoundSocket| {
            if let (Self::Unix(file), false) = (self, bound.inherited) {
                file.admit(Some(0o600))?;
            }
            Ok(bound)
        });
        private.map_err(|error| BindError { address: self.clone(), error })
    }

    /// Whether clients speak TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_) | Self::Systemd { tls: true, .. })
    }

    /// The name under which a socket is handed on; without TLS, which may change.
    pub(super) fn socket_name(&self) -> String {
        match self {
            Self::Tcp(address) | Self::Tls(address) => format!("tcp:{address}"),
            Self::Unix(file) => format!("unix:{}", file.path.display()),
            Self::Systemd { name, .. } => format!("systemd:{name}"),
        }
    }

    fn try_bind(&self, count: usize, inherited: &InheritedSockets) -> io::Result<Vec<BoundSocket>> {
        match self {
            Self::Tcp(address) => bind_tcp(*address, count, Self::Tcp),
            Self::Tls(address) => bind_tcp(*address, count, Self::Tls),
            Self::Unix(file) => bind_unix(file, count),
            Self::Systemd { .. } => {
                let names = inherited.names().join(", ");
                let others = if names.is_empty() { String::new() } else { format!(", but {names}") };
                Err(io::Error::other(format!(
                    "systemd passed no socket of that name{others}: it is FileDescriptorName= of the socket unit"
                )))
            }
        }
    }

    /// Listens on an inherited socket.
    fn adopt(&self, socket: Socket) -> io::Result<BoundSocket> {
        if !socket.is_listener()? {
            return Err(io::Error::other(
                "not a listening socket: the socket unit needs ListenStream= and Accept=no",
            ));
        }
        socket.set_nonblocking(true)?;
        set_notsent_lowat(&socket);
        let at = socket.local_addr()?.as_socket();
        let address = match (self, at) {
            (Self::Tcp(_), Some(at)) => Self::Tcp(at),
            (Self::Tls(_), Some(at)) => Self::Tls(at),
            (Self::Systemd { tls: true, .. }, None) => {
                return Err(io::Error::other("TLS is not spoken over a Unix socket"));
            }
            _ => self.clone(),
        };
        Ok(BoundSocket {
            address,
            socket_name: self.socket_name(),
            socket,
            inherited: true,
            callers: Callers::Clients,
        })
    }

    /// Removes the file of a Unix socket that no process listens at any more.
    pub fn remove_socket_file(&self) {
        if let Self::Unix(file) = self {
            // A file that cannot be removed is replaced at the next start.
            let _ = remove_stale(&file.path);
        }
    }
}

impl BoundSocket {
    /// Where it listens, with the port that the kernel chose for port 0.
    #[must_use]
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// Its address and port over TCP, as the kernel has them.
    #[must_use]
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()?.as_socket()
    }

    /// Whether it listens to IPv4 alone in place of all addresses, because the kernel has no IPv6.
    #[must_use]
    pub fn lacks_ipv6(&self) -> bool {
        let is_ipv4 = matches!(self.address, ListenAddress::Tcp(at) | ListenAddress::Tls(at) if at.is_ipv4());
        is_ipv4 && self.socket_name.starts_with("tcp:[::]:")
    }

    /// The name of the address as in the file.
    pub(super) fn socket_name(&self) -> &str {
        &self.socket_name
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Another handle of the same socket.
    ///
    /// # Errors
    /// If there are no descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        let (address, socket_name) = (self.address.clone(), self.socket_name.clone());
        let Self { inherited, callers, .. } = *self;
        Ok(Self { address, socket_name, socket: self.socket.try_clone()?, inherited, callers })
    }

    /// Starts to listen within the current runtime.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn listen(self) -> io::Result<Listener> {
        let at = self.socket.local_addr()?.as_socket();
        let kind = match at {
            Some(_) if self.address.is_tls() => ListenerKind::Tls,
            Some(at) => ListenerKind::Plain(at.port()),
            None => ListenerKind::Unix,
        };
        let socket = match kind {
            ListenerKind::Plain(_) | ListenerKind::Tls => {
                TcpListener::from_std(self.socket.into()).map(ListenSocket::Tcp)
            }
            ListenerKind::Unix => {
                let listener: StdUnixListener = std::os::fd::OwnedFd::from(self.socket).into();
                UnixListener::from_std(listener).map(ListenSocket::Unix)
            }
        };
        Ok(Listener {
            kind,
            socket: socket?,
            outlives_process: matches!(self.address, ListenAddress::Systemd { .. }),
            callers: self.callers,
        })
    }
}

/// The protocol of a listener's clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenerKind {
    /// HTTP over TCP, at this port.
    Plain(u16),
    /// HTTP over TLS; the handshake is still to be made.
    Tls,
    /// HTTP over a Unix socket.
    Unix,
}

/// The callers of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Callers {
    /// Clients, or operators.
    Clients,
    /// Proxies that ask, at the decision endpoint of this number.
    Askers(usize),
}

impl Callers {
    /// Whether they are clients.
    #[must_use]
    pub fn are_clients(self) -> bool {
        self == Self::Clients
    }

    /// The number of the decision endpoint at which they ask.
    #[must_use]
    pub fn asked(self) -> Option<usize> {
        match self {
            Self::Clients => None,
            Self::Askers(number) => Some(number),
        }
    }
}

/// A listening socket of one worker.
#[derive(Debug)]
pub struct Listener {
    /// The protocol of its clients.
    pub kind: ListenerKind,
    /// The listening socket.
    pub socket: ListenSocket,
    /// Its callers.
    pub callers: Callers,
    /// The socket outlives this process, so connections in its backlog are left to the next one.
    pub outlives_process: bool,
}

/// A listening socket of either kind.
#[derive(Debug)]
pub enum ListenSocket {
    /// TCP.
    Tcp(TcpListener),
    /// Unix.
    Unix(UnixListener),
}

impl Listener {
    /// The next connection. Never fails: a connection that was reset in the backlog is skipped, and a lack of
    /// descriptors is waited out, because accepting at once again would only spin. `report` gets the errors of the
    /// latter kind.
    pub async fn accept(&self, report: impl Fn(&io::Error)) -> (NetStream, PeerAddr) {
        loop {
            match self.try_accept().await {
                Ok(connection) => return connection,
                Err(error) if is_connection_error(&error) => {}
                Err(error) => {
                    report(&error);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn try_accept(&self) -> io::Result<(NetStream, PeerAddr)> {
        match &self.socket {
            ListenSocket::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok((NetStream::Tcp(stream), PeerAddr::Ip(peer)))
            }
            ListenSocket::Unix(listener) => Ok((NetStream::Unix(listener.accept().await?.0), PeerAddr::Unix)),
        }
    }
}

/// Errors of one connection that say nothing about the listener.
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, InvalidInput, NotConnected};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | InvalidInput | NotConnected
    )
}

fn bind_tcp(
    address: SocketAddr,
    count: usize,
    kind: fn(SocketAddr) -> ListenAddress,
) -> io::Result<Vec<BoundSocket>> {
    let (mut address, socket_name) = (address, kind(address).socket_name());
    let mut probe = tcp_socket(address, false);
    if let Err(error) = &probe
        && is_without_ipv6(error)
        && address.ip() == std::net::Ipv6Addr::UNSPECIFIED
    {
        address = of_ipv4(address);
        probe = tcp_socket(address, false);
    }
    let probe = probe?;
    if address.port() == 0 {
        address = probe.local_addr()?.as_socket().unwrap_or(address);
    }
    drop(probe);
    let socket = |_| {
        let socket = tcp_socket(address, true)?;
        set_notsent_lowat(&socket);
        socket.listen(BACKLOG)?;
        let (address, socket_name) = (kind(address), socket_name.clone());
        Ok(BoundSocket { address, socket_name, socket, inherited: false, callers: Callers::Clients })
    };
    (0..count).map(socket).collect()
}

fn is_without_ipv6(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

/// All addresses of IPv4 at this port.
fn of_ipv4(address: SocketAddr) -> SocketAddr {
    (std::net::Ipv4Addr::UNSPECIFIED, address.port()).into()
}

fn tcp_socket(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.ip() == std::net::Ipv6Addr::UNSPECIFIED {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Connections inherit this bound from their listening socket. Errors are ignored: without the bound slow readers only
/// use more of the kernel's memory, and a Unix socket has no such bound.
fn set_notsent_lowat(socket: &Socket) {
    let _ = socket.set_tcp_notsent_lowat(NOTSENT_LOWAT);
}

fn bind_unix(file: &SocketFile, count: usize) -> io::Result<Vec<BoundSocket>> {
    remove_stale(&file.path)?;
    let listener = StdUnixListener::bind(&file.path)?;
    listener.set_nonblocking(true)?;
    if let Err(error) = file.admit(None) {
        let _ = std::fs::remove_file(&file.path);
        return Err(error);
    }
    let bound = |_| {
        let socket = std::os::fd::OwnedFd::from(listener.try_clone()?).into();
        let address = ListenAddress::Unix(file.clone());
        let socket_name = address.socket_name();
        Ok(BoundSocket { socket_name, address, socket, inherited: false, callers: Callers::Clients })
    };
    (0..count).map(bound).collect()
}

/// Removes a socket file that a crash left behind, but none that a process listens at, nor any other file.
fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let is_dead = metadata.file_type().is_socket() && std::os::unix::net::UnixStream::connect(path).is_err();
    if is_dead { std::fs::remove_file(path) } else { Err(io::ErrorKind::AddrInUse.into()) }
}

/// What would help.
fn hint(address: &ListenAddress, error: &io::Error) -> String {
    match (address, error.kind()) {
        (ListenAddress::Unix(file), kind) => unix_hint(&file.path, kind),
        (_, io::ErrorKind::AddrInUse) => {
            "; another program listens there: stop it or choose another port".into()
        }
        (ListenAddress::Tcp(at) | ListenAddress::Tls(at), io::ErrorKind::PermissionDenied)
            if at.port() < 1024 =>
        {
            "; ports below 1024 need CAP_NET_BIND_SERVICE".into()
        }
        (_, io::ErrorKind::AddrNotAvailable) => "; this machine does not have that address".into(),
        _ => String::new(),
    }
}

fn unix_hint(path: &Path, kind: io::ErrorKind) -> String {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = parent.display();
    match kind {
        io::ErrorKind::AddrInUse => "; another program listens there: stop it or choose another path".into(),
        io::ErrorKind::PermissionDenied => format!("; this user may not create a socket in {directory}"),
        io::ErrorKind::NotFound => format!("; make the directory {directory} first"),
        _ => String::new(),
    }
}

/// How much of a response the kernel buffers before the client's window opens for it. By itself it would buffer
/// megabytes, and copying them for clients that read nothing delays all others.
const NOTSENT_LOWAT: u32 = 128 * 1024;
const BACKLOG: i32 = 4096;
const PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn local() -> ListenAddress {
        ListenAddress::Tcp("127.0.0.1:0".parse().unwrap())
    }

    fn bind(address: &ListenAddress, count: usize) -> Result<Vec<BoundSocket>, BindError> {
        address.bind(count, &mut InheritedSockets::default())
    }

    #[test]
    fn all_workers_share_the_port_that_the_kernel_chose() {
        let bound = bind(&local(), 3).unwrap();
        assert!(bound.iter().all(|b| b.address() == bound[0].address()));
        assert_ne!(bound[0].address(), &local());
    }

    #[test]
    fn a_second_gate_is_told_that_the_port_is_taken() {
        let first = bind(&local(), 2).unwrap();
        let error = bind(first[0].address(), 1).unwrap_err().to_string();
        assert!(error.contains("another program listens there"), "{error}");
    }

    #[test]
    fn a_stale_socket_file_is_replaced_and_a_living_one_is_not() {
        let path = std::env::temp_dir().join(format!("tollgate-listener-{}.sock", std::process::id()));
        let address = ListenAddress::Unix(path.clone().into());
        let living = bind(&address, 2).unwrap();
        assert!(bind(&address, 1).is_err());
        drop(living);
        drop(bind(&address, 1).unwrap());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "a letter").unwrap();
        assert!(bind(&address, 1).is_err(), "another file is never removed");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn hints_are_about_the_address_that_failed() {
        let words = |address: &ListenAddress, kind: io::ErrorKind| hint(address, &kind.into());
        let unix = ListenAddress::Unix("/run/gate/a.sock".into());
        let tcp = |port| ListenAddress::Tcp(([127, 0, 0, 1], port).into());
        let denied = io::ErrorKind::PermissionDenied;
        assert_eq!(words(&unix, denied), "; this user may not create a socket in /run/gate");
        assert_eq!(words(&unix, io::ErrorKind::NotFound), "; make the directory /run/gate first");
        assert_eq!(
            words(&ListenAddress::Unix("a.sock".into()), denied),
            "; this user may not create a socket in ."
        );
        assert!(words(&tcp(80), denied).contains("below 1024"));
        assert_eq!(words(&tcp(8080), denied), "");
    }

    #[test]
    fn an_operators_socket_is_private_and_goes_with_the_gate() {
        let path = std::env::temp_dir().join(format!("tollgate-private-{}.sock", std::process::id()));
        let address = ListenAddress::Unix(path.clone().into());
        let bound = address.bind_private(&mut InheritedSockets::default()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        address.remove_socket_file();
        assert!(path.exists(), "the socket is still open");
        drop(bound);
        address.remove_socket_file();
        assert!(!path.exists());
    }
}
