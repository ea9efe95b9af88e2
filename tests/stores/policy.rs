//! `tollgate policy`: a file that is pushed into the store becomes the policy of the gates, and every earlier one can
//! be had again. Every store keeps it.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::migrate;
use support::servers::dynamodb::Dynalite;
use support::servers::memcached::Memcacheds;
use support::servers::mysql::MariaDb;
use support::servers::postgres::Postgres;
use support::servers::redis::{Redis, RedisCluster};
use support::{
    Gate, Launch, Server, Upstream, binary, eventually, free_port, mount, new_directory, post, started,
};

mount!(redis, super::Redis, policy: what_is_pushed_is_shown_compared_and_taken_back);
mount!(redis_cluster, super::RedisCluster, policy: what_is_pushed_is_shown_compared_and_taken_back);
mount!(memcached, super::Memcacheds, policy: what_is_pushed_is_shown_compared_and_taken_back);
mount!(postgres, super::Postgres, policy:
    what_is_pushed_is_shown_compared_and_taken_back a_gate_follows_the_policy_of_its_store);
mount!(mariadb, super::MariaDb, policy:
    what_is_pushed_is_shown_compared_and_taken_back a_gate_follows_the_policy_of_its_store);
mount!(dynamodb, super::Dynalite, policy: what_is_pushed_is_shown_compared_and_taken_back);

/// What follows in the log or the metrics takes this long at most.
const SOON: Duration = Duration::from_secs(2);
pub(crate) const SECRET: &str = "one secret for all of these gates together";

/// A machine from which policies are pushed, with the store in its environment.
pub(crate) struct Desk {
    directory: PathBuf,
    url: String,
}

impl Desk {
    pub(crate) fn at(server: &impl Server) -> Self {
        migrate(&format!("upstream = \"http://127.0.0.1:2\"\n[store]\nurl = \"{}\"\n", server.url()));
        Self { directory: new_directory(), url: server.url() }
    }

