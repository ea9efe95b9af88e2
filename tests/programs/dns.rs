//! Names that a server of DNS answers: dnsmasq, whose TTLs the gate follows, and whose SRV records name upstreams.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use support::servers::Process;
use support::{
    Client, Gate, ONE_AN_HOUR, Reply, Upstream, eventually, free_port, get_with, installed, new_directory,
    post_with,
};

/// A server of DNS for names below `test`.
struct DnsServer {
    address: SocketAddr,
    directory: PathBuf,
    process: Option<Process>,
}

impl DnsServer {
    fn new() -> Self {
        // The port of UDP is taken at 127.0.0.1 only.
        let address = SocketAddr::from(([127, 0, 0, 9], free_port()));
        Self { address, directory: new_directory(), process: None }
    }

    /// Starts it with these records, in the place of the one before.
    fn serve(&mut self, ttl: u32, records: &[String]) {
        self.process = None;
        let (file, log) = (self.directory.join("conf"), self.directory.join("log"));
        let frame = format!(
            "no-resolv\nno-hosts\nbind-interfaces\nlisten-address={}\nport={}\nlocal=/test/\nlocal-ttl={ttl}\nlog-queries\n\
             log-facility={}\npid-file=\n",
            self.address.ip(),
            self.address.port(),
            log.display(),
        );
        fs::write(&file, frame + &records.join("\n") + "\n").unwrap();
        let mut command = installed("dnsmasq", "dnsmasq-base");
        command.args(["--keep-in-foreground", "--user=root"]).arg(format!("--conf-file={}", file.display()));
        let started = |log: &str| log.matches(" started, ").count();
        let before = started(&self.log());
        self.process = Some(Process::spawn(&mut command).unwrap());
        assert!(eventually(Duration::from_secs(10), || started(&self.log()) > before), "{}", self.log());
    }

