//! `tollgate forget`: a person is planted by real attempts, forgotten, and then searched for in every byte that the gate keeps.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use memchr::memmem;
use serde_json::Value;

use support::application::{application, form, post, right, sign_in_with};
use support::{Folder, Gate, Launch, binary, eventually};

const NAME: &str = "zoe4711@planck.example";
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 86, 75, 65);
const OTHER_NAME: &str = "otto4712@planck.example";
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 86, 75, 66);

/// Where the person is found.
const PLACES: [&str; 10] = [
    "memory: buckets",
    "known addresses of accounts",
    "memory: busiest clients",
    "access.log",
    "access.log.1",
    "access.log.2.gz",
    "decisions.log",
    "decisions.log.1",
    "decisions.log.2.gz",
    "snapshot",
];

const FILE: &str = r#"
[route.login]
match = "POST /login"
user = ["form:log", "query:log"]
password = ["form:pwd", "query:pwd"]
success = [{ status = 302 }]

[limit.address]
rate = "6 per 1000h"
[limit.address.escalate]
after = 2
wait = "1h"

[limit.subnet]
rate = "500 per 1000h"
ipv4 = 24

[limit.account]
key = "user"
rate = "5 per 1000h"
count = "failures"

[limit.pair]
key = "user+ip"
rate = "40 per 1000h"

[device]
secret = "${file:{dir}/device.keys}"
addresses = true

[store]
snapshot = "{dir}/snapshot"
capacity = 1000

[log]
access = "{dir}/access.log"
decisions = "{dir}/decisions.log"
"#;

fn gate(schema: &str, style: &str, more: &str) -> (support::Upstream, Gate) {
    let application = application();
    let file = application.file(&format!("{FILE}schema = \"{schema}\"\nstyle = \"{style}\"\n{more}"));
    let launch = Launch::new(&file).with_admin("audit = \"audit.log\"\n");
    let gate = launch.beside("device.keys", "0123456789abcdef0123456789abcdef").start();
    (application, gate)
}

/// A sign-in, wrong passwords until one is refused, and requests whose lines hold the name and the address.
fn visit(gate: &Gate, from: Ipv4Addr, name: &str) {
    let mut client = gate.connect_from(from);
    let mut ask = |request: String| {
        client.send(request);
        client.answer().status
    };
    assert_eq!(ask(sign_in_with("", &form(name, &right(name)))), 302);
    let statuses: Vec<u16> = (0..8).map(|n| ask(sign_in_with("", &form(name, &format!("w{n}"))))).collect();
    assert!(statuses.contains(&429), "{statuses:?}");
    let escaped = name.replace('@', "%40").to_uppercase();
    let lines = format!("Referer: http://a.test/?mail={escaped}\r\nUser-Agent: seen at {from}\r\n");
    ask(post(&format!("/login?log={escaped}&pwd=x"), &lines, ""));
    ask(format!("GET /users/{name}/edit?ip={from} HTTP/1.1\r\nHost: app.test\r\n\r\n"));
}

/// Exit code and both outputs of the command at this gate.
fn tollgate(gate: &Gate, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(binary());
    command.args(words).arg("--socket").arg(gate.admin_socket()).env_remove("TOLLGATE_CONFIG");
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout) + &text(output.stderr))
}

fn json(gate: &Gate, words: &[&str]) -> Value {
    let (code, said) = tollgate(gate, &[words, &["--format", "json"]].concat());
    assert_eq!(code, Some(0), "{said}");
    serde_json::from_str(&said).unwrap()
}

/// The texts of the logs, packed or not, by the names of their files.
fn logs(directory: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.contains(".log") && name != "audit.log" {
            found.insert(name, text(&fs::read(&path).unwrap()));
        }
    }
    found
}

