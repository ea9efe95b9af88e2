//! What a gate gives up once its sockets are bound, so that a mistake in a parser does little harm.
//!
//! Rights belong to threads, and pass on to the threads that these start. All threads lose capabilities and the way to
//! new privileges. The background threads also lose the files that are not named and the calls that are not needed.
//! Workers, which read what clients send, keep a short list of calls, connect to named ports only, and open nothing to
//! write. One thread, [`Broker`], keeps the rest and does the work that needs it. A kernel that lacks a feature gets
//! one warning, and the gate goes on without it.

mod broker;
mod capabilities;
mod enforced;
mod landlock_rules;
mod seccomp;
#[cfg(test)]
mod tests;

use std::io;

use rustix::thread::CapabilitySet;

pub(super) use self::broker::Broker;
use self::enforced::{Enforced, MissingRestriction};
use self::landlock_rules::AllowedPaths;
use super::Parts;
use super::kernel::KernelOffload;
use crate::config::Config;
use crate::event::{Event, Trouble, TroubleKind};
use crate::net::connector::{ConnectRequests, Connector};
use crate::proxy::upstream::{UpstreamAddress, UpstreamTarget};

/// The confinement of this process.
#[derive(Debug)]
pub(super) struct Sandbox {
    worker: Option<Confinement>,
    broker: Broker,
    connector: Connector,
    /// Connections that workers cannot open by themselves, until [`take_requests`](Sandbox::take_requests) takes them.
    requests: Option<ConnectRequests>,
    summary: String,
    missing: Vec<MissingRestriction>,
}

/// The rights of a worker.
#[derive(Debug, Clone)]
pub(super) struct Confinement {
    /// The upstream ports that a worker connects to by itself.
    ports: Vec<u16>,
    /// Whether the kernel offers it; if not, a warning says so.
    landlock: bool,
    seccomp: bool,
}

impl Sandbox {
    /// Confines this thread, if the configuration enables that, and with it all threads that it starts from now on.
    ///
    /// The thread of `kernel` keeps the one capability that it needs, and the broker, for the process of an upgrade.
    ///
    /// # Errors
    /// If one of these threads cannot start.
    pub(super) fn enter(config: &Config, kernel: Option<KernelOffload>) -> io::Result<Self> {
        if !config.process.sandbox {
            kernel.map_or(Ok(()), |kernel| kernel.start(|| {}))?;
            return Ok(Self::off());
        }
        let mut enforced = Enforced::default();
        enforced.note("no new privileges", capabilities::no_new_privileges());
        let broker = match kernel {
            None => {
                enforced.note("no capabilities", capabilities::drop_all());
                landlock_rules::warn_of_unreadable(&config.process.files);
                Broker::start()?
            }
            Some(kernel) => {
                let kept = capabilities::drop_all_but(CapabilitySet::NET_ADMIN);
                let broker = Broker::start()?;
                kernel.start(confine_opened)?;
                enforced
                    .note("no capabilities but CAP_NET_ADMIN", kept.and_then(|()| capabilities::drop_all()));
                landlock_rules::warn_of_unreadable(&config.process.files);
                broker
            }
        };
        let landlock = enforced.landlock(landlock_rules::confine(&AllowedPaths::of(config)));
        let seccomp = enforced.note("seccomp", seccomp::confine());
        let worker = Confinement { ports: ports(config), landlock, seccomp };
        let (connector, requests) = Connector::delegating();
        let (worker, requests, summary) = (Some(worker), Some(requests), enforced.summary());
        Ok(Self { worker, broker, connector, requests, summary, missing: enforced.into_missing() })
    }

    fn off() -> Self {
        let (worker, requests, summary) = (None, None, "off".to_owned());
        let (broker, connector) = (Broker::not_needed(), Connector::default());
        Self { worker, broker, connector, requests, summary, missing: Vec::new() }
    }

    /// `None` where nothing is given up.
    pub(super) fn worker(&self) -> Option<Confinement> {
        self.worker.clone()
    }

    /// Opens files and starts processes that were not named at the start.
    pub(super) fn broker(&self) -> &Broker {
        &self.broker
    }

    /// How workers reach upstreams.
    pub(super) fn connector(&self) -> &Connector {
        &self.connector
    }

    /// The connections that workers ask for; `Some` only at the first call.
    pub(super) fn take_requests(&mut self) -> Option<ConnectRequests> {
        self.requests.take()
    }

    /// As `/api/v1/status` shows it.
    pub(super) fn summary(&self) -> &str {
        &self.summary
    }
}

impl Parts {
    /// Tells the operator's webhooks what the kernel cannot enforce.
    pub(super) fn tell_of_sandbox(&self) {
        for MissingRestriction { name, why } in &self.sandbox.missing {
            let (kind, at) = (TroubleKind::SandboxIncomplete, self.engine.clock().now());
            let trouble = Trouble { kind, subject: name, why, at };
            self.observers.events.emit(&Event::Trouble(trouble));
        }
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

/// Confines a thread that only writes to open files, and starts before `Sandbox::enter`. It stays silent:
/// `Sandbox::enter` warns of what the kernel cannot do.
pub fn confine_writer() {
    let _ = capabilities::no_new_privileges();
    let _ = capabilities::drop_all();
    confine_opened();
}

/// Leaves a thread what it has opened, and its capabilities.
fn confine_opened() {
    let _ = landlock_rules::confine(&AllowedPaths::default());
    let _ = seccomp::confine();
}

/// The TCP ports of all upstreams.
fn ports(config: &Config) -> Vec<u16> {
    let port = |target: &UpstreamTarget| match &target.address {
        UpstreamAddress::Tcp { port, .. } | UpstreamAddress::Tls { port, .. } => Some(*port),
        UpstreamAddress::Unix(_) => None,
    };
    let mut ports: Vec<_> = config.upstreams.iter().flatten().filter_map(port).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}
