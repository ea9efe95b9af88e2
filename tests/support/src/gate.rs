//! A gate in a process of its own, on ports of its own, gone when dropped.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::{Answer, Client, binary, eventually, signal};

/// A running gate.
pub struct Gate {
    process: Child,
    /// Where clients connect.
    pub address: SocketAddr,
    /// Where clients connect that speak TLS, if they may: see [`Launch::on_tls_too`].
    pub tls: SocketAddr,
    /// Where `/metrics` and `/readyz` are.
    pub admin: SocketAddr,
    /// For the gate's files; removed with the gate.
    pub directory: PathBuf,
    messages: Arc<Mutex<String>>,
    /// What stands before and behind the tests' own lines in the gate's file.
    frame: [String; 2],
}

/// What becomes of the gate's standard output.
#[derive(Clone, Copy, PartialEq)]
pub enum Stdout {
    Discarded,
    /// A pipe whose reader is gone: every write fails with EPIPE.
    Closed,
    /// A pipe without a reader: every write blocks once it is full.
    NeverRead,
}

/// A gate about to be started, for the tests that need more than a file.
pub struct Launch {
    config: String,
    stdout: Stdout,
    ulimits: Vec<String>,
    environment: Vec<(String, String)>,
    unix: bool,
    tls: bool,
    admin: Vec<String>,
    admin_lines: String,
    directory: PathBuf,
}

impl Gate {
    /// Starts a gate on this file, to which `listen` and `[admin]` are added, and waits until it is ready.
    pub fn start(config: &str) -> Self {
        Launch::new(config).start()
    }

    /// A connection from 127.0.0.1.
    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// A connection from another address of 127.0.0.0/8.
    pub fn connect_from(&self, source: Ipv4Addr) -> Client {
        Client::connect_from(source, self.address)
    }

    /// The answer to these bytes on a connection of their own.
    pub fn ask(&self, request: impl AsRef<[u8]>) -> Answer {
        let mut client = self.connect();
        client.send(request);
        client.answer()
    }

    /// The same, or `None` if the connection is closed without an answer.
    pub fn try_ask(&self, request: impl AsRef<[u8]>) -> Option<Answer> {
        let mut client = self.connect();
        client.send_what_goes(request.as_ref());
        client.try_answer()
    }

    /// Takes the only token of a client of [`ONE_AN_HOUR`](super::ONE_AN_HOUR), and sees that it was the last.
    pub fn drain(&self, target: &str, lines: &str) {
        let attempt = super::post_with(target, lines);
        assert_eq!(self.ask(&attempt).status, 200, "the first attempt is admitted");
        assert_eq!(self.ask(&attempt).status, 429, "the second attempt is refused");
    }

