//! The command line as people type it: options in either place, words misspelt, a file without `-c`, and errors that
//! name what would help.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use support::{Client, Folder, Gate, Launch, Upstream, binary, eventually, free_port, post, post_with};

const MINIMAL: &str = include_str!("../../examples/minimal.toml");

fn with_file() -> Folder {
    let folder = Folder::new();
    fs::write(folder.0.join("site.toml"), MINIMAL).unwrap();
    folder
}

#[test]
fn check_takes_a_file_without_an_option() {
    for words in [["check", "site.toml", "--format", "text"], ["check", "--format", "text", "site.toml"]] {
        let said = with_file().run(&words);
        assert_eq!((said.code, &*said.err), (Some(0), ""));
        assert!(said.out.ends_with("site.toml: valid, no warnings\n"), "{}", said.out);
    }
}

#[test]
fn every_command_ends_with_the_number_of_mistakes_of_its_configuration() {
    let folder = Folder::new();
    fs::write(folder.0.join("site.toml"), MINIMAL.replace("upstream", "upstreem")).unwrap();
    for command in [&["check"][..], &["run"], &["doctor"], &["explain", "/login"], &["migrate"], &["reload"]]
    {
        let said = folder.run(&[&["-c", "site.toml"], command].concat());
        assert_eq!((said.code, &*said.out), (Some(78), ""), "{command:?}");
        assert!(said.err.ends_with("\nsite.toml: 2 mistakes\n"), "{command:?}: {}", said.err);
    }
}

#[test]
fn options_of_the_configuration_stand_before_or_after_the_command() {
    let folder = with_file();
    for words in [
        &["-c", "site.toml", "check"][..],
        &["check", "-c", "site.toml"],
        &["--set", "store.capacity=7", "-c", "site.toml", "check"],
        &["-c", "site.toml", "explain", "/login"],
    ] {
        let said = folder.run(words);
        assert_eq!((said.code, &*said.err), (Some(0), ""), "{words:?}");
    }
    let said = folder.run(&["--set", "route.login.cost=3", "explain", "-c", "site.toml", "/login"]);
    assert!(said.out.contains("takes 3 tokens"), "{}", said.out);
    let both = [
        "--set",
        "route.login.cost=3",
        "explain",
        "--set",
        "route.login.cost=4",
        "-c",
        "site.toml",
        "/login",
    ];
    assert!(folder.run(&both).out.contains("takes 4 tokens"), "the later one wins");
}

#[test]
fn a_configuration_named_twice_or_for_nothing_is_a_usage_error() {
    let folder = with_file();
    for (words, hint) in [
        (&["-c", "a.toml", "check", "site.toml"][..], "named twice"),
        (&["-c", "a.toml", "check", "-c", "site.toml"], "named twice"),
        (&["check", "-c", "a.toml", "site.toml"], "named twice"),
        (&["-c", "site.toml", "presets"], "reads no configuration"),
        (&["--set", "store.capacity=7", "init"], "reads no configuration"),
        (&["--observe", "check", "site.toml"], "an option of `tollgate run`"),
    ] {
        let said = folder.run(words);
        assert_eq!((said.code, &*said.out), (Some(2), ""), "{words:?}");
        assert!(said.err.contains(hint), "{}", said.err);
    }
    assert!(!folder.0.join("config.toml").exists());
}

