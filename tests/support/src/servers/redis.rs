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

use super::sql::{made_once, run};
use super::{Process, Server, wait_for};
use crate::{eventually, free_port, installed, new_directory, root};

/// One server, without a password.
pub type Redis = Alone<false>;

/// One server behind TLS, with a certificate of its own authority.
pub type RedisTls = Alone<true>;

pub struct Alone<const TLS: bool>(Member);

/// Three servers, each with a third of the slots.
pub struct RedisCluster(Vec<Member>);

/// A primary, its replica and the one Sentinel that watches them.
pub struct RedisWithSentinel {
    pub primary: Redis,
    pub replica: Redis,
    sentinel: Redis,
}

/// One process.
pub struct Member {
    port: u16,
    directory: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
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
    pub fn start_with(arguments: &[&str]) -> Result<Self, String> {
        let port = free_port();
        let number = port.to_string();
        let own = [&["--port", &number], arguments].concat();
        Member::started(port, new_directory(), &own).map(Self)
    }

    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// What redis-cli says to it.
    pub fn cli(&self, arguments: &[&str]) -> String {
        self.0.cli(arguments)
    }

    /// A section of what it says of itself, by the password `secret`.
    pub fn says(&self, section: &str) -> String {
        self.cli(&["-a", "secret", "--no-auth-warning", "INFO", section])
    }
}

impl Server for RedisCluster {
    const NAME: &'static str = "redis-server as a cluster";

    fn start() -> Result<Self, String> {
        Self::start_with(&ClusterPlan::default())
    }

    fn url(&self) -> String {
        let (host, one, other) = ("127.0.0.1", self.0[0].port, self.0[1].port);
        if self.0[0].is_tls() {
            let roots = self.0[0].directory.join("roots.pem");
            return format!("rediss-cluster://{host}:{one},{host}:{other}?ca={}", roots.display());
        }
        format!("redis-cluster://{host}:{one},{host}:{other}")
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

/// How a cluster is set up.
#[derive(Clone, Copy, Default)]
pub struct ClusterPlan<'a> {
    /// For each of its three primaries.
    pub replicas: usize,
    /// More on the command line of each server.
    pub arguments: &'a [&'a str],
    /// Whether it speaks nothing but TLS.
    pub is_tls: bool,
    /// The environment of the first server.
    pub first: &'a [(String, String)],
}

impl RedisCluster {
    pub fn start_with(plan: &ClusterPlan<'_>) -> Result<Self, String> {
        let roots = new_directory();
        if plan.is_tls {
            certificate(&roots)?;
        }
        let mut members = Vec::new();
        for at in 0..3 * (1 + plan.replicas) {
            let (port, bus, directory) = (free_port(), free_port().to_string(), new_directory());
            let mut own =
                vec!["--cluster-enabled".to_owned(), "yes".to_owned(), "--cluster-port".to_owned(), bus];
            own.extend(["--repl-diskless-sync-delay".to_owned(), "0".to_owned()]);
            own.extend(plan.arguments.iter().map(|&argument| argument.to_owned()));
            if plan.is_tls {
                for name in ["roots.pem", "server.pem", "server.key"] {
                    fs::copy(roots.join(name), directory.join(name)).unwrap();
                }
                own.extend(tls_arguments(port, &directory));
                own.extend(["--tls-cluster".to_owned(), "yes".to_owned()]);
            } else {
                own.extend(["--port".to_owned(), port.to_string()]);
            }
            let own: Vec<&str> = own.iter().map(|argument| &argument[..]).collect();
            let environment = if at == 0 { plan.first } else { &[] };
            members.push(Member::started_within(port, directory, &own, environment)?);
        }
        fs::remove_dir_all(&roots).unwrap();
        let all: Vec<String> = members.iter().map(|member| format!("127.0.0.1:{}", member.port)).collect();
        let mut arguments = vec!["--cluster", "create"];
        arguments.extend(all.iter().map(|address| &address[..]));
        let replicas = plan.replicas.to_string();
        arguments.extend(["--cluster-replicas", &replicas, "--cluster-yes"]);
        let said = members[0].cli(&arguments);
        assert!(said.contains("All 16384 slots covered"), "{said}");
        let cluster = Self(members);
        cluster.wait();
        let follows =
            |member: &Member| !member.cli(&["INFO", "replication"]).contains("master_link_status:down");
        assert!(eventually(Duration::from_secs(20), || cluster.0.iter().all(follows)), "a replica is late");
        Ok(cluster)
    }

    /// Ends one of its servers, and starts it again.
    pub fn kill_member(&mut self, at: usize) {
        self.0[at].process = None;
    }

    pub fn start_member(&mut self, at: usize) {
        self.0[at].start().unwrap();
        self.wait();
    }

