//! A program of axum on a thread of its own, with a real socket.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;

use axum::Router;
use axum::extract::ConnectInfo;
use support::{Answer, Client};
use tokio::sync::oneshot;
use tollgate_tower::TollgateLayer;

/// A program that serves until it is dropped.
pub(crate) struct Program {
    pub(crate) address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Program {
    pub(crate) fn serve(app: Router) -> Self {
        let (end, ended) = oneshot::channel::<()>();
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let serve = async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let app = app.into_make_service_with_connect_info::<SocketAddr>();
            tokio::select! {
                served = axum::serve(listener, app) => served.unwrap(),
                _ = ended => {}
            }
        };
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(serve);
        };
        Self { address, end: Some(end), thread: Some(thread::spawn(run)) }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    pub(crate) fn ask(&self, request: impl AsRef<[u8]>) -> Answer {
        let mut client = self.connect();
        client.send(request);
        client.answer()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(Err(panicked)) = self.thread.take().map(thread::JoinHandle::join)
            && !thread::panicking()
        {
            std::panic::resume_unwind(panicked);
        }
    }
}

/// A layer with this policy, which finds senders where axum has them.
pub(crate) fn layer(policy: &str) -> TollgateLayer {
    let layer = TollgateLayer::from_text("policy.toml", policy);
    with_senders(layer.unwrap_or_else(|error| panic!("{error}")))
}

pub(crate) fn with_senders(layer: TollgateLayer) -> TollgateLayer {
    layer.sender_from(|extensions| extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.into()))
}
