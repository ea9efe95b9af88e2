//! An open connection: pipelined requests of many callers.
//!
//! A connection counts as open once the server has loaded the script, so a server that is still loading its data or
//! wants another password is never taken for a working one. A connection to a server that has become read-only is
//! closed, because after a failover its name may lead to another. Reconnecting is left to [`node`](super::node).

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, FromRedisValue, RedisConnectionInfo, RedisError, ServerErrorKind,
    Value,
};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::address::{Credentials, Host, Login};
use super::liveness::Liveness;
use super::reply;
use super::stream::RedisStream;
use crate::compare_and_swap::StoreError;

/// An open connection.
pub(super) struct RedisConnection {
    connection: MultiplexedConnection,
    host: Host,
    /// The script's digest, as the server returned it.
    script: String,
    liveness: Arc<Liveness>,
    clock_reads: ClockReads,
    end: mpsc::Sender<StoreError>,
}

/// When the server's clock was last asked for with a request.
#[derive(Default)]
struct ClockReads(Mutex<Option<Instant>>);

/// Keeps a connection open while it is polled, and returns why it ended.
pub(super) struct RedisDriver {
    inner: DriverFuture,
    liveness: Arc<Liveness>,
    end: mpsc::Receiver<StoreError>,
}

type DriverFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl RedisConnection {
    /// Connects, logs in and loads the script.
    pub(super) async fn open(host: &Host, login: &Login) -> Result<(Self, RedisDriver), StoreError> {
        let liveness = Arc::new(Liveness::new());
        let (mut connection, mut driver) = dial(host, login, &liveness).await?;
        let script = drive(&mut driver, log_in(&mut connection, login)).await?;
        let (sender, end) = mpsc::channel(1);
        let opened = Self {
            connection,
            host: host.clone(),
            script,
            liveness: Arc::clone(&liveness),
            clock_reads: ClockReads::default(),
            end: sender,
        };
        Ok((opened, RedisDriver { inner: driver, liveness, end }))
    }

    /// The server's address.
    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// Sends one command.
    pub(super) async fn call<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, RedisError> {
        self.liveness.mark_sent();
        self.check_rejection(command.query_async(&mut self.connection.clone()).await)
    }

    /// Writes a record that is gone at once, and returns the time.
    pub(super) async fn probe(&self, key: &str) -> Result<Value, RedisError> {
        let mut both = redis::pipe();
        both.cmd("SET").arg(key).arg("").arg("PX").arg(1).ignore().cmd("TIME");
        self.liveness.mark_sent();
        let (time,) = self.check_rejection(both.query_async(&mut self.connection.clone()).await)?;
        Ok(time)
    }

    /// Runs the script on these keys; `asking` after an `ASK` redirection. A server that does not know the script has run nothing, so
    /// the script is loaded and run again.
    pub(super) async fn run(
        &self,
        keys: &[String],
        arguments: &[&[u8]],
        asking: bool,
    ) -> Result<Value, RedisError> {
        match self.run_known(keys, arguments, asking).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                let _: Value = self.call(&load()).await?;
                self.run_known(keys, arguments, asking).await
            }
            answer => answer,
        }
    }

    async fn run_known(
        &self,
        keys: &[String],
        arguments: &[&[u8]],
        asking: bool,
    ) -> Result<Value, RedisError> {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.script).arg(keys.len()).arg(keys).arg(arguments);
        if self.clock_reads.is_due() {
            command.arg("clock");
        }
        if !asking {
            return self.call(&command).await;
        }
        // Both in one write: `ASKING` applies to the next command of the connection, which many callers share.
        let mut both = redis::pipe();
        both.cmd("ASKING").ignore().add_command(command);
        self.liveness.mark_sent();
        let (value,) = self.check_rejection(both.query_async(&mut self.connection.clone()).await)?;
        Ok(value)
    }

    /// Ends the connection if the server will not serve it, now or later.
    fn check_rejection<T>(&self, answer: Result<T, RedisError>) -> Result<T, RedisError> {
        if let Err(error) = &answer
            && matches!(error.code(), Some("READONLY" | "NOAUTH"))
        {
            // The channel is full if this was reported before.
            let _ = self.end.try_send(reply::store_error(error));
        }
        answer
    }
}

