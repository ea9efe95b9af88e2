//! Exposed passwords: marked, charged or refused by a list that the program itself built.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;

use support::application::{ROUTE, application, form, right, sign_in, sign_in_with};
use support::{Gate, Launch, Upstream, new_directory};

/// `planted-password` and `hunter2`, as `sha1sum` hashes them.
const PLANTED: &str = "07AA7EB9C8D464A0BD570EE25662AB336364E29A:3\r\n";
const HUNTER: &str = "F3BBBD66A63D4BF1747940578EC3D0103530E21D:17043\r\n";
const LIMIT: &str = "[limit.address]\nrate = \"4 per 1h\"\n";

/// `tollgate exposed build`, with this on standard input.
fn build(list: &str, out: &Path, input: &[u8]) -> Output {
    let mut command = Command::new(support::binary());
    command.args(["exposed", "build", list]).arg(out);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A list that is refused early is not read to its end.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn filter_of(list: &str, directory: &Path) -> PathBuf {
    let out = directory.join("passwords.filter");
    let output = build("-", &out, list.as_bytes());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    out
}

fn file(action: &str, filter: &Path) -> String {
    let filter = filter.display();
    format!("{ROUTE}exposed = \"{action}\"\n{LIMIT}[exposed]\nfile = \"{filter}\"\n")
}

fn gate(application: &Upstream, action: &str) -> (Gate, PathBuf) {
    let filter = filter_of(&format!("{PLANTED}{HUNTER}"), &new_directory());
    (Gate::start(&application.file(&file(action, &filter))), filter)
}

#[test]
fn the_application_is_told_that_a_password_is_exposed_and_nothing_else_changes() {
    let application = application();
    let (gate, _) = gate(&application, "mark");
    let lie = "Exposed-Credential-Check: 1\r\nExposed_Credential_Check: 1\r\nEXPOSED-CREDENTIAL-CHECK: 0\r\n";
    assert_eq!(gate.ask(sign_in_with(lie, &form("alice", "hunter2"))).status, 200);
    assert_eq!(gate.ask(sign_in_with(lie, &form("alice", &right("alice")))).status, 302);
    assert_eq!(gate.ask(sign_in_with("", "log=alice&pwd=other&pwd=hunter2")).status, 200);
    assert_eq!(gate.ask(sign_in("alice", "hunter2")).status, 200);
    assert_eq!(gate.ask(sign_in("alice", "hunter2")).status, 429);
    let mut told: Vec<_> = application
        .requests()
        .iter()
        .map(|request| request.all("exposed-credential-check").concat())
        .collect();
    told.sort();
    assert_eq!(told, ["", "1", "1", "1"]);
    assert!(application.requests().iter().all(|request| request.all("exposed_credential_check").is_empty()));
    // The last one was refused before its body was read.
    assert_eq!(gate.metric("tollgate_exposed_passwords_total", "route=\"login\""), 3.0);
}

#[test]
fn an_exposed_password_costs_twice_and_another_once() {
    let application = application();
    let (gate, _) = gate(&application, "charge");
    let statuses = ["hunter2", "other", "other", "hunter2", "other"]
        .map(|password| gate.ask(sign_in("alice", password)).status);
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
    assert_eq!(application.requests()[0].all("exposed-credential-check").concat(), "1");
}

#[test]
fn a_refused_password_takes_no_token_and_its_answer_is_the_same_for_every_account() {
    let application = application();
    let (gate, _) = gate(&application, "refuse");
    let mut answers: Vec<String> = Vec::new();
    for user in ["alice", "nobody-here", "alice", "alice", "alice"] {
        let answer = gate.ask(sign_in_with("Accept: application/json\r\n", &form(user, "planted-password")));
        assert_eq!((answer.status, answer.header("retry-after")), (403, None));
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let id = answer.header("x-request-id").unwrap().to_owned();
        assert!(text.contains("Published lists"), "{text}");
        answers.push(text.replace(&id, "ID"));
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(application.requests().is_empty(), "the application sees none");
    let rest = (0..5).map(|_| gate.ask(sign_in("alice", "other")).status);
    assert_eq!(rest.collect::<Vec<_>>(), [200, 200, 200, 200, 429]);
}

#[test]
fn a_gate_that_observes_counts_exposed_passwords_and_does_no_more() {
    let application = application();
    let filter = filter_of(HUNTER, &new_directory());
    let gate = Gate::start(&format!("mode = \"observe\"\n{}", application.file(&file("refuse", &filter))));
    assert_eq!(gate.ask(sign_in("alice", "hunter2")).status, 200);
    assert!(application.requests()[0].all("exposed-credential-check").is_empty());
    assert_eq!(gate.metric("tollgate_exposed_passwords_total", "route=\"login\""), 1.0);
}

/// F9: neither a password nor its hash stays anywhere.
#[test]
fn a_planted_password_and_its_hash_stay_nowhere() {
    let (application, directory) = (application(), new_directory());
    let filter = filter_of(PLANTED, &directory);
    let snapshot = directory.join("buckets");
    let more = format!(
        "[limit.account]\nkey = \"user\"\nrate = \"9 per 1h\"\nunit = \"passwords\"\n[store]\nsnapshot = \"{}\"\n\
         [log]\nlevel = \"trace\"\naccess = \"{}\"\n",
        snapshot.display(),
        directory.join("access.log").display()
    );
    for action in ["mark", "charge", "refuse"] {
        let launch = Launch::new(&application.file(&format!("{}{more}", file(action, &filter))));
        let gate = launch.start();
        gate.ask(sign_in("alice", "planted-password"));
        let metrics = gate.metrics();
        gate.signal("USR1");
        let end = Instant::now() + Duration::from_secs(10);
        while !snapshot.exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut kept = vec![metrics.into_bytes(), gate.messages().into_bytes()];
        for name in ["access.log", "buckets"] {
            kept.push(fs::read(directory.join(name)).unwrap());
        }
        kept.push(fs::read(&filter).unwrap());
        for secret in [&b"planted-password"[..], b"07AA7EB9C8D464A0", b"07aa7eb9c8d464a0", &HASH] {
            let is_there = |text: &Vec<u8>| text.windows(secret.len()).any(|window| window == secret);
            assert!(!kept[..4].iter().any(is_there), "{action}: {secret:?}");
        }
        let _ = fs::remove_file(&snapshot);
    }
}

/// The first bytes of the hash of `planted-password`.
const HASH: [u8; 8] = [0x07, 0xAA, 0x7E, 0xB9, 0xC8, 0xD4, 0x64, 0xA0];

#[test]
fn a_new_list_is_taken_and_a_damaged_one_is_refused() {
    let application = application();
    let directory = new_directory();
    let filter = filter_of(PLANTED, &directory);
    let gate = Gate::start(&application.file(&file("refuse", &filter)));
    assert_eq!(gate.ask(sign_in("alice", "hunter2")).status, 200);
    filter_of(&format!("{PLANTED}{HUNTER}"), &directory);
    let wait_for = |wanted: (u32, u32)| {
        let end = Instant::now() + Duration::from_secs(10);
        while gate.reloads() != wanted && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(gate.reloads(), wanted);
    };
    wait_for((1, 0));
    assert_eq!(gate.ask(sign_in("alice", "hunter2")).status, 403);
    // A whole file comes into its place, as an operator should do it.
    let mut bytes = fs::read(&filter).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(directory.join("damaged"), bytes).unwrap();
    fs::rename(directory.join("damaged"), &filter).unwrap();
    wait_for((1, 1));
    assert!(gate.messages().contains("it is damaged"), "{}", gate.messages());
    assert_eq!(gate.ask(sign_in("alice", "hunter2")).status, 403, "the list that was read stays");
}

#[test]
fn a_list_is_read_plain_or_compressed_and_a_bad_one_leaves_no_file() {
    let directory = new_directory();
    let (plain, packed, out) = (directory.join("list"), directory.join("list.gz"), directory.join("filter"));
    fs::write(&plain, format!("{PLANTED}{HUNTER}")).unwrap();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&fs::read(&plain).unwrap()).unwrap();
    fs::write(&packed, gzip.finish().unwrap()).unwrap();
    let made = [&plain, &packed].map(|list| {
        let output = build(list.to_str().unwrap(), &out, b"");
        assert!(String::from_utf8_lossy(&output.stdout).starts_with("2 hashes in "), "{output:?}");
        fs::read(&out).unwrap()
    });
    assert_eq!(made[0], made[1]);
    let bad = build("-", &directory.join("other"), format!("{HUNTER}{PLANTED}").as_bytes());
    let said = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert_eq!(bad.status.code(), Some(1));
    assert!(said.contains("- makes no filter: line 2 is out of order"), "{said}");
    let left: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
}
