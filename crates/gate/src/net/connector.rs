//! Connects for confined threads: another thread opens the connection and passes it on.
//!
//! A confined worker connects to addresses by itself. It delegates names, because resolving one opens files, and every
//! address that it was refused: a port that the configuration named later. The confinement itself is left to the
//! sandbox.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
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
    /// An address that the host was found to have; `None` has it looked up.
    ip: Option<IpAddr>,
    port: u16,
    response: oneshot::Sender<io::Result<std::net::TcpStream>>,
}

/// Names and ports that may be connected to for other threads, each with how many need it.
type AllowedTargets = Arc<Mutex<HashMap<(String, u16), usize>>>;

/// Has a target allowed for as long as it lives.
#[derive(Debug)]
pub struct AllowedTarget {
    target: (String, u16),
    allowed: AllowedTargets,
}

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

    /// Allows a target that a configuration names; no other is connected to for a confined thread. `None` where every
    /// thread may connect.
    #[must_use]
    pub fn allow(&self, host: &str, port: u16) -> Option<AllowedTarget> {
        self.requests.as_ref()?;
        let target = (host.to_owned(), port);
        let mut allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        *allowed.entry(target.clone()).or_default() += 1;
        Some(AllowedTarget { target, allowed: Arc::clone(&self.allowed) })
    }

    /// Connects to a name or an address without brackets.
    ///
    /// # Errors
    /// The error of the kernel or of the resolver.
    pub async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        match host.parse() {
            Ok(address) => self.connect_to(host, address, port).await,
            Err(_) => match &self.requests {
                None => TcpStream::connect((host, port)).await,
                Some(requests) => ask(requests, host, None, port).await,
            },
        }
    }

    /// Connects to an address that this host was found to have.
    ///
    /// # Errors
    /// The error of the kernel.
    pub async fn connect_to(&self, host: &str, ip: IpAddr, port: u16) -> io::Result<TcpStream> {
        match (TcpStream::connect((ip, port)).await, &self.requests) {
            (Err(refused), Some(requests)) if refused.kind() == io::ErrorKind::PermissionDenied => {
                ask(requests, host, Some(ip), port).await
            }
            (result, _) => result,
        }
    }
}

async fn ask(
    requests: &mpsc::Sender<ConnectRequest>,
    host: &str,
    ip: Option<IpAddr>,
    port: u16,
) -> io::Result<TcpStream> {
    let (response, receiver) = oneshot::channel();
    let request = ConnectRequest { host: host.to_owned(), ip, port, response };
    requests.send(request).await.map_err(|_| io::ErrorKind::BrokenPipe)?;
    TcpStream::from_std(receiver.await.map_err(|_| io::ErrorKind::BrokenPipe)??)
}

impl Drop for AllowedTarget {
    fn drop(&mut self) {
        let mut allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut count) = allowed.entry(self.target.clone()) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
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

    /// A worker that is not itself may ask for any address at the port of a name. Landlock bounds only the ports as well.
    fn is_allowed(&self, ConnectRequest { host, ip, port, .. }: &ConnectRequest) -> bool {
        let is_its_own = ip.is_none_or(|ip| host.parse::<IpAddr>().map_or(true, |host| host == ip));
        let allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        is_its_own && allowed.contains_key(&(host.clone(), *port))
    }
}

impl ConnectRequest {
    async fn serve(mut self) {
        let connect = async {
            match self.ip {
                Some(ip) => TcpStream::connect((ip, self.port)).await,
                None => TcpStream::connect((&*self.host, self.port)).await,
            }
        };
        let result = tokio::select! {
            result = connect => result.and_then(TcpStream::into_std),
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
        let allowed = [(); 2].map(|()| connector.allow("localhost", named).unwrap());
        let serving = tokio::spawn(requests.serve());
        let made = connector.connect("localhost", named).await.unwrap();
        assert_eq!(made.local_addr().unwrap(), listener.accept().unwrap().1);
        let refused = connector.connect("localhost", not_named).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        let [first, second] = allowed;
        drop(first);
        connector.connect("localhost", named).await.unwrap();
        drop(second);
        assert!(connector.connect("localhost", named).await.is_err(), "no upstream has it any more");
        drop(connector);
        serving.await.unwrap();
    }

    /// As a confined worker asks after the kernel has refused it.
    #[tokio::test]
    async fn an_address_of_a_name_is_connected_to_for_others_and_another_one_than_named_is_not() {
        let (listener, port) = listener();
        let (connector, requests) = Connector::delegating();
        let _allowed = [connector.allow("app.test", port), connector.allow("127.0.0.2", port)];
        tokio::spawn(requests.serve());
        let sender = connector.requests.as_ref().unwrap();
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let made = ask(sender, "app.test", Some(here), port).await.unwrap();
        assert_eq!(made.local_addr().unwrap(), listener.accept().unwrap().1);
        for host in ["127.0.0.2", "other.test"] {
            let refused = ask(sender, host, Some(here), port).await.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{host}");
        }
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
