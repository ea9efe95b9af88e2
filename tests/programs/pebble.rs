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

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

use support::authority::{Authority, careless, encrypted};
use support::{eventually, free_port, installed, new_directory};

/// What the front answers instead of pebble to a request that begins like this; `None` lets pebble answer.
pub(crate) type Spoil = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What the front changes in an answer of JSON to this request.
pub(crate) type Amend = Box<dyn Fn(&str, &mut Value) + Send + Sync>;

/// Where a gate finds the authority, before it is started: requests wait until then.
pub(crate) struct Front {
    listener: TcpListener,
    port: u16,
    certificates: Authority,
    changes: Arc<Changes>,
}

/// What passes the front, and what it makes of it.
struct Changes {
    spoil: Mutex<Spoil>,
    amend: Mutex<Amend>,
    /// Each request.
    asked: Mutex<Vec<String>>,
}

/// The authority and its resolver of names, gone when dropped.
pub(crate) struct Pebble {
    processes: Vec<Child>,
    directory: PathBuf,
    /// Where its resolver takes records.
    pub(crate) records: u16,
}

impl Front {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (spoil, amend): (Spoil, Amend) = (Box::new(|_| None), Box::new(|_, _| {}));
        let changes = Changes { spoil: Mutex::new(spoil), amend: Mutex::new(amend), asked: Mutex::default() };
        Self { listener, port, certificates: Authority::new(), changes: Arc::new(changes) }
    }

    /// `tls.acme.directory`.
    pub(crate) fn directory(&self) -> String {
        self.page("/dir")
    }

    /// `tls.acme.directory_ca`.
    pub(crate) fn roots(&self) -> &str {
        &self.certificates.pem
    }

    pub(crate) fn spoil(&self, spoil: impl Fn(&str) -> Option<String> + Send + Sync + 'static) {
        *self.changes.spoil.lock().unwrap() = Box::new(spoil);
    }

    pub(crate) fn amend(&self, amend: impl Fn(&str, &mut Value) + Send + Sync + 'static) {
        *self.changes.amend.lock().unwrap() = Box::new(amend);
    }

    /// The address of a page below the front.
    pub(crate) fn page(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    /// What the orders so far ask for.
    pub(crate) fn orders(&self) -> Vec<Value> {
        let asked = self.changes.asked.lock().unwrap();
        asked
            .iter()
            .filter(|request| request.starts_with("POST /order-plz"))
            .map(|order| payload(order))
            .collect()
    }

    /// The first lines of requests that began like this.
    pub(crate) fn asked(&self, beginning: &str) -> Vec<String> {
        let asked = self.changes.asked.lock().unwrap();
        let lines = asked.iter().filter_map(|request| request.lines().next());
        lines.filter(|line| line.starts_with(beginning)).map(str::to_owned).collect()
    }

    /// How many requests began like this.
    pub(crate) fn count(&self, beginning: &str) -> usize {
        self.asked(beginning).len()
    }

    /// Answers from now on, by this authority.
    pub(crate) fn open(&self, pebble: SocketAddr) {
        let pair = self.certificates.issue(&["127.0.0.1"]);
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_no_client_auth().with_single_cert(vec![pair.der()], key).unwrap();
        let (config, listener) = (Arc::new(config), self.listener.try_clone().unwrap());
        let changes = Arc::clone(&self.changes);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (config, changes) = (Arc::clone(&config), Arc::clone(&changes));
                std::thread::spawn(move || {
                    let connection = ServerConnection::new(config).unwrap();
                    relay(StreamOwned::new(connection, stream), pebble, &changes)
                });
            }
        });
    }
}

/// One of twenty requests gets this from pebble, and is sent again: it counts once.
const BAD_NONCE: &[u8] = b"urn:ietf:params:acme:error:badNonce";

/// One request, and its answer by the authority or in its place.
fn relay(
    mut client: StreamOwned<ServerConnection, TcpStream>,
    pebble: SocketAddr,
    changes: &Changes,
) -> Option<()> {
    let request = request(&mut client)?;
    let head = String::from_utf8_lossy(&request).into_owned();
    changes.asked.lock().unwrap().push(head.clone());
    let spoilt = changes.spoil.lock().unwrap()(&head);
    let answer = match spoilt {
        Some(text) => text.into_bytes(),
        None => amended(forwarded(&request, pebble)?, &head, &changes.amend),
    };
    if answer.windows(BAD_NONCE.len()).any(|bytes| bytes == BAD_NONCE) {
        let mut asked = changes.asked.lock().unwrap();
        let at = asked.iter().rposition(|request| *request == head)?;
        asked.remove(at);
    }
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

/// The answer with its JSON changed; one of something else stays.
fn amended(answer: Vec<u8>, request: &str, amend: &Mutex<Amend>) -> Vec<u8> {
    let text = String::from_utf8_lossy(&answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return answer };
    let Ok(mut json) = serde_json::from_str::<Value>(body) else { return answer };
    amend.lock().unwrap()(request, &mut json);
    let body = json.to_string();
    let lines = head.lines().filter(|line| !line.to_ascii_lowercase().starts_with("content-length"));
    let head: String = lines.map(|line| format!("{line}\r\n")).collect();
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// What a signed request says.
pub(crate) fn payload(request: &str) -> Value {
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    let payload = BASE64_URL_SAFE_NO_PAD.decode(body["payload"].as_str().unwrap()).unwrap();
    serde_json::from_slice(&payload).unwrap()
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
        Self::start_with(front, http, tls, seconds, "")
    }

    /// The same with further keys of its file, each after a comma.
    pub(crate) fn start_with(front: &Front, http: u16, tls: u16, seconds: u32, keys: &str) -> Self {
        let directory = new_directory();
        let (port, names, records) = (free_port(), free_datagram_port(), free_port());
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
             \"certificateValidityPeriod\": {seconds}{keys}}}}}"
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
            &format!("127.0.0.1:{records}"),
        ]));
        let mut pebble = Self { processes: vec![resolver], directory, records };
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
