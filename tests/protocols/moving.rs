//! Upstreams whose names move to other addresses, or have no answer any more, while requests flow.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use support::{Client, Gate, Launch, Reply, Upstream, compile, eventually, get_with, new_directory};

/// A gate in front of `app.test`, whose address is in a file, and two applications at the same port of two addresses.
struct Moving {
    gate: Gate,
    names: PathBuf,
    old: Upstream,
    new: Upstream,
}

const OLD: &str = "127.0.0.2";
const NEW: &str = "127.0.0.3";

impl Moving {
    fn start(tables: &str) -> Self {
        let directory = new_directory();
        let (library, names) = (directory.join("resolver.so"), directory.join("names"));
        compile(&["-shared", "-fPIC", "-O1"], "tests/tools/resolver.c", &library);
        fs::write(&names, format!("{OLD}\n")).unwrap();
        let (old, new) = loop {
            let old = TcpListener::bind((OLD, 0)).unwrap();
            let port = old.local_addr().unwrap().port();
            if let Ok(new) = TcpListener::bind((NEW, port)) {
                break (Upstream::at(old, |_, _| Reply::ok()), Upstream::at(new, |_, _| Reply::ok()));
            }
        };
        let file = format!("upstream = \"http://app.test:{}\"\n{tables}", old.address.port());
        let launch = Launch::new(&file)
            .environment("LD_PRELOAD", library.to_str().unwrap())
            .environment("NAMES", names.to_str().unwrap());
        Self { gate: launch.start(), names, old, new }
    }

    fn point_to(&self, address: &str) {
        // At once: a lookup must not see an empty file.
        let new = self.names.with_extension("new");
        fs::write(&new, format!("{address}\n")).unwrap();
        fs::rename(new, &self.names).unwrap();
    }
}

fn status(client: &mut Client) -> u16 {
    client.send(get_with("/page", ""));
    client.answer().status
}

/// Whether a later request comes to this application; asks without a pause, so that connections to upstreams never rest.
fn comes_to(client: &mut Client, application: &Upstream, within: Duration) -> bool {
    let end = Instant::now() + within;
    while Instant::now() < end {
        let before = application.requests().len();
        assert_eq!(status(client), 200, "no request is lost");
        if application.requests().len() > before {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

#[test]
fn a_name_that_moves_is_followed_on_busy_connections_without_a_lost_request() {
    let moving = Moving::start("");
    let mut client = moving.gate.connect();
    assert_eq!(status(&mut client), 200);
    assert_eq!((moving.old.requests().len(), moving.new.requests().len()), (1, 0));
    moving.point_to(NEW);
    assert!(comes_to(&mut client, &moving.new, Duration::from_secs(60)), "{}", moving.gate.messages());
    let before = moving.old.requests().len();
    assert_eq!([(); 20].map(|()| status(&mut client)), [200; 20]);
    assert_eq!(moving.old.requests().len(), before, "the old address is left for good");
}

/// No connection is used twice, so each request needs an address.
#[test]
fn while_a_name_has_no_answer_its_last_address_is_used() {
    let moving = Moving::start("[proxy]\nupstream_idle = \"0s\"\n");
    let mut client = moving.gate.connect();
    assert_eq!(status(&mut client), 200);
    fs::remove_file(&moving.names).unwrap();
    assert_eq!([(); 20].map(|()| status(&mut client)), [200; 20], "before that is noticed");
    let told = |what: &str| {
        eventually(Duration::from_secs(30), || {
            assert_eq!(status(&mut moving.gate.connect()), 200);
            moving.gate.messages().contains(what)
        })
    };
    assert!(told("app.test has no answer"), "{}", moving.gate.messages());
    assert_eq!([(); 20].map(|()| status(&mut client)), [200; 20]);
    assert_eq!(moving.gate.metric("tollgate_upstream_errors_total", ""), 0.0);
    moving.point_to(NEW);
    assert!(told("app.test has an answer again"), "{}", moving.gate.messages());
    assert_eq!(status(&mut client), 200);
    assert!(!moving.new.requests().is_empty());
}

/// It may be a stranger's by now.
#[test]
fn an_address_that_a_name_no_longer_has_gets_no_new_connection() {
    let moving = Moving::start("[proxy]\nupstream_idle = \"0s\"\n");
    let mut client = moving.gate.connect();
    assert_eq!(status(&mut client), 200);
    moving.point_to("127.0.0.4");
    assert_eq!(status(&mut client), 502, "nothing listens there");
    assert_eq!(moving.old.requests().len(), 1);
}
