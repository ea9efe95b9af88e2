//! `directory`: failures of one account stay below what locks it, by whatever name and route they come.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use support::application::{
    ROUTE, application, cookie, form, refused_of_500_at_once, right, sign_in, sign_in_with, status_from,
};
use support::{Gate, Launch, Reply, Upstream};

/// Ten failures lock an account: strangers have four at once, all together six.
const DIRECTORY: &str = "[limit.directory]\ndirectory = \"10 per 30m\"\n";
const KEYS: &str = "[device]\nsecret = \"${file:{dir}/device.keys}\"\n";
const DAV: &str = "[route.dav]\nmatch = \"ANY /dav/**\"\nuser = \"basic\"\npassword = \"basic\"\n\
                   failure = { status = 401 }\nsuccess = { status = 207 }\n";

fn gate(application: &Upstream, tables: &str) -> Gate {
    let launch = Launch::new(&application.file(&format!("{ROUTE}{DIRECTORY}{KEYS}{tables}")));
    launch.beside("device.keys", "0123456789abcdef0123456789abcdef").start()
}

/// The status of a wrong or right password by a known device.
fn known(gate: &Gate, device: &str, password: &str) -> u16 {
    gate.ask(sign_in_with(&format!("Cookie: {device}\r\n"), &form("alice", password))).status
}

fn known_device(gate: &Gate) -> String {
    let answer = gate.ask(sign_in_with("", &form("alice", &right("alice"))));
    format!("tollgate_device={}", cookie(&answer, "tollgate_device").unwrap())
}

#[test]
fn strangers_and_known_devices_together_stay_below_the_threshold() {
    let application = application();
    let gate = gate(&application, "");
    let device = known_device(&gate);
    let strangers = (0..50_u32).map(|number| {
        status_from(&gate, Ipv4Addr::from(0x7f03_0001 + number), "alice", &format!("wrong{number}"))
    });
    assert_eq!(strangers.filter(|status| *status == 200).count(), 4);
    assert_eq!(known(&gate, &device, &right("alice")), 302);
    let owners = (0..9).filter(|number| known(&gate, &device, &format!("wrong{number}")) == 200).count();
    assert_eq!(owners, 2, "what strangers have left");
    assert_eq!(known(&gate, &device, &right("alice")), 429, "one more failure could not be taken back");
    assert_eq!(status_from(&gate, Ipv4Addr::new(127, 4, 0, 1), "bob", "wrong"), 200, "another account");
}

#[test]
fn names_with_and_without_a_domain_are_one_account_on_all_routes() {
    let application = application();
    let gate = gate(&application, DAV);
    let names = ["alice", "CORP%5Calice", "Alice%40corp.example"];
    assert_eq!(names.map(|name| gate.ask(sign_in(name, "wrong")).status), [200; 3]);
    let dav = |credentials: &str| {
        gate.ask(format!(
            "PROPFIND /dav/a HTTP/1.1\r\nHost: app.test\r\nAuthorization: Basic {credentials}\r\n\r\n"
        ))
        .status
    };
    // corp\alice:x
    assert_ne!(dav("Y29ycFxhbGljZTp4"), 429);
    assert_eq!(dav("Y29ycFxhbGljZTp4"), 429);
    let others =
        ["alice", "other%5Calice", "alice%40elsewhere", "%EF%BC%A1lice%EF%BC%A0corp", "CORP%2Falice"];
    assert_eq!(others.map(|name| gate.ask(sign_in(name, "wrong")).status), [429; 5]);
    assert_eq!(gate.ask(sign_in("corp%5Cbob", "wrong")).status, 200);
}

#[test]
fn only_where_there_is_a_directory_is_a_domain_no_part_of_the_name() {
    let application = application();
    let tables = "[limit.account]\nkey = \"user\"\nrate = \"1 per 1h\"\ncount = \"failures\"\n";
    let gate = Gate::start(&application.file(&format!("{ROUTE}{tables}")));
    for name in ["alice", "CORP%5Calice", "alice%40corp"] {
        assert_eq!(gate.ask(sign_in(name, "wrong")).status, 200, "{name}");
    }
}

#[test]
fn of_500_guesses_at_once_four_reach_the_directory() {
    let application = application();
    let gate = gate(&application, "");
    assert_eq!(refused_of_500_at_once(&[gate]), 496);
}

#[test]
fn a_repeat_that_is_free_elsewhere_counts_here() {
    let application = application();
    let route = ROUTE.replace("[route.login]\n", "[route.login]\nrepeats = \"free\"\n");
    let other = "[limit.account]\nkey = \"user\"\nrate = \"2 per 1h\"\ncount = \"failures\"\n";
    let gate = Gate::start(&application.file(&format!("{route}{DIRECTORY}{other}")));
    let statuses: Vec<u16> = (0..6).map(|_| gate.ask(sign_in("alice", "old")).status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 429, 429]);
}

/// The application may try both, and some try each sign-in twice.
#[test]
fn an_attempt_that_may_count_twice_is_counted_twice() {
    let application = application();
    let tables = format!("cost = 2\n{DIRECTORY}");
    let gate = Gate::start(&application.file(&format!("{ROUTE}{tables}")));
    let statuses = ["one", "two", "three"].map(|password| gate.ask(sign_in("alice", password)).status);
    assert_eq!(statuses, [200, 200, 429]);
    let both = ROUTE.replace("\"form:log\"", "[\"form:log\", \"basic\"]");
    let gate = Gate::start(&application.file(&format!("{both}{DIRECTORY}")));
    let basic = "Authorization: Basic YWxpY2U6eA==\r\n";
    let statuses =
        ["one", "two", "three"].map(|word| gate.ask(sign_in_with(basic, &form("alice", word))).status);
    assert_eq!(statuses, [200, 200, 429]);
}

/// A success gives back its own token only, and a right password is never a failure.
#[test]
fn fifty_right_passwords_in_a_row_are_admitted() {
    let application = application();
    let gate = gate(&application, "");
    assert!((0..50).all(|_| gate.ask(sign_in("alice", &right("alice"))).status == 302));
}

/// The application is a directory that locks at five failures, none more than two seconds after the one before.
#[test]
fn a_directory_locks_behind_a_bucket_of_less_than_its_threshold_and_not_behind_this_one() {
    let locks = |limit: &str| {
        let (locks, row) = (Arc::new(AtomicU32::new(0)), Mutex::new((0, None::<Instant>)));
        let counted = Arc::clone(&locks);
        let directory = Upstream::answering(move |_, _| {
            let (now, mut row) = (Instant::now(), row.lock().unwrap());
            let is_row = row.1.is_some_and(|last| now - last <= Duration::from_secs(2));
            *row = (if is_row { row.0 + 1 } else { 1 }, Some(now));
            counted.fetch_add(u32::from(row.0 == 5), Ordering::Relaxed);
            Reply::text("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        });
        let gate = Gate::start(&directory.file(&format!("{ROUTE}{limit}")));
        for number in 0..20 {
            gate.ask(sign_in("alice", &format!("wrong{number}")));
            std::thread::sleep(Duration::from_millis(100));
        }
        locks.load(Ordering::Relaxed)
    };
    assert_eq!(locks("[limit.account]\nkey = \"user\"\nrate = \"4 per 2s\"\ncount = \"failures\"\n"), 1);
    assert_eq!(locks("[limit.directory]\ndirectory = \"5 per 2s\"\n"), 0);
}
