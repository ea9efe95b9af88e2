//! The one thread that may still open any file and start a process: for reloads, reopened logs, snapshots and upgrades.
//!
//! It exists because a directory may be replaced at any time, and landlock follows the old one. The thread has no
//! socket, reads nothing that a client sends, and leaves it to the background tasks what to do.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use tokio::sync::oneshot;

/// Does for confined threads what they may not.
#[derive(Debug, Clone)]
pub(in crate::app) struct Broker(Option<Sender<BoxedTask>>);

type BoxedTask = Box<dyn FnOnce() + Send>;

impl Broker {
    /// For a gate without a sandbox.
    pub(in crate::app) fn not_needed() -> Self {
        Self(None)
    }

    /// With the rights that this thread has now.
    pub(super) fn start() -> io::Result<Self> {
        let (tasks, queue) = channel();
        thread::Builder::new().name("broker".to_owned()).spawn(move || work(&queue))?;
        Ok(Self(Some(tasks)))
    }

    /// Runs a closure there. A caller that drops the future does not stop the closure.
    ///
    /// # Errors
    /// If the closure panics, or no thread can start.
    pub(in crate::app) async fn run<T: Send + 'static>(
        &self,
        act: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let Some(tasks) = &self.0 else {
            return tokio::task::spawn_blocking(act).await.map_err(io::Error::other);
        };
        let (done, result) = oneshot::channel();
        // The caller may have dropped the future.
        let task = move || drop(done.send(act()));
        tasks.send(Box::new(task)).map_err(|_| io::ErrorKind::BrokenPipe)?;
        result.await.map_err(|_| io::Error::other("the task did not finish"))
    }
}

/// Runs each task in its own thread: a file may be on a disk that hangs, and the next task must not wait for it.
fn work(queue: &Receiver<BoxedTask>) {
    for task in queue {
        // Without a thread the task is dropped, and its caller gets an error.
        let _ = thread::Builder::new().name("broker".to_owned()).spawn(task);
    }
}
