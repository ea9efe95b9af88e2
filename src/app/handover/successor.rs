//! The process that is to take over: started, spoken to, and killed if it does not.
//!
//! It is started by the words of this process's own command line, so that a file that was replaced under that name is what
//! runs. The surprising thing: nothing but the sockets is handed over by inheritance; it reads its configuration for itself.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::wire::{Wire, Word};
use crate::app::heritage::TAKES_OVER;
use crate::net::inherited::Kept;

/// A process that does not serve yet; gone if this is dropped.
pub(super) struct Successor {
    process: Option<Child>,
    wire: Wire,
}

impl Successor {
    /// Starts it with these sockets and waits until it is ready.
    pub(super) fn start(kept: &Kept) -> io::Result<Self> {
        let (ours, its) = UnixStream::pair()?;
        let mut words = std::env::args_os();
        let program = words.next().map_or_else(std::env::current_exe, |program| Ok(program.into()))?;
        let mut command = Command::new(&program);
        command.args(words).env(TAKES_OVER, "1").stdin(Stdio::from(OwnedFd::from(its)));
        // They are about this process.
        for variable in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"] {
            command.env_remove(variable);
        }
        let process = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("{} cannot be started: {error}", program.display()))
        })?;
        // Its end of the pair has to be its alone, or its death would go unnoticed.
        drop(command);
        let mut successor = Self { process: Some(process), wire: Wire::new(ours, PATIENCE)? };
        successor.get_ready(kept).map_err(|error| successor.why(&error))?;
        Ok(successor)
    }

    fn get_ready(&mut self, kept: &Kept) -> io::Result<()> {
        self.wire.pass(kept.parts().map(|(place, socket)| (place, socket.as_fd())))?;
        self.wire.hear(Word::Ready)
    }

    /// Hands it the buckets, if they are in memory, and waits until it serves.
    pub(super) fn take_over(&mut self, image: Option<&[u8]>) -> io::Result<()> {
        let taken = self.wire.send(image).and_then(|()| self.wire.hear(Word::Serving));
        taken.map_err(|error| self.why(&error))
    }

    /// Leaves it alone, and says which process it is.
    pub(super) fn leave(mut self) -> u32 {
        self.process.take().map_or(0, |process| process.id())
    }

    /// What went wrong, in words for people.
    fn why(&mut self, error: &io::Error) -> io::Error {
        match (self.end(), error.kind()) {
            (Some(status), _) => io::Error::other(format!("it has ended with {status}")),
            (None, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                io::Error::other(format!("it was not ready after {PATIENCE:?}"))
            }
            (None, _) => io::Error::other(error.to_string()),
        }
    }

    /// How it ended, if it did: whoever closes its end of the pair is about to.
    fn end(&mut self) -> Option<ExitStatus> {
        let process = self.process.as_mut()?;
        for _ in 0..LOOKS {
            if let Ok(Some(status)) = process.try_wait() {
                return Some(status);
            }
            std::thread::sleep(GLANCE);
        }
        None
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // It may have ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(10);
const LOOKS: u32 = 50;
const GLANCE: Duration = Duration::from_millis(2);