    /// The metrics page.
    pub fn metrics(&self) -> String {
        let mut client = Client::connect(self.admin);
        client.send("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
        let answer = client.answer();
        assert_eq!(answer.status, 200);
        answer.text()
    }

    /// The sum of all samples of this metric whose labels contain `labels`.
    pub fn metric(&self, name: &str, labels: &str) -> f64 {
        let page = self.metrics();
        let lines = page.lines().filter(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])) && line.contains(labels)
        });
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// The admin socket that only this user can open.
    pub fn admin_socket(&self) -> PathBuf {
        self.directory.join("admin.sock")
    }

    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Resident memory in KiB.
    pub fn memory(&self) -> u64 {
        self.kibibytes("VmRSS:")
    }

    /// Address space in KiB, whether it is used or not.
    pub fn address_space(&self) -> u64 {
        self.kibibytes("VmSize:")
    }

    /// Private memory that may be written, in KiB.
    pub fn data(&self) -> u64 {
        self.kibibytes("VmData:")
    }

    fn kibibytes(&self, what: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(what)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Processor time of all its threads so far, in hundredths of a second.
    pub fn processor_time(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        // After the name in brackets, user and system time are the 12th and 13th field.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    }

    /// What the gate said on standard error so far.
    pub fn messages(&self) -> String {
        self.messages.lock().unwrap().clone()
    }

    /// Sends a signal by name (`TERM`).
    pub fn signal(&self, name: &str) {
        assert!(signal(self.process.id(), name), "it runs");
    }

    /// Puts another file in the place of the gate's own, at the same addresses. Nothing is said to the gate.
    pub fn write(&self, config: &str) {
        let (file, new) = (self.directory.join("gate.toml"), self.directory.join("gate.new"));
        fs::write(&new, framed(&self.frame, config)).unwrap();
        fs::rename(&new, &file).unwrap();
    }

    /// How many files were taken over and how many were refused so far.
    pub fn reloads(&self) -> (u32, u32) {
        let page = self.metrics();
        let count = |result: &str| {
            let name = format!("tollgate_config_reloads_total{{result=\"{result}\"}} ");
            page.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap()
        };
        (count("ok"), count("refused"))
    }

    /// Puts another file in the place of the gate's own and lets it be read; whether it was taken over.
    pub fn reload(&self, config: &str) -> bool {
        self.write(config);
        let before = self.reloads();
        self.signal("HUP");
        let mut after = before;
        let is_read = || {
            after = self.reloads();
            after != before
        };
        assert!(eventually(Duration::from_secs(10), is_read), "the file is read again");
        after.0 > before.0
    }

    /// How the process ended, if it did within this time.
    pub fn exit_status(&mut self, at_most: Duration) -> Option<ExitStatus> {
        let mut status = None;
        eventually(at_most, || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        status
    }

    /// Whether the process still runs.
    pub fn is_running(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("--- the gate said:\n{}---", self.messages());
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Launch {
    /// A gate for this file; `{dir}` in it stands for the gate's own directory.
    pub fn new(config: &str) -> Self {
        let directory = new_directory();
        Self {
            config: config.replace("{dir}", directory.to_str().unwrap()),
            stdout: Stdout::Discarded,
            ulimits: Vec::new(),
            environment: Vec::new(),
            unix: false,
            tls: false,
            admin: Vec::new(),
            admin_lines: String::new(),
            directory,
        }
    }

    pub fn stdout(self, stdout: Stdout) -> Self {
        Self { stdout, ..self }
    }

    /// A hard limit on open descriptors, as `ulimit -n` sets it.
    pub fn descriptors(self, most: u32) -> Self {
        self.ulimit(&format!("-n {most}"))
    }

    /// A hard limit on private memory that may be written, in KiB.
    pub fn data(self, most: u64) -> Self {
        self.ulimit(&format!("-d {most}"))
    }

    fn ulimit(mut self, limit: &str) -> Self {
        self.ulimits.push(format!("ulimit {limit} && "));
        self
    }

    /// Listens on `gate.sock` in the gate's directory as well.
    pub fn on_unix_socket_too(self) -> Self {
        Self { unix: true, ..self }
    }

    /// Speaks TLS as well, on a port of its own.
    pub fn on_tls_too(self) -> Self {
        Self { tls: true, ..self }
    }

    /// Listens for operators at this address, too.
    pub fn operators_at(mut self, address: &str) -> Self {
        self.admin.push(address.to_owned());
        self
    }

    /// Adds these lines to `[admin]`.
    pub fn with_admin(self, lines: &str) -> Self {
        Self { admin_lines: lines.to_owned(), ..self }
    }

    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Puts a file beside the gate's own.
    pub fn beside(self, name: &str, text: &str) -> Self {
        let file = self.directory.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
        self
    }

    /// Starts the gate; another port is tried if the chosen one is taken meanwhile.
    pub fn start(self) -> Gate {
        let mut said = String::new();
        for _ in 0..5 {
            match self.try_start() {
                Ok(gate) => return gate,
                Err(messages) => said = messages,
            }
        }
        panic!("the gate did not start:\n{said}\n--- with the file:\n{}", self.config);
    }

    fn try_start(&self) -> Result<Gate, String> {
        let (port, admin_port, tls_port) = (free_port(), free_port(), free_port());
        let tls = if self.tls { format!(", \"https://127.0.0.1:{tls_port}\"") } else { String::new() };
        let unix = if self.unix {
            format!(", \"unix:{}/gate.sock\"", self.directory.display())
        } else {
            String::new()
        };
        let frame = [
            format!("listen = [\"http://127.0.0.1:{port}\"{unix}{tls}]\n"),
            format!(
                "\n[admin]\nlisten = [\"http://127.0.0.1:{admin_port}\", \"unix:{}\"{}]\n{}",
                self.directory.join("admin.sock").display(),
                self.admin.iter().map(|address| format!(", \"{address}\"")).collect::<String>(),
                self.admin_lines
            ),
        ];
        // A gate that did not start has taken it along.
        fs::create_dir_all(&self.directory).unwrap();
        let file = self.directory.join("gate.toml");
        fs::write(&file, framed(&frame, &self.config)).unwrap();
        let mut process = self.command(&file).spawn().expect("the gate's binary starts");
        let messages = Arc::new(Mutex::new(String::new()));
        collect(process.stderr.take().unwrap(), Arc::clone(&messages));
        let stdout = process.stdout.take();
        if self.stdout == Stdout::NeverRead {
            // Kept open, and never read, until the test's process ends.
            std::mem::forget(stdout);
        }
        let gate = Gate {
            process,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            tls: SocketAddr::from(([127, 0, 0, 1], tls_port)),
            admin: SocketAddr::from(([127, 0, 0, 1], admin_port)),
            directory: self.directory.clone(),
            messages,
            frame,
        };
        wait_until_ready(gate)
    }

    fn command(&self, file: &Path) -> Command {
        let mut command = if self.ulimits.is_empty() {
            Command::new(program())
        } else {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(format!("{}exec \"$0\" \"$@\"", self.ulimits.concat())).arg(program());
            shell
        };
        command.args(["run", "-c"]).arg(file).current_dir(&self.directory);
        // What is said to the tests is no setting of the gate.
        command.env_remove("TOLLGATE_BINARY");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        command.stdout(if self.stdout == Stdout::Discarded { Stdio::null() } else { Stdio::piped() });
        command
    }
}

/// What `tollgate check` says about a whole file, without starting anything.
pub fn check_file(config: &str) -> Output {
    let directory = new_directory();
    let file = directory.join("gate.toml");
    fs::write(&file, config.replace("{dir}", directory.to_str().unwrap())).unwrap();
    let output = Command::new(binary()).args(["check", "-c"]).arg(&file).output().unwrap();
    let _ = fs::remove_dir_all(&directory);
    output
}

/// A new directory, used by one test only.
pub fn new_directory() -> PathBuf {
    static COUNT: AtomicU16 = AtomicU16::new(0);
    let name = format!("tollgate-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let directory = std::env::temp_dir().join(name);
    // Numbers of processes come again: an earlier one may have left its directory, and to a server's own user.
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir(&directory).unwrap();
    directory
}

/// A port that is free now. Tests run side by side in processes of their own, so each starts looking elsewhere,
/// below the range from which the system takes ports for outgoing connections.
pub fn free_port() -> u16 {
    static COUNT: AtomicU16 = AtomicU16::new(0);
    static CLAIMS: Mutex<VecDeque<UdpSocket>> = Mutex::new(VecDeque::new());
    let start = u64::from(std::process::id()) * 37;
    for _ in 0..1000 {
        let step = u64::from(COUNT.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(10_000 + (start + step) % 20_000).unwrap();
        // No test listens for datagrams: a held UDP port belongs to a test that is still running.
        let Ok(claim) = UdpSocket::bind(("127.0.0.1", port)) else { continue };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            let mut claims = CLAIMS.lock().unwrap();
            claims.push_back(claim);
            // In a process of many tests those of the first ones have ended, and each claim is a descriptor.
            if claims.len() > MOST_CLAIMS {
                claims.pop_front();
            }
            return port;
        }
    }
    panic!("no free port");
}

/// More than the tests that run at a time ask for.
const MOST_CLAIMS: usize = 200;

fn framed([before, behind]: &[String; 2], config: &str) -> String {
    format!("{before}{config}{behind}")
}

fn wait_until_ready(mut gate: Gate) -> Result<Gate, String> {
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end && gate.is_running() {
        if is_ready(gate.admin) {
            return Ok(gate);
        }
        // The program does not report when it listens; the test has to try.
        std::thread::sleep(Duration::from_millis(5));
    }
    // What it said may still be on its way through the pipe.
    eventually(Duration::from_millis(200), || !gate.messages().is_empty());
    Err(gate.messages())
}

/// Asks the admin listener only, so that a gate begins its test without an open connection.
fn is_ready(admin: SocketAddr) -> bool {
    TcpStream::connect(admin).is_ok() && {
        let mut client = Client::connect(admin);
        client.send_what_goes(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
        client.try_answer().is_some_and(|answer| answer.status == 200)
    }
}

fn collect(stream: impl Read + Send + 'static, into: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            let mut all = into.lock().unwrap();
            // Enough to see what went wrong, whatever the gate does.
            if all.len() < 1 << 20 {
                all.push_str(&String::from_utf8_lossy(&line));
                all.push('\n');
            }
        }
    });
}

/// What a gate is started from: what `TOLLGATE_BINARY` names, as for long runs with a release, or the tests' own build.
fn program() -> OsString {
    std::env::var_os("TOLLGATE_BINARY").unwrap_or_else(|| binary().into())
}
