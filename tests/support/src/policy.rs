//! Policies written in Rust instead of TOML, and attempts on them.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test uses a part")]

use std::net::IpAddr;

use http::{HeaderMap, Method};
use tollgate_bucket::Spec;
use tollgate_policy::attempt::{Attempt, AttemptBody, Client};
use tollgate_policy::{Cost, Limit, Route, RouteReading};

/// A limit for each address, on all clients, that refuses.
pub fn limit(name: &str, spec: Spec) -> Limit {
    Limit::new(name, spec)
}

/// A route for `POST /NAME`.
pub fn route(name: &str, cost: u32, limits: Vec<usize>) -> Route {
    let patterns = vec![format!("POST /{name}").parse().unwrap()];
    Route {
        reading: RouteReading { cost: Cost::Fixed(cost), ..RouteReading::default() },
        limits,
        ..Route::new(name, patterns)
    }
}

/// A plain `POST` to this path.
pub fn attempt<'a>(path: &'a str, client: IpAddr, headers: &'a HeaderMap) -> Attempt<'a> {
    Attempt {
        method: &Method::POST,
        path,
        query: None,
        host: "example.org",
        client: Client::from_ip(client),
        headers,
        body: AttemptBody::Unread,
        descriptor: None,
        tls: None,
    }
}