    /// Writes a file of this machine, and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command
            .args(words)
            .current_dir(&self.directory)
            .env_remove("TOLLGATE_CONFIG")
            .env("SUDO_USER", "carol");
        command.env("TOLLGATE_STORE__URL", &self.url).env("TOLLGATE_STORE__SECRET", SECRET);
        command
    }

    /// The exit code, what is on standard output, and what is on standard error.
    pub(crate) fn policy(&self, words: &[&str]) -> (i32, String, String) {
        self.run(&[&["policy"], words].concat())
    }

    pub(crate) fn run(&self, words: &[&str]) -> (i32, String, String) {
        let output = self.command(words).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// Pushes this text, which has to work.
    pub(crate) fn push(&self, text: &str) {
        self.file("new.toml", text);
        let (code, _, err) = self.policy(&["push", "new.toml"]);
        assert_eq!(code, 0, "{err}");
    }

    /// The same without a look at what the gates make of it.
    fn push_only(&self, text: &str) {
        self.file("new.toml", text);
        let (code, _, err) = self.policy(&["push", "--no-wait", "new.toml"]);
        assert_eq!(code, 0, "{err}");
    }

    fn versions(&self) -> Vec<u64> {
        let (_, out, _) = self.policy(&["history", "--format", "json"]);
        let all: Value = serde_json::from_str(&out).unwrap();
        all.as_array().unwrap().iter().map(|entry| entry["version"].as_u64().unwrap()).collect()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A policy with this rate for the gates of `[admin]` and `listen` of their own.
pub(crate) fn policy(upstream: &Upstream, rate: &str) -> String {
    upstream.file(&format!("[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"{rate}\"\n"))
}

/// A gate that has its policy from this store.
pub(crate) fn follower(desk: &Desk) -> Launch {
    with_secrets(desk, SECRET)
}

fn has_version(gate: &Gate, version: u32) -> bool {
    eventually(SOON, || gate.metric("tollgate_policy_version", "") == f64::from(version))
}

fn status(gate: &Gate) -> Value {
    let mut command = Command::new(binary());
    command.args(["status", "--format", "json", "--socket"]).arg(gate.admin_socket());
    serde_json::from_slice(&command.output().unwrap().stdout).unwrap()
}

fn login(gate: &Gate) -> u16 {
    gate.ask(post("/login", "")).status
}

fn what_is_pushed_is_shown_compared_and_taken_back(server: impl Server) {
    let desk = Desk::at(&server);
    let text = |rate: &str| {
        format!(
            "listen = \"http://127.0.0.1:8080\"\nupstream = \"http://127.0.0.1:8081\"\n\
             [route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"{rate}\"\n# {}\n",
            "a long comment ".repeat(4_050)
        )
    };
    let (one, two) = (text("10 per 5m"), text("20 per 5m"));
    assert_eq!(desk.policy(&["history"]), (0, "no policy has been pushed yet\n".to_owned(), String::new()));
    let (code, _, err) = desk.policy(&["show"]);
    assert!(
        code == 1 && err.contains("has no policy yet: `tollgate policy push FILE` puts one there"),
        "{err}"
    );
    desk.file("one.toml", &one);
    desk.file("two.toml", &two);
    let (code, out, err) = desk.policy(&["push", "one.toml", "-m", "the first one"]);
    assert!(code == 0 && out.starts_with("policy 1 ("), "{out}{err}");
    assert_eq!(desk.policy(&["show"]).1, one);
    let (code, out, _) = desk.policy(&["diff", "two.toml"]);
    assert_eq!(code, 1);
    assert!(out.contains("\n-rate = \"10 per 5m\"\n+rate = \"20 per 5m\"\n"), "{out}");
    assert_eq!(desk.policy(&["diff", "one.toml"]).0, 0);
    desk.push(&two);
    assert_eq!(desk.policy(&["push", "two.toml"]).1.split(" in ").next(), Some("policy 2"));
    assert_eq!((desk.policy(&["show"]).1, desk.policy(&["show", "1"]).1), (two.clone(), one.clone()));
    assert!(desk.policy(&["diff"]).1.starts_with("--- policy 1\n+++ policy 2\n"));
    let (code, _, err) = desk.policy(&["rollback"]);
    assert_eq!((code, desk.policy(&["show"]).1), (0, one), "{err}");
    let (_, out, _) = desk.policy(&["history"]);
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[1].starts_with("3 ") && lines[1].ends_with("back to 1"), "{out}");
    assert!(lines[3].contains(&author()) && lines[3].ends_with("the first one"), "{out}");
    assert!(desk.policy(&["rollback", "9"]).2.contains("keeps no policy 9"));
    // A file with a mistake changes nothing.
    let (code, _, err) = {
        desk.file("bad.toml", &two.replace("20 per 5m", "20 a minute"));
        desk.policy(&["push", "bad.toml"])
    };
    assert!(
        code == 78 && err.contains("--> bad.toml:6:") && err.contains("the policy in the store stays"),
        "{err}"
    );
    // Gates would not have the files.
    desk.file("several.toml", &format!("include = \"sites/*.toml\"\n{two}"));
    let (code, _, err) = desk.policy(&["push", "several.toml"]);
    assert!(
        code == 78 && err.contains("error: a policy of the store includes no files\n --> several.toml:1:1"),
        "{err}"
    );
    assert_eq!(desk.versions(), [3, 2, 1]);
}

fn a_gate_follows_the_policy_of_its_store(server: impl Server) {
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    desk.push(&policy(&upstream, "2 per 1h"));
    let gate = follower(&desk).start();
    assert_eq!([login(&gate), login(&gate), login(&gate)], [200, 200, 429]);
    desk.push(&policy(&upstream, "4 per 1h"));
    assert!(has_version(&gate, 2), "{}", gate.metrics());
    assert_eq!(login(&gate), 429, "the drained bucket is not refilled");
}

#[test]
fn a_policy_is_pushed_only_if_it_decides_its_cases_as_they_say() {
    let server = started::<Redis>();
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    desk.file("new.toml", &policy(&upstream, "1 per 1h"));
    let case = "[[case]]\nrequest = \"POST /login\"\ntimes = 2\nexpect = \"admit\"\n";
    desk.file("cases.toml", case);
    let push = || desk.policy(&["push", "new.toml", "--test", "cases.toml"]);
    let (code, out, err) = push();
    assert_eq!(code, 1, "{err}");
    assert!(
        out.starts_with("cases.toml:1:1: POST /login (2 of 2): expected admit, got refuse by address"),
        "{out}"
    );
    assert!(err.ends_with("refused, the policy in the store stays\n"), "{err}");
    desk.file("cases.toml", "[[case]]\n");
    assert_eq!((push().0, desk.versions().len()), (78, 0));
    desk.file("cases.toml", &case.replace("times = 2\n", ""));
    let (code, out, err) = push();
    assert!(code == 0 && out.starts_with("policy 1 ("), "{out}{err}");
}

/// Gates without any file of their own.
#[test]
fn a_gate_without_a_file_finds_the_store_in_its_environment() {
    let server = started::<Redis>();
    let (desk, upstream, port) = (Desk::at(&server), Upstream::start(), free_port());
    let file = format!("listen = \"http://127.0.0.1:{port}\"\n{}", policy(&upstream, "1 per 1h"));
    let (code, _, err) = {
        let output = desk.command(&["run", "-c", "store:"]).output().unwrap();
        (output.status.code(), output.stdout, String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(code, Some(78), "{err}");
    assert!(err.contains("error: the policy of the store is missing\n --> store::1:10\n"), "{err}");
    desk.push(&file);
    let mut gate = Running(desk.command(&["run", "-c", "store:"]).stderr(Stdio::null()).spawn().unwrap());
    let is_there = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    assert!(eventually(Duration::from_secs(10), is_there));
    assert!(gate.0.try_wait().unwrap().is_none());
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_gate_that_was_away_takes_the_policy_at_its_return_and_starts_without_the_store() {
    let mut server = started::<Redis>();
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    desk.push(&policy(&upstream, "1 per 1h"));
    let gate = follower(&desk).start();
    assert!(has_version(&gate, 1));
    // Stopped as a whole: it neither asks nor hears anything.
    gate.signal("STOP");
    desk.push_only(&policy(&upstream, "3 per 1h"));
    gate.signal("CONT");
    assert!(has_version(&gate, 2), "{}", gate.messages());
    assert_eq!(status(&gate)["policy"]["version"], 2);

    let kept = fs::read_to_string(gate.directory.join("tollgate.policy.toml")).unwrap();
    assert!(kept.starts_with("# policy 2 of the store;") && kept.contains("3 per 1h"), "{kept}");
    server.kill();
    drop(gate);
    let gate = follower(&desk).beside("tollgate.policy.toml", &kept).start();
    assert!(gate.messages().contains("policy 2 is used, as it was kept in "), "{}", gate.messages());
    assert_eq!([1, 2, 3, 4].map(|_| login(&gate)), [200, 200, 200, 429]);
    server.start_again();
    desk.push(&policy(&upstream, "5 per 1h"));
    assert!(eventually(Duration::from_secs(5), || login(&gate) == 429));
    assert!(has_version(&gate, 1), "an empty store counts from 1 again: {}", gate.messages());
}

/// The author of a push: the name of the user id, or the person who became root by sudo.
fn author() -> String {
    let id = |option| {
        let output = Command::new("id").arg(option).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    if id("-u") == "0" { "carol@".to_owned() } else { format!("{}@", id("-un")) }
}

#[test]
fn a_policy_that_a_gate_cannot_take_leaves_the_one_in_force_until_a_reload_takes_it() {
    let server = started::<Redis>();
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    desk.push(&policy(&upstream, "1 per 1h"));
    let gate = follower(&desk).start();
    assert!(has_version(&gate, 1));
    let hash = status(&gate)["policy"]["hash"].clone();
    // The list is on the machine that pushes, and not on that of the gate.
    desk.file("list.txt", "203.0.113.0/24\n");
    desk.push_only(&format!(
        "{}exempt = [\"office\"]\n[networks]\noffice = [\"@list.txt\"]\n",
        policy(&upstream, "2 per 1h")
    ));
    let is_refused = || gate.metric("tollgate_policy_refused", "") == 1.0;
    assert!(eventually(SOON, is_refused), "{}", gate.messages());
    let said = status(&gate);
    assert_eq!((&said["policy"]["version"], &said["policy"]["hash"]), (&1.into(), &hash));
    assert_eq!(said["policy"]["refused"]["version"], 2);
    assert!(gate.messages().contains(&format!("policy 2 of {}", author())), "{}", gate.messages());
    assert!(gate.messages().contains("--> policy 2:"), "{}", gate.messages());
    assert_eq!([login(&gate), login(&gate)], [200, 429], "the old one is in force");

    fs::write(gate.directory.join("list.txt"), "203.0.113.0/24\n").unwrap();
    gate.signal("HUP");
    assert!(has_version(&gate, 2), "{}", gate.messages());
    assert!(eventually(SOON, || status(&gate)["policy"]["refused"] == Value::Null));
}

/// Who can write to the store, but has not the gates' secret, does not lead them anywhere.
#[test]
fn a_policy_of_another_secret_is_not_taken() {
    let server = started::<Redis>();
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    desk.push(&policy(&upstream, "1 per 1h"));
    let gate = follower(&desk).start();
    let file = desk.file("new.toml", &policy(&upstream, "1000 per 1h"));
    let foreign = "another secret that is just as long as the one";
    let mut command = desk.command(&["policy", "push"]);
    let output = command.arg(file).env("TOLLGATE_STORE__SECRET", foreign).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("holds a policy that was not written with this `store.secret`"), "{err}");
    // The attacker removes it first, and pushes one of his own, before the gate restores what the store lost.
    let pushes = || {
        server.cli(&["FLUSHALL"]);
        let mut command = desk.command(&["policy", "push", "--no-wait", "new.toml"]);
        command.env("TOLLGATE_STORE__SECRET", foreign).status().unwrap().success()
    };
    assert!(eventually(SOON, pushes));
    let is_told = || gate.messages().contains("holds a policy that was not written with this `store.secret`");
    assert!(eventually(SOON, is_told), "{}", gate.messages());
    assert_eq!([login(&gate), login(&gate)], [200, 429]);
}

const NEW_SECRET: &str = "another secret that is just as long as the one";

impl Desk {
    fn with_secret(&self, secret: &str, words: &[&str]) -> (i32, String) {
        let mut command = self.command(&[&["policy"], words].concat());
        let output = command.env("TOLLGATE_STORE__SECRET", secret).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(said).unwrap())
    }
}

fn with_secrets(desk: &Desk, secrets: &str) -> Launch {
    let store = format!("[store]\nurl = \"{}\"\nsecret = \"{secrets}\"\ntimeout = \"2s\"\n", desk.url);
    Launch::new(&format!("policy = \"store\"\n{store}"))
}

/// Once a policy had been pushed, the secret could not be changed any more.
#[test]
fn a_secret_is_changed_by_way_of_two_and_the_policy_stays() {
    let server = started::<Redis>();
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    desk.push(&policy(&upstream, "1 per 1h"));
    let gate = follower(&desk).start();
    let mut command = Command::new(binary());
    command.args(["mode", "observe", "--for", "1h", "--socket"]).arg(gate.admin_socket());
    assert!(command.status().unwrap().success());
    // Modes are a part of what is sealed.
    let observes = |gate: &Gate| [login(gate), login(gate), login(gate)] == [200; 3];
    assert!(observes(&gate));
    drop(gate);
    let gate = with_secrets(&desk, &format!("{NEW_SECRET}\\n{SECRET}")).start();
    assert!(has_version(&gate, 1) && eventually(SOON, || observes(&gate)), "{}", gate.messages());
    let is_sealed_anew = || desk.with_secret(NEW_SECRET, &["show"]).0 == 0;
    assert!(eventually(SOON, is_sealed_anew), "{}", gate.messages());
    drop(gate);
    let gate = with_secrets(&desk, NEW_SECRET).start();
    assert!(has_version(&gate, 1) && eventually(SOON, || observes(&gate)), "{}", gate.messages());
    desk.file("new.toml", &policy(&upstream, "2 per 1h"));
    let (code, said) = desk.with_secret(NEW_SECRET, &["push", "--no-wait", "new.toml"]);
    assert_eq!(code, 0, "{said}");
    assert!(has_version(&gate, 2), "{}", gate.messages());
}

/// There was no way out of a policy that could not be read.
#[test]
fn a_policy_that_cannot_be_read_is_replaced_on_demand() {
    let server = started::<Redis>();
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    desk.push(&policy(&upstream, "1 per 1h"));
    let gate = with_secrets(&desk, NEW_SECRET);
    desk.file("new.toml", &policy(&upstream, "3 per 1h"));
    let (code, said) = desk.with_secret(NEW_SECRET, &["push", "new.toml"]);
    assert!(code == 1 && said.contains("`tollgate policy push --replace FILE` takes its place"), "{said}");
    let (code, said) = desk.with_secret(NEW_SECRET, &["push", "--replace", "new.toml"]);
    assert!(code == 0 && said.contains("what could not be read is gone"), "{said}");
    let gate = gate.start();
    assert!(has_version(&gate, 1), "{}", gate.messages());
    assert_eq!([login(&gate), login(&gate), login(&gate), login(&gate)], [200, 200, 200, 429]);
    let (code, said) = desk.with_secret(NEW_SECRET, &["push", "--replace", "new.toml"]);
    assert!(code == 0 && !said.contains("gone"), "{said}");
    assert!(has_version(&gate, 2), "{}", gate.messages());
}
