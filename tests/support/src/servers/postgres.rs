//! PostgreSQL, and PostgreSQL with every transaction SERIALIZABLE, which gives the errors of a distributed one.
//!
//! A cluster is made once for all tests of a build and copied. The tests count requests in the server's own log, because
//! its statistics come late and count rows, not statements.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::sql::{
    TAKE_A_ROW, Tables, certificate, copy, made_once, owned, remove, run, run_with, schema, unprivileged,
    until_held,
};
use super::{Process, Server, wait_for};
use crate::{eventually, free_port, new_directory};

/// One server, its data in a directory of its own.
pub type Postgres = Cluster<false>;

/// The same where every transaction is SERIALIZABLE.
pub type PostgresSerializable = Cluster<true>;

pub struct Cluster<const SERIALIZABLE: bool> {
    postmaster: Option<Process>,
    directory: PathBuf,
    port: u16,
    settings: &'static [&'static str],
}

impl<const SERIALIZABLE: bool> Cluster<SERIALIZABLE> {
    /// Starts it with these settings beside the usual ones.
    pub fn with(settings: &'static [&'static str]) -> Result<Self, String> {
        let directory = new_directory();
        let mut server = Self { postmaster: None, directory, port: free_port(), settings };
        server.launch()?;
        Ok(server)
    }

    /// The certificate that it shows, if it speaks TLS: its own root.
    pub fn root(&self) -> PathBuf {
        self.directory.join("root.crt")
    }

    /// What it has written about itself.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    fn psql(&self, statements: &str) -> Command {
        let mut command = Command::new(binary("psql").unwrap());
        command
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"])
            .arg(&self.directory);
        command.args(["-p", &self.port.to_string(), "-d", "tollgate", "-c", statements]);
        command
    }

    /// Another server that follows this one.
    pub fn standby(&self) -> Result<Self, String> {
        let directory = new_directory();
        let mut standby = Self { postmaster: None, directory, port: free_port(), settings: self.settings };
        owned(&standby.directory, USERS);
        let mut copy = unprivileged(&binary("pg_basebackup")?, USERS);
        copy.arg("-h").arg(&self.directory).args([
            "-p",
            &self.port.to_string(),
            "-U",
            "postgres",
            "-R",
            "-c",
            "fast",
        ]);
        run(copy.arg("-D").arg(standby.data()))?;
        standby.run()?;
        Ok(standby)
    }

    fn launch(&mut self) -> Result<(), String> {
        copy(&template()?, &self.data(), USERS);
        self.run()
    }

    fn run(&mut self) -> Result<(), String> {
        if self.settings.contains(&"ssl=on") {
            certificate(&self.data(), USERS)?;
        }
        let mut command = unprivileged(&binary("postgres")?, USERS);
        command.arg("-D").arg(self.data()).args(["-p", &self.port.to_string()]);
        let sockets = format!("unix_socket_directories={}", self.directory.display());
        let log = format!("log_directory={}", self.directory.display());
        let usual =
            ["listen_addresses=127.0.0.1", "fsync=off", "shared_buffers=16MB", "logging_collector=on"];
        let logs = ["log_filename=log", "log_statement=all", "log_file_mode=0644", "log_line_prefix="];
        for setting in usual.iter().chain(&logs).chain(self.settings).copied().chain([&sockets[..], &log]) {
            command.args(["-c", setting]);
        }
        self.postmaster = Some(Process::spawn(&mut command)?);
        wait_for(SocketAddr::from(([127, 0, 0, 1], self.port)));
        let answers = || {
            let ready = Command::new(binary("pg_isready").unwrap())
                .args(["-q", "-h", &self.directory.display().to_string(), "-p", &self.port.to_string()])
                .status();
            ready.unwrap().success()
        };
        assert!(eventually(Duration::from_secs(30), answers), "it never becomes ready");
        Ok(())
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// The first one and all that it has started.
    fn processes(&self) -> Vec<rustix::process::Pid> {
        let Some(postmaster) = &self.postmaster else { return Vec::new() };
        let id = postmaster.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        let ids = children.split_whitespace().map(|id| id.parse().unwrap());
        let all = std::iter::once(i32::try_from(id).unwrap()).chain(ids);
        all.filter_map(rustix::process::Pid::from_raw).collect()
    }

    fn signal(&self, signal: Signal) {
        for id in self.processes() {
            // A backend may have ended since it was listed.
            let _ = rustix::process::kill_process(id, signal);
        }
    }

    /// What a killed server leaves behind outside its directory: a little shared memory, named in its file.
    fn forget_shared_memory(&self) {
        let lines = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let segment = lines.lines().nth(6).and_then(|line| line.split_whitespace().nth(1));
        if let Some(segment) = segment {
            let _ = Command::new("ipcrm").args(["-m", segment]).output();
        }
    }
}

impl<const SERIALIZABLE: bool> Server for Cluster<SERIALIZABLE> {
    const NAME: &'static str = "postgresql";

