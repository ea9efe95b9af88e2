//! Policies written in Rust instead of TOML, and attempts on them.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test uses a part")]

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, Method};
use tollgate::bucket::Spec;
use tollgate::policy::attempt::{Attempt, Client};
use tollgate::policy::key::{Part, PrefixLengths};
use tollgate::policy::matcher::Case;
use tollgate::policy::{Cost, Limit, Mode, Route};

/// A limit for each address, on everybody, that refuses.
pub fn limit(name: &str, spec: Spec) -> Limit {
    Limit {
        name: Arc::from(name),
        key: vec![Part::Ip],
        prefixes: PrefixLengths::default(),
        spec,
        rates: Default::default(),
        exempt: Default::default(),
        mode: Mode::Enforce,
    }
}

/// A route for `POST /NAME`.
pub fn route(name: &str, cost: u32, limits: Vec<usize>) -> Route {
    Route {
        name: Arc::from(name),
        patterns: vec![format!("POST /{name}").parse().unwrap()],
        hosts: Vec::new(),
        case: Case::Insensitive,
        cost: Cost::Fixed(cost),
        body: 65_536,
        in_flight: None,
        limits,
        upstream: None,
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
        body: None,
    }
}
