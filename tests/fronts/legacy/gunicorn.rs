//! gunicorn with few workers, of which each is held by a slow client for as long as that takes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::SockRef;
use support::{Gate, eventually, get_with, installed, post_with};

use super::{Place, Workers, free_address};

/// `/long` is more than any buffer on the way holds, and leaves a byte in a file.
const APPLICATION: &str = "
import os
held = os.open('held', os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def application(environ, start_response):
    is_long = environ['PATH_INFO'] == '/long'
    environ['wsgi.input'].read()
    body = b'x' * (8 << 20 if is_long else 5)
    os.write(held, b'x' if is_long else b'')
    start_response('200 OK', [('Content-Type', 'text/plain'), ('Content-Length', str(len(body)))])
    return [body]
";

fn started(place: &Place, class: &[&str]) -> (Workers, SocketAddr) {
    let address = free_address();
    let mut command = installed("gunicorn", "gunicorn");
    command
        .args(["--bind", &address.to_string(), "--worker-tmp-dir", "."])
        .args(class)
        .arg("app:application");
    (Workers::listening(command, place, address), address)
}

/// How a client is slow.
#[derive(Clone, Copy)]
enum Sloth {
    Head,
    Body,
    Reader,
}

/// Until it is over: the head a byte at a time, 700 bytes a second of a body, or as many of a long answer.
fn is_slow(how: Sloth, gate: &Gate, is_over: &AtomicBool) {
    let client = gate.connect_from(Ipv4Addr::new(127, 0, 9, 9));
    let mut stream = client.sender();
    let (piece, pause): (&[u8], _) = match how {
        Sloth::Head => (b"x", Duration::from_millis(100)),
        Sloth::Body | Sloth::Reader => (&[b'x'; 70], Duration::from_millis(100)),
    };
    let start = match how {
        Sloth::Head => "GET /".to_owned(),
        Sloth::Body => "POST /upload HTTP/1.1\r\nHost: app.test\r\nContent-Length: 100000\r\n\r\n".to_owned(),
        Sloth::Reader => get_with("/long", ""),
    };
    if let Sloth::Reader = how {
        SockRef::from(&stream).set_recv_buffer_size(4096).unwrap();
    }
    stream.write_all(start.as_bytes()).unwrap();
    while !is_over.load(Ordering::Relaxed) {
        std::thread::sleep(pause);
        match how {
            Sloth::Reader => drop(stream.read(&mut [0; 70])),
            // What the gate has answered and closed is slow no longer.
            Sloth::Head | Sloth::Body if stream.write_all(piece).is_err() => return,
            Sloth::Head | Sloth::Body => {}
        }
    }
}

/// What honest clients are answered while 20 connections of another one are slow; fewer than 200 answers is a failure.
fn answered_beside_slow_clients(gate: &Gate, place: &Place) -> Vec<u16> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..20 {
            let how = [Sloth::Head, Sloth::Body, Sloth::Reader][number % 3];
            let is_over = &is_over;
            scope.spawn(move || is_slow(how, gate, is_over));
        }
        let are_there = || gate.metric("tollgate_connections", "") >= 20.0;
        let hold_half = || place.text("held").len() >= 2;
        let came = eventually(Duration::from_secs(10), || are_there() && hold_half());
        let statuses = std::panic::catch_unwind(|| (0..200).map(|number| honest(gate, number)).collect());
        let stayed = are_there();
        is_over.store(true, Ordering::Relaxed);
        assert!(
            came && stayed,
            "20 slow connections and two workers that they hold, before the first answer and after the last"
        );
        statuses.unwrap()
    })
}

/// From an address and over a connection of its own.
fn honest(gate: &Gate, number: u8) -> u16 {
    let mut client = gate.connect_from(Ipv4Addr::new(127, 0, 10, number + 1));
    client.send(get_with("/", "Connection: close\r\n"));
    client.answer().status
}

fn shows(class: &[&str]) {
    let place = Place::with(&[("app.py", APPLICATION)]);
    let (_gunicorn, address) = started(&place, class);
    let gate = Gate::start(&format!(
        "upstream = \"http://{address}\"\n[proxy]\nupstream_max = 4\nheader_timeout = \"2m\"\n\
         [route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"1 per 1h\"\n"
    ));
    let statuses = answered_beside_slow_clients(&gate, &place);
    assert!(statuses.iter().all(|&status| status == 200), "{statuses:?}\n{}", place.text("said.log"));
    let mut client = gate.connect_from(Ipv4Addr::new(127, 0, 10, 1));
    for status in [200, 429] {
        client.send(post_with("/login", ""));
        assert_eq!(client.answer().status, status);
    }
}

#[test]
fn slow_clients_keep_no_sync_worker_of_gunicorn_from_others() {
    shows(&["--workers", "4"]);
}

/// One process, since each of several takes whatever connection it gets, even if all its own threads are held: no proxy can
/// tell which of them has a thread left.
#[test]
fn slow_clients_keep_no_thread_of_gunicorn_from_others() {
    shows(&["--worker-class", "gthread", "--workers", "1", "--threads", "4"]);
}
