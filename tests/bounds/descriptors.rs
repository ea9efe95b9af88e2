//! A gate that has few descriptors.

use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use support::{Client, Launch, Reply, Upstream, eventually, get_with};

/// H5: clients that are there are served while a flood takes all that there is for clients.
#[test]
fn a_flood_of_connections_leaves_descriptors_for_those_who_are_there() {
    let upstream = Upstream::start();
    let mut gate =
        Launch::new(&upstream.file("[proxy]\nupstream_idle = \"100ms\"\n")).descriptors(128).start();
    let mut there: Vec<Client> =
        (1..=10).map(|host| gate.connect_from(Ipv4Addr::new(127, 0, 5, host))).collect();
    for client in &mut there {
        client.send(get_with("/", ""));
        assert_eq!(client.answer().status, 200);
    }
    let address = gate.address;
    let flood: Vec<TcpStream> =
        (0..300).filter_map(|_| TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()).collect();
    assert!(flood.len() > 128, "{}", flood.len());
    let refused = || gate.metric("tollgate_connections_refused_total", "descriptors") > 0.0;
    assert!(eventually(Duration::from_secs(5), refused), "and operators see why");
    // Long enough that connections to the upstream have to be made anew.
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(200));
        for client in &mut there {
            client.send(get_with("/", ""));
            assert_eq!(client.answer().status, 200, "who is there is served");
        }
    }
    drop(flood);
    let newcomer = || {
        let mut client = gate.connect();
        client.send_what_goes(get_with("/", "Connection: close\r\n").as_bytes());
        client.try_answer().is_some_and(|answer| answer.status == 200)
    };
    assert!(eventually(Duration::from_secs(3), newcomer), "and so are others again");
    assert!(gate.is_running() && !gate.messages().contains("panicked"));
}

/// H5: no descriptor is left for a connection to the upstream.
#[test]
fn what_this_machine_has_run_out_of_is_not_the_upstreams_fault() {
    let upstream = Upstream::answering(|_, _| Reply::ok().after(Duration::from_secs(2)));
    let gate = Launch::new(&upstream.file("")).descriptors(64).start();
    let mut clients: Vec<Client> = Vec::new();
    while gate.metric("tollgate_connections_refused_total", "descriptors") == 0.0 && clients.len() < 64 {
        clients.push(gate.connect());
        let came = f64::from(u32::try_from(clients.len()).unwrap());
        eventually(Duration::from_millis(300), || gate.metric("tollgate_connections", "") >= came);
    }
    clients.iter_mut().for_each(|client| client.send_what_goes(get_with("/", "").as_bytes()));
    let answers: Vec<_> = clients.iter_mut().filter_map(Client::try_answer).collect();
    let count = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert!(count(200) > 0 && count(503) > 0 && count(200) + count(503) == answers.len(), "{answers:?}");
    let waits = answers.iter().filter(|answer| answer.status == 503).all(|answer| answer.retry_after() >= 1);
    assert!(waits, "{answers:?}");
    assert!(gate.metric("tollgate_upstream_errors_total", "exhausted") > 0.0);
    assert_eq!(gate.metric("tollgate_upstream_up", ""), 1.0, "it is not put aside");
    drop(clients);
    assert!(eventually(Duration::from_secs(5), || gate.metric("tollgate_connections", "") == 0.0));
    assert_eq!(gate.ask(get_with("/", "")).status, 200);
}
