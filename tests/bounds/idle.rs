//! Ten thousand idle connections: the memory of each, and whether memory stays constant while others come and go.
//!
//! The load is light on purpose: a leak shows by the memory left behind, not by the rate.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use socket2::{Domain, Socket, Type};

use support::authority::{Authority, BOTH, TABLE};
use support::frames::{HEADERS, RST_STREAM, Raw, frame, request};
use support::{Client, Gate, Launch, Upstream, get_with};

/// The bounds that would end a connection which is idle for the whole of a test, and those on one address.
const FILE: &str = "
[route.login]
match = \"POST /login\"
user = \"form:name\"

[route.closed]
match = \"POST /closed\"
limits = [\"address\"]

[limit.address]
rate = \"1 per 1h\"
routes = [\"closed\"]

[limit.account]
key = \"user\"
rate = \"100/s\"
routes = [\"login\"]

[store]
capacity = 10_000

[proxy]
connections = 20_000
client_max = 20_000
client_rate = \"off\"
";

const LONG: &str = "header_timeout = \"1h\"\nidle_timeout = \"1h\"\n";

/// How a connection came to be idle.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Kind {
    Fresh,
    Plain,
    /// Over TCP, as those before, with a POST that was refused to three of four.
    Refused,
    Tls,
    Http2,
}

/// A connection that is idle.
pub(crate) enum Idle {
    Http1(Client),
    Http2(Box<Raw>),
}

/// A gate with TLS, an application behind it, and those who connect.
pub(crate) struct Setting {
    pub(crate) gate: Gate,
    upstream: Upstream,
    tls: [Arc<ClientConfig>; 2],
    next: AtomicU64,
}

impl Setting {
    pub(crate) fn new() -> Self {
        Self::with(LONG)
    }

    /// `lines` are added to the table of the proxy.
    pub(crate) fn with(lines: &str) -> Self {
        let (upstream, authority) = (Upstream::start(), Authority::new());
        let pair = authority.issue(&["app.test"]);
        let file = upstream.file(&format!("{FILE}{lines}{TABLE}"));
        let gate = Launch::new(&file).on_tls_too().with(&pair, "server").start();
        let tls = [&b"http/1.1"[..], b"h2"].map(|protocol| {
            let mut config = authority.client_config(BOTH);
            config.alpn_protocols = vec![protocol.to_vec()];
            Arc::new(config)
        });
        Self { gate, upstream, tls, next: AtomicU64::new(0) }
    }

    /// From the next of many addresses.
    fn tcp(&self, to: SocketAddr) -> TcpStream {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let [.., a, b] = (number / 4 + 1).to_be_bytes();
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 10, a, b), 0)).into()).unwrap();
        socket.connect_timeout(&to.into(), Duration::from_secs(10)).unwrap();
        socket.into()
    }

    fn tls(&self, config: &Arc<ClientConfig>) -> StreamOwned<ClientConnection, TcpStream> {
        let connection = ClientConnection::new(Arc::clone(config), "app.test".try_into().unwrap()).unwrap();
        StreamOwned::new(connection, self.tcp(self.gate.tls))
    }

    pub(crate) fn open(&self, kind: Kind) -> Idle {
        let mut idle = match kind {
            Kind::Fresh => return Idle::Http1(Client::over_tcp(self.tcp(self.gate.address))),
            Kind::Plain | Kind::Refused => Idle::Http1(Client::over_tcp(self.tcp(self.gate.address))),
            Kind::Tls => Idle::Http1(Client::over_tls(self.tls(&self.tls[0]))),
            Kind::Http2 => Idle::Http2(Box::new(Raw::over(self.tls(&self.tls[1])))),
        };
        let is_answered = if kind == Kind::Refused { idle.is_refused() } else { idle.is_served(1) };
        assert!(is_answered, "a new connection is served");
        idle
    }

    pub(crate) fn open_many(&self, kind: Kind, count: usize) -> Vec<Idle> {
        let several = |_| (0..count / 4).map(|_| self.open(kind)).collect::<Vec<_>>();
        let opened = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|number| scope.spawn(move || several(number))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(opened.len(), count);
        opened
    }
}

