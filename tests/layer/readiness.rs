//! The contract of tower: an application is called only when it is ready, and has to be ready only for what passes.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Empty, Full};
use support::ONE_AN_HOUR;
use tokio::sync::Notify;
use tollgate_tower::{Sender, ServedBody, TollgateLayer};
use tower::ServiceExt;
use tower_layer::Layer;
use tower_service::Service;

/// Ready while it is open; a clone is not ready before it says so itself.
#[derive(Default)]
struct Guarded {
    shared: Arc<Shared>,
    is_ready: bool,
}

#[derive(Default)]
struct Shared {
    open: AtomicBool,
    calls: AtomicUsize,
    /// Told when it was not ready.
    waits: Notify,
}

impl Clone for Guarded {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), is_ready: false }
    }
}

impl Service<Request<ServedBody<Empty<Bytes>>>> for Guarded {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    /// Wakes nobody: the test polls again.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.is_ready = self.shared.open.load(Ordering::Relaxed);
        if self.is_ready {
            return Poll::Ready(Ok(()));
        }
        self.shared.waits.notify_one();
        Poll::Pending
    }

    fn call(&mut self, _: Request<ServedBody<Empty<Bytes>>>) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "it said that it is ready, and was not called since");
        self.shared.calls.fetch_add(1, Ordering::Relaxed);
        ready(Ok(Response::new(Full::from("served"))))
    }
}

fn attempt() -> Request<Empty<Bytes>> {
    let mut request = Request::post("/login").header("host", "app.test").body(Empty::new()).unwrap();
    request.extensions_mut().insert(Sender::tcp("192.0.2.1:1234".parse().unwrap()));
    request
}

#[tokio::test]
async fn what_is_refused_needs_no_application_that_is_ready() {
    let inner = Guarded::default();
    let shared = Arc::clone(&inner.shared);
    let service = TollgateLayer::from_text("policy.toml", ONE_AN_HOUR).unwrap().layer(inner);
    let mut passes = Box::pin(service.clone().oneshot(attempt()));
    tokio::select! {
        _ = &mut passes => panic!("the application was not ready"),
        () = shared.waits.notified() => {}
    }
    for _ in 0..3 {
        assert_eq!(service.clone().oneshot(attempt()).await.unwrap().status(), 429);
    }
    shared.open.store(true, Ordering::Relaxed);
    assert_eq!(passes.await.unwrap().status(), 200);
    assert_eq!(shared.calls.load(Ordering::Relaxed), 1);
}

/// Nobody checked a password.
#[tokio::test]
async fn who_leaves_while_the_application_is_not_ready_has_made_no_attempt() {
    let inner = Guarded::default();
    let shared = Arc::clone(&inner.shared);
    let service = TollgateLayer::from_text("policy.toml", ONE_AN_HOUR).unwrap().layer(inner);
    let mut leaves = Box::pin(service.clone().oneshot(attempt()));
    tokio::select! {
        _ = &mut leaves => panic!("the application was not ready"),
        () = shared.waits.notified() => {}
    }
    drop(leaves);
    shared.open.store(true, Ordering::Relaxed);
    for status in [200, 429] {
        assert_eq!(service.clone().oneshot(attempt()).await.unwrap().status(), status);
    }
}

#[tokio::test]
async fn services_of_one_layer_share_its_buckets() {
    let layer = TollgateLayer::from_text("policy.toml", ONE_AN_HOUR).unwrap();
    let mut statuses = Vec::new();
    for _ in 0..3 {
        let inner = Guarded::default();
        inner.shared.open.store(true, Ordering::Relaxed);
        statuses.push(layer.layer(inner).oneshot(attempt()).await.unwrap().status().as_u16());
    }
    assert_eq!(statuses, [200, 429, 429]);
}
