//! Background tasks next to the workers: signals, reload, admin pages, snapshots, memory watch, watchdog.
//!
//! All tasks run on the background runtime; workers do none of this. An upgrade also ends the gate: the new process
//! serves by then.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::reload::Reload;
use super::signals::Signals;
use super::supervisor::supervise;
use super::ticks::next_tick;
use super::upgrade::BinaryUpgrade;
use super::{AppStartError, Parts, alarms, grammar, memory, service_manager, watchdog};
use crate::engine::OpenAttempts;
use crate::event::Event;
use crate::net::listener::{BoundSocket, ListenSocket, Listener, ListenerKind};
use crate::net::shutdown::{Shutdown, Stage, Trigger};
use crate::net::worker_sockets::ListenFds;
use crate::observe::admin::{Admin, AdminSocket, AdminSources, ControlApi};
use crate::observe::history::AttemptHistory;
use crate::proxy::downstream::heartbeat::until_any_works;

impl Parts {
    pub(super) fn serve_admin(
        &self,
        sockets: Vec<BoundSocket>,
        shutdown: &Shutdown,
        control: ControlApi,
    ) -> Result<Vec<JoinHandle<()>>, AppStartError> {
        let admin = Admin::new(Arc::clone(&self.observers.metrics), Arc::clone(&self.draining));
        let admin = admin.with_readiness(Arc::clone(&self.readiness));
        let sources = AdminSources {
            settings: Arc::clone(&self.admin_settings),
            engine: Arc::clone(&self.engine),
            grammar: grammar::of_config(),
            control,
            dry_run: self.dry_run(),
            feed: Arc::clone(&self.observers.feed),
            history: self.observers.history.clone().unwrap_or_default(),
            hitters: self.observers.hitters.clone().unwrap_or_default(),
            wiring: Arc::clone(&self.observers.wiring),
            forget: self.forget_files(),
            clients: self.observers.clients.clone(),
            audit: self.observers.audit.clone(),
        };
        let admin = Arc::new(admin.with_operators(sources));
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
        let (fds, heartbeats) = (Arc::new(fds), &self.serving.heartbeats);
        let binary_upgrade = BinaryUpgrade { parts: self, fds: &fds, trigger, heartbeats };
        tokio::select! {
            () = until => None,
            process = binary_upgrade.serve(&mut upgrade) => Some(process),
            () = self.supervised("reload", async || reload.serve(self, &mut hang_up).await) => None,
            () = reopen.for_each(async || self.observers.reopen(self.sandbox.broker(), self.engine.clock()).await) => None,
            () = self.supervised("memory", async || memory::watch(&self.serving.connection_limit, heartbeats).await) => None,
            () = watchdog::watch(heartbeats, &self.readiness, service_manager::watchdog_interval()) => None,
            () = self.supervised("attack mode", async || alarms::watch(self).await) => None,
            () = self.supervised("wiring", async || self.watch_wiring().await) => None,
            () = self.supervised("certificates", async || self.keep_certificates().await) => None,
            () = self.supervised("expiry of certificates", async || self.watch_expiry().await) => None,
            () = self.supervised("health checks", async || self.check_upstreams().await) => None,
            () = self.supervised("names of upstreams", async || self.look_up_upstreams().await) => None,
            () = self.expire_open_attempts() => None,
            () = self.write_snapshots() => None,
            () = self.keep_history() => None,
            () = self.supervised("rotated logs", async || self.observers.logs.remove_rotated(self.sandbox.broker(), self.engine.clock()).await) => None,
            () = self.supervised("audit of logs", async || self.audit_life().await) => None,
            () = self.supervised("audit in the store", async || self.share_audit().await) => None,
            () = self.supervised("logs", async || self.observers.logs.sweep(self.engine.clock()).await) => None,
        }
    }

    /// Never ends.
    pub(super) async fn watch_wiring(&self) {
        let mut ticks = tokio::time::interval(WIRING_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let warnings = self
                .observers
                .wiring
                .check(|warning| self.observers.events.emit(&Event::Miswired { warning }));
            self.readiness.set_warnings("wiring", warnings);
            until_any_works(&self.serving.heartbeats).await;
        }
    }

    /// Settles attempts whose outcome was not reported in time. Never ends.
    pub(super) async fn expire_open_attempts(&self) {
        if self.serving.open_attempts.is_empty() {
            return std::future::pending().await;
        }
        loop {
            next_tick(EXPIRY_PERIOD).await;
            self.serving.open_attempts.iter().for_each(|open| open.expire(&self.engine));
            if self.serving.open_attempts.iter().all(OpenAttempts::is_empty) {
                until_any_works(&self.serving.heartbeats).await;
            }
        }
    }

    /// Never ends.
    pub(super) async fn write_snapshots(&self) {
        match &self.snapshotter {
            Some(snapshotter) => self.supervised("snapshot", async || snapshotter.serve().await).await,
            None => std::future::pending().await,
        }
    }

    /// Never ends.
    async fn keep_history(&self) {
        let Some(history) = &self.observers.history else { return std::future::pending().await };
        loop {
            history.end_step(self.engine.clock().now());
            next_tick(AttemptHistory::STEP.to_std()).await;
        }
    }

    pub(super) async fn supervised(&self, name: &str, task: impl AsyncFnMut()) {
        supervise(name, &self.observers.events, &self.readiness, task).await;
    }
}

fn admin_socket(socket: BoundSocket) -> io::Result<AdminSocket> {
    let Listener { kind, socket, .. } = socket.listen()?;
    Ok(match socket {
        ListenSocket::Tcp(listener) if kind == ListenerKind::Tls => AdminSocket::Tls(listener),
        ListenSocket::Tcp(listener) => AdminSocket::Tcp(listener),
        ListenSocket::Unix(listener) => AdminSocket::Unix(listener),
    })
}

/// How often attempts without a report are looked through.
const EXPIRY_PERIOD: Duration = Duration::from_secs(1);
/// How often signs of wrong wiring are summed up.
const WIRING_PERIOD: Duration = Duration::from_secs(1);
