//! A gate whose place others take: all of them, one after the other, and the end of them all.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::authority::{Pair, TABLE};
use support::{Client, binary, eventually, free_port, get_with, new_directory};

/// Processes that follow each other at the same addresses.
pub(crate) struct Generations {
    first: Child,
    pub(crate) address: SocketAddr,
    /// Where clients connect that speak TLS, if they may.
    pub(crate) tls: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) directory: PathBuf,
    messages: Arc<Mutex<String>>,
    frame: String,
}

impl Generations {
    /// Starts the first one on this file, to which addresses are added, and waits until it serves.
    pub(crate) fn start(config: &str) -> Self {
        Self::start_as(config, &[])
    }

    /// The same with variables.
    pub(crate) fn start_as(config: &str, variables: &[(&str, &str)]) -> Self {
        Self::begin(config, variables, None)
    }

    /// The same with TLS by this certificate.
    pub(crate) fn start_with(config: &str, pair: &Pair) -> Self {
        Self::begin(&format!("{config}{TABLE}"), &[], Some(pair))
    }

    fn begin(config: &str, variables: &[(&str, &str)], pair: Option<&Pair>) -> Self {
        let directory = new_directory();
        let [address, tls, admin] = std::array::from_fn(|_| SocketAddr::from(([127, 0, 0, 1], free_port())));
        let too = pair.map_or_else(String::new, |pair| {
            fs::write(directory.join("server.pem"), &pair.cert).unwrap();
            fs::write(directory.join("server.key"), &pair.key).unwrap();
            format!("\"https://{tls}\", ")
        });
        let frame = format!(
            "listen = [\"http://{address}\", {too}\"unix:{0}/gate.sock\"]\nadmin.listen = [\"http://{admin}\", \"unix:{0}/admin.sock\"]\n",
            directory.display()
        );
        fs::write(directory.join("gate.toml"), format!("{frame}{config}")).unwrap();
        // A file of its own, so that another can take its place.
        support::copy_program(binary(), &directory.join("tollgate"));
        let mut command = Command::new(directory.join("tollgate"));
        command.args(["run", "-c", "gate.toml"]).current_dir(&directory).envs(variables.iter().copied());
        // All of them can be killed together.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut first = command.spawn().unwrap();
        let messages = Arc::new(Mutex::new(String::new()));
        let (stderr, into) = (first.stderr.take().unwrap(), Arc::clone(&messages));
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                *into.lock().unwrap() += &(line + "\n");
            }
        });
        let all = Self { first, address, tls, admin, directory, messages, frame };
        assert!(eventually(Duration::from_secs(10), || all
            .readiness()
            .is_some_and(|(status, _)| status == 200)));
        all
    }

    /// What all of them said.
    pub(crate) fn messages(&self) -> String {
        self.messages.lock().unwrap().clone()
    }

    /// How often these words were said.
    pub(crate) fn said(&self, words: &str) -> usize {
        self.messages().matches(words).count()
    }

    /// The processes that have taken over so far.
    pub(crate) fn successors(&self) -> Vec<u32> {
        let messages = self.messages();
        let lines = messages.lines().filter(|line| line.contains("has taken over"));
        lines.filter_map(|line| line.split("process ").nth(1)?.split(' ').next()?.parse().ok()).collect()
    }

    /// The process that serves.
    pub(crate) fn process(&self) -> u32 {
        self.successors().last().copied().unwrap_or(self.first.id())
    }

    /// Sends a signal to the one that serves.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.process(), name);
    }

    /// Lets another one take over; whether one did.
    pub(crate) fn hand_over(&self) -> bool {
        let (before, failures) = (self.successors().len(), self.said("no other process has taken over"));
        self.signal("USR2");
        let is_over =
            || self.successors().len() > before || self.said("no other process has taken over") > failures;
        assert!(eventually(Duration::from_secs(20), is_over), "{}", self.messages());
        self.successors().len() > before
    }

    /// Puts another file in the place of the configuration.
    pub(crate) fn write(&self, config: &str) {
        let new = self.directory.join("gate.new");
        fs::write(&new, format!("{}{config}", self.frame)).unwrap();
        fs::rename(new, self.directory.join("gate.toml")).unwrap();
    }

    /// The status and the text of `/readyz`.
    pub(crate) fn readiness(&self) -> Option<(u16, String)> {
        std::net::TcpStream::connect(self.admin).ok()?;
        let mut client = Client::connect(self.admin);
        client.send_what_goes(get_with("/readyz", "").replace("app.test", "127.0.0.1").as_bytes());
        client.try_answer().map(|answer| (answer.status, answer.text()))
    }

    /// How many files the process that serves has taken over since it began.
    pub(crate) fn reloads(&self) -> u32 {
        let mut client = Client::connect(self.admin);
        client.send_what_goes(get_with("/metrics", "").replace("app.test", "127.0.0.1").as_bytes());
        let page = client.try_answer().map(|answer| answer.text()).unwrap_or_default();
        let name = "tollgate_config_reloads_total{result=\"ok\"} ";
        page.lines().find_map(|line| line.strip_prefix(name)?.parse().ok()).unwrap_or(0)
    }

    /// How the first process ended, if it did within this time.
    pub(crate) fn first_ends(&mut self, at_most: Duration) -> Option<i32> {
        let mut status = None;
        eventually(at_most, || {
            status = self.first.try_wait().unwrap();
            status.is_some()
        });
        status?.code()
    }
}

impl Drop for Generations {
    fn drop(&mut self) {
        // Its process group, to which all its successors belong.
        signal_group(self.first.id());
        let _ = self.first.wait();
        if std::thread::panicking() {
            eprintln!("--- the gates said:\n{}---", self.messages());
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Whether a process is there, and is not only waiting to be asked how it ended.
pub(crate) fn is_alive(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

/// Sends a signal by name.
pub(crate) fn signal(process: u32, name: &str) {
    support::signal(process, name);
}

fn signal_group(group: u32) {
    support::signal_group(group, "KILL");
}
