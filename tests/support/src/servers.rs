//! Real databases, each in processes of its own, on ports and in a directory of its own, gone when dropped.
//!
//! They are the programs of Debian, as users run them, and dynalite of npm. A test whose server is missing fails, and says
//! which package brings it.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::eventually;

pub mod dynamodb;
pub mod memcached;
pub mod mysql;
pub mod postgres;
pub mod redis;
pub mod sql;
pub mod wire;

/// A database, started for one test.
pub trait Server: Sized {
    /// What people call it.
    const NAME: &'static str;

    /// Starts it empty and waits until it answers.
    ///
    /// # Errors
    /// What is missing on this machine.
    fn start() -> Result<Self, String>;

    /// `store.url`. The same before and after [`start_again`](Self::start_again).
    fn url(&self) -> String;

    /// Stops all its processes for the time being (SIGSTOP).
    fn pause(&mut self);

    /// Lets them go on (SIGCONT).
    fn resume(&mut self);

    /// Ends all its processes at once (SIGKILL).
    fn kill(&mut self);

    /// Starts it again after [`kill`](Self::kill), on the same ports, with an empty database: those that keep what they
    /// have on a disk lose it too. The tables are there again.
    fn start_again(&mut self);

    /// How many questions (reads and writes of keys, not clocks) it has answered since it was started, by its own count.
    fn questions(&mut self) -> u64;

    /// Overwrites every value under our keys with these bytes.
    fn spoil(&mut self, bytes: &[u8]);
}

pub use sql::Tables;

/// Starts the server.
///
/// # Panics
/// If it is not installed.
pub fn started<S: Server>() -> S {
    found(S::NAME, S::start())
}

/// What a test needs besides this machine's own.
///
/// # Panics
/// If it is missing: a test that cannot be run has failed.
pub fn found<T>(name: &str, found: Result<T, String>) -> T {
    found.unwrap_or_else(|missing| panic!("this test needs {name}: {missing}"))
}

/// Mounts tests of a module of the calling crate for one server: each has a server of its own.
#[macro_export]
#[allow(clippy::crate_in_macro_def, reason = "the module is one of the caller")]
macro_rules! mount {
    ($name:ident, $server:ty, $($from:ident)::+: $($test:ident)*) => {
        mod $name {
            use crate::$($from)::+ as mounted;
            $(
                #[test]
                fn $test() {
                    mounted::$test($crate::started::<$server>());
                }
            )*
        }
    };
}

/// The memory of the process itself, which is always there.
pub struct Memory;

impl Server for Memory {
    const NAME: &'static str = "memory";

    fn start() -> Result<Self, String> {
        Ok(Self)
    }

    fn url(&self) -> String {
        "memory:".to_owned()
    }

    fn pause(&mut self) {}

    fn resume(&mut self) {}

    fn kill(&mut self) {}

    fn start_again(&mut self) {}

    fn questions(&mut self) -> u64 {
        0
    }

    fn spoil(&mut self, _bytes: &[u8]) {}
}

/// A process of a server; killed when dropped.
pub struct Process(Child);

impl Process {
    /// Starts it without a terminal.
    ///
    /// # Errors
    /// That it cannot be started, most likely because it is not installed.
    pub fn spawn(command: &mut Command) -> Result<Self, String> {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = quiet.spawn().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
        Ok(Self(child))
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Sends it a signal by its number.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(id, signal).unwrap();
        if signal == rustix::process::Signal::STOP {
            // Each of its threads runs on until it hears of it.
            let stat = format!("/proc/{}/stat", self.id());
            let has_stopped = || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T "));
            assert!(eventually(Duration::from_secs(5), has_stopped), "it goes on");
        }
    }

    pub fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a server listens there.
pub fn wait_for(address: SocketAddr) {
    let listens = || TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok();
    assert!(eventually(Duration::from_secs(30), listens), "no server listens at {address}");
}