impl Idle {
    /// Three of four are: see [`Setting::tcp`].
    fn is_refused(&mut self) -> bool {
        let Self::Http1(client) = self else { return false };
        client.send_what_goes(b"POST /closed HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na=b");
        client.try_answer().is_some_and(|answer| matches!(answer.status, 200 | 429))
    }

    /// `stream` is the number of a stream of HTTP/2 that was not used yet.
    fn is_served(&mut self, stream: u32) -> bool {
        match self {
            Self::Http1(client) => {
                client.send_what_goes(get_with("/", "").as_bytes());
                client.try_answer().is_some_and(|answer| answer.status == 200)
            }
            Self::Http2(raw) => {
                let answered = |frame: &support::frames::Frame| frame.kind == 0;
                raw.send(&request(stream, "GET", "/")) && raw.until(Duration::from_secs(15), answered).1
            }
        }
    }
}

/// As many as there are descriptors for, on this side and on the gate's; the gate has a limit of its own.
pub(crate) fn raise_descriptors() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    usize::try_from(limit.current.unwrap_or(1 << 20)).unwrap()
}

/// What others do meanwhile, one kind after the other, until it is over; how often.
fn load(setting: &Setting, kind: u32, is_over: &AtomicBool) -> u64 {
    let mut count = 0;
    while !is_over.load(Ordering::Relaxed) {
        match kind {
            0 => refused(setting),
            1 => signs_in(setting, count),
            2 => gets(setting),
            3 => uploads_in_chunks(setting),
            4 => gives_up(setting, count),
            5 => assert!(setting.open(Kind::Tls).is_served(1)),
            _ => resets_streams(setting),
        }
        count += 1;
        std::thread::sleep(Duration::from_millis(3));
    }
    count
}

fn refused(setting: &Setting) {
    let status = setting.gate.ask("POST /closed HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na=b").status;
    assert!(matches!(status, 200 | 429), "{status}");
}

fn signs_in(setting: &Setting, count: u64) {
    let body = format!("name=user-{count}&password=x");
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let length = body.len();
    let request = format!("POST /login HTTP/1.1\r\nHost: a\r\n{form}Content-Length: {length}\r\n\r\n{body}");
    assert_eq!(setting.gate.ask(request).status, 200);
}

fn gets(setting: &Setting) {
    let mut client = Client::over_tcp(setting.tcp(setting.gate.address));
    for _ in 0..10 {
        client.send(get_with("/page", "Accept: text/html\r\nCookie: a=b\r\n"));
        assert_eq!(client.answer().status, 200);
    }
}

fn uploads_in_chunks(setting: &Setting) {
    let mut client = setting.gate.connect();
    let mut text = b"POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    (0..8).for_each(|_| text.extend([b"1000\r\n", &[b'x'; 4096][..], b"\r\n"].concat()));
    text.extend(b"0\r\n\r\n");
    client.send(text);
    assert_eq!(client.answer().status, 200);
}

