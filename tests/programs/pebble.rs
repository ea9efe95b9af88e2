//! A real authority for ACME (pebble, of Let's Encrypt), and a front before it that spoils its answers.
//!
//! It is Debian's package.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use support::authority::{Authority, careless, encrypted};
use support::{eventually, free_port, installed, new_directory};

/// What the front answers instead of pebble to a request that begins like this; `None` lets pebble answer.
pub(crate) type Spoil = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Where a gate finds the authority, before it is started: requests wait until then.
pub(crate) struct Front {
    listener: TcpListener,
    port: u16,
    certificates: Authority,
    spoil: Arc<Mutex<Spoil>>,
    /// The first line of each request.
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
}

/// The authority and its resolver of names, gone when dropped.
pub(crate) struct Pebble {
    processes: Vec<Child>,
    directory: PathBuf,
}

impl Front {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let spoil: Spoil = Box::new(|_| None);
        let (spoil, asked) = (Arc::new(Mutex::new(spoil)), Arc::default());
        Self { listener, port, certificates: Authority::new(), spoil, asked }
    }

    /// `tls.acme.directory`.
    pub(crate) fn directory(&self) -> String {
        format!("https://127.0.0.1:{}/dir", self.port)
    }

    /// `tls.acme.directory_ca`.
    pub(crate) fn roots(&self) -> &str {
        &self.certificates.pem
    }

    pub(crate) fn spoil(&self, spoil: impl Fn(&str) -> Option<String> + Send + Sync + 'static) {
        *self.spoil.lock().unwrap() = Box::new(spoil);
    }

    /// How many requests began like this.
    pub(crate) fn count(&self, beginning: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|line| line.starts_with(beginning)).count()
    }

    /// Answers from now on, by this authority.
    pub(crate) fn open(&self, pebble: SocketAddr) {
        let pair = self.certificates.issue(&["127.0.0.1"]);
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_no_client_auth().with_single_cert(vec![pair.der()], key).unwrap();
        let (config, listener) = (Arc::new(config), self.listener.try_clone().unwrap());
        let (spoil, asked) = (Arc::clone(&self.spoil), Arc::clone(&self.asked));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (config, spoil, asked) = (Arc::clone(&config), Arc::clone(&spoil), Arc::clone(&asked));
                std::thread::spawn(move || {
                    let connection = ServerConnection::new(config).unwrap();
                    relay(StreamOwned::new(connection, stream), pebble, &spoil, &asked)
                });
            }
        });
    }
}

/// One request, and its answer by the authority or in its place.
fn relay(
    mut client: StreamOwned<ServerConnection, TcpStream>,
    pebble: SocketAddr,
    spoil: &Mutex<Spoil>,
    asked: &Mutex<Vec<String>>,
) -> Option<()> {
    let request = request(&mut client)?;
    let head = String::from_utf8_lossy(&request).into_owned();
    asked.lock().unwrap().push(head.lines().next()?.to_owned());
    let spoilt = spoil.lock().unwrap()(&head);
    let answer = spoilt.map_or_else(|| forwarded(&request, pebble), |text| Some(text.into_bytes()))?;
    client.write_all(&answer).ok()?;
    client.conn.send_close_notify();
    client.flush().ok()
}

fn forwarded(request: &[u8], pebble: SocketAddr) -> Option<Vec<u8>> {
    // One that is away is no reason to panic.
    TcpStream::connect(pebble).ok()?;
    let mut server = encrypted(&Arc::new(careless()), pebble, "localhost");
    // Go's server would keep the connection.
    let end = request.windows(2).position(|window| window == b"\r\n")? + 2;
    let request = [&request[..end], b"Connection: close\r\n", &request[end..]].concat();
    server.write_all(&request).ok()?;
    let mut answer = Vec::new();
    // Its end may come without a word.
    let _ = server.read_to_end(&mut answer);
    Some(answer)
}

/// `free_port` keeps the port for datagrams.
fn free_datagram_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn request(client: &mut impl Read) -> Option<Vec<u8>> {
    let (mut all, mut some) = (Vec::new(), [0; 4096]);
    loop {
        let length = client.read(&mut some).ok().filter(|length| *length > 0)?;
        all.extend_from_slice(&some[..length]);
        let text = String::from_utf8_lossy(&all).to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(all);
            }
        }
    }
}

impl Pebble {
    /// Starts an authority that finds every name at 127.0.0.1 and connects to these ports there. Its certificates are good
    /// for so many seconds.
    pub(crate) fn start(front: &Front, http: u16, tls: u16, seconds: u32) -> Self {
        let directory = new_directory();
        let (port, names) = (free_port(), free_datagram_port());
        let pair = front.certificates.issue(&["localhost"]);
        let write = |name: &str, text: &str| {
            let path = directory.join(name);
            fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let (cert, key) = (write("cert.pem", &pair.cert), write("key.pem", &pair.key));
        let config = format!(
            "{{\"pebble\": {{\"listenAddress\": \"127.0.0.1:{port}\", \"certificate\": {cert:?}, \
             \"privateKey\": {key:?}, \"httpPort\": {http}, \"tlsPort\": {tls}, \
             \"certificateValidityPeriod\": {seconds}}}}}"
        );
        let config = write("pebble.json", &config);
        let log = fs::File::create(directory.join("log")).unwrap();
        let start = |command: &mut Command| {
            let command = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap());
            command.stderr(log.try_clone().unwrap()).spawn().unwrap()
        };
        let names = format!("127.0.0.1:{names}");
        let resolver = start(installed("pebble-challtestsrv", "pebble").args([
            "-dns01",
            &names,
            "-defaultIPv6",
            "",
            "-defaultIPv4",
            "127.0.0.1",
            "-http01",
            "",
            "-https01",
            "",
            "-tlsalpn01",
            "",
            "-management",
            &format!("127.0.0.1:{}", free_port()),
        ]));
        let mut pebble = Self { processes: vec![resolver], directory };
        let mut authority = installed("pebble", "pebble");
        // Its VA would wait for up to five seconds, to find clients that are impatient.
        authority.args(["-strict", "-config", &config, "-dnsserver", &names]).env("PEBBLE_VA_NOSLEEP", "1");
        pebble.processes.push(start(&mut authority));
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let is_there = || TcpStream::connect(address).is_ok();
        assert!(eventually(Duration::from_secs(20), is_there), "{}", pebble.log());
        front.open(address);
        pebble
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap()
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- pebble said:\n{}---", self.log());
        }
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}
