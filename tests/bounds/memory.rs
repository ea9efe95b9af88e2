//! A gate that may use little memory, by `RLIMIT_DATA`: what it cannot have ends the process, as in a control group.

use std::io::Write;
use std::net::Ipv4Addr;
use std::time::Duration;

use support::{Client, Launch, Reply, Upstream, eventually, get_with};

const FILE: &str = "[route.login]\nmatch = \"POST /login\"\nuser = \"form:name\"\nbody = \"1MiB\"\n\
                    [limit.account]\nkey = \"user\"\nrate = \"9/s\"\n\
                    [store]\ncapacity = 1000\n\
                    [proxy]\nbody_memory = \"8GiB\"\n";

/// H13: clients that make the gate keep ever more.
#[test]
fn new_connections_are_rejected_before_the_memory_is_used_up() {
    let slow = |request: &[u8], _| {
        let pause = if request.starts_with(b"GET /slow") { 8 } else { 0 };
        Reply::ok().after(Duration::from_secs(pause))
    };
    let upstream = Upstream::answering(slow);
    let file = upstream.file(FILE);
    let usual = Launch::new(&file).start().data();
    let mut gate = Launch::new(&file).data(usual + 100_000).start();
    let mut there = gate.connect();
    there.send(get_with("/slow", ""));
    let body = vec![b'x'; 900_000];
    let mut held: Vec<Client> = Vec::new();
    // Twice what there is, as fast as a line of a gigabit brings it.
    for number in 0..=255 {
        let mut client = gate.connect_from(Ipv4Addr::new(127, 0, 6, number));
        let form = "Content-Type: application/x-www-form-urlencoded\r\n";
        let head = format!("POST /login HTTP/1.1\r\nHost: a\r\n{form}Content-Length: 1000000\r\n\r\n");
        client.send_what_goes(head.as_bytes());
        // A gate that takes no more is given no more.
        let mut sender = client.sender();
        sender.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let _ = sender.write_all(&body);
        std::thread::sleep(Duration::from_millis(8));
        // The thread that watches the memory answers this: on a busy machine it would be overtaken otherwise.
        gate.metrics();
        held.push(client);
    }
    assert!(gate.is_running(), "it has not run out of memory: {}", gate.messages());
    assert!(gate.metric("tollgate_connections_refused_total", "memory") > 50.0, "{}", gate.messages());
    assert!(gate.messages().contains("memory is short"), "{}", gate.messages());
    assert_eq!(there.answer().status, 200, "who is served stays");
    drop(held);
    let newcomer = || {
        let mut client = gate.connect_from(Ipv4Addr::new(127, 0, 7, 1));
        client.send_what_goes(get_with("/", "Connection: close\r\n").as_bytes());
        client.try_answer().is_some_and(|answer| answer.status == 200)
    };
    assert!(eventually(Duration::from_secs(5), newcomer), "others are let in when there is room again");
    assert!(gate.is_running());
}