fn gives_up(setting: &Setting, count: u64) {
    let mut stream = setting.tcp(setting.gate.address);
    let begun: &[u8] = match count % 4 {
        0 => b"GET / HT",
        1 => b"POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\nname=a",
        2 => b"POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        _ => b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    };
    stream.write_all(begun).unwrap();
}

fn resets_streams(setting: &Setting) {
    let mut raw = Raw::over(setting.tls(&setting.tls[1]));
    for stream in [1, 3, 5] {
        assert!(raw.send(&request(stream, "GET", "/")));
    }
    assert!(raw.until(Duration::from_secs(15), |frame| frame.kind == HEADERS).1);
    assert!(raw.send(&[request(7, "GET", "/"), frame(RST_STREAM, 0, 7, &[0, 0, 0, 8])].concat()));
}

/// KiB a second, by least squares over one sample a second.
fn slope(samples: &[u64]) -> f64 {
    let of = |count: usize| f64::from(u32::try_from(count).unwrap());
    let values: Vec<f64> = samples.iter().map(|&sample| f64::from(u32::try_from(sample).unwrap())).collect();
    let (middle, mean) = (of(samples.len() - 1) / 2.0, values.iter().sum::<f64>() / of(samples.len()));
    let offsets = || (0..samples.len()).map(|at| of(at) - middle);
    let above: f64 = offsets().zip(&values).map(|(x, y)| x * (y - mean)).sum();
    above / offsets().map(|x| x * x).sum::<f64>()
}

/// Holds idle connections of all kinds while others come and go for so long, and looks at the memory after a while.
fn the_memory_is_flat(duration: Duration, idle: usize) {
    let room = raise_descriptors();
    assert!(room > idle + 2_000, "{room} descriptors are too few (ulimit -n)");
    let setting = Setting::new();
    let mut held = Vec::new();
    let shares = [(Kind::Fresh, 10), (Kind::Plain, 70), (Kind::Tls, 10), (Kind::Http2, 10)];
    shares.iter().for_each(|&(kind, share)| held.extend(setting.open_many(kind, idle * share / 100)));
    let (is_over, mut samples) = (AtomicBool::new(false), Vec::new());
    let counts = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..7)
            .map(|kind| {
                scope.spawn({
                    let (setting, is_over) = (&setting, &is_over);
                    move || load(setting, kind, is_over)
                })
            })
            .collect();
        let (start, warm) = (Instant::now(), duration / 3);
        while start.elapsed() < duration {
            std::thread::sleep(Duration::from_secs(1));
            setting.upstream.forget();
            if start.elapsed() > warm {
                samples.push(setting.gate.memory());
            }
        }
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let counts: Vec<u64> = counts.into_iter().map(Result::unwrap_or_default).collect();
    let (grows, first, last) = (slope(&samples), samples[0], samples[samples.len() - 1]);
    eprintln!(
        "{} idle, {duration:?}, {counts:?} of each kind: {first} to {last} KiB, {grows:.2} KiB/s",
        held.len()
    );
    assert!(counts.iter().all(|&count| count > 0), "one of them was not served; see above");
    let span = f64::from(u32::try_from(samples.len()).unwrap());
    assert!(grows * span < MOST_GROWTH, "{grows:.2} KiB/s over {span} s: {samples:?}");
    let lost = held.iter_mut().filter_map(|idle| (!idle.is_served(3)).then_some(())).count();
    assert_eq!(lost, 0, "of {} idle connections", held.len());
    assert_eq!(setting.gate.metric("tollgate_panics_total", ""), 0.0);
}

/// H4, H10: ten seconds of it.
#[test]
fn the_memory_stays_as_it_is_under_a_mixed_load_with_ten_thousand_idle_connections() {
    the_memory_is_flat(Duration::from_secs(10), 10_000);
}

/// H4, H10: ten minutes of it.
#[test]
#[ignore = "takes ten minutes: scripts/soak"]
fn the_memory_stays_as_it_is_for_ten_minutes() {
    the_memory_is_flat(Duration::from_secs(600), 10_000);
}

/// H4: what an idle connection takes.
#[test]
#[ignore = "figures: benches/DOOR.md"]
fn an_idle_connection_takes_little() {
    assert!(raise_descriptors() > 12_000);
    for (kind, name, most) in [
        (Kind::Fresh, "plain, nothing said yet", 16),
        (Kind::Plain, "plain, after a request", 16),
        (Kind::Refused, "plain, after a refused POST", 16),
        (Kind::Tls, "TLS, after a request", 64),
        (Kind::Http2, "HTTP/2, after a request", 96),
    ] {
        let setting = Setting::new();
        // What a gate needs once.
        drop(setting.open_many(kind, 100));
        std::thread::sleep(Duration::from_secs(1));
        let before = setting.gate.memory();
        let held = setting.open_many(kind, 10_000);
        let at_once = setting.gate.memory() - before;
        std::thread::sleep(Duration::from_secs(3));
        let each = (setting.gate.memory() - before) as f64 / 10_000.0;
        eprintln!("{name}: {each:.2} KiB each ({:.2} at once)", at_once as f64 / 10_000.0);
        assert!(each < f64::from(most), "{name}: {each} KiB");
        drop(held);
        std::thread::sleep(Duration::from_secs(3));
        eprintln!(
            "   and {} KiB more than before when all have gone",
            setting.gate.memory().saturating_sub(before)
        );
    }
}

/// What one sample may differ from another anyway, in KiB.
const MOST_GROWTH: f64 = 4096.0;
