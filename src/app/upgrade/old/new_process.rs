//! The new process as the old one sees it: started, spoken to, and killed if it does not take over.
//!
//! It is started with the command line of this process, so a program that was replaced under its name is the one that
//! runs. Only sockets are inherited; the new process reads its configuration itself.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::super::protocol::{Message, UpgradeChannel};
use crate::app::upgrade::protocol::UPGRADE_ENV;
use crate::net::worker_sockets::ListenFds;

/// A process that does not serve yet; killed when this is dropped.
pub(super) struct NewProcess {
    process: Option<Child>,
    channel: UpgradeChannel,
}

impl NewProcess {
    /// Starts it with these sockets and waits until it is ready.
    pub(super) fn start(fds: &ListenFds) -> io::Result<Self> {
        let (ours, its) = UnixStream::pair()?;
        let mut args = std::env::args_os();
        let program = args.next().map_or_else(std::env::current_exe, |program| Ok(program.into()))?;
        let mut command = Command::new(&program);
        command.args(args).env(UPGRADE_ENV, "1").stdin(Stdio::from(OwnedFd::from(its)));
        // These describe this process.
        for variable in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"] {
            command.env_remove(variable);
        }
        let process = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("{} cannot be started: {error}", program.display()))
        })?;
        // Drops our copy of its end of the pair: with the copy open, its death would go unnoticed.
        drop(command);
        let mut new_process =
            Self { process: Some(process), channel: UpgradeChannel::new(ours, READY_TIMEOUT)? };
        new_process.send_sockets_and_wait(fds).map_err(|error| new_process.describe_failure(&error))?;
        Ok(new_process)
    }

    fn send_sockets_and_wait(&mut self, fds: &ListenFds) -> io::Result<()> {
        self.channel.send_sockets(fds.iter().map(|(name, socket)| (name, socket.as_fd())))?;
        self.channel.expect_message(Message::Ready)
    }

    /// Sends the buckets, `None` if they are in a store, and waits until the new process serves.
    pub(super) fn send_snapshot(&mut self, snapshot: Option<&[u8]>) -> io::Result<()> {
        let serving =
            self.channel.send_bytes(snapshot).and_then(|()| self.channel.expect_message(Message::Serving));
        serving.map_err(|error| self.describe_failure(&error))
    }

    /// Lets it run, and returns its process id.
    pub(super) fn detach(mut self) -> u32 {
        self.process.take().map_or(0, |process| process.id())
    }

    /// The error in words for people.
    fn describe_failure(&mut self, error: &io::Error) -> io::Error {
        match (self.exit_status(), error.kind()) {
            (Some(status), _) => io::Error::other(format!("it has ended with {status}")),
            (None, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                io::Error::other(format!("it was not ready after {READY_TIMEOUT:?}"))
            }
            (None, _) => io::Error::other(error.to_string()),
        }
    }

    /// Its exit status. It closes its end of the channel shortly before it exits, so this waits up to 100 ms.
    fn exit_status(&mut self) -> Option<ExitStatus> {
        let process = self.process.as_mut()?;
        for _ in 0..EXIT_POLLS {
            if let Ok(Some(status)) = process.try_wait() {
                return Some(status);
            }
            std::thread::sleep(EXIT_POLL_INTERVAL);
        }
        None
    }
}

impl Drop for NewProcess {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // It may have exited already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

const READY_TIMEOUT: Duration = Duration::from_secs(10);
const EXIT_POLLS: u32 = 50;
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(2);
