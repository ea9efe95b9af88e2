//! memcached as Debian has it: one server, or three that share the keys.
//!
//! Its memory is all there is of it, so a directory is not needed, and starting again is starting empty.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::process::Signal;

use super::{Process, Server, wait_for};
use crate::{free_port, installed};

/// One server.
pub type Memcached = Servers<1>;

/// Three.
pub type Memcacheds = Servers<3>;

pub struct Servers<const N: usize> {
    nodes: [Node; N],
}

/// One process and how it was started.
pub struct Node {
    address: SocketAddr,
    arguments: Vec<String>,
    process: Option<Process>,
    /// Connections of ours, which ask for no key.
    ours: u64,
}

impl Node {
    /// Starts it with more arguments, and waits until it answers.
    pub fn start(arguments: &[&str]) -> Result<Self, String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let arguments = arguments.iter().map(ToString::to_string).collect();
        let mut node = Self { address, arguments, process: None, ours: 0 };
        node.run()?;
        Ok(node)
    }

    /// Starts it, again if need be.
    pub fn run(&mut self) -> Result<(), String> {
        let port = self.address.port().to_string();
        let mut command = installed("memcached", "memcached");
        // As root it wants to know who to be; otherwise it does not look at it.
        command.args(["-u", "nobody", "-l", "127.0.0.1", "-U", "0", "-t", "1", "-p", &port[..]]);
        self.process = Some(Process::spawn(command.args(&self.arguments))?);
        wait_for(self.address);
        // The listening socket is one, and who waited for it is another.
        self.ours = 2;
        Ok(())
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn kill(&mut self) {
        self.process = None;
    }

    fn signal(&self, signal: Signal) {
        self.process.as_ref().unwrap().signal(signal);
    }

    /// What it answers, up to the line that is `END`, or to the first one for what has no end.
    pub fn ask(&mut self, question: &[u8]) -> Vec<String> {
        self.ours += 1;
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.write_all(question).unwrap();
        let mut lines = Vec::new();
        for line in BufReader::new(stream).lines() {
            let line = line.unwrap();
            if line == "END" {
                break;
            }
            lines.push(line);
            if question.starts_with(b"ms ") {
                break;
            }
        }
        lines
    }

    fn stat(&mut self, name: &str) -> u64 {
        let prefix = format!("STAT {name} ");
        let lines = self.ask(b"stats\r\n");
        lines.iter().find_map(|line| line.strip_prefix(&prefix)).unwrap().parse().unwrap()
    }

    /// Reads and writes of keys; each connection of a store begins with one of either.
    fn questions(&mut self) -> u64 {
        let asked = self.stat("cmd_get") + self.stat("cmd_set");
        let connections = self.stat("total_connections") - self.ours;
        asked.saturating_sub(2 * connections)
    }

    fn spoil(&mut self, bytes: &[u8]) {
        for line in self.ask(b"lru_crawler metadump all\r\n") {
            let key = line.strip_prefix("key=").unwrap().split(' ').next().unwrap();
            // Colons are written as `%3A`.
            let key = key.replace("%3A", ":");
            let question = [format!("ms {key} {}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
            assert_eq!(self.ask(&question), ["HD"]);
        }
    }
}

impl<const N: usize> Servers<N> {
    /// Each of them.
    pub fn nodes(&mut self) -> &mut [Node; N] {
        &mut self.nodes
    }
}

impl<const N: usize> Server for Servers<N> {
    const NAME: &'static str = "memcached";

    fn start() -> Result<Self, String> {
        let nodes = (0..N).map(|_| Node::start(&[])).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { nodes: nodes.try_into().ok().unwrap() })
    }

    fn url(&self) -> String {
        let addresses: Vec<String> = self.nodes.iter().map(|node| node.address.to_string()).collect();
        format!("memcached://{}", addresses.join(","))
    }

    fn pause(&mut self) {
        self.nodes.iter().for_each(|node| node.signal(Signal::STOP));
    }

    fn resume(&mut self) {
        self.nodes.iter().for_each(|node| node.signal(Signal::CONT));
    }

    fn kill(&mut self) {
        self.nodes.iter_mut().for_each(Node::kill);
    }

    fn start_again(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.run().unwrap());
    }

    fn questions(&mut self) -> u64 {
        self.nodes.iter_mut().map(Node::questions).sum()
    }

    fn spoil(&mut self, bytes: &[u8]) {
        self.nodes.iter_mut().for_each(|node| node.spoil(bytes));
    }
}
