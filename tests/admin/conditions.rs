//! Every command where something that it takes for granted is missing: a reader of its output, room on the disk, a home, a
//! locale, a wide terminal, the rights of another user. None panics, and each ends with a status that is true.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use support::{Folder, Gate, ONE_AN_HOUR, Upstream, binary};

/// Commands, and whether they print data where all is well.
const COMMANDS: [(&str, bool); 24] = [
    ("check -c FILE", true),
    ("check -c FILE --format json", true),
    ("explain -c FILE POST /login", true),
    ("replay -c FILE access.log", true),
    ("buckets list --socket SOCKET", true),
    ("buckets list --watch --socket SOCKET", true),
    ("buckets show ip:192.0.2.1 --socket SOCKET", true),
    ("buckets reset ip:192.0.2.1 --socket SOCKET", true),
    ("mode observe --for 1m --socket SOCKET", true),
    ("status --socket SOCKET", true),
    ("status --socket SOCKET --format json", true),
    ("top --socket SOCKET", true),
    ("reload --socket SOCKET", true),
    ("policy show -c FILE", false),
    ("policy history -c FILE", false),
    ("migrate -c FILE", false),
    ("presets", true),
    ("presets wordpress", true),
    ("doctor -c FILE", true),
    ("init -", true),
    ("schema", true),
    ("completions bash", true),
    ("man MAN", false),
    ("--help", true),
];

/// What a command printed, and how it ended.
struct Ended {
    code: Option<i32>,
    err: String,
}

struct Conditions {
    gate: Gate,
    folder: Folder,
}

impl Conditions {
    fn new() -> Self {
        let gate = Gate::start(&Upstream::start().file(ONE_AN_HOUR));
        let folder = Folder::new();
        std::fs::write(folder.0.join("access.log"), LINE.repeat(2)).unwrap();
        let file =
            format!("listen = \"http://127.0.0.1:1\"\nupstream = \"http://127.0.0.1:2\"\n{ONE_AN_HOUR}");
        std::fs::write(folder.0.join("gate.toml"), file).unwrap();
        std::fs::create_dir(folder.0.join("man")).unwrap();
        std::fs::set_permissions(&folder.0, PermissionsExt::from_mode(0o755)).unwrap();
        Self { gate, folder }
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(binary());
        let socket = self.gate.admin_socket();
        command.args(words.split(' ').map(|word| match word {
            "FILE" => "gate.toml",
            "SOCKET" => socket.to_str().unwrap(),
            "MAN" => "man",
            word => word,
        }));
        command.current_dir(&self.folder.0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }
}

fn end(words: &str, mut command: Command) -> Ended {
    let mut process = command.spawn().unwrap();
    let mut err = String::new();
    if let Some(mut pipe) = process.stderr.take() {
        pipe.read_to_string(&mut err).unwrap();
    }
    let code = process.wait().unwrap().code();
    assert!(!err.contains("panicked") && code != Some(101) && code.is_some(), "{words}: {code:?} {err}");
    Ended { code, err }
}

/// Every command but the one that goes on until it is stopped.
fn commands() -> impl Iterator<Item = (&'static str, bool)> {
    COMMANDS.into_iter().filter(|(words, _)| !words.contains("--watch"))
}

#[test]
fn a_reader_that_has_gone_away_changes_no_status() {
    let conditions = Conditions::new();
    for (words, _) in COMMANDS {
        let plain = match words.contains("--watch") {
            true => Some(0),
            false => end(words, conditions.command(words)).code,
        };
        let mut command = conditions.command(words);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        command.stdout(writer);
        let closed = end(words, command);
        assert_eq!((closed.code, closed.err.contains("pipe")), (plain, false), "{words}: {}", closed.err);
    }
}

#[test]
fn a_full_disk_fails_each_command_that_prints_data() {
    let conditions = Conditions::new();
    for (words, _) in commands().filter(|(words, prints)| *prints && *words != "--help") {
        let mut command = conditions.command(words);
        command.stdout(File::options().write(true).open("/dev/full").unwrap());
        let full = end(words, command);
        assert_eq!(full.code, Some(1), "{words}: {}", full.err);
        assert!(full.err.contains("tollgate: standard output: No space left"), "{words}: {}", full.err);
    }
}

#[test]
fn messages_that_nobody_can_read_change_no_status() {
    let conditions = Conditions::new();
    for (words, _) in commands() {
        let plain = end(words, conditions.command(words)).code;
        let mut command = conditions.command(words);
        command.stderr(File::options().write(true).open("/dev/full").unwrap());
        assert_eq!(end(words, command).code, plain, "{words}");
    }
}

#[test]
fn neither_home_nor_user_nor_locale_nor_width_is_needed() {
    let conditions = Conditions::new();
    for (words, _) in commands() {
        let plain = end(words, conditions.command(words)).code;
        let mut command = conditions.command(words);
        command.env_clear().env("COLUMNS", "20");
        assert_eq!(end(words, command).code, plain, "{words}");
    }
}

/// Only root can become another user.
#[test]
fn another_user_reads_why_it_may_not() {
    let conditions = Conditions::new();
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for (words, _) in commands() {
        let mut command = conditions.command(words);
        command.uid(65534).gid(65534);
        let ended = end(words, command);
        if words.contains("SOCKET") || words.contains("MAN") {
            assert_eq!(ended.code, Some(1), "{words}: {}", ended.err);
            assert!(ended.err.contains("ermission denied"), "{words}: {}", ended.err);
        }
    }
}

const LINE: &str =
    "192.0.2.1 - - [27/Nov/2026:10:00:00 +0000] \"POST /login HTTP/1.1\" 401 5 \"-\" \"curl\"\n";