fn text(bytes: &[u8]) -> String {
    let mut unpacked = String::new();
    match bytes {
        [0x1F, 0x8B, ..] => {
            MultiGzDecoder::new(bytes).read_to_string(&mut unpacked).map(|_| unpacked).unwrap()
        }
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Makes of each log one that logrotate renamed and one that it packed.
fn rotate(gate: &Gate) {
    for name in ["access.log", "decisions.log"] {
        let path = gate.directory.join(name);
        let packed = File::create(gate.directory.join(format!("{name}.2.gz"))).unwrap();
        let mut packed = GzEncoder::new(packed, Compression::default());
        packed.write_all(&fs::read(&path).unwrap()).unwrap();
        packed.finish().unwrap();
        fs::rename(&path, gate.directory.join(format!("{name}.1"))).unwrap();
    }
    gate.signal("USR1");
    let is_there = || ["access.log", "decisions.log"].iter().all(|name| gate.directory.join(name).exists());
    assert!(eventually(Duration::from_secs(10), is_there));
}

/// What names the person: everything that is searched for.
fn needles(account: &str) -> Vec<Vec<u8>> {
    let mut needles = vec![ADDRESS.octets().to_vec(), ADDRESS.to_string().into_bytes(), account.into()];
    for name in [NAME.to_owned(), NAME.replace('@', "%40")] {
        needles.extend([name.to_uppercase().into_bytes(), name.into_bytes()]);
    }
    needles
}

fn is_nowhere(needles: &[Vec<u8>], bytes: &[u8], place: &str) {
    for needle in needles {
        let found = memmem::find(bytes, needle);
        assert!(
            found.is_none(),
            "{:?} in {place}: {}",
            String::from_utf8_lossy(needle),
            String::from_utf8_lossy(bytes)
        );
    }
}

fn removed<'p>(page: &'p Value, place: &str) -> Option<&'p Value> {
    let places = page["places"].as_array().unwrap();
    places.iter().find(|row| row["place"].as_str().unwrap().ends_with(place)).map(|row| &row["removed"])
}

/// One after the other, because each schema is a gate.
#[test]
fn a_planted_person_is_nowhere_after_forget_and_others_stay() {
    for (schema, style) in [("tollgate", "combined"), ("ocsf", "json"), ("ecs", "combined")] {
        let (_application, gate) = gate(schema, style, "");
        visit(&gate, ADDRESS, NAME);
        visit(&gate, OTHER, OTHER_NAME);
        let count = |name: &str| fs::read_to_string(gate.directory.join(name)).unwrap().lines().count();
        assert!(
            eventually(Duration::from_secs(10), || count("access.log") == 22 && count("decisions.log") > 30)
        );
        rotate(&gate);
        for (from, name) in [(ADDRESS, NAME), (OTHER, OTHER_NAME)] {
            let mut client = gate.connect_from(from);
            client.send(sign_in_with("", &form(name, "later")));
            client.answer();
        }
        assert!(
            eventually(Duration::from_secs(10), || count("access.log") == 2 && count("decisions.log") == 4)
        );
        let account = json(&gate, &["buckets", "show", &format!("user:{NAME}")])["account"].clone();
        let needles = needles(account.as_str().unwrap());
        let others = || {
            ["ip", "user"].map(|kind| {
                let key = if kind == "ip" { format!("ip:{OTHER}") } else { format!("user:{OTHER_NAME}") };
                let page = json(&gate, &["buckets", "show", &key]);
                page["buckets"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|row| row["tokens"].clone())
                    .collect::<Vec<_>>()
            })
        };
        let (before, buckets) = (logs(&gate.directory), others());
        let modes: Vec<u32> = before.keys().map(|name| mode(&gate, name)).collect();

        let who = [&format!("user:{}", NAME.to_uppercase())[..], &format!("ip:{ADDRESS}")];
        let (code, said) = tollgate(&gate, &["forget", who[0], who[1], "--dry-run"]);
        assert!(code == Some(0) && said.contains("FOUND") && said.contains("nothing was changed"), "{said}");
        assert_eq!(logs(&gate.directory), before, "a dry run changes nothing");
        let page_of = json(&gate, &["forget", who[0], who[1], "--why", "ticket 4711"]);
        for place in PLACES {
            assert!(
                removed(&page_of, place).is_some_and(|removed| removed.as_u64() > Some(0)),
                "{place}: {page_of:#}"
            );
        }
        searched(&gate, &needles);
        assert_eq!(others(), buckets, "others have what they had");
        let after = logs(&gate.directory);
        for (name, text) in &before {
            same_lines_but(text, &after[name], &needles, name);
        }
        assert_eq!(before.keys().map(|name| mode(&gate, name)).collect::<Vec<_>>(), modes);
        begins_anew(&gate, who[1]);
        has_tombstone(&gate);
        readers_take_every_line(&gate, schema);
    }
}

