//! The new process as the old one sees it: started, spoken to, and killed if it does not take over.
//!
//! It is started by the words of this process's own command line, so that a file that was replaced under that name is what
//! runs. The surprising thing: nothing but the sockets is handed over by inheritance; it reads its configuration for itself.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::super::protocol::{Message, UpgradeChannel};
use crate::app::upgrade::protocol::UPGRADE_ENV;
use crate::net::worker_sockets::ListenFds;

/// A process that does not serve yet; gone if this is dropped.
pub(super) struct NewProcess {
    process: Option<Child>,
    channel: UpgradeChannel,
}

impl NewProcess {
    /// Starts it with these sockets and waits until it is ready.
    pub(super) fn start(kept: &ListenFds) -> io::Result<Self> {
        let (ours, its) = UnixStream::pair()?;
        let mut words = std::env::args_os();
        let program = words.next().map_or_else(std::env::current_exe, |program| Ok(program.into()))?;
        let mut command = Command::new(&program);
        command.args(words).env(UPGRADE_ENV, "1").stdin(Stdio::from(OwnedFd::from(its)));
        // They are about this process.
        for variable in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"] {
            command.env_remove(variable);
        }
        let process = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("{} cannot be started: {error}", program.display()))
        })?;
        // Its end of the pair has to be its alone, or its death would go unnoticed.
        drop(command);
        let mut successor =
            Self { process: Some(process), channel: UpgradeChannel::new(ours, READY_TIMEOUT)? };
        successor.send_sockets_and_wait(kept).map_err(|error| successor.describe_failure(&error))?;
        Ok(successor)
    }

    fn send_sockets_and_wait(&mut self, kept: &ListenFds) -> io::Result<()> {
        self.channel.send_sockets(kept.iter().map(|(place, socket)| (place, socket.as_fd())))?;
        self.channel.expect_message(Message::Ready)
    }

    /// Hands it the buckets, if they are in memory, and waits until it serves.
    pub(super) fn send_snapshot(&mut self, image: Option<&[u8]>) -> io::Result<()> {
        let taken =
            self.channel.send_bytes(image).and_then(|()| self.channel.expect_message(Message::Serving));
        taken.map_err(|error| self.describe_failure(&error))
    }

    /// Leaves it alone, and says which process it is.
    pub(super) fn detach(mut self) -> u32 {
        self.process.take().map_or(0, |process| process.id())
    }

    /// What went wrong, in words for people.
    fn describe_failure(&mut self, error: &io::Error) -> io::Error {
        match (self.exit_status(), error.kind()) {
            (Some(status), _) => io::Error::other(format!("it has ended with {status}")),
            (None, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                io::Error::other(format!("it was not ready after {READY_TIMEOUT:?}"))
            }
            (None, _) => io::Error::other(error.to_string()),
        }
    }

    /// How it ended, if it did: whoever closes its end of the pair is about to.
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
            // It may have ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

const READY_TIMEOUT: Duration = Duration::from_secs(10);
const EXIT_POLLS: u32 = 50;
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(2);
