//! redis-server of Debian: alone, behind TLS, and three of them as a cluster.
//!
//! Only the members of the cluster are kept on a disk. A restarted cluster accepts writes after two seconds, by its own
//! rule.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::super::{eventually, free_port, new_directory};
use super::{Process, Server, wait_for};

/// One server, without a password.
pub(crate) type Redis = Alone<false>;

/// One server behind TLS, with a certificate of its own authority.
pub(crate) type RedisTls = Alone<true>;

pub(crate) struct Alone<const TLS: bool>(Member);

/// Three servers, each with a third of the slots.
pub(crate) struct RedisCluster(Vec<Member>);

/// One process.
pub(crate) struct Member {
    port: u16,
    directory: PathBuf,
    arguments: Vec<String>,
    process: Option<Process>,
}

impl<const TLS: bool> Server for Alone<TLS> {
    const NAME: &'static str = if TLS { "redis-server with TLS" } else { "redis-server" };

    fn start() -> Result<Self, String> {
        let (port, directory) = (free_port(), new_directory());
        let arguments =
            if TLS { over_tls(port, &directory)? } else { vec!["--port".to_owned(), port.to_string()] };
        let arguments: Vec<&str> = arguments.iter().map(|argument| &argument[..]).collect();
        Member::started(port, directory, &arguments).map(Self)
    }

    fn url(&self) -> String {
        let (port, roots) = (self.0.port, self.0.directory.join("roots.pem"));
        if TLS {
            format!("rediss://localhost:{port}/?ca={}", roots.display())
        } else {
            format!("redis://127.0.0.1:{port}")
        }
    }

    fn pause(&mut self) {
        self.0.signal(Signal::STOP);
    }

    fn resume(&mut self) {
        self.0.signal(Signal::CONT);
    }

    fn kill(&mut self) {
        self.0.process = None;
    }

    fn start_again(&mut self) {
        self.0.start().unwrap();
        self.0.wait();
    }

    fn questions(&mut self) -> u64 {
        self.0.questions()
    }

    fn spoil(&mut self, bytes: &[u8]) {
        self.0.spoil(bytes);
    }
}

impl Redis {
    /// With more on its command line.
    pub(crate) fn start_with(arguments: &[&str]) -> Result<Self, String> {
        let port = free_port();
        let number = port.to_string();
        let own = [&["--port", &number], arguments].concat();
        Member::started(port, new_directory(), &own).map(Self)
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port
    }

    /// What redis-cli says to it.
    pub(crate) fn cli(&self, arguments: &[&str]) -> String {
        self.0.cli(arguments)
    }
}

impl Server for RedisCluster {
    const NAME: &'static str = "redis-server as a cluster";

    fn start() -> Result<Self, String> {
        let mut members = Vec::new();
        for _ in 0..3 {
            let (port, bus) = (free_port().to_string(), free_port().to_string());
            let own = ["--port", &port, "--cluster-enabled", "yes", "--cluster-port", &bus];
            members.push(Member::started(port.parse().unwrap(), new_directory(), &own)?);
        }
        let all: Vec<String> = members.iter().map(|member| format!("127.0.0.1:{}", member.port)).collect();
        let mut arguments = vec!["--cluster", "create"];
        arguments.extend(all.iter().map(|address| &address[..]));
        arguments.extend(["--cluster-replicas", "0", "--cluster-yes"]);
        let said = members[0].cli(&arguments);
        assert!(said.contains("All 16384 slots covered"), "{said}");
        let cluster = Self(members);
        cluster.wait();
        Ok(cluster)
    }

    fn url(&self) -> String {
        format!("redis-cluster://127.0.0.1:{},127.0.0.1:{}", self.0[0].port, self.0[1].port)
    }

    fn pause(&mut self) {
        self.0.iter().for_each(|member| member.signal(Signal::STOP));
    }

    fn resume(&mut self) {
        self.0.iter().for_each(|member| member.signal(Signal::CONT));
    }

    fn kill(&mut self) {
        self.0.iter_mut().for_each(|member| member.process = None);
    }

    fn start_again(&mut self) {
        self.0.iter_mut().for_each(|member| member.start().unwrap());
        self.wait();
    }

    fn questions(&mut self) -> u64 {
        self.0.iter().map(Member::questions).sum()
    }

    fn spoil(&mut self, bytes: &[u8]) {
        self.0.iter().for_each(|member| member.spoil(bytes));
    }
}

