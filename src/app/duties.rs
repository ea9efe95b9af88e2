//! What there is to do beside serving: signals, files, pages, snapshots, and to look whether all of it goes on.
//!
//! All of it lives on the background runtime; the workers know nothing of it. The surprising thing: one of these ends the gate
//! without having been told to, where another process serves by then.

use std::io;
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::handover::Handover;
use super::reload::Reload;
use super::signals::{self, Signals};
use super::supervised::supervised;
use super::{Parts, StartError, grammar, memory, service_manager, vitals};
use crate::net::inherited::Kept;
use crate::net::listener::{Bound, Listening};
use crate::net::shutdown::{Shutdown, Stage, Trigger};
use crate::observe::admin::{Admin, Control, Socket};

impl Parts {
    pub(super) fn serve_pages(
        &self,
        sockets: Vec<Bound>,
        shutdown: &Shutdown,
        control: Control,
    ) -> Result<Vec<JoinHandle<()>>, StartError> {
        let admin = Admin::new(Arc::clone(&self.metrics), Arc::clone(&self.draining));
        let admin = admin.with_trouble(Arc::clone(&self.trouble)).with_control(control);
        let admin = Arc::new(admin.with_buckets(Arc::clone(&self.engine), grammar::of_the_file()));
        let page = |socket: Bound| {
            let socket = pages_socket(socket).map_err(StartError::Worker)?;
            let mut stop = shutdown.clone();
            let stopped = async move { stop.reached(Stage::Stopped).await };
            Ok(tokio::spawn(Arc::clone(&admin).serve(socket, stopped)))
        };
        sockets.into_iter().map(page).collect()
    }

    /// Does what there is to do beside serving until there is a reason to stop. Says which other process serves by now, if one
    /// does.
    pub(super) async fn do_duties(
        &self,
        reload: &mut Reload,
        signals: Signals,
        trigger: &Trigger,
        kept: Kept,
        until: impl Future<Output = ()>,
    ) -> Option<u32> {
        let Signals { mut hang_up, mut reopen, mut hand_over } = signals;
        let (kept, pulses) = (Arc::new(kept), &self.pulses);
        let handover = Handover { parts: self, kept: &kept, trigger, pulses };
        tokio::select! {
            () = signals::stop() => None,
            () = until => None,
            process = handover.serve(&mut hand_over) => Some(process),
            () = self.supervised("reload", async || reload.serve(self, &mut hang_up).await) => None,
            () = reopen.each(async || self.reopen_logs().await) => None,
            () = self.supervised("memory", async || memory::watch(&self.guard).await) => None,
            () = vitals::watch(pulses, &self.trouble, service_manager::watchdog()) => None,
            () = self.keep() => None,
        }
    }

    /// Never ends.
    async fn keep(&self) {
        match &self.keeper {
            Some(keeper) => self.supervised("snapshot", async || keeper.serve().await).await,
            None => std::future::pending().await,
        }
    }

    async fn supervised(&self, name: &str, task: impl AsyncFnMut()) {
        supervised(name, &self.events, &self.trouble, task).await;
    }
}

fn pages_socket(socket: Bound) -> io::Result<Socket> {
    Ok(match socket.listen()?.socket {
        Listening::Tcp(listener) => Socket::Tcp(listener),
        Listening::Unix(listener) => Socket::Unix(listener),
    })
}
