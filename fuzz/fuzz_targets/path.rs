//! A pattern, a path and a query, one on each line: the readings of the path, and whether the pattern matches.
//!
//! Strict matching, which chooses an upstream, must never succeed where the matching that charges a limit does not.

#![no_main]

use std::net::Ipv4Addr;

use http::{HeaderMap, Method};
use libfuzzer_sys::fuzz_target;
use tollgate::policy::attempt::{Attempt, AttemptBody, Client};
use tollgate::policy::canonical::Case;
use tollgate::policy::canonical::{check, readings, split, strict_reading};
use tollgate::policy::matcher::{MethodReading, Pattern};
use tollgate::policy::path_info;

fuzz_target!(|text: &str| {
    let mut lines = text.splitn(3, '\n');
    let pattern: Option<Pattern> = lines.next().and_then(|line| line.parse().ok());
    let path = lines.next().unwrap_or_default();
    if check(path).is_err() {
        return;
    }
    let readings = readings(path);
    let strict = strict_reading(path);
    for reading in &readings {
        assert!(reading.starts_with(b"/"), "{path:?} reads as {reading:?}");
        let empty = reading[..].windows(2).any(|pair| pair == b"//");
        assert!(!empty, "{path:?} reads as {reading:?}");
        let segments = split(reading);
        path_info::for_each(&segments, |behind| {
            assert!(behind.len() <= segments.len(), "{reading:?} means {behind:?}");
        });
    }
    assert!(readings.contains(&strict), "{path:?}: {strict:?} is none of {readings:?}");

    let Some(pattern) = pattern else { return };
    let attempt = Attempt {
        method: &Method::POST,
        path,
        query: lines.next(),
        host: "example.org",
        client: Client::from_ip(Ipv4Addr::LOCALHOST.into()),
        headers: &HeaderMap::new(),
        body: AttemptBody::Unread,
        descriptor: None,
        tls: None,
    };
    let matches = |case| {
        readings.iter().any(|reading| pattern.matches(&attempt, &split(reading), MethodReading::AsSent, case))
    };
    assert!(matches(Case::Sensitive) <= matches(Case::Insensitive), "{pattern:?} of {path:?}");
    for case in [Case::Sensitive, Case::Insensitive] {
        assert!(
            pattern.matches_strictly(&attempt, &split(&strict)) <= matches(case),
            "{pattern:?} of {path:?}"
        );
    }
});