impl RedisCluster {
    /// Its servers.
    pub(crate) fn members(&self) -> &[Member] {
        &self.0
    }

    fn wait(&self) {
        let is_ok = |member: &Member| member.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok");
        for member in &self.0 {
            assert!(
                eventually(Duration::from_secs(20), || is_ok(member)),
                "{:?} is not in the cluster",
                member.port
            );
        }
    }
}

impl Member {
    /// With these arguments of its own, as soon as it answers.
    fn started(port: u16, directory: PathBuf, own: &[&str]) -> Result<Self, String> {
        let usual = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir"];
        let directory_name = directory.display().to_string();
        let arguments =
            usual.iter().chain([&&directory_name[..]]).chain(own).map(|&word| word.to_owned()).collect();
        let mut member = Self { port, directory, arguments, process: None };
        member.start()?;
        member.wait();
        Ok(member)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// What redis-cli says to it.
    pub(crate) fn cli(&self, arguments: &[&str]) -> String {
        let mut command = self.client();
        let output = command.args(arguments).stdin(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn client(&self) -> Command {
        let mut command = Command::new("redis-cli");
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        if self.is_tls() {
            command.arg("--tls").arg("--cacert").arg(self.directory.join("roots.pem"));
        }
        command
    }

    fn is_tls(&self) -> bool {
        self.arguments.iter().any(|argument| argument == "--tls-port")
    }

    fn start(&mut self) -> Result<(), String> {
        self.process = Some(Process::spawn(Command::new("redis-server").args(&self.arguments))?);
        Ok(())
    }

    /// Until it answers, be it with an error: it may want a password.
    fn wait(&self) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        wait_for(address);
        let answers = || self.is_tls() && self.cli(&["PING"]) == "PONG" || pings(address).unwrap_or(false);
        assert!(eventually(Duration::from_secs(20), answers), "{address} does not answer");
    }

    fn signal(&self, signal: Signal) {
        self.process.as_ref().unwrap().signal(signal);
    }

    fn questions(&self) -> u64 {
        let stats = self.cli(&["INFO", "commandstats"]);
        let calls = |name: &str| {
            let line = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":calls="));
            line.map_or(0, |line| line.split(',').next().unwrap().parse::<u64>().unwrap())
        };
        calls("cmdstat_evalsha")
    }

    fn spoil(&self, bytes: &[u8]) {
        for key in self.cli(&["KEYS", "tollgate:*"]).lines().filter(|key| !key.is_empty()) {
            let mut child = self
                .client()
                .args(["-x", "SET", key])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(bytes).unwrap();
            assert!(child.wait().unwrap().success());
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.process = None;
        // What is left of it is in the directory of temporary files.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Whether anything comes back.
fn pings(address: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 1];
    stream.read_exact(&mut answer)?;
    Ok(matches!(answer[0], b'+' | b'-'))
}

/// Arguments for this port, with a certificate that was made in this directory.
fn over_tls(port: u16, directory: &Path) -> Result<Vec<String>, String> {
    certificate(directory)?;
    let file = |name: &str| directory.join(name).display().to_string();
    let mut arguments = vec!["--port".to_owned(), "0".to_owned(), "--tls-port".to_owned(), port.to_string()];
    arguments.extend(["--tls-cert-file".to_owned(), file("server.pem")]);
    arguments.extend(["--tls-key-file".to_owned(), file("server.key")]);
    arguments.extend(["--tls-ca-cert-file".to_owned(), file("roots.pem")]);
    arguments.extend(["--tls-auth-clients".to_owned(), "no".to_owned()]);
    Ok(arguments)
}

/// An authority, and a certificate for `localhost` that it signed.
fn certificate(directory: &Path) -> Result<(), String> {
    let openssl = |arguments: &str| {
        let mut command = Command::new("openssl");
        command.current_dir(directory).args(arguments.split_whitespace());
        let output = command.output().map_err(|error| format!("openssl: {error}"))?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok::<_, String>(())
    };
    let curve = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&format!("req -x509 {curve} -days 2 -keyout roots.key -out roots.pem -subj /CN=roots"))?;
    openssl(&format!("req {curve} -keyout server.key -out server.csr -subj /CN=localhost"))?;
    fs::write(directory.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").unwrap();
    openssl(
        "x509 -req -in server.csr -CA roots.pem -CAkey roots.key -CAcreateserial -days 2 -extfile names -out server.pem",
    )
}
