//! The layer of tower: real applications of axum on real sockets, and what they see.
//!
//! `tests/stores` has an application and a gate that share a store.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that cannot go on says so, and asks the real clock"
)]

mod http2;
mod messages;
mod mistakes;
mod outcomes;
mod program;
mod readiness;
mod refusals;
mod requests;
mod services;

use std::ops::Deref;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::response::Response;
use tollgate_tower::TollgateLayer;

use self::program::{Program, layer};

/// A bucket of five for each account, which failures empty: decisions read bodies.
const ACCOUNT: &str = "[limit.account]\nkey = \"user\"\nrate = \"5 per 1h\"\ncount = \"failures\"\n";

/// How the application answers a request with this body; `None` is never.
type Answering = fn(&Parts, &[u8]) -> Option<Response>;

/// What the application got.
#[derive(Debug, Clone)]
struct Seen {
    head: Parts,
    body: Vec<u8>,
}

/// A program with an application behind a layer, and what that got.
struct Form {
    program: Program,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Form {
    fn start(policy: &str, answer: Answering) -> Self {
        Self::behind(layer(policy), answer)
    }

    fn behind(layer: TollgateLayer, answer: Answering) -> Self {
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let program = Program::serve(application(Arc::clone(&seen), answer).layer(layer));
        Self { program, seen }
    }

    /// What the application got so far.
    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

impl Deref for Form {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.program
    }
}

fn application(seen: Arc<Mutex<Vec<Seen>>>, answer: Answering) -> Router {
    Router::new().fallback(move |request: Request| {
        let seen = Arc::clone(&seen);
        async move {
            let (head, body) = request.into_parts();
            let body = to_bytes(body, usize::MAX).await.unwrap().to_vec();
            let answered = answer(&head, &body);
            seen.lock().unwrap().push(Seen { head, body });
            match answered {
                Some(answered) => answered,
                None => std::future::pending().await,
            }
        }
    })
}

/// An answer with this status, header and body.
fn answered(status: u16, header: (&str, &str), body: impl Into<Body>) -> Option<Response> {
    Some(Response::builder().status(status).header(header.0, header.1).body(body.into()).unwrap())
}

/// As `support::application` answers: 302 to a right password, 200 to a wrong one, and silence or a panic where it is asked for.
fn form(_: &Parts, body: &[u8]) -> Option<Response> {
    match body {
        body if body.ends_with(b"pwd=silence") => None,
        body if body.ends_with(b"pwd=panic") => panic!("a fault of the application"),
        body if body.ends_with(b"pwd=right-of-alice") => answered(302, ("location", "/home"), ""),
        _ => answered(200, ("content-type", "text/html"), "<p>Login failed</p>"),
    }
}
