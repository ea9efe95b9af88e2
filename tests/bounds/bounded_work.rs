//! What a client sends costs work in proportion to its length, whatever it is, and a target no more than so much.
//!
//! Work is counted, or compared with other work of the same run by the time of this thread alone: how fast the machine is
//! and who else is busy on it makes no difference. How many microseconds it is says `benches/parsers.rs`, and the fuzz
//! target `slow` looks for more inputs.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use crate::parsers;

use http::{HeaderMap, Method};
use parsers::{PARSERS, Parser, TARGETS, thread_time};
use tollgate::policy::attempt::{Attempt, AttemptBody, Client};
use tollgate::policy::canonical::{PathError, TooManyReadings, check, readings, split};
use tollgate::policy::{Policy, Route};

/// The time of the fastest of some runs, in nanoseconds.
fn fastest(parser: &Parser, input: &[u8], runs: u32) -> u64 {
    (0..runs).map(|_| thread_time(|| (parser.read)(input))).min().unwrap()
}

/// L12: readings of a path are bounded in work and not only in number: eight kilobytes had 240 of up to 4,096 segments.
#[test]
fn a_path_that_is_accepted_has_few_segments_in_all_its_readings() {
    let (mut accepted, mut refused) = (0, 0);
    for parser in TARGETS {
        for length in [64, 256, 1024, 8 * 1024] {
            for input in parser.inputs(length) {
                let path = std::str::from_utf8(&input).unwrap_or_default().split('?').next().unwrap();
                match check(path) {
                    Ok(()) => accepted += 1,
                    Err(PathError::TooManyReadings(TooManyReadings)) => {
                        refused += 1;
                        continue;
                    }
                    Err(_) => continue,
                }
                let segments: usize = readings(path).iter().map(|reading| split(reading).len()).sum();
                assert!(segments <= 256, "{segments} segments of {path:.100}");
            }
        }
    }
    assert!(accepted > 500 && refused > 500, "{accepted} accepted, {refused} refused");
}

/// L12: what is not read in all ways is not let pass: a program that forgets to check a path counts it everywhere.
#[test]
fn an_unchecked_path_counts_for_every_route_that_its_method_fits() {
    let route = |name: &str, pattern: &str| Route::new(name, vec![pattern.parse().unwrap()]);
    let policy = Policy::new(
        vec![route("a", "POST /login"), route("b", "GET /x"), route("c", "ANY /a/*")],
        Vec::new(),
    );
    let path = "/%2f\\..;a/%253f%C0%AF".repeat(20);
    assert!(check(&path).is_err());
    let attempt = Attempt {
        method: &Method::POST,
        path: &path,
        query: None,
        host: "",
        client: Client::UnixSocket,
        headers: &HeaderMap::new(),
        body: AttemptBody::Unread,
        descriptor: None,
        tls: None,
    };
    assert_eq!(policy.routes_of(&attempt)[..], [0, 2]);
}

/// L12: what people and their programs ask for is not among what is refused.
#[test]
fn long_paths_of_honest_programs_are_read() {
    let segment = "%E3%83%89%E3%82%AD%E3%83%A5%E3%83%A1%E3%83%B3%E3%83%88";
    for path in [
        format!("/remote.php/dav/files/user/{}", [segment; 12].join("/")),
        format!(
            "/iiif/3/{}/full/max/0/default.jpg",
            "https%3A%2F%2Fexample.org%2F".to_owned() + &["a%20b"; 30].join("%2F")
        ),
        format!(
            "/unsafe/300x200/smart/{}",
            "https%253A%252F%252Fexample.org%252F".to_owned() + &["a"; 12].join("%252F") + "%253Fv%253D1"
        ),
        format!(
            "/_api/web/GetFileByServerRelativeUrl('{}')/$value",
            "%2fsites%2fx%2fShared%20Documents%2fa%20b.docx"
        ),
        format!("/wiki/{}", "%E1%84%92%E1%85%A1%E1%86%AB%E1%84%80%E1%85%B3%E1%86%AF".repeat(25)),
        format!("/page;jsessionid={}/{}", "0A".repeat(32), "caf%C3%A9"),
        format!("/signed/{}", "aB0_-".repeat(1600)),
        format!("/token/{}==", "aB0+".repeat(1600)),
        format!("/{}", ["a"; 250].join("/")),
    ] {
        assert_eq!(check(&path), Ok(()), "{path}");
    }
}

/// L12: eight times as long is not sixty-four times the work.
#[test]
fn every_reader_works_in_proportion_to_what_it_reads() {
    for parser in PARSERS.iter().chain(TARGETS) {
        let long = (parser.longest / 16).max(2048);
        let short = long / 8;
        for (one, other) in parser.inputs(short).zip(parser.inputs(long)) {
            let is_linear = |runs| {
                let (one, other) = (fastest(parser, &one, runs), fastest(parser, &other, runs));
                other <= one.max(FLOOR) * 40
            };
            let shown = String::from_utf8_lossy(&other);
            assert!(is_linear(1) || is_linear(5) || is_linear(50), "{}: {shown:.100}", parser.name);
        }
    }
}

/// L12: no path costs many times as much as an ordinary target.
#[test]
fn the_worst_path_is_not_far_from_an_ordinary_target() {
    let ordinary = b"/wiki/%E3%83%89%E3%82%AD%E3%83%A5/Main?action=edit&section=12&from=%2Fwiki%2F&token=0123456789abcdef";
    for parser in TARGETS.iter().filter(|parser| parser.name.starts_with("target: path")) {
        let ordinary = fastest(parser, ordinary, 200);
        for input in parser.inputs(parser.longest) {
            let is_close = |runs| fastest(parser, &input, runs) <= ordinary * TIMES_AN_ORDINARY_ONE;
            let shown = String::from_utf8_lossy(&input);
            assert!(is_close(1) || is_close(5) || is_close(50), "{}: {shown:.100}", parser.name);
        }
    }
}

/// M7: no byte of a body costs many times as much as one of an ordinary form does.
#[test]
fn the_worst_body_is_not_far_from_an_ordinary_one() {
    const LENGTH: usize = 64 * 1024;
    let form = PARSERS.iter().find(|parser| parser.name == "form").unwrap();
    let ordinary = form.input(&[b"&comment=a+text+of+some+words%2C+as+people+write+them&id=17"], LENGTH);
    let ordinary = fastest(form, &ordinary, 20).max(LENGTH as u64);
    for parser in PARSERS.iter().filter(|parser| parser.is_of_bodies()) {
        for input in parser.inputs(LENGTH) {
            let is_close = |runs| fastest(parser, &input, runs) <= ordinary * TIMES_AN_ORDINARY_FORM;
            let shown = String::from_utf8_lossy(&input);
            assert!(is_close(1) || is_close(5) || is_close(20), "{}: {shown:.100}", parser.name);
        }
    }
}

/// Nanoseconds that are too few to be compared.
const FLOOR: u64 = 20_000;
const TIMES_AN_ORDINARY_ONE: u64 = 40;
/// An ordinary form costs a nanosecond a byte. Tests are built without inlining, which makes the worst a hundred times
/// as slow, and depends on the machine.
const TIMES_AN_ORDINARY_FORM: u64 = 200;