/// A log without a person is still one that the gate's own readers take, in each schema.
fn readers_take_every_line(gate: &Gate, schema: &str) {
    let log = "decisions.log.2.gz";
    for (words, part) in [
        (&["evidence", "--format", "json", "--log", log][..], "decisions"),
        (&["replay", "--output", "json", log][..], "log"),
        (&["site", "report", "--format", "json", "--log", log][..], "log"),
    ] {
        let mut command = Command::new(binary());
        command.current_dir(&gate.directory).args(words).args(["-c", "gate.toml"]);
        let output = command.env_remove("TOLLGATE_CONFIG").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{schema}: {words:?}: {error}: {said}"));
        let read = &report[part];
        assert!(read["lines"].as_u64() > Some(30), "{schema}: {words:?}: {read:#}");
        assert_eq!(read["unreadable"], 0, "{schema}: {words:?}: {read:#}");
    }
}

fn begins_anew(gate: &Gate, key: &str) {
    let person = json(gate, &["buckets", "show", key]);
    let address = &person["buckets"][0];
    assert_eq!(address["tokens"], address["burst"], "{person:#}");
}

fn has_tombstone(gate: &Gate) {
    let audit = gate.directory.join("audit.log");
    let (code, said) = verify(&audit);
    assert_eq!(code, Some(0), "{said}");
    let lines = fs::read_to_string(&audit).unwrap();
    assert!(lines.contains("\"what\":\"forget\"") && lines.contains("ticket 4711"), "{lines}");
    assert!(lines.contains("user:#") && lines.contains("ip:#"), "{lines}");
}

fn verify(audit: &Path) -> (Option<i32>, String) {
    let output = Command::new(binary()).args(["audit", "verify"]).arg(audit).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn mode(gate: &Gate, name: &str) -> u32 {
    let about = fs::metadata(gate.directory.join(name)).unwrap();
    about.mode()
}

/// Searches files, pages, metrics and messages. The account's hash stays where somebody is said to be forgotten.
fn searched(gate: &Gate, needles: &[Vec<u8>]) {
    let but_hash = [&needles[..2], &needles[3..]].concat();
    for entry in fs::read_dir(&gate.directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let needles = if name == "audit.log" { &but_hash } else { needles };
            let bytes = fs::read(&path).unwrap();
            is_nowhere(
                needles,
                if name.ends_with(".gz") { text(&bytes).into_bytes() } else { bytes }.as_slice(),
                &name,
            );
        }
    }
    for path in ["status", "limits", "rates", "history", "routes", "exemptions", "bans", "forget"] {
        is_nowhere(needles, local(gate, &format!("/api/v1/{path}")).as_bytes(), path);
    }
    for query in ["by=attempts&n=1000&minutes=60", "by=refused&n=1000"] {
        let clients =
            json(gate, &["buckets", "list"]).to_string() + &local(gate, &format!("/api/v1/clients?{query}"));
        assert!(clients.contains(&OTHER.to_string()), "{clients}");
        is_nowhere(needles, clients.as_bytes(), query);
    }
    is_nowhere(needles, gate.metrics().as_bytes(), "the metrics");
    let messages = gate.messages();
    assert!(messages.contains("an operator had a person forgotten"), "{messages}");
    is_nowhere(&but_hash, messages.as_bytes(), "the messages");
}

fn local(gate: &Gate, path: &str) -> String {
    let mut stream = UnixStream::connect(gate.admin_socket()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Whether all lines are there in their order, those of others byte for byte, and JSON is still JSON.
fn same_lines_but(before: &str, after: &str, needles: &[Vec<u8>], name: &str) {
    assert_eq!(before.lines().count(), after.lines().count(), "{name}");
    let mut of_others = 0;
    for (old, new) in before.lines().zip(after.lines()) {
        if needles.iter().all(|needle| memmem::find(old.as_bytes(), needle).is_none()) {
            assert_eq!(old, new, "{name}");
            of_others += 1;
        } else {
            assert_ne!(old, new, "{name}");
        }
        if old.starts_with('{') {
            assert!(serde_json::from_str::<Value>(new).is_ok(), "{name}: {new}");
        }
    }
    assert!(of_others > 0, "{name}: {before}");
}

/// The present file is replaced while lines come.
#[test]
fn no_line_of_others_is_lost_while_a_person_is_forgotten() {
    let (_application, gate) = gate("tollgate", "combined", "");
    visit(&gate, ADDRESS, NAME);
    let lines = || fs::read_to_string(gate.directory.join("access.log")).unwrap();
    assert!(eventually(Duration::from_secs(10), || lines().contains(NAME)));
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut client = gate.connect_from(OTHER);
            for number in 0..400 {
                client.send(format!("GET /other?n={number}. HTTP/1.1\r\nHost: app.test\r\n\r\n"));
                assert_eq!(client.answer().status, 200);
            }
        });
        while !asking.is_finished() {
            json(&gate, &["forget", &format!("ip:{ADDRESS}"), &format!("user:{NAME}")]);
            let mut client = gate.connect_from(ADDRESS);
            client.send("GET /again HTTP/1.1\r\nHost: app.test\r\n\r\n");
            client.answer();
        }
    });
    assert!(eventually(Duration::from_secs(10), || lines().contains("n=399.")), "{}", lines().len());
    let lines = lines();
    for number in 0..400 {
        assert_eq!(lines.matches(&format!("?n={number}. ")).count(), 1, "{number}");
    }
}

