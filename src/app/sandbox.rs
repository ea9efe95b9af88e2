//! What a gate gives up once its sockets are bound, so that a mistake in what reads foreign bytes reaches no further than it
//! has to.
//!
//! Rights belong to threads, and go on to the threads that these start. All lose capabilities and the way to new privileges.
//! Those of the background also lose the files that are not named and the calls that are not needed. Workers, which read what
//! clients send, keep a short list of calls, connect to named ports only, and open nothing to write. One thread, [`Broker`],
//! keeps the rest, and does what needs it. What a kernel cannot do is told once and left out.

mod broker;
mod capabilities;
mod enforced;
mod landlock_rules;
mod seccomp;
#[cfg(test)]
mod tests;

use std::io;

pub(super) use self::broker::Broker;
use self::enforced::Enforced;
use self::landlock_rules::AllowedPaths;
use crate::config::Config;
use crate::net::connector::{ConnectRequests, Connector};
use crate::proxy::upstream::UpstreamAddress;

/// What is in force in this process.
#[derive(Debug)]
pub(super) struct Sandbox {
    worker: Option<Confinement>,
    broker: Broker,
    connector: Connector,
    /// What workers cannot connect to by themselves, until it is served.
    requests: Option<ConnectRequests>,
    summary: String,
}

/// What a worker may still do.
#[derive(Debug, Clone)]
pub(super) struct Confinement {
    /// It connects to these by itself.
    ports: Vec<u16>,
    /// Whether the kernel can do that, which was told.
    landlock: bool,
    seccomp: bool,
}

impl Sandbox {
    /// Confines this thread, if the configuration wants it, and with it all that are started from now on.
    ///
    /// # Errors
    /// If there is no thread to be had that keeps what the others give up.
    pub(super) fn enter(config: &Config) -> io::Result<Self> {
        if !config.sandbox {
            return Ok(Self::off());
        }
        let mut enforced = Enforced::default();
        enforced.note("no new privileges", capabilities::no_new_privileges());
        enforced.note("no capabilities", capabilities::drop_all());
        landlock_rules::warn_of_unreadable(&config.files);
        let broker = Broker::start()?;
        let landlock = enforced.landlock(landlock_rules::confine(&AllowedPaths::of(config)));
        let seccomp = enforced.note("seccomp", seccomp::confine());
        let worker = Confinement { ports: ports(config), landlock, seccomp };
        let (connector, requests) = Connector::delegating();
        let (worker, requests, words) = (Some(worker), Some(requests), enforced.summary());
        Ok(Self { worker, broker, connector, requests, summary: words })
    }

    fn off() -> Self {
        let (worker, requests, words) = (None, None, "off".to_owned());
        Self {
            worker,
            broker: Broker::not_needed(),
            connector: Connector::default(),
            requests,
            summary: words,
        }
    }

    /// `None` where nothing is given up.
    pub(super) fn worker(&self) -> Option<Confinement> {
        self.worker.clone()
    }

    /// Where files are opened and processes started that were not named at the start.
    pub(super) fn broker(&self) -> &Broker {
        &self.broker
    }

    /// By which workers reach upstreams.
    pub(super) fn connector(&self) -> &Connector {
        &self.connector
    }

    /// What workers ask for; at the first time.
    pub(super) fn take_requests(&mut self) -> Option<ConnectRequests> {
        self.requests.take()
    }

    /// For people.
    pub(super) fn summary(&self) -> &str {
        &self.summary
    }
}

impl Confinement {
    /// Confines this thread for good.
    pub(super) fn confine(&self) {
        let mut enforced = Enforced::default();
        if self.landlock {
            enforced.landlock(landlock_rules::confine_worker(&self.ports));
        }
        if self.seccomp {
            enforced.note("seccomp", seccomp::confine_worker());
        }
    }
}

/// Confines a thread that only writes to what is open already. For one that is started before `Sandbox::enter`, which tells
/// what cannot be given up here either.
pub fn confine_writer() {
    let _ = capabilities::no_new_privileges();
    let _ = capabilities::drop_all();
    let _ = landlock_rules::confine(&AllowedPaths::default());
    let _ = seccomp::confine();
}

/// Of all upstreams.
fn ports(config: &Config) -> Vec<u16> {
    let port = |address: &UpstreamAddress| match address {
        UpstreamAddress::Tcp { port, .. } | UpstreamAddress::Tls { port, .. } => Some(*port),
        UpstreamAddress::Unix(_) => None,
    };
    let mut ports: Vec<_> = config.upstreams.iter().flatten().filter_map(port).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}