#[test]
fn a_misspelt_command_is_answered_with_the_right_one() {
    for (typed, meant) in
        [("chekc", "check"), ("explian", "explain"), ("bucket", "buckets"), ("statsu", "status")]
    {
        let said = Folder::new().run(&[typed]);
        assert_eq!((said.code, &*said.out), (Some(2), ""));
        assert!(said.err.contains(&format!("'{meant}'")), "{typed}: {}", said.err);
    }
    let said = with_file().run(&["site.toml"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("`tollgate -c site.toml` runs the gate with this file"), "{}", said.err);
    for command in ["run", "doctor", "status"] {
        let said = with_file().run(&[command, "site.toml"]);
        assert_eq!((said.code, &*said.out), (Some(2), ""));
        assert!(said.err.contains("`-c site.toml` names the configuration"), "{command}: {}", said.err);
    }
}

#[test]
fn no_arguments_on_a_terminal_print_the_help() {
    let (mut pty, pts) = pty_process::blocking::open().unwrap();
    let folder = Folder::new();
    let command = pty_process::blocking::Command::new(binary()).current_dir(&folder.0);
    let mut process = command.spawn(pts).unwrap();
    let mut seen = Vec::new();
    // The terminal's last reader gets EIO when the process has ended.
    let _ = pty.read_to_end(&mut seen);
    let seen = String::from_utf8_lossy(&seen);
    assert!(seen.contains("Usage:") && seen.contains("check"), "{seen}");
    assert_eq!(process.wait().unwrap().code(), Some(2));
    let said = folder.run(&[]);
    assert_eq!(said.code, Some(78), "without a terminal the gate would run: {}", said.err);
}

#[test]
fn a_dash_is_standard_input() {
    let said = Folder::new().run_in(&["check", "-c", "-"], &[], MINIMAL);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    assert!(said.out.ends_with("standard input: valid, no warnings\n"), "{}", said.out);
    let said = Folder::new().run_in(&["check", "-"], &[], "listn = 1\n");
    assert_eq!(said.code, Some(78));
    assert!(said.err.contains("--> standard input:1:1"), "{}", said.err);
}

#[test]
fn the_environment_alone_is_a_configuration() {
    let variables = [
        ("TOLLGATE_LISTEN", "http://127.0.0.1:8080"),
        ("TOLLGATE_UPSTREAM", "http://127.0.0.1:8081"),
        ("TOLLGATE_ROUTE__LOGIN__MATCH", "POST /login"),
        ("TOLLGATE_LIMIT__ADDRESS__RATE", "10 per 5m"),
    ];
    let said = Folder::new().run_in(&["check"], &variables, "");
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    assert!(said.out.ends_with("environment: valid, no warnings\n"), "{}", said.out);
}

#[test]
fn environment_and_command_line_win_over_the_file() {
    let upstream = Upstream::start();
    let limit = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"1 per 1h\"\n";
    let gate =
        Launch::new(&upstream.file(limit)).environment("TOLLGATE_LIMIT__ADDRESS__RATE", "3 per 1h").start();
    let statuses: Vec<_> = (0..4).map(|_| gate.ask(post_with("/login", "")).status).collect();
    assert_eq!(statuses, [200, 200, 200, 429]);
}

#[test]
fn without_any_configuration_the_words_name_the_ways_out() {
    let said = Folder::new().run(&["check"]);
    assert_eq!(said.code, Some(78));
    assert!(said.err.contains("`tollgate init` writes one, and -c FILE names one"), "{}", said.err);
}

#[test]
fn explain_takes_a_path_alone_as_a_post_from_the_default_client() {
    let folder = with_file();
    let short = folder.run(&["explain", "-c", "site.toml", "/login"]);
    let long = folder.run(&["explain", "-c", "site.toml", "--peer", "192.0.2.1", "POST", "/login"]);
    assert_eq!((short.code, &*short.out), (Some(0), &*long.out));
    assert!(short.out.contains("route     login\n"), "{}", short.out);
    let quoted = folder.run(&["explain", "-c", "site.toml", "POST /login"]);
    assert_eq!((quoted.code, &*quoted.out), (Some(0), &*short.out), "as the file writes it");
    for (words, hint) in [
        (&["explain"][..], "[METHOD] <URL>"),
        (&["explain", "login"], "`login` is not an address"),
        (&["explain", "POST"], "`POST` is not an address"),
        (&["explain", "PO ST", "/login"], "`PO ST` is not a method"),
        (&["explain", "POST", "http://"], "neither an address nor a path"),
    ] {
        let said = folder.run(words);
        assert_eq!((said.code, &*said.out), (Some(2), ""), "{words:?}");
        assert!(said.err.contains(hint), "{}", said.err);
    }
}

#[test]
fn buckets_show_takes_a_plain_address() {
    let gate = Gate::start(
        "upstream = \"http://127.0.0.1:9\"\n[route.login]\nmatch = \"POST /login\"\n\
         [limit.address]\nrate = \"10 per 5m\"\n",
    );
    gate.ask(post("/login", ""));
    let said = Folder::new().run(&[
        "buckets",
        "show",
        "127.0.0.1",
        "--socket",
        gate.admin_socket().to_str().unwrap(),
    ]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    assert!(said.out.contains("address"), "{}", said.out);
}

/// The words of a gate that cannot start with these keys.
fn refusal(settings: &[&str]) -> String {
    let folder = with_file();
    let listen = format!("listen=http://127.0.0.1:{}", free_port());
    let mut words = vec!["run", "-c", "site.toml", "--set", &listen];
    settings.iter().for_each(|setting| words.extend(["--set", setting]));
    let said = folder.run(&words);
    assert_eq!(said.code, Some(1), "{}", said.err);
    said.err
}

#[test]
fn a_socket_in_a_missing_directory_is_no_question_of_ports() {
    let said = refusal(&["listen=unix:/missing-directory/gate.sock"]);
    assert!(said.contains("make the directory /missing-directory first"), "{said}");
    assert!(!said.contains("1024"), "{said}");
}

#[test]
fn a_socket_in_a_closed_directory_names_the_directory() {
    if rustix::process::geteuid().is_root() {
        // Root may write everywhere; the unit test of the hint covers it.
        return;
    }
    let folder = Folder::new();
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o500)).unwrap();
    let said = refusal(&[&format!("listen=unix:{}/gate.sock", folder.0.display())]);
    assert!(said.contains("may not create a socket in"), "{said}");
}