#[test]
fn what_cannot_be_reached_is_named_and_fails() {
    let (_application, gate) = gate("tollgate", "combined", "");
    visit(&gate, ADDRESS, NAME);
    fs::write(gate.directory.join("access.log.3.xz"), b"\xFD7zXZ\0").unwrap();
    let who = format!("ip:{ADDRESS}");
    let (code, said) = tollgate(&gate, &["forget", &who]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("NOT REACHED: it is packed by xz: run `unxz ")
            && said.contains("access.log.3.xz`, forget again, then run `xz "),
        "{said}"
    );
    let (code, said) = tollgate(&gate, &["forget", &who, "--why", &format!("asked by {ADDRESS}")]);
    assert!(code == Some(1) && said.contains("the reason names the person"), "{said}");
    for nobody in ["alice", "host:a", "ip:203.0.113.0/24"] {
        assert_eq!(tollgate(&gate, &["forget", nobody]).0, Some(2), "{nobody}");
    }
}

/// A ban is a decision of an operator.
#[test]
fn a_ban_stays_unless_it_is_meant() {
    let (_application, gate) = gate("tollgate", "combined", "");
    let who = format!("ip:{ADDRESS}");
    json(&gate, &["buckets", "ban", &who, "--for", "1h"]);
    let status = || {
        let mut client = gate.connect_from(ADDRESS);
        client.send(sign_in_with("", &form("a", "b")));
        client.answer().status
    };
    assert_eq!(status(), 429);
    let (code, said) = tollgate(&gate, &["forget", &who]);
    assert!(code == Some(0) && said.contains("1 stay, of the person or a prefix"), "{said}");
    assert!(said.contains("1 that name the person stay"), "the audit: {said}");
    assert_eq!(status(), 429);
    let (code, said) = tollgate(&gate, &["forget", &who, "--bans"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(status(), 200);
    assert!(!local(&gate, "/api/v1/rates").contains(&ADDRESS.to_string()));
}

/// `check --privacy` names each place of a file.
#[test]
fn a_file_says_what_it_keeps_about_people() {
    let folder = Folder::new();
    let file = FILE.replace("{dir}", folder.0.to_str().unwrap());
    let head = "listen = \"http://127.0.0.1:1\"\nupstream = \"http://127.0.0.1:2\"\n";
    let tail = "retention = \"30d\"\n[kernel]\nnftables = \"on\"\n";
    fs::write(folder.0.join("gate.toml"), format!("{head}{file}{tail}")).unwrap();
    fs::write(folder.0.join("device.keys"), "0123456789abcdef0123456789abcdef").unwrap();
    let said = folder.run(&["check", "gate.toml", "--privacy"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for words in [
        "snapshot: buckets, by keyed hashes",
        "access.log: addresses, paths",
        "30d after it was rotated",
        "decisions.log: addresses, keyed hashes of accounts",
        "clients that accounts signed in from",
        "the kernel's table `inet tollgate`: addresses that it drops",
        "metrics: nothing",
    ] {
        assert!(said.out.contains(words), "{words} in {}", said.out);
    }
    let json = folder.run(&["check", "gate.toml", "--privacy", "--format", "json"]);
    let page: Value = serde_json::from_str(&json.out).unwrap();
    assert!(page["personal_data"].as_array().unwrap().len() > 5, "{page:#}");
}
