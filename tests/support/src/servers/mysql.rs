//! MariaDB. MySQL itself is in no Debian; what is said to it has to be what both understand.
//!
//! Questions are counted in the server's general log, because its counters count statements of all kinds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::sql::{TAKE_A_ROW, Tables, certificate, copy, made_once, owned, remove, run, schema, until_held};
use super::{Process, Server};
use crate::{eventually, free_port, installed, new_directory};

/// One server, its data in a directory of its own.
pub struct MariaDb {
    process: Option<Process>,
    directory: PathBuf,
    port: u16,
    speaks_tls: bool,
    /// More on its command line.
    arguments: Vec<String>,
}

impl MariaDb {
    /// Starts it, with its own certificate if it speaks TLS.
    pub fn with(speaks_tls: bool) -> Result<Self, String> {
        Self::with_arguments(speaks_tls, &[])
    }

    fn with_arguments(speaks_tls: bool, arguments: &[&str]) -> Result<Self, String> {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        let (directory, port) = (new_directory(), free_port());
        let mut server = Self { process: None, directory, port, speaks_tls, arguments };
        server.launch()?;
        Ok(server)
    }

    /// A primary, and a replica that is read-only.
    pub fn pair() -> Result<[Self; 2], String> {
        let primary = Self::with_arguments(false, &["--log-bin=b", "--server-id=1"])?;
        let replica = Self::with_arguments(false, &["--log-bin=b", "--server-id=2", "--read-only=1"])?;
        primary
            .sql("CREATE USER follower IDENTIFIED BY 'secret'; GRANT REPLICATION SLAVE ON *.* TO follower");
        replica.follow(&primary);
        Ok([primary, replica])
    }

    /// Becomes a replica of this server, from the beginning of its log.
    fn follow(&self, primary: &Self) {
        self.sql(&format!(
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={}, MASTER_USER='follower', \
             MASTER_PASSWORD='secret', MASTER_LOG_FILE='b.000001', MASTER_LOG_POS=4; START SLAVE",
            primary.port
        ));
    }

    /// `store.url` for both.
    pub fn url_of_pair([one, other]: &[Self; 2]) -> String {
        format!("mysql://tollgate:secret@127.0.0.1:{},127.0.0.1:{}/tollgate", one.port, other.port)
    }

    /// The certificate that it shows, if it speaks TLS: its own root.
    pub fn root(&self) -> PathBuf {
        self.directory.join("root.crt")
    }

    fn client(&self) -> Command {
        let mut command = installed("mariadb", "mariadb-client-core");
        command.args(["--no-defaults", "-u", "root", "-S"]).arg(self.directory.join("s")).arg("tollgate");
        command
    }

    fn launch(&mut self) -> Result<(), String> {
        copy(&template()?, &self.data(), USERS);
        scratch(&self.directory.join("tmp"));
        // One that ends as it starts is started once more: on a busy machine a database may lose a race for what it needs.
        for _ in 0..3 {
            let mut process = Process::spawn(&mut self.server()?)?;
            let has_started = eventually(Duration::from_secs(60), || self.answers() || !process.is_running());
            if has_started && process.is_running() {
                self.process = Some(process);
                return Ok(());
            }
        }
        let said = fs::read_to_string(self.directory.join("errors")).unwrap_or_default();
        Err(format!("it never answers: {said}"))
    }

    fn answers(&self) -> bool {
        let asked = self.client().args(["-e", "SELECT 1"]).output();
        asked.is_ok_and(|output| output.status.success())
    }

    fn server(&self) -> Result<Command, String> {
        let mut command = installed("mariadbd", "mariadb-server");
        command.args(["--no-defaults", "--user=mysql", "--bind-address=127.0.0.1", "--skip-name-resolve"]);
        command.args([
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-buffer-pool-size=16M",
            "--general-log=1",
        ]);
        command.args(["--innodb-log-file-size=8M", "--skip-log-bin", &format!("--port={}", self.port)]);
        for (option, file) in [
            ("datadir", "data"),
            ("tmpdir", "tmp"),
            ("socket", "s"),
            ("pid-file", "p"),
            ("general-log-file", "log"),
            ("log-error", "errors"),
        ] {
            command.arg(format!("--{option}={}", self.directory.join(file).display()));
        }
        command.args(&self.arguments);
        if self.speaks_tls {
            certificate(&self.data(), USERS)?;
            command.arg("--ssl-cert=server.crt").arg("--ssl-key=server.key");
        }
        Ok(command)
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            process.signal(signal);
        }
    }
}

