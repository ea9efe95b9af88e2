//! What a gate gives up once its sockets are bound, so that a mistake in what reads foreign bytes reaches no further than it
//! has to.
//!
//! Rights belong to threads, and go on to the threads that these start. All lose capabilities and the way to new privileges.
//! Those of the background also lose the files that are not named and the calls that are not needed. Workers, which read what
//! clients send, keep a short list of calls, connect to named ports only, and open nothing to write. One thread, [`Outside`],
//! keeps the rest: it reads the configuration again and starts the process that takes over. What a kernel cannot do is told
//! once and left out.

mod calls;
mod capabilities;
mod files;
mod outside;
mod report;
#[cfg(test)]
mod tests;

use std::io;

use self::files::Places;
pub(super) use self::outside::Outside;
use self::report::Report;
use crate::config::Config;
use crate::proxy::upstream::UpstreamAddress;

/// What is in force in this process.
#[derive(Debug)]
pub(super) struct Sandbox {
    worker: Option<Worker>,
    outside: Outside,
    words: String,
}

/// What a worker may still do.
#[derive(Debug, Clone)]
pub(super) struct Worker {
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
            return Ok(Self { worker: None, outside: Outside::everywhere(), words: "off".to_owned() });
        }
        let mut report = Report::default();
        report.note("no new privileges", capabilities::no_new_privileges());
        report.note("no capabilities", capabilities::drop_all());
        files::warn_of_unreadable(&config.files);
        let outside = Outside::start()?;
        let landlock = report.landlock(files::confine(&Places::of(config)));
        let seccomp = report.note("seccomp", calls::confine());
        let worker = Worker { ports: ports(config), landlock, seccomp };
        Ok(Self { worker: Some(worker), outside, words: report.words() })
    }

    /// `None` where nothing is given up.
    pub(super) fn worker(&self) -> Option<Worker> {
        self.worker.clone()
    }

    /// Where files are opened and processes started that were not named at the start.
    pub(super) fn outside(&self) -> &Outside {
        &self.outside
    }

    /// For people.
    pub(super) fn words(&self) -> &str {
        &self.words
    }
}

impl Worker {
    /// Confines this thread for good.
    pub(super) fn confine(&self) {
        let mut report = Report::default();
        if self.landlock {
            report.landlock(files::confine_worker(&self.ports));
        }
        if self.seccomp {
            report.note("seccomp", calls::confine_worker());
        }
    }
}

/// Confines a thread that only writes to what is open already. For one that is started before [`Sandbox::enter`], which tells
/// what cannot be given up here either.
pub fn confine_writer() {
    let _ = capabilities::no_new_privileges();
    let _ = capabilities::drop_all();
    let _ = files::confine(&Places::default());
    let _ = calls::confine();
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
