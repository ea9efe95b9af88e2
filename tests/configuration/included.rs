//! `include`: one file for each application, for a gate in its sandbox and for the commands.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use support::{Folder, Gate, Launch, Upstream, binary, eventually, post_with};

const PATIENCE: Duration = Duration::from_secs(15);
const LIMIT: &str = "[limit.address]\nrate = \"1 per 1000h\"\n";

/// An application with a limit of its own, which clients of a list do not have.
fn site(name: &str, rate: &str) -> String {
    format!(
        "[networks]\n{name}-office = [\"@sites/office.txt\"]\n[route.{name}]\nmatch = \"POST /{name}\"\nlimits = [\"{name}\"]\n\
         [limit.{name}]\nroutes = [\"{name}\"]\nrate = \"{rate} per 1000h\"\nexempt = [\"{name}-office\"]\n"
    )
}

fn main_file(upstream: &Upstream, lines: &str) -> String {
    let rest =
        format!("include = \"sites/*.toml\"\n{lines}\n[route.login]\nmatch = \"POST /login\"\n{LIMIT}");
    upstream.file(&rest)
}

fn start(upstream: &Upstream, lines: &str) -> Gate {
    let launch = Launch::new(&main_file(upstream, lines)).beside("sites/office.txt", "192.0.2.0/24\n");
    launch.beside("sites/shop.toml", &site("shop", "2")).start()
}

/// How many of five attempts there are admitted.
fn admitted(gate: &Gate, target: &str) -> usize {
    (0..5).filter(|_| gate.ask(post_with(target, "Connection: close\r\n")).status == 200).count()
}

fn hash(gate: &Gate) -> Value {
    let mut command = Command::new(binary());
    command.args(["status", "--format", "json", "--socket"]).arg(gate.admin_socket());
    let status: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    status["config"]["hash"].clone()
}

#[test]
fn an_included_file_that_comes_changes_breaks_or_goes_is_noticed() {
    let upstream = Upstream::start();
    let gate = start(&upstream, "reload = \"watch\"\n");
    assert_eq!([admitted(&gate, "/shop"), admitted(&gate, "/blog")], [2, 5]);
    let [shop, blog] = ["shop", "blog"].map(|name| gate.directory.join(format!("sites/{name}.toml")));
    let reloads = |taken, refused| {
        assert!(eventually(PATIENCE, || gate.reloads() == (taken, refused)), "{}", gate.messages());
    };
    fs::write(&blog, site("blog", "1")).unwrap();
    reloads(1, 0);
    assert_eq!(admitted(&gate, "/blog"), 1);
    fs::write(&shop, site("shop", "4")).unwrap();
    reloads(2, 0);
    assert!(gate.messages().contains("limit `shop` changed"), "{}", gate.messages());
    let more = gate.directory.join("more.toml");
    fs::write(&more, site("shop", "1")).unwrap();
    gate.write(
        &main_file(&upstream, "reload = \"watch\"\n")
            .replace("\"sites/*.toml\"", "[\"sites/s*\", \"more.toml\"]"),
    );
    reloads(2, 1);
    let said = gate.messages();
    assert!(said.contains("route `shop` is there twice") && said.contains("sites/shop.toml:3:8"), "{said}");
    fs::write(&more, "").unwrap();
    reloads(3, 1);
    assert_eq!(admitted(&gate, "/blog"), 5, "it has no route any more");
}

#[test]
fn included_files_wait_for_a_signal_as_the_main_file_does() {
    let upstream = Upstream::start();
    let gate = start(&upstream, "");
    let before = hash(&gate);
    fs::write(gate.directory.join("sites/shop.toml"), "half a file").unwrap();
    fs::write(gate.directory.join("sites/office.txt"), "127.0.0.0/8\n").unwrap();
    assert!(eventually(PATIENCE, || gate.reloads() == (1, 0)), "the list alone: {}", gate.messages());
    assert_eq!((admitted(&gate, "/shop"), hash(&gate)), (5, before.clone()));
    assert!(!gate.reload(&main_file(&upstream, "")));
    fs::write(gate.directory.join("sites/shop.toml"), site("shop", "3")).unwrap();
    assert!(gate.reload(&main_file(&upstream, "")));
    assert_ne!(hash(&gate), before);
}

#[test]
fn commands_read_included_files_as_the_gate_does() {
    let folder = Folder::new();
    fs::create_dir(folder.0.join("sites")).unwrap();
    fs::write(folder.0.join("sites/office.txt"), "192.0.2.0/24\n").unwrap();
    fs::write(folder.0.join("sites/shop.toml"), site("shop", "2")).unwrap();
    let main = format!(
        "listen = \"http://[::]:8080\"\nupstream = \"http://127.0.0.1:1\"\n[route.login]\nmatch = \"POST /login\"\n{LIMIT}"
    );
    fs::write(folder.0.join("config.toml"), format!("include = \"sites/*.toml\"\n{main}")).unwrap();
    let said = folder.run(&["check"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    assert!(said.out.ends_with("config.toml with 1 included file: valid, no warnings\n"), "{}", said.out);
    let said = folder.run(&["explain", "--from", "192.0.2.7", "POST", "/shop"]);
    assert!(said.out.contains("limit     shop: does not see this client"), "{}{}", said.out, said.err);
    let log =
        "198.51.100.7 - - [01/Jan/2026:00:00:00 +0000] \"POST /shop HTTP/1.1\" 200 1 \"-\" \"-\"\n".repeat(3);
    let said = folder.run_in(&["replay", "-"], &[], &log);
    assert!(said.out.contains("shop"), "{}{}", said.out, said.err);
    let include = ["--set", "include=sites/*.toml"];
    let said = folder.run_in(
        &[&["explain", "-c", "-"], &include[..], &["--from", "203.0.113.9", "POST", "/shop"]].concat(),
        &[],
        &main,
    );
    assert!(said.out.contains("limit     shop: takes 1 token"), "{}{}", said.out, said.err);
    let said = folder.run_in(&["doctor", "-c", "-"], &[("TOLLGATE_INCLUDE", "sites/none.toml")], &main);
    assert!(said.code == Some(78) && said.err.contains("cannot read `sites/none.toml`"), "{}", said.err);
}
