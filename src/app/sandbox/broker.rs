//! The one thread that keeps the right to open any file and to start a process: for a configuration that is read again, a log that is
//! opened again, a snapshot that is written, and the process that takes over.
//!
//! A directory may be made anew at any time, which landlock cannot be told. This thread has no socket, reads nothing that a
//! client sends, and does nothing but what the background asks for.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use tokio::sync::oneshot;

/// Does for confined threads what they may not.
#[derive(Debug, Clone)]
pub(in crate::app) struct Broker(Option<Sender<BoxedTask>>);

type BoxedTask = Box<dyn FnOnce() + Send>;

impl Broker {
    /// Where there is no sandbox.
    pub(super) fn not_needed() -> Self {
        Self(None)
    }

    /// With the rights that this thread has now.
    pub(super) fn start() -> io::Result<Self> {
        let (jobs, waiting) = channel();
        thread::Builder::new().name("broker".to_owned()).spawn(move || work(&waiting))?;
        Ok(Self(Some(jobs)))
    }

    /// Does it there. May be dropped; what was begun is done.
    ///
    /// # Errors
    /// If it panics, or there is no thread to be had.
    pub(in crate::app) async fn run<T: Send + 'static>(
        &self,
        act: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let Some(jobs) = &self.0 else {
            return tokio::task::spawn_blocking(act).await.map_err(io::Error::other);
        };
        let (done, result) = oneshot::channel();
        // Whoever asked may have gone.
        let job = move || drop(done.send(act()));
        jobs.send(Box::new(job)).map_err(|_| io::ErrorKind::BrokenPipe)?;
        result.await.map_err(|_| io::Error::other("it broke off"))
    }
}

/// Each in a thread of its own: a file may be on a disk that has gone, and the next one has not to wait for it.
fn work(waiting: &Receiver<BoxedTask>) {
    for job in waiting {
        // Without a thread the job is dropped, which the one who asked for it notices.
        let _ = thread::Builder::new().name("broker".to_owned()).spawn(job);
    }
}
