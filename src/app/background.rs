//! Background tasks beside the workers: signals, reload, admin pages, snapshots, memory watch, watchdog.
//!
//! All tasks run on the background runtime; workers do none of this. An upgrade also ends the gate: the new process
//! serves by then.

use std::io;
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::reload::Reload;
use super::signals::{self, Signals};
use super::supervisor::supervise;
use super::upgrade::BinaryUpgrade;
use super::{AppStartError, Parts, grammar, memory, service_manager, watchdog};
use crate::net::listener::{BoundSocket, ListenSocket};
use crate::net::shutdown::{Shutdown, Stage, Trigger};
use crate::net::worker_sockets::ListenFds;
use crate::observe::admin::{Admin, AdminSocket, ControlApi};

impl Parts {
    pub(super) fn serve_admin(
        &self,
        sockets: Vec<BoundSocket>,
        shutdown: &Shutdown,
        control: ControlApi,
    ) -> Result<Vec<JoinHandle<()>>, AppStartError> {
        let admin = Admin::new(Arc::clone(&self.metrics), Arc::clone(&self.draining));
        let admin = admin.with_readiness(Arc::clone(&self.readiness)).with_control(control);
        let admin = Arc::new(admin.with_buckets(Arc::clone(&self.engine), grammar::of_config()));
        let page = |socket: BoundSocket| {
            let socket = admin_socket(socket).map_err(AppStartError::Worker)?;
            let mut stop = shutdown.clone();
            let stopped = async move { stop.reached(Stage::Stopped).await };
            Ok(tokio::spawn(Arc::clone(&admin).serve(socket, stopped)))
        };
        sockets.into_iter().map(page).collect()
    }

    /// Runs the background tasks until the gate has to stop. Returns the id of the new process if an upgrade ends it.
    pub(super) async fn run_background(
        &self,
        reload: &mut Reload,
        signals: Signals,
        trigger: &Trigger,
        fds: ListenFds,
        until: impl Future<Output = ()>,
    ) -> Option<u32> {
        let Signals { mut hang_up, mut reopen, mut upgrade } = signals;
        let (fds, heartbeats) = (Arc::new(fds), &self.heartbeats);
        let binary_upgrade = BinaryUpgrade { parts: self, fds: &fds, trigger, heartbeats };
        tokio::select! {
            () = signals::stop() => None,
            () = until => None,
            process = binary_upgrade.serve(&mut upgrade) => Some(process),
            () = self.supervised("reload", async || reload.serve(self, &mut hang_up).await) => None,
            () = reopen.for_each(async || self.reopen_logs().await) => None,
            () = self.supervised("memory", async || memory::watch(&self.connection_limit).await) => None,
            () = watchdog::watch(heartbeats, &self.readiness, service_manager::watchdog_interval()) => None,
            () = self.write_snapshots() => None,
        }
    }

    /// Never ends.
    async fn write_snapshots(&self) {
        match &self.snapshotter {
            Some(snapshotter) => self.supervised("snapshot", async || snapshotter.serve().await).await,
            None => std::future::pending().await,
        }
    }

    async fn supervised(&self, name: &str, task: impl AsyncFnMut()) {
        supervise(name, &self.events, &self.readiness, task).await;
    }
}

fn admin_socket(socket: BoundSocket) -> io::Result<AdminSocket> {
    Ok(match socket.listen()?.socket {
        ListenSocket::Tcp(listener) => AdminSocket::Tcp(listener),
        ListenSocket::Unix(listener) => AdminSocket::Unix(listener),
    })
}
