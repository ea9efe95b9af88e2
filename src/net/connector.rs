//! Connects for confined threads: another thread opens the connection and passes it on.
//!
//! A confined worker connects by itself to addresses. It asks for names, because to resolve one takes files, and for whatever
//! it was refused: a port that the configuration named later. Who is confined, and how, is not decided here.

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

/// Connects, from any worker.
#[derive(Debug, Clone, Default)]
pub struct Connector {
    /// `None` where every thread may connect.
    requests: Option<mpsc::Sender<ConnectRequest>>,
    allowed: AllowedTargets,
}

/// What other threads ask for.
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

/// Names and ports that are connected to for others.
type AllowedTargets = Arc<Mutex<HashSet<(String, u16)>>>;

impl Connector {
    /// For threads that may not connect everywhere; what they ask for has to be [served](ConnectRequests::serve).
    #[must_use]
    pub fn delegating() -> (Self, ConnectRequests) {
        let (sender, asks) = mpsc::channel(MAX_REQUESTS);
        let named = AllowedTargets::default();
        (
            Self { requests: Some(sender), allowed: Arc::clone(&named) },
            ConnectRequests { requests: asks, allowed: named },
        )
    }

    /// A configuration names this: others are not connected to on anyone's behalf.
    pub fn allow(&self, host: &str, port: u16) {
        if self.requests.is_some() {
            let mut named = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
            named.insert((host.to_owned(), port));
        }
    }

    /// Connects to a name or an address without brackets.
    ///
    /// # Errors
    /// As the kernel or the resolver says.
    pub async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let Some(asks) = &self.requests else { return TcpStream::connect((host, port)).await };
        if let Ok(address) = host.parse::<IpAddr>() {
            match TcpStream::connect((address, port)).await {
                Err(refused) if refused.kind() == io::ErrorKind::PermissionDenied => {}
                made => return made,
            }
        }
        let (answer, made) = oneshot::channel();
        let ask = ConnectRequest { host: host.to_owned(), port, response: answer };
        asks.send(ask).await.map_err(|_| io::ErrorKind::BrokenPipe)?;
        TcpStream::from_std(made.await.map_err(|_| io::ErrorKind::BrokenPipe)??)
    }
}

impl ConnectRequests {
    /// Connects for others until no one can ask any more.
    pub async fn serve(mut self) {
        while let Some(ask) = self.requests.recv().await {
            if self.is_allowed(&ask) {
                tokio::spawn(ask.serve());
            } else {
                // The worker may have given up already.
                let _ = ask.response.send(Err(io::ErrorKind::PermissionDenied.into()));
            }
        }
    }

    fn is_allowed(&self, ask: &ConnectRequest) -> bool {
        let named = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        named.contains(&(ask.host.clone(), ask.port))
    }
}

impl ConnectRequest {
    async fn serve(mut self) {
        let made = tokio::select! {
            made = TcpStream::connect((&*self.host, self.port)) => made.and_then(TcpStream::into_std),
            () = self.response.closed() => return,
        };
        // As above.
        let _ = self.response.send(made);
    }
}

/// Further ones wait for their turn.
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
        let (connector, asked) = Connector::delegating();
        connector.allow("localhost", named);
        let serving = tokio::spawn(asked.serve());
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
        let (connector, asked) = Connector::delegating();
        connector.connect("127.0.0.1", port).await.unwrap();
        drop(asked);
        assert_eq!(connector.connect("localhost", port).await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        Connector::default().connect("localhost", port).await.unwrap();
    }
}
