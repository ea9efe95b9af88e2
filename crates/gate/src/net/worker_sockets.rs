//! Listening sockets for the workers of this process, and once more for the process that replaces it.

use std::io;

use socket2::Socket;

use super::listener::BoundSocket;

/// The listening sockets of all addresses: each worker's share, and all of them once more for the next process.
#[derive(Debug, Default)]
pub struct WorkerSockets {
    /// For each worker, at least one socket of each address.
    pub workers: Vec<Vec<BoundSocket>>,
    /// Each socket once.
    pub fds: ListenFds,
}

/// Sockets that stay open to be handed on.
#[derive(Debug, Default)]
pub struct ListenFds(Vec<(String, Socket)>);

impl WorkerSockets {
    /// Without sockets yet, for this number of workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self { workers: (0..workers).map(|_| Vec::new()).collect(), fds: ListenFds::default() }
    }

    /// Shares the sockets of an address among the workers: with fewer workers than sockets some have several, with more
    /// several share one. Some worker accepts from each socket.
    ///
    /// # Errors
    /// If there are no descriptors.
    pub fn share(&mut self, bound: &[BoundSocket]) -> io::Result<()> {
        let count = self.workers.len();
        for part in 0..count.max(bound.len()) {
            let socket = &bound[part % bound.len()];
            self.workers[part % count].push(socket.try_clone()?);
        }
        bound.iter().try_for_each(|socket| self.fds.add(socket))
    }
}

impl ListenFds {
    /// Adds another handle of a socket.
    ///
    /// # Errors
    /// If there are no descriptors.
    pub fn add(&mut self, bound: &BoundSocket) -> io::Result<()> {
        self.0.push((bound.socket_name().to_owned(), bound.socket().try_clone()?));
        Ok(())
    }

    /// Adds another handle of a socket that no client connects to, under its own name.
    ///
    /// # Errors
    /// If there are no descriptors.
    pub fn add_other(&mut self, (name, socket): (String, &Socket)) -> io::Result<()> {
        self.0.push((name, socket.try_clone()?));
        Ok(())
    }

    /// Each socket with the name of its address.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Socket)> {
        self.0.iter().map(|(name, socket)| (name.as_str(), socket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::inherited::InheritedSockets;
    use crate::net::listener::ListenAddress;

    fn bound(count: usize) -> Vec<BoundSocket> {
        let address = ListenAddress::Tcp("127.0.0.1:0".parse().unwrap());
        address.bind(count, &mut InheritedSockets::default()).unwrap()
    }

    #[test]
    fn no_socket_and_no_worker_is_left_out_whatever_their_numbers() {
        for (sockets, workers) in [(1, 1), (1, 4), (4, 1), (3, 2), (2, 3), (5, 3)] {
            let bound = bound(sockets);
            let mut shared = WorkerSockets::new(workers);
            shared.share(&bound).unwrap();
            assert!(shared.workers.iter().all(|part| !part.is_empty()), "{sockets} for {workers}");
            let given: usize = shared.workers.iter().map(Vec::len).sum();
            assert_eq!(given, sockets.max(workers), "{sockets} for {workers}");
            assert_eq!(shared.fds.iter().len(), sockets);
        }
    }

    #[test]
    fn what_is_handed_on_is_found_by_the_address_in_the_file() {
        let mut shared = WorkerSockets::new(2);
        let bound = bound(2);
        shared.share(&bound).unwrap();
        let parts = shared.fds.iter();
        let parts = parts.map(|(name, socket)| (name.to_owned(), socket.try_clone().unwrap().into()));
        let mut inherited = InheritedSockets::from_old_process(parts.collect());
        let wanted = ListenAddress::Tcp("127.0.0.1:0".parse().unwrap());
        let again = wanted.bind(1, &mut inherited).unwrap();
        assert_eq!(again.len(), 2, "the file has port 0 as before");
        assert!(again.iter().all(|socket| socket.address() == bound[0].address()));
        let others = ListenAddress::Tls("127.0.0.1:1".parse().unwrap());
        assert!(inherited.take(&others.socket_name()).is_empty());
    }

    #[test]
    fn a_name_that_systemd_did_not_pass_is_a_clear_error() {
        let address = ListenAddress::Systemd { name: "web".to_owned(), tls: false };
        let error = address.bind(1, &mut InheritedSockets::default()).unwrap_err().to_string();
        assert!(error.contains("systemd:web") && error.contains("passed no socket"), "{error}");
    }
}