#[test]
fn a_log_that_cannot_be_opened_is_named_with_its_path() {
    for key in ["access", "decisions"] {
        let said = refusal(&[&format!("log.{key}=/missing-directory/{key}.log")]);
        assert!(said.contains(&format!("log.{key}: /missing-directory/{key}.log: No such file")), "{said}");
    }
}

#[test]
fn the_access_log_goes_to_standard_output_unless_the_file_says_otherwise() {
    let said = Folder::new().run_in(&["check", "-c", "-", "--set", "log.decisions=-"], &[], MINIMAL);
    assert_eq!((said.code, &*said.err), (Some(0), ""), "decisions take it, and there is no access log");
    let settings = ["log.access=-", "log.decisions=-"].map(|setting| ["--set", setting]).concat();
    let said = Folder::new().run_in(&[&["check", "-"], &settings[..]].concat(), &[], MINIMAL);
    assert_eq!(said.code, Some(78), "one stream holds one log");
    let line = first_line_of_output(&with_file());
    assert!(line.contains("\"POST /login HTTP/1.1\" 502 "), "{line}");
}

/// What a gate of `site.toml`, whose application is away, writes to standard output about one attempt.
fn first_line_of_output(folder: &Folder) -> String {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let listen = format!("listen=http://{address}");
    let upstream = format!("upstream=http://127.0.0.1:{}", free_port());
    let words = ["-c", "site.toml", "--set", &listen, "--set", &upstream];
    let mut command = Command::new(binary());
    let mut process = command
        .current_dir(&folder.0)
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(eventually(Duration::from_secs(20), || TcpStream::connect(address).is_ok()), "the gate listens");
    let mut client = Client::connect(address);
    client.send(post("/login", "user=alice"));
    client.answer();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    line
}

#[test]
fn a_path_without_its_slash_is_an_error_of_use() {
    for words in [&["explain", "post", "login"][..], &["explain", "login"]] {
        let said = with_file().run(&[words, &["-c", "site.toml"]].concat());
        assert_eq!(said.code, Some(2), "{words:?}");
        assert!(
            said.err.contains("`login` is not an address: write a path, as in POST /login"),
            "{}",
            said.err
        );
    }
}

#[test]
fn many_findings_that_are_alike_are_shown_once_and_mistakes_come_first() {
    let folder = Folder::new();
    let sites: String =
        (0..30).map(|number| format!("[route.site{number}]\nmatch = \"POST /{number}\"\n")).collect();
    let user = "[limit.account]\nkey = \"user\"\nrate = \"5 per 1m\"\n";
    fs::write(
        folder.0.join("site.toml"),
        format!("{}{sites}{user}", MINIMAL.replace("[route.login]\nmatch = \"POST /login\"\n", "")),
    )
    .unwrap();
    let said = folder.run(&["check", "site.toml"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(said.err.matches("names no `user`").count(), 1, "{}", said.err);
    assert!(said.err.contains("the same 2") && said.err.contains(" more\n"), "{}", said.err);
    assert!(said.out.lines().count() < 10, "{}", said.out);
    let all = folder.run(&["check", "site.toml", "--worst"]);
    assert!(all.out.lines().count() > 30, "{}", all.out);
    assert_eq!(folder.run(&["check", "site.toml", "--strict"]).code, Some(1));
    fs::write(folder.0.join("bad.toml"), format!("{}\nwrong = 1\n", folder.read("site.toml"))).unwrap();
    let said = folder.run(&["check", "bad.toml"]);
    assert!(said.code == Some(78) && said.err.starts_with("error: "), "{}", said.err);
}

#[test]
fn a_variable_of_another_program_is_left_alone_and_a_misspelt_one_is_not() {
    let folder = with_file();
    let said = folder.run_in(&["check", "site.toml"], &[("TOLLGATE_BUILD_URL", "x")], "");
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("warning: `TOLLGATE_BUILD_URL` names no setting"), "{}", said.err);
    let said = folder.run_in(&["check", "site.toml"], &[("TOLLGATE_UPSTREM", "x")], "");
    assert_eq!(said.code, Some(78), "{}", said.err);
}