    /// Its servers.
    pub fn members(&self) -> &[Member] {
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

impl RedisWithSentinel {
    /// With a password that all of them want.
    pub fn start() -> Result<Self, String> {
        let primary = Redis::start_with(&["--requirepass", "secret", "--masterauth", "secret"])?;
        let port = primary.port().to_string();
        let replica = Redis::start_with(&[
            "--requirepass",
            "secret",
            "--masterauth",
            "secret",
            "--replicaof",
            "127.0.0.1",
            &port,
        ])?;
        let directory = new_directory();
        let file = directory.join("sentinel.conf");
        let watched = format!(
            "sentinel monitor gate 127.0.0.1 {port} 1\nsentinel auth-pass gate secret\n\
             sentinel down-after-milliseconds gate 500\nsentinel failover-timeout gate 2000\n"
        );
        fs::write(&file, watched).unwrap();
        let (own, name) = (free_port(), file.display().to_string());
        let arguments = [&name, "--sentinel", "--bind", "127.0.0.1", "--port", &own.to_string(), "--dir"];
        let mut arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        arguments.push(directory.display().to_string());
        let (environment, process) = (Vec::new(), None);
        let mut sentinel = Member { port: own, directory, arguments, environment, process };
        sentinel.start()?;
        sentinel.wait();
        let both = Self { primary, replica, sentinel: Alone(sentinel) };
        let knows = || both.sentinel.cli(&["SENTINEL", "REPLICAS", "gate"]).contains("slave");
        let follows = || both.replica.says("replication").contains("master_link_status:up");
        assert!(eventually(Duration::from_secs(30), || knows() && follows()), "the replica is not known");
        Ok(both)
    }

    /// Whether the Sentinel names the replica as the primary.
    pub fn names_replica(&self) -> bool {
        let named = self.sentinel.cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "gate"]);
        named.ends_with(&self.replica.port().to_string())
    }

    pub fn url(&self) -> String {
        format!("redis+sentinel://:secret@127.0.0.1:{}/gate", self.sentinel.port())
    }
}

impl Member {
    /// With these arguments of its own, as soon as it answers.
    fn started(port: u16, directory: PathBuf, own: &[&str]) -> Result<Self, String> {
        Self::started_within(port, directory, own, &[])
    }

    fn started_within(
        port: u16,
        directory: PathBuf,
        own: &[&str],
        environment: &[(String, String)],
    ) -> Result<Self, String> {
        let usual = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir"];
        let directory_name = directory.display().to_string();
        let arguments =
            usual.iter().chain([&&directory_name[..]]).chain(own).map(|&word| word.to_owned()).collect();
        let environment = environment.to_vec();
        let mut member = Self { port, directory, arguments, environment, process: None };
        member.start()?;
        member.wait();
        Ok(member)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// What redis-cli says to it.
    pub fn cli(&self, arguments: &[&str]) -> String {
        let mut command = self.client();
        let output = command.args(arguments).stdin(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn client(&self) -> Command {
        let mut command = installed("redis-cli", "redis-tools");
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
        let mut command = installed("redis-server", "redis-server");
        command.args(&self.arguments).envs(self.environment.iter().cloned());
        self.process = Some(Process::spawn(&mut command)?);
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
    Ok(tls_arguments(port, directory))
}

fn tls_arguments(port: u16, directory: &Path) -> Vec<String> {
    let file = |name: &str| directory.join(name).display().to_string();
    let mut arguments = vec!["--port".to_owned(), "0".to_owned(), "--tls-port".to_owned(), port.to_string()];
    arguments.extend(["--tls-cert-file".to_owned(), file("server.pem")]);
    arguments.extend(["--tls-key-file".to_owned(), file("server.key")]);
    arguments.extend(["--tls-ca-cert-file".to_owned(), file("roots.pem")]);
    arguments.extend(["--tls-auth-clients".to_owned(), "no".to_owned()]);
    arguments
}

/// The environment of a server whose clock is ahead by so many seconds.
///
/// # Errors
/// If there is no C compiler.
pub fn clock_ahead(seconds: u32) -> Result<Vec<(String, String)>, String> {
    let library = made_once("shifted-clock-1", &[], |making| {
        let source = root().join("tests/support/src/servers/shifted_clock.c");
        let mut compiler = Command::new("cc");
        run(compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(making.join("shifted.so")).arg(source))
    })?;
    let library = library.join("shifted.so").display().to_string();
    Ok(vec![("LD_PRELOAD".to_owned(), library), ("CLOCK_SHIFT".to_owned(), seconds.to_string())])
}

/// An authority, and a certificate for `localhost` that it signed.
fn certificate(directory: &Path) -> Result<(), String> {
    let openssl = |arguments: &str| {
        let mut command = installed("openssl", "openssl");
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
