//! Connects for confined threads: another thread opens the connection and passes it on.
//!
//! A confined worker connects to addresses by itself. It delegates names, because resolving one opens files, and every
//! address that it was refused: a port that the configuration named later. The confinement itself is left to the
//! sandbox.

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

/// Connects, from any worker.
#[derive(Debug, Clone, Default)]
pub struct Connector {
    /// `None` where every thread may connect.
    requests: Option<mpsc::Sender<ConnectRequest>>,
    allowed: AllowedTargets,
}

/// The requests of other threads.
#[derive(Debug)]
pub struct ConnectRequests {
    requests: mpsc::Receiver<ConnectRequest>,
    allowed: AllowedTargets,
}

#[derive(Debug)]
struct ConnectRequest {
    host: String,
    port: u16,
    response: oneshot::Sender<io::Result<std::net::TcpStream>>,
}

/// Names and ports that may be connected to for other threads.
type AllowedTargets = Arc<Mutex<HashSet<(String, u16)>>>;

impl Connector {
    /// For confined threads; their requests have to be [served](ConnectRequests::serve).
    #[must_use]
    pub fn delegating() -> (Self, ConnectRequests) {
        let (sender, requests) = mpsc::channel(MAX_REQUESTS);
        let allowed = AllowedTargets::default();
        (
            Self { requests: Some(sender), allowed: Arc::clone(&allowed) },
            ConnectRequests { requests, allowed },
        )
    }

    /// Allows a target that a configuration names; no other is connected to for a confined thread.
    pub fn allow(&self, host: &str, port: u16) {
        if self.requests.is_some() {
            let mut allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
            allowed.insert((host.to_owned(), port));
        }
    }

    /// Connects to a name or an address without brackets.
    ///
    /// # Errors
    /// The error of the kernel or of the resolver.
    pub async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let Some(requests) = &self.requests else { return TcpStream::connect((host, port)).await };
        if let Ok(address) = host.parse::<IpAddr>() {
            match TcpStream::connect((address, port)).await {
                Err(refused) if refused.kind() == io::ErrorKind::PermissionDenied => {}
                result => return result,
            }
        }
        let (response, receiver) = oneshot::channel();
        let request = ConnectRequest { host: host.to_owned(), port, response };
        requests.send(request).await.map_err(|_| io::ErrorKind::BrokenPipe)?;
        TcpStream::from_std(receiver.await.map_err(|_| io::ErrorKind::BrokenPipe)??)
    }
}

impl ConnectRequests {
    /// Serves requests until no sender is left.
    pub async fn serve(mut self) {
        while let Some(request) = self.requests.recv().await {
            if self.is_allowed(&request) {
                tokio::spawn(request.serve());
            } else {
                // The worker may have given up already.
                let _ = request.response.send(Err(io::ErrorKind::PermissionDenied.into()));
            }
        }
    }

    fn is_allowed(&self, request: &ConnectRequest) -> bool {
        let allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        allowed.contains(&(request.host.clone(), request.port))
    }
}

impl ConnectRequest {
    async fn serve(mut self) {
        let result = tokio::select! {
            result = TcpStream::connect((&*self.host, self.port)) => result.and_then(TcpStream::into_std),
            () = self.response.closed() => return,
        };
        // As above.
        let _ = self.response.send(result);
    }
}

/// Whether this machine has no descriptor, port or memory for another connection.
#[must_use]
pub fn is_exhausted(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let of_this_machine = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::ADDRNOTAVAIL];
    errno.is_some_and(|errno| of_this_machine.contains(&errno))
}

/// Further requests wait for their turn.
const MAX_REQUESTS: usize = 1024;

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    fn listener() -> (TcpListener, u16) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    #[tokio::test]
    async fn names_are_connected_to_by_the_thread_that_is_asked_and_only_those_that_were_named() {
        let ((listener, named), (_other, not_named)) = (listener(), listener());
        let (connector, requests) = Connector::delegating();
        connector.allow("localhost", named);
        let serving = tokio::spawn(requests.serve());
        let made = connector.connect("localhost", named).await.unwrap();
        assert_eq!(made.local_addr().unwrap(), listener.accept().unwrap().1);
        let refused = connector.connect("localhost", not_named).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        drop(connector);
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn addresses_are_connected_to_here_and_where_no_one_is_asked_names_too() {
        let (_listener, port) = listener();
        let (connector, requests) = Connector::delegating();
        connector.connect("127.0.0.1", port).await.unwrap();
        drop(requests);
        assert_eq!(connector.connect("localhost", port).await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        Connector::default().connect("localhost", port).await.unwrap();
    }
}