    fn start() -> Result<Self, String> {
        Self::with(if SERIALIZABLE { &["default_transaction_isolation=serializable"] } else { &[] })
    }

    fn url(&self) -> String {
        format!("postgres://tollgate:secret@127.0.0.1:{}/tollgate?sslmode=disable", self.port)
    }

    fn pause(&mut self) {
        self.signal(Signal::STOP);
    }

    fn resume(&mut self) {
        self.signal(Signal::CONT);
    }

    fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.postmaster = None;
        self.forget_shared_memory();
    }

    fn start_again(&mut self) {
        let schema = schema(&self.url()).join(" ");
        // The dead server's helpers may still be on their way out.
        assert!(eventually(Duration::from_secs(5), || remove(&self.data())), "the old data stay");
        self.launch().unwrap();
        self.sql(&format!("SET ROLE tollgate; {schema}"));
    }

    fn questions(&mut self) -> u64 {
        let log = self.log();
        let asked = |line: &&str| line.contains("execute <unnamed>: ") && line.contains("_buckets");
        let is_beside = |line: &&str| {
            ["pg_try_advisory_xact_lock", "WHERE false", "'probe'"].iter().any(|word| line.contains(word))
        };
        u64::try_from(log.lines().filter(asked).filter(|line| !is_beside(line)).count()).unwrap()
    }

    fn spoil(&mut self, bytes: &[u8]) {
        let tables = self.sql("SELECT tablename FROM pg_tables WHERE tablename LIKE '%\\_buckets'");
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        for table in tables.lines() {
            self.sql(&format!("UPDATE {table} SET state = '\\x{hex}'"));
        }
    }
}

impl<const SERIALIZABLE: bool> Drop for Cluster<SERIALIZABLE> {
    fn drop(&mut self) {
        self.resume();
        if let Some(mut postmaster) = self.postmaster.take() {
            postmaster.signal(Signal::QUIT);
            if !eventually(Duration::from_secs(5), || !postmaster.is_running()) {
                self.forget_shared_memory();
            }
        }
        eventually(Duration::from_secs(5), || remove(&self.directory));
    }
}

impl<const SERIALIZABLE: bool> Tables for Cluster<SERIALIZABLE> {
    fn port(&self) -> u16 {
        self.port
    }

    fn sql(&self, statements: &str) -> String {
        let output = self.psql(statements).output().unwrap();
        assert!(output.status.success(), "{statements}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn fill(&self, rows: u32, late: u32) {
        self.sql(&format!(
            "INSERT INTO tollgate_buckets (key, version, state, limit_name, full_at, expires_at) SELECT sha256(('{late} ' || n)::bytea), n, '', '', now(), \
             now() - interval '{late} seconds' FROM generate_series(1, {rows}) n"
        ));
    }

    fn hold_all(&self, time: Duration) -> Child {
        let seconds = time.as_secs_f32();
        let held =
            format!("BEGIN; SELECT 1 FROM tollgate_buckets FOR UPDATE; SELECT pg_sleep({seconds}); COMMIT");
        let holder = self.psql(&held).stdout(Stdio::null()).spawn().unwrap();
        until_held(|| self.psql(TAKE_A_ROW).stderr(Stdio::null()).output());
        holder
    }

    fn read_only(&self) {
        self.sql("ALTER DATABASE tollgate SET default_transaction_read_only = on");
    }

    fn take_rights(&self) {
        self.sql("ALTER TABLE tollgate_buckets OWNER TO postgres");
    }
}

/// A cluster with a user and a database, made by the first test that needs it.
fn template() -> Result<PathBuf, String> {
    made_once("postgres-1", USERS, |making| {
        let mut initdb = unprivileged(&binary("initdb")?, USERS);
        initdb.args([
            "-U",
            "postgres",
            "-A",
            "scram-sha-256",
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
        ]);
        run(initdb.args(["--no-sync", "--wal-segsize=1", "-E", "UTF8", "--no-locale", "-D"]).arg(making))?;
        for statement in [
            "CREATE USER tollgate PASSWORD 'secret'",
            "CREATE DATABASE tollgate OWNER tollgate TEMPLATE template0",
        ] {
            let mut single = unprivileged(&binary("postgres")?, USERS);
            single.args(["--single", "-F", "-j", "-D"]).arg(making).arg("postgres");
            run_with(&mut single, statement)?;
        }
        Ok(())
    })
}

fn binary(name: &str) -> Result<PathBuf, String> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<_> = versions.map(|version| version.path().join("bin").join(name)).collect();
    found.retain(|path| path.exists());
    found.sort();
    found.pop().ok_or_else(|| {
        format!("no {name} in /usr/lib/postgresql/*/bin, which the Debian package postgresql brings")
    })
}

/// Whom root runs it as: the first of these that there is.
const USERS: &[&str] = &["postgres", "nobody"];
