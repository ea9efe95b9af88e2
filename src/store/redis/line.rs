//! An open connection: questions of many, answered in turn.
//!
//! It is open only once the server has taken the script, so one that is still loading or wants another password is never
//! taken for well. The surprising thing: a server that says it is read-only is left, since after a failover its name may
//! lead to another.

use std::pin::Pin;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, FromRedisValue, RedisConnectionInfo, RedisError, ServerErrorKind,
    Value,
};
use tokio::sync::mpsc;

use super::address::{Credentials, Host, Login};
use super::pulse::Pulse;
use super::stream::Heard;
use super::{node, reply};
use crate::store::compare_and_swap::StoreError;

/// An open connection; cheap to clone.
#[derive(Clone)]
pub(super) struct Line {
    connection: MultiplexedConnection,
    host: Host,
    /// The name that the server gave the script.
    script: Arc<str>,
    pulse: Arc<Pulse>,
    end: mpsc::Sender<StoreError>,
}

/// What keeps a connection open while it is polled, and says why it ended.
pub(super) struct Driver {
    inner: Polled,
    pulse: Arc<Pulse>,
    end: mpsc::Receiver<StoreError>,
}

type Polled = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Line {
    /// Connects and logs in.
    pub(super) async fn open(host: &Host, login: &Login) -> Result<(Self, Driver), StoreError> {
        let pulse = Arc::new(Pulse::new());
        let stream = Heard::connect(host, login, node::CONNECTING, Arc::clone(&pulse)).await?;
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
        let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        let (mut connection, driver) = MultiplexedConnection::new_with_config(&settings, stream, config)
            .await
            .map_err(|error| reply::fault(&error))?;
        let mut driver: Polled = Box::pin(driver);
        let script = tokio::select! {
            script = log_in(&mut connection, login) => script.map_err(|error| reply::fault(&error))?,
            () = &mut driver => return Err(reply::unreachable("the connection was closed at once")),
        };
        let (sender, end) = mpsc::channel(1);
        let line = Self {
            connection,
            host: host.clone(),
            script: script.into(),
            pulse: Arc::clone(&pulse),
            end: sender,
        };
        Ok((line, Driver { inner: driver, pulse, end }))
    }

    /// Whom it leads to.
    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// Asks once.
    pub(super) async fn ask<T: FromRedisValue>(&self, question: &Cmd) -> Result<T, RedisError> {
        self.pulse.asked();
        self.heeded(question.query_async(&mut self.connection.clone()).await)
    }

    /// Runs the script; `asking` where a cluster said that the key is being moved here. What the server did not know how
    /// to run it has not run, so it is told and asked again.
    pub(super) async fn run(
        &self,
        key: &str,
        arguments: &[&[u8]],
        asking: bool,
    ) -> Result<Value, RedisError> {
        match self.run_known(key, arguments, asking).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                let _: Value = self.ask(&load()).await?;
                self.run_known(key, arguments, asking).await
            }
            answer => answer,
        }
    }

    async fn run_known(&self, key: &str, arguments: &[&[u8]], asking: bool) -> Result<Value, RedisError> {
        let mut question = redis::cmd("EVALSHA");
        question.arg(&*self.script).arg(1).arg(key).arg(arguments);
        if !asking {
            return self.ask(&question).await;
        }
        // Both in one writing: ASKING holds for the next command of the connection, which many share.
        let mut both = redis::pipe();
        both.cmd("ASKING").ignore().add_command(question);
        self.pulse.asked();
        let (value,) = self.heeded(both.query_async(&mut self.connection.clone()).await)?;
        Ok(value)
    }

    /// Leaves the server if it will not take what is asked of this connection, now or later.
    fn heeded<T>(&self, answer: Result<T, RedisError>) -> Result<T, RedisError> {
        if let Err(error) = &answer
            && matches!(error.code(), Some("READONLY" | "NOAUTH"))
        {
            // Somebody may have said so before.
            let _ = self.end.try_send(reply::fault(error));
        }
        answer
    }
}

impl Driver {
    /// Keeps the connection open as long as it lives.
    pub(super) async fn run(mut self) -> StoreError {
        tokio::select! {
            () = self.inner => reply::unreachable("the connection was closed"),
            () = self.pulse.stops(node::SILENCE) => reply::unreachable("it did not answer any more"),
            Some(why) = self.end.recv() => why,
        }
    }
}

/// Sends the name and the password itself, because the crate would not say what the server has against them. What the
/// server calls the script.
async fn log_in(connection: &mut MultiplexedConnection, login: &Login) -> Result<String, RedisError> {
    if let Some(Credentials { name, password }) = &login.credentials {
        let mut auth = redis::cmd("AUTH");
        auth.arg(name).arg(password);
        let _: Value = auth.query_async(connection).await?;
    }
    if login.database != 0 {
        let _: Value = redis::cmd("SELECT").arg(login.database).query_async(connection).await?;
    }
    load().query_async(connection).await
}

fn load() -> Cmd {
    let mut load = redis::cmd("SCRIPT");
    load.arg("LOAD").arg(SCRIPT);
    load
}

/// One compare-and-swap, and the clock.
const SCRIPT: &str = include_str!("swap.lua");
