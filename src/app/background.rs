//! Background tasks beside the workers: signals, reload, admin pages, snapshots, memory watch, watchdog.
//!
//! All of it lives on the background runtime; the workers know nothing of it. The surprising thing: one of these ends the gate
//! without having been told to, where another process serves by then.

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

    /// Does what there is to do beside serving until there is a reason to stop. Says which other process serves by now, if one
    /// does.
    pub(super) async fn run_background(
        &self,
        reload: &mut Reload,
        signals: Signals,
        trigger: &Trigger,
        kept: ListenFds,
        until: impl Future<Output = ()>,
    ) -> Option<u32> {
        let Signals { mut hang_up, mut reopen, upgrade: mut hand_over } = signals;
        let (kept, pulses) = (Arc::new(kept), &self.heartbeats);
        let handover = BinaryUpgrade { parts: self, fds: &kept, trigger, heartbeats: pulses };
        tokio::select! {
            () = signals::stop() => None,
            () = until => None,
            process = handover.serve(&mut hand_over) => Some(process),
            () = self.supervised("reload", async || reload.serve(self, &mut hang_up).await) => None,
            () = reopen.for_each(async || self.reopen_logs().await) => None,
            () = self.supervised("memory", async || memory::watch(&self.connection_limit).await) => None,
            () = watchdog::watch(pulses, &self.readiness, service_manager::watchdog_interval()) => None,
            () = self.write_snapshots() => None,
        }
    }

    /// Never ends.
    async fn write_snapshots(&self) {
        match &self.snapshotter {
            Some(keeper) => self.supervised("snapshot", async || keeper.serve().await).await,
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
