//! The units of `contrib/systemd`: what they start is there, and systemd takes them.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use support::{Client, binary, eventually, free_port, new_directory, post};

fn unit(name: &str) -> String {
    fs::read_to_string(support::root().join("contrib/systemd").join(name)).unwrap()
}

/// All values of each setting; the sections are left out.
fn settings(unit: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut settings: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let lines = unit.lines().filter(|line| !line.starts_with(['#', ';', '[']));
    for (name, value) in lines.filter_map(|line| line.split_once('=')) {
        settings.entry(name).or_default().push(value);
    }
    settings
}

#[test]
fn the_units_start_a_gate_that_understands_their_words() {
    let [service, socket, trust] =
        ["tollgate.service", "tollgate.socket", "tollgate-trust.service"].map(unit);
    let (service, socket, trust) = (settings(&service), settings(&socket), settings(&trust));
    let update: Vec<&str> = trust["ExecStart"][0].split(' ').collect();
    let start = service["ExecStart"][0];
    let words: Vec<&str> = start.split(' ').collect();
    assert_eq!(words[0], "/usr/bin/tollgate");
    let directory = new_directory();
    let file = directory.join("config.toml");
    fs::write(&file, "listen = \"systemd:web\"\nupstream = \"http://127.0.0.1:1\"\n").unwrap();
    let name = socket["FileDescriptorName"][0];
    assert_eq!(format!("systemd:{name}"), "systemd:web");
    for arguments in [&words[1..], &update[1..], &["check", "--quiet", "-c", "/etc/tollgate/config.toml"]] {
        let arguments =
            arguments.iter().map(|word| word.replace("/etc/tollgate/config.toml", file.to_str().unwrap()));
        let output = Command::new(binary()).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // Nothing passed the socket: all before that is understood.
        assert!(output.status.success() || said.contains("systemd passed no socket"), "{said}");
    }
    assert_eq!((service["Type"][0], service["KillMode"][0]), ("notify", "mixed"));
    let check = "+/usr/bin/tollgate check --quiet -c /etc/tollgate/config.toml";
    assert_eq!(service["ExecReload"], [check, "/bin/sh -c 'kill -HUP $MAINPID'"]);
    let _ = fs::remove_dir_all(directory);
}

/// As the unit's comment tells people to: keys are credentials, the log and the snapshot have bare names.
#[test]
fn a_gate_finds_its_credentials_and_directories_where_systemd_puts_them() {
    let directory = new_directory();
    for name in ["credentials", "logs", "state", "etc"] {
        fs::create_dir(directory.join(name)).unwrap();
    }
    fs::write(directory.join("credentials/device.keys"), "k".repeat(40)).unwrap();
    let file = directory.join("etc/config.toml");
    let port = free_port();
    let text = format!(
        "listen = \"http://127.0.0.1:{port}\"\nupstream = \"http://127.0.0.1:{}\"\n\
         [route.login]\nmatch = \"POST /login\"\nuser = \"form:user\"\n[limit.address]\nrate = \"10 per 5m\"\n\
         [device]\nsecret = \"${{file:device.keys}}\"\n[log]\naccess = \"access.log\"\n[store]\nsnapshot = \"buckets\"\n",
        free_port()
    );
    fs::write(&file, text).unwrap();
    let path = |name: &str| directory.join(name);
    let mut gate = Command::new(binary())
        .args(["run", "-c"])
        .arg(&file)
        .env("CREDENTIALS_DIRECTORY", path("credentials"))
        .env("LOGS_DIRECTORY", path("logs"))
        .env("STATE_DIRECTORY", path("state"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    assert!(eventually(Duration::from_secs(20), || TcpStream::connect(address).is_ok()), "the gate listens");
    let mut client = Client::connect(address);
    client.send(post("/login", "user=alice"));
    client.answer();
    let is_there = |name: &str| fs::metadata(path(name)).is_ok_and(|about| about.len() > 0);
    for name in ["logs/access.log", "state/buckets"] {
        assert!(eventually(Duration::from_secs(20), || is_there(name)), "{name}");
    }
    let beside: Vec<_> = fs::read_dir(path("etc")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(beside, ["config.toml"], "nothing is written beside the configuration");
    gate.kill().unwrap();
    gate.wait().unwrap();
    let _ = fs::remove_dir_all(directory);
}
