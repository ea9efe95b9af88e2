//! Health checks: an upstream that is ill gets no request while another one is well, and where none is well all are tried.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use support::{Gate, ONE_AN_HOUR, Reply, Upstream, check_file, eventually, free_port, get_with, post};

const QUICK: &str = "[proxy]\nhealth_interval = \"1s\"\n";
const PATIENCE: Duration = Duration::from_secs(20);

/// An application that answers `/healthz` with 200 while it is well, and counts all other requests.
struct Application {
    upstream: Upstream,
    is_well: Arc<AtomicBool>,
    served: Arc<AtomicUsize>,
}

impl Application {
    fn start() -> Self {
        let (is_well, served) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
        let (well, count) = (Arc::clone(&is_well), Arc::clone(&served));
        let upstream = Upstream::answering(move |request, _| {
            if !request.starts_with(b"GET /healthz?full=1 ") {
                count.fetch_add(1, Ordering::SeqCst);
                return Reply::ok();
            }
            match well.load(Ordering::SeqCst) {
                true => Reply::text_and_close("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell"),
                false => {
                    Reply::text_and_close("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
                }
            }
        });
        Self { upstream, is_well, served }
    }

    fn set(&self, is_well: bool) {
        self.is_well.store(is_well, Ordering::SeqCst);
    }

    fn served(&self) -> usize {
        self.served.load(Ordering::SeqCst)
    }

    fn label(&self) -> String {
        format!("upstream=\"http://{}\"", self.upstream.address)
    }
}

fn file(applications: &[&Application], tables: &str) -> String {
    let addresses = applications.iter().map(|one| format!("\"http://{}\"", one.upstream.address));
    let list = addresses.collect::<Vec<_>>().join(", ");
    format!("upstream = [{list}]\nhealth = \"GET /healthz?full=1\"\n{tables}")
}

fn is_up(gate: &Gate, application: &Application) -> bool {
    gate.metric("tollgate_upstream_up", &application.label()) > 0.0
}

fn get(gate: &Gate) -> u16 {
    gate.ask(get_with("/page", "")).status
}

#[test]
fn an_ill_upstream_gets_no_request_until_it_is_well_again() {
    let (one, other) = (Application::start(), Application::start());
    let gate = Gate::start(&file(&[&one, &other], QUICK));
    let passed = || gate.metric("tollgate_upstream_checks_total", "result=\"passed\"");
    assert!(eventually(PATIENCE, || passed() >= 2.0), "{}", gate.metrics());
    one.set(false);
    assert!(eventually(PATIENCE, || !is_up(&gate, &one)), "{}", gate.messages());
    let before = (one.served(), other.served());
    assert_eq!([(); 20].map(|()| get(&gate)), [200; 20]);
    assert_eq!((one.served(), other.served()), (before.0, before.1 + 20));
    assert!(gate.messages().contains("fails its health check: it answers 503"), "{}", gate.messages());
    assert!(gate.metric("tollgate_upstream_checks_total", "result=\"failed\"") >= 3.0, "three in a row");
    one.set(true);
    assert!(eventually(PATIENCE, || is_up(&gate, &one)), "{}", gate.messages());
    assert_eq!([(); 20].map(|()| get(&gate)), [200; 20]);
    assert!(one.served() >= before.0 + 5, "it has its share again");
    assert!(gate.messages().contains("passes its health check again"), "{}", gate.messages());
}

#[test]
fn where_all_are_ill_all_are_tried_and_the_log_and_readiness_say_so() {
    let (one, other) = (Application::start(), Application::start());
    let gate = Gate::start(&file(&[&one, &other], QUICK));
    one.set(false);
    other.set(false);
    assert!(eventually(PATIENCE, || !is_up(&gate, &one) && !is_up(&gate, &other)));
    assert!(eventually(PATIENCE, || gate.messages().contains("all upstreams of a group fail")));
    let before = (one.served(), other.served());
    assert_eq!([(); 20].map(|()| get(&gate)), [200; 20]);
    assert!(one.served() > before.0 && other.served() > before.1, "each in turn");
    let ready = || {
        let mut client = support::Client::connect(gate.admin);
        client.send("GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
        let answer = client.answer();
        (answer.status, answer.text().contains("all upstreams of a group fail their health checks"))
    };
    assert_eq!(ready(), (200, true), "the gate serves");
    one.set(true);
    assert!(eventually(PATIENCE, || ready() == (200, false)));
    assert_eq!(get(&gate), 200);
}

#[test]
fn no_request_is_lost_while_upstreams_die_and_come_back() {
    let ports = [free_port(), free_port()];
    let list = ports.map(|port| format!("\"http://127.0.0.1:{port}\"")).join(", ");
    let gate = Gate::start(&format!("upstream = [{list}]\nhealth = \"GET /healthz\"\n{QUICK}"));
    let mut processes = ports.map(|port| Some(Dying::start(port)));
    let end = Instant::now() + Duration::from_secs(4);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut statuses = Vec::new();
                    while Instant::now() < end {
                        statuses.push(get(&gate));
                    }
                    statuses
                })
            })
            .collect();
        for round in 0..6 {
            let at = round % 2;
            // As long as a restart takes.
            std::thread::sleep(Duration::from_millis(300));
            processes[at] = None;
            std::thread::sleep(Duration::from_millis(200));
            processes[at] = Some(Dying::start(ports[at]));
        }
        let statuses: Vec<u16> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        let lost = statuses.iter().filter(|status| **status != 200).count();
        assert!(lost == 0 && statuses.len() > 100, "{lost} of {}: {}", statuses.len(), gate.messages());
    });
}