    fn end(&mut self) {
        self.process = None;
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// How often it was asked for this name and kind of record.
    fn asked(&self, kind: &str, name: &str) -> usize {
        self.log().matches(&format!("query[{kind}] {name} ")).count()
    }

    fn line(&self) -> String {
        format!("resolver = \"{}\"\n", self.address)
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.end();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Applications at the same port of these addresses.
fn at_one_port<const N: usize>(last: [u8; N]) -> [Upstream; N] {
    loop {
        let port = free_port();
        let bound = last.map(|last| TcpListener::bind((Ipv4Addr::new(127, 0, 0, last), port)));
        if bound.iter().all(Result::is_ok) {
            return bound.map(|listener| Upstream::at(listener.unwrap(), |_, _| Reply::ok()));
        }
    }
}

fn host(name: &str, last: u8, ttl: u32) -> String {
    format!("host-record={name},127.0.0.{last},{ttl}")
}

fn status(client: &mut Client, path: &str) -> u16 {
    client.send(get_with(path, ""));
    client.answer().status
}

/// How long it takes until a later request comes to this application. Each one has to be answered 200.
fn comes_to(client: &mut Client, path: &str, application: &Upstream) -> Duration {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        let before = application.requests().len();
        assert_eq!(status(client, path), 200, "no request is lost");
        if application.requests().len() > before {
            return start.elapsed();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("no request came to {}", application.address);
}

#[test]
fn a_short_ttl_is_followed_on_busy_connections_without_a_lost_get_and_a_long_one_is_not_asked_again() {
    let mut dns = DnsServer::new();
    let [old, new] = at_one_port([2, 3]);
    let port = old.address.port();
    dns.serve(2, &[host("app.test", 2, 2), host("slow.test", 2, 3600)]);
    let gate = Gate::start(&format!(
        "upstream = \"http://app.test:{port}\"\n[proxy]\n{}[route.slow]\nmatch = \"ANY /slow\"\n\
         upstream = \"http://slow.test:{port}\"\n[limit.address]\nrate = \"1000/s\"\n",
        dns.line()
    ));
    let mut client = gate.connect();
    assert_eq!([status(&mut client, "/"), status(&mut client, "/slow")], [200, 200], "{}", gate.messages());
    assert_eq!((old.requests().len(), new.requests().len()), (2, 0));
    dns.serve(2, &[host("app.test", 3, 2), host("slow.test", 3, 3600)]);
    let took = comes_to(&mut client, "/", &new);
    println!("followed in {took:?}, with {} questions", dns.asked("A", "app.test"));
    assert!(took < Duration::from_secs(20), "{took:?}");
    let before = old.requests().len();
    assert_eq!([(); 10].map(|()| status(&mut client, "/")), [200; 10]);
    assert_eq!(old.requests().len(), before, "the old address is left for good");
    assert_eq!(status(&mut client, "/slow"), 200);
    assert_eq!(old.requests().len(), before + 1, "its answer still holds");
    assert_eq!((dns.asked("A", "slow.test"), dns.asked("AAAA", "slow.test")), (1, 1));
    assert!(dns.asked("A", "app.test") >= 2);
}

/// No connection is used twice, so each request needs an address. A worker could not connect to this port by itself: it is new.
#[test]
fn a_server_that_is_dead_leaves_the_last_answer_also_for_a_port_that_a_reload_brought() {
    let mut dns = DnsServer::new();
    let ([old, new], first) = (at_one_port([2, 3]), Upstream::start());
    let tables = format!("[proxy]\nupstream_idle = \"0s\"\n{}", dns.line());
    dns.serve(1, &[host("app.test", 2, 1)]);
    let gate = Gate::start(&first.file(&tables));
    assert!(gate.reload(&format!("upstream = \"http://app.test:{}\"\n{tables}", old.address.port())));
    let mut client = gate.connect();
    assert_eq!(status(&mut client, "/"), 200, "{}", gate.messages());
    dns.end();
    let told = |what: &str| {
        eventually(Duration::from_secs(30), || {
            assert_eq!(status(&mut gate.connect(), "/"), 200);
            gate.messages().contains(what)
        })
    };
    assert!(told("app.test has no answer"), "{}", gate.messages());
    assert_eq!([(); 10].map(|()| status(&mut client, "/")), [200; 10]);
    assert_eq!((new.requests().len(), gate.metric("tollgate_upstream_errors_total", "")), (0, 0.0));
    dns.serve(1, &[host("app.test", 3, 1)]);
    comes_to(&mut client, "/", &new);
    assert!(gate.messages().contains("app.test has an answer again"));
}

/// With the requests that each of these applications got.
fn counts(applications: &[&Upstream], of: impl FnOnce()) -> Vec<usize> {
    let before: Vec<usize> = applications.iter().map(|one| one.requests().len()).collect();
    of();
    applications.iter().zip(before).map(|(one, before)| one.requests().len() - before).collect()
}

fn srv(target: &str, at: &Upstream, priority: u16, weight: u16) -> String {
    format!("srv-host=_http._tcp.app.test,{target}.test,{},{priority},{weight}", at.address.port())
}

#[test]
fn srv_records_name_upstreams_by_priority_and_weight_and_are_followed_without_a_lost_get() {
    let mut dns = DnsServer::new();
    let [three, one, spare, moved] = [(); 4].map(|()| Upstream::start());
    let hosts: Vec<String> =
        ["a", "b", "c", "d"].iter().map(|name| host(&format!("{name}.test"), 1, 1)).collect();
    let records = |targets: &[String]| [&hosts[..], targets].concat();
    // The server is not there yet.
    let gate = Gate::start(&format!(
        "upstream = \"srv+http://_http._tcp.app.test\"\n[proxy]\nthreads = 1\nupstream_idle = \"0s\"\n{}",
        dns.line()
    ));
    assert!(gate.messages().contains("srv+http://_http._tcp.app.test has no target"), "{}", gate.messages());
    assert_eq!(status(&mut gate.connect(), "/"), 502);
    dns.serve(1, &records(&[srv("a", &three, 10, 3), srv("b", &one, 10, 1), srv("c", &spare, 20, 9)]));
    let serves = || status(&mut gate.connect(), "/") == 200;
    assert!(eventually(Duration::from_secs(30), serves), "{}", gate.messages());
    let mut client = gate.connect();
    let mut get = |times: usize| (0..times).for_each(|_| assert_eq!(status(&mut client, "/"), 200));
    assert_eq!(counts(&[&three, &one, &spare], || get(40)), [30, 10, 0]);

    // It is passed over at the first refusal.
    let address = three.address;
    drop(three);
    assert!(eventually(Duration::from_secs(10), || std::net::TcpStream::connect(address).is_err()));
    assert_eq!(counts(&[&one, &spare], || get(10)), [10, 0]);
    let address = one.address;
    drop(one);
    assert!(eventually(Duration::from_secs(10), || std::net::TcpStream::connect(address).is_err()));
    assert_eq!(counts(&[&spare], || get(10)), [10]);

    dns.serve(1, &records(&[srv("d", &moved, 0, 0)]));
    let took = comes_to(&mut client, "/", &moved);
    println!("followed in {took:?}");
    let mut get = |times: usize| (0..times).for_each(|_| assert_eq!(status(&mut client, "/"), 200));
    assert_eq!(counts(&[&spare, &moved], || get(10)), [0, 10]);

    dns.end();
    assert!(eventually(Duration::from_secs(30), || gate
        .messages()
        .contains("_http._tcp.app.test has no answer")));
    assert_eq!(counts(&[&spare, &moved], || get(10)), [0, 10], "the last answer is kept");
    let upstreams = gate.metrics().lines().filter(|line| line.starts_with("tollgate_upstream_up{")).count();
    assert_eq!(upstreams, 1, "{}", gate.metrics());
}

#[test]
fn an_upstream_of_srv_records_that_a_reload_brings_has_targets_at_the_first_request() {
    let mut dns = DnsServer::new();
    let [before, after] = [(); 2].map(|()| Upstream::start());
    dns.serve(300, &[host("a.test", 1, 300), srv("a", &after, 0, 0)]);
    let tables = format!("[proxy]\n{}", dns.line());
    let gate = Gate::start(&before.file(&tables));
    assert!(gate.reload(&format!("upstream = \"srv+http://_http._tcp.app.test\"\n{tables}")));
    let mut client = gate.connect();
    assert_eq!(status(&mut client, "/"), 200, "{}", gate.messages());
    assert_eq!((before.requests().len(), after.requests().len()), (0, 1));
}

#[test]
fn a_network_follows_the_ttl_of_its_name() {
    let mut dns = DnsServer::new();
    let upstream = Upstream::start();
    dns.serve(5, &[host("home.test", 3, 5), host("office.test", 5, 3600)]);
    let gate = Gate::start(&upstream.file(&format!(
        "[proxy]\n{}{ONE_AN_HOUR}exempt = [\"home\", \"office\"]\n[networks]\nhome = \"dns:home.test\"\n\
         office = \"dns:office.test\"\n",
        dns.line()
    )));
    let two_from = |last: u8| {
        let mut client = gate.connect_from(Ipv4Addr::new(127, 0, 0, last));
        [(); 2].map(|()| {
            client.send(post_with("/login", ""));
            client.answer().status
        })
    };
    let exempt = |last: &[u8]| {
        last.iter().map(|last| (*last, two_from(*last) == [200, 200])).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(exempt(&[3, 5, 6]), BTreeMap::from([(3, true), (5, true), (6, false)]));
    dns.serve(5, &[host("home.test", 4, 5), host("office.test", 5, 3600)]);
    assert!(eventually(Duration::from_secs(30), || gate.messages().contains("home.test is 127.0.0.4 now")));
    assert!(eventually(Duration::from_secs(10), || two_from(4) == [200, 200]));
    assert_eq!(exempt(&[3, 5]), BTreeMap::from([(3, false), (5, true)]));
    // Once before the gate starts, and once when it runs.
    assert_eq!(dns.asked("A", "office.test"), 2);
}
