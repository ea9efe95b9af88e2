//! Which buckets an attempt to sign in pays from, in two spellings of one path.

#![allow(clippy::print_stdout, unreachable_pub, reason = "it prints, and a test calls it")]

use http::{HeaderMap, Method};
use tollgate_bucket::{Continuous, Span, Spec, Time};
use tollgate_policy::attempt::{Attempt, AttemptBody, Client};
use tollgate_policy::field::Field;
use tollgate_policy::key::{KeyHasher, KeyPart};
use tollgate_policy::matcher::Pattern;
use tollgate_policy::{Limit, Policy, Route, RouteReading};

/// Runs the example.
///
/// # Errors
/// None is expected.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rate = Spec::Continuous(Continuous::new(10, Span::from_secs(60), 10)?);
    let limits =
        vec![Limit::new("address", rate), Limit { key: vec![KeyPart::User], ..Limit::new("account", rate) }];
    let pattern = Pattern::parse("POST /login.php").map_err(|errors| format!("{errors:?}"))?;
    let user = Field::form("log").into_iter().collect();
    let route = Route {
        reading: RouteReading { user, ..RouteReading::default() },
        limits: vec![0, 1],
        ..Route::new("login", vec![pattern])
    };
    let policy = Policy::new(vec![route], limits);
    let (hasher, headers) = (KeyHasher::default(), HeaderMap::new());
    for path in ["/login.php", "/blog/..//%6cogin.php/x", "/about"] {
        let attempt = Attempt {
            method: &Method::POST,
            path,
            query: None,
            host: "example.org",
            client: Client::from_ip([192, 0, 2, 7].into()),
            headers: &headers,
            body: AttemptBody::Whole(b"log=Anna&pwd=secret"),
            descriptor: None,
            tls: None,
        };
        let found = policy.charges(&attempt, &hasher, Time::from_nanos(1))?;
        let names = found.charges.iter().map(|charge| &*policy.limits[charge.limit].name);
        println!("{path}: {:?}", names.collect::<Vec<_>>());
    }
    Ok(())
}