/// An application that resets all of its connections when it ends, as a process that is killed.
struct Dying {
    listener: socket2::Socket,
    open: Arc<std::sync::Mutex<Vec<std::net::TcpStream>>>,
}

impl Dying {
    fn start(port: u16) -> Self {
        use std::io::{Read as _, Write as _};
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        listener.set_reuse_address(true).unwrap();
        listener.bind(&address.into()).unwrap();
        listener.listen(64).unwrap();
        let open = Arc::new(std::sync::Mutex::new(Vec::<std::net::TcpStream>::new()));
        let (accepting, all) = (listener.try_clone().unwrap(), Arc::clone(&open));
        std::thread::spawn(move || {
            while let Ok((stream, _)) = accepting.accept() {
                let mut stream = std::net::TcpStream::from(stream);
                all.lock().unwrap().push(stream.try_clone().unwrap());
                std::thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(1..) = stream.read(&mut buffer) {
                        // Long enough that some are under way when it ends.
                        std::thread::sleep(Duration::from_millis(5));
                        if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { listener, open }
    }
}

impl Drop for Dying {
    fn drop(&mut self) {
        let _ = self.listener.shutdown(std::net::Shutdown::Both);
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

#[test]
fn a_request_that_can_be_sent_only_once_is_not_sent_to_another_upstream() {
    let closing = || Upstream::answering(|_, _| Reply::BytesAndClose(Vec::new()));
    let (one, other) = (closing(), closing());
    let list = format!("upstream = [\"http://{}\", \"http://{}\"]\n", one.address, other.address);
    let gate = Gate::start(&list);
    assert_eq!(gate.ask(post("/order", "a=b")).status, 502);
    assert_eq!(one.requests().len() + other.requests().len(), 1);
    assert_eq!(get(&gate), 502, "a safe one is sent to another upstream, once");
    assert_eq!(one.requests().len() + other.requests().len(), 3);
}

#[test]
fn a_request_with_a_malformed_answer_is_not_sent_to_another_upstream() {
    let malformed = || {
        Upstream::answering(|_, _| {
            Reply::text_and_close("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n")
        })
    };
    let (one, other) = (malformed(), malformed());
    let gate =
        Gate::start(&format!("upstream = [\"http://{}\", \"http://{}\"]\n", one.address, other.address));
    assert_eq!(get(&gate), 502);
    assert_eq!(one.requests().len() + other.requests().len(), 1);
}

#[test]
fn a_reload_begins_and_ends_checks() {
    let (one, other) = (Application::start(), Application::start());
    let checked = file(&[&one, &other], QUICK);
    let unchecked = checked.replace("health = \"GET /healthz?full=1\"\n", "").replace(QUICK, "");
    let gate = Gate::start(&unchecked);
    one.set(false);
    assert!(gate.reload(&checked));
    assert!(eventually(PATIENCE, || !is_up(&gate, &one)), "the first result counts alone");
    assert!(gate.reload(&unchecked));
    assert!(is_up(&gate, &one), "{}", gate.messages());
    assert!(gate.messages().contains("read again: `health` changed"), "{}", gate.messages());
    let checks = gate.metric("tollgate_upstream_checks_total", "");
    // Longer than the interval.
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(gate.metric("tollgate_upstream_checks_total", ""), checks);
}

#[test]
fn a_check_that_hangs_fails_in_time_and_a_page_without_end_passes() {
    let hangs = Upstream::answering(|_, _| Reply::Silence);
    let endless = Upstream::answering(|request, _| match request.starts_with(b"GET /healthz ") {
        true => Reply::Pieces(
            vec![b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n".to_vec(), vec![b'x'; 400_000]],
            Duration::from_millis(100),
        ),
        false => Reply::ok(),
    });
    let list = format!("upstream = [\"http://{}\", \"http://{}\"]\n", hangs.address, endless.address);
    let gate = Gate::start(&format!("{list}health = \"GET /healthz\"\n{QUICK}health_timeout = \"500ms\"\n"));
    let up = |upstream: &Upstream| {
        gate.metric("tollgate_upstream_up", &format!("upstream=\"http://{}\"", upstream.address))
    };
    assert!(eventually(PATIENCE, || up(&hangs) == 0.0), "{}", gate.messages());
    let is_told = || gate.messages().contains("no answer within 500ms");
    assert!(eventually(PATIENCE, is_told), "{}", gate.messages());
    assert!(eventually(PATIENCE, || up(&endless) == 1.0), "{}", gate.messages());
    assert_eq!([(); 10].map(|()| get(&gate)), [200; 10]);
}

#[test]
fn routes_have_checks_of_their_own() {
    let (all, own) = (Application::start(), Application::start());
    let route = format!(
        "{ONE_AN_HOUR}[route.own]\nmatch = \"ANY /own/**\"\nupstream = \"http://{}\"\nhealth = \"HEAD /\"\n",
        own.upstream.address
    );
    let gate = Gate::start(&file(&[&all], &format!("{QUICK}{route}")));
    let passed = |one: &Application| {
        let page = gate.metrics();
        page.lines().any(|line| {
            line.starts_with("tollgate_upstream_checks_total")
                && line.contains(&one.label())
                && line.contains("passed")
        })
    };
    assert!(eventually(PATIENCE, || passed(&all) && passed(&own)), "{}", gate.metrics());
    assert!(own.upstream.saw("HEAD / HTTP/1.1\r\n") && all.upstream.saw("GET /healthz?full=1 HTTP/1.1\r\n"));
    let file = gate_file_with_two_checks(&all, &own);
    let output = check_file(&file);
    assert!(!output.status.success(), "one upstream cannot have two checks");
}

fn gate_file_with_two_checks(all: &Application, own: &Application) -> String {
    let route = format!(
        "{ONE_AN_HOUR}[route.own]\nmatch = \"ANY /own/**\"\nupstream = \"http://{}\"\nhealth = \"GET /b\"\n",
        all.upstream.address
    );
    format!("listen = \"http://127.0.0.1:8080\"\n{}", file(&[all, own], &route))
}