impl Server for MariaDb {
    const NAME: &'static str = "mariadb-server";

    fn start() -> Result<Self, String> {
        Self::with(false)
    }

    fn url(&self) -> String {
        format!("mysql://tollgate:secret@127.0.0.1:{}/tollgate?sslmode=disable", self.port)
    }

    fn pause(&mut self) {
        self.signal(Signal::STOP);
    }

    fn resume(&mut self) {
        self.signal(Signal::CONT);
    }

    fn kill(&mut self) {
        self.process = None;
    }

    fn start_again(&mut self) {
        assert!(remove(&self.data()), "the old data stay");
        self.launch().unwrap();
        for statement in schema(&self.url()) {
            self.sql(&statement);
        }
    }

    fn questions(&mut self) -> u64 {
        let log = fs::read(self.directory.join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let asked = |line: &&str| line.contains("Execute\t") && line.contains("_buckets");
        let is_beside =
            |line: &&str| ["SHA1", "DELETE", "WHERE FALSE", "'probe'"].iter().any(|word| line.contains(word));
        u64::try_from(log.lines().filter(asked).filter(|line| !is_beside(line)).count()).unwrap()
    }

    fn spoil(&mut self, bytes: &[u8]) {
        let tables = self.sql("SHOW TABLES LIKE '%\\_buckets'");
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        for table in tables.lines() {
            self.sql(&format!("UPDATE {table} SET state = x'{hex}'"));
        }
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        self.process = None;
        eventually(Duration::from_secs(5), || remove(&self.directory));
    }
}

impl Tables for MariaDb {
    fn port(&self) -> u16 {
        self.port
    }

    fn sql(&self, statements: &str) -> String {
        let output = self.client().args(["-N", "-B", "-e", statements]).output().unwrap();
        assert!(output.status.success(), "{statements}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn fill(&self, rows: u32, late: u32) {
        self.sql(&format!(
            "INSERT INTO tollgate_buckets (`key`, version, state, limit_name, full_at, expires_at, updated_at) \
             SELECT UNHEX(MD5(CONCAT({late}, ' ', seq))), seq, '', '', UTC_TIMESTAMP(6), \
             UTC_TIMESTAMP(6) - INTERVAL {late} SECOND, UTC_TIMESTAMP(6) FROM seq_1_to_{rows}"
        ));
    }

    fn hold_all(&self, time: Duration) -> Child {
        let seconds = time.as_secs_f32();
        // Only the rows, not the room between them.
        let rows = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN";
        let held =
            format!("{rows}; SELECT 1 FROM tollgate_buckets FOR UPDATE; SELECT SLEEP({seconds}); COMMIT");
        let holder = self.client().args(["-e", &held]).stdout(Stdio::null()).spawn().unwrap();
        until_held(|| self.client().args(["-e", TAKE_A_ROW]).stderr(Stdio::null()).output());
        holder
    }

    fn read_only(&self) {
        self.sql("SET GLOBAL read_only = 1");
    }

    fn take_rights(&self) {
        self.sql("REVOKE ALL ON tollgate.* FROM tollgate; GRANT CREATE ON tollgate.* TO tollgate");
    }
}

/// Data with a user and a database, made by the first test that needs it.
fn template() -> Result<PathBuf, String> {
    made_once("mariadb-1", USERS, |making| {
        let users = making.with_extension("sql");
        fs::write(
            &users,
            "FLUSH PRIVILEGES;\nCREATE DATABASE tollgate;\nCREATE USER tollgate IDENTIFIED BY 'secret';\n\
             GRANT ALL ON tollgate.* TO tollgate;\n",
        )
        .unwrap();
        let scratch = scratch(&making.with_extension("tmp"));
        let mut install = installed("mariadb-install-db", "mariadb-server");
        install.args([
            "--no-defaults",
            "--user=mysql",
            "--skip-test-db",
            "--auth-root-authentication-method=normal",
        ]);
        install
            .arg(format!("--datadir={}", making.display()))
            .arg(format!("--tmpdir={}", scratch.display()))
            .arg(format!("--extra-file={}", users.display()));
        let done = run(&mut install);
        fs::remove_file(&users).unwrap();
        fs::remove_dir_all(&scratch).unwrap();
        done
    })
}

/// A server that starts removes what others have just put in the same folder.
fn scratch(folder: &Path) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    owned(folder, USERS);
    folder.to_owned()
}

/// Whom root runs it as.
const USERS: &[&str] = &["mysql"];