impl ClockReads {
    /// Whether the next request is to bring the clock: a few of many do, because it makes a swap a tenth dearer.
    fn is_due(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| last.elapsed() >= CLOCK_INTERVAL);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

impl RedisDriver {
    /// Keeps the connection open until it breaks, and returns why.
    pub(super) async fn run(mut self) -> StoreError {
        tokio::select! {
            () = self.inner => StoreError::unreachable("the connection was closed"),
            () = self.liveness.wait_for_silence(SILENCE_TIMEOUT) => StoreError::unreachable("it stopped answering"),
            Some(why) = self.end.recv() => why,
        }
    }
}

/// Asks a server that is not a store one command, on its own connection; logs in only if the server wants that.
pub(super) async fn ask_once(host: &Host, login: &Login, command: &Cmd) -> Result<Value, StoreError> {
    let (mut connection, mut driver) = dial(host, login, &Arc::new(Liveness::new())).await?;
    let answer = async {
        match command.query_async(&mut connection).await {
            Err(error) if RedisError::code(&error) == Some("NOAUTH") => {
                authenticate(&mut connection, login).await?;
                command.query_async(&mut connection).await
            }
            answer => answer,
        }
    };
    drive(&mut driver, answer).await
}

async fn dial(
    host: &Host,
    login: &Login,
    liveness: &Arc<Liveness>,
) -> Result<(MultiplexedConnection, DriverFuture), StoreError> {
    let stream = RedisStream::connect(host, login, CONNECT_TIMEOUT, Arc::clone(liveness)).await?;
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_connection_timeout(None)
        .set_pipeline_buffer_size(MAX_WAITING);
    let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
    let opened = MultiplexedConnection::new_with_config(&settings, stream, config).await;
    let (connection, driver) = opened.map_err(|error| reply::store_error(&error))?;
    Ok((connection, Box::pin(driver)))
}

/// Waits for an answer while the connection is kept open.
async fn drive<T>(
    driver: &mut DriverFuture,
    answer: impl Future<Output = Result<T, RedisError>>,
) -> Result<T, StoreError> {
    tokio::select! {
        answer = answer => answer.map_err(|error| reply::store_error(&error)),
        () = driver => Err(StoreError::unreachable("the connection was closed at once")),
    }
}

/// Logs in and loads the script; returns its digest. `AUTH` is sent here, because the crate would not report the server's
/// error.
async fn log_in(connection: &mut MultiplexedConnection, login: &Login) -> Result<String, RedisError> {
    authenticate(connection, login).await?;
    if login.database != 0 {
        let _: Value = redis::cmd("SELECT").arg(login.database).query_async(connection).await?;
    }
    load().query_async(connection).await
}

async fn authenticate(connection: &mut MultiplexedConnection, login: &Login) -> Result<(), RedisError> {
    if let Some(Credentials { name, password }) = &login.credentials {
        let mut auth = redis::cmd("AUTH");
        auth.arg(name).arg(password);
        let _: Value = auth.query_async(connection).await?;
    }
    Ok(())
}

fn load() -> Cmd {
    let mut load = redis::cmd("SCRIPT");
    load.arg("LOAD").arg(SCRIPT);
    load
}

/// One compare-and-swap, a step where it is lost, and the clock.
const SCRIPT: &str = include_str!("swap.lua");

/// How old a reading of the clock may be while requests are sent.
const CLOCK_INTERVAL: Duration = Duration::from_millis(100);

/// Requests that wait to be sent together.
const MAX_WAITING: usize = 1024;

/// How long an attempt to connect and to log in may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a server may be silent while a request waits.
pub(super) const SILENCE_TIMEOUT: Duration = Duration::from_secs(1);
