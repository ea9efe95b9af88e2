//! Setting a gate up: `init` with its flags, `doctor`, the schema, man pages and completions.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use support::{Folder, Gate, binary, eventually, free_port};

fn lines_of(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn init_observes_knows_devices_and_names_the_next_commands() {
    let folder = Folder::new();
    let said = folder.run(&["init", "--preset", "wordpress", "--observe", "--device"]);
    assert_eq!((said.code, &*said.out), (Some(0), ""), "{}", said.err);
    for command in ["tollgate check ", "tollgate explain /wp-login.php ", "tollgate run "] {
        assert!(
            said.err.lines().any(|line| line.trim_start().starts_with(command)),
            "{command}: {}",
            said.err
        );
    }
    let file = folder.read("config.toml");
    assert!(file.starts_with("#:schema ./config.schema.json\n"), "{file}");
    assert!(lines_of(&file).contains(&"mode = \"observe\""), "{file}");
    assert!(lines_of(&file).contains(&"secret = \"${file:device.keys}\""), "{file}");
    let keys = folder.0.join("device.keys");
    assert_eq!(fs::metadata(&keys).unwrap().permissions().mode() & 0o777, 0o600);
    let said = folder.run(&["check"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    assert!(said.out.contains("every limit only observes"), "{}", said.out);
    let said = folder.run(&["explain", "/wp-login.php"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    let other = Folder::new();
    assert_eq!(other.run(&["init", "--device"]).code, Some(0));
    assert_ne!(other.read("device.keys"), folder.read("device.keys"), "each is random");
}

#[test]
fn check_says_which_connections_are_not_shared_where_an_application_reads_basic() {
    for (options, is_told) in [(&["init", "--preset", "owa"][..], true), (&["init"], false)] {
        let folder = Folder::new();
        assert_eq!(folder.run(options).code, Some(0));
        let said = folder.run(&["check"]).out;
        assert_eq!(
            said.contains("NTLM or Negotiate authenticated are not shared"),
            is_told,
            "{options:?}: {said}"
        );
    }
}

/// `UPDATE=1` writes the expected files anew; read the difference.
#[test]
fn init_writes_these_files() {
    for (name, options) in [
        ("form", &[][..]),
        ("wordpress", &["--preset", "wordpress", "--device"]),
        ("keycloak", &["--preset", "keycloak", "--device", "--limits", "strict"]),
    ] {
        let said = Folder::new().run(&[&["init", "-"], options].concat());
        let expected = format!("tests/commands/init/{name}.toml");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&expected, &said.out).unwrap();
        }
        assert_eq!(fs::read_to_string(&expected).unwrap(), said.out, "{name}: {}", said.err);
    }
}

#[test]
fn what_init_writes_for_a_preset_has_no_warnings() {
    for preset in tollgate::config::preset::presets() {
        for options in [&[][..], &["--device"], &["--device", "--observe"]] {
            let folder = Folder::new();
            let said = folder.run(&[&["init", "--preset", preset.name], options].concat());
            assert_eq!(said.code, Some(0), "{}: {}", preset.name, said.err);
            let said = folder.run(&["check"]);
            assert_eq!((said.code, &*said.err), (Some(0), ""), "{} {options:?}", preset.name);
            assert_eq!(folder.0.join("device.keys").exists(), !options.is_empty() && preset.knows_owners());
        }
    }
}

#[test]
fn init_keeps_the_keys_that_are_there() {
    let folder = Folder::new();
    fs::write(folder.0.join("device.keys"), "k".repeat(40)).unwrap();
    let said = folder.run(&["init", "--device", "site.toml"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("device.keys is there already"), "{}", said.err);
    assert!(said.err.contains("tollgate run -c site.toml"), "{}", said.err);
    assert_eq!(folder.read("device.keys"), "k".repeat(40));
}

/// On a terminal, as a person answers; with options or `--yes` nobody is asked.
#[test]
fn init_asks_on_a_terminal_and_writes_what_was_answered() {
    let folder = Folder::new();
    let (pty, pts) = pty_process::blocking::open().unwrap();
    let on_terminal = |words: &[&str]| {
        let command = pty_process::blocking::Command::new(binary()).arg("init").args(words);
        command.current_dir(&folder.0).spawn_borrowed(&pts).unwrap()
    };
    let mut process = on_terminal(&[]);
    (&pty).write_all(b"wordpress\nhttp://127.0.0.1:9000\n\ncaddy\nyes\n\n\n").unwrap();
    let mut status = None;
    let has_ended = || {
        status = process.try_wait().unwrap();
        status.is_some()
    };
    assert!(eventually(Duration::from_secs(20), has_ended));
    assert!(status.unwrap().success());
    let file = folder.read("config.toml");
    for line in ["preset = \"wordpress\"", "upstream = \"http://127.0.0.1:9000\"", "mode = \"observe\""] {
        assert!(lines_of(&file).contains(&line), "{line} is not in\n{file}");
    }
    assert!(folder.0.join("device.keys").exists());
    assert_eq!(folder.run(&["check"]).code, Some(0));
    for words in [&["--yes", "one.toml"][..], &["--preset", "gitea", "two.toml"]] {
        let mut process = on_terminal(words);
        assert!(eventually(Duration::from_secs(20), || process.try_wait().unwrap().is_some()), "{words:?}");
        assert!(folder.read(words[words.len() - 1]).contains("http://[::]:8080"));
    }
}

#[test]
fn init_asks_on_a_terminal_before_it_replaces_a_file() {
    for (answer, is_replaced) in [("\n", false), ("yes\n", true)] {
        let folder = Folder::new();
        fs::write(folder.0.join("config.toml"), "mine").unwrap();
        let (pty, pts) = pty_process::blocking::open().unwrap();
        let command = pty_process::blocking::Command::new(binary()).args(["init", "--preset", "gitea"]);
        let mut process = command.current_dir(&folder.0).spawn_borrowed(&pts).unwrap();
        (&pty).write_all(answer.as_bytes()).unwrap();
        assert!(eventually(Duration::from_secs(20), || process.try_wait().unwrap().is_some()));
        assert_eq!(folder.read("config.toml") != "mine", is_replaced, "{answer:?}");
    }
}

#[test]
fn init_believes_the_proxy_in_front() {
    for (proxy, peer, header) in [
        ("nginx", "127.0.0.1", "X-Forwarded-For"),
        ("caddy", "::1", "X-Forwarded-For"),
        ("traefik", "127.0.0.1", "X-Forwarded-For"),
        ("cloudflare", "173.245.48.7", "CF-Connecting-IP"),
    ] {
        let folder = Folder::new();
        let said = folder.run(&["init", "--behind", proxy]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        let check = folder.run(&["check"]);
        // One day the list of the program is too old.
        let is_quiet = check.err.is_empty() || proxy == "cloudflare" && check.err.contains("days old");
        assert!(check.code == Some(0) && is_quiet, "{proxy}: {}", check.err);
        let header = format!("{header}: 198.51.100.7");
        let said = folder.run(&["explain", "--peer", peer, "-H", &header, "/login"]);
        assert!(said.out.starts_with("client    198.51.100.7"), "{proxy}: {}", said.out);
        let said = folder.run(&["explain", "--peer", "192.0.2.9", "-H", &header, "/login"]);
        assert!(said.out.starts_with("client    192.0.2.9"), "another peer is not believed: {}", said.out);
    }
    assert_eq!(Folder::new().run(&["init", "--behind", "squid"]).code, Some(2));
}

#[test]
fn the_schema_is_printed_as_json() {
    let said = Folder::new().run(&["schema"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    let schema: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let mode = &schema["properties"]["limit"]["additionalProperties"]["properties"]["mode"];
    assert_eq!((&mode["default"], mode["enum"].as_array().unwrap().len()), (&"enforce".into(), 4));
    assert!(mode["description"].as_str().unwrap().contains("never refuses"), "{mode}");
}

#[test]
fn man_pages_name_every_command_and_key() {
    let folder = Folder::new();
    let said = folder.run(&["man", "."]);
    assert_eq!((said.code, &*said.out, &*said.err), (Some(0), "", ""));
    for page in ["tollgate.1", "tollgate-check.1", "tollgate-doctor.1", "tollgate.toml.5", "tollgate.8"] {
        assert!(!folder.read(page).is_empty(), "{page}");
    }
    let file = folder.read("tollgate.toml.5");
    for key in ["[limit.NAME.escalate]", "max_failures", "upstream_idle", "proxy_protocol"] {
        assert!(file.contains(key) || file.contains(&key.replace('-', "\\-")), "{key}");
    }
    let said = folder.run(&["man", "missing"]);
    assert!(said.code == Some(1) && said.err.contains("cannot write to missing"), "{}", said.err);
}

#[test]
fn completions_are_there_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = Folder::new().run(&["completions", shell]);
        assert!(said.code == Some(0) && said.out.contains("doctor"), "{shell}");
    }
}

/// An application that answers each request with this head and the bytes of the request.
fn application(head: &'static str, echoes: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap();
            let body = if echoes { &request[..length] } else { b"you are 127.0.0.1" };
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(body).unwrap();
        }
    });
    address
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";

/// What doctor says of a file with this application and these lines.
fn doctor(
    folder: &Folder,
    upstream: SocketAddr,
    top: &str,
    tables: &str,
    words: &[&str],
) -> (Option<i32>, String) {
    let form = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"10 per 5m\"\n";
    let file = format!("upstream = \"http://{upstream}\"\n{top}\n{form}{tables}");
    fs::write(folder.0.join("config.toml"), file).unwrap();
    let said = folder.run(&[&["doctor"], words].concat());
    assert_eq!(said.err, "", "{}", said.out);
    (said.code, said.out)
}

#[test]
fn doctor_finds_a_sound_set_up_good() {
    let folder = Folder::new();
    let listen = format!("listen = \"http://0.0.0.0:{}\"", free_port());
    let (code, said) = doctor(&folder, application(HEAD, true), &listen, "", &["--whoami", "/me"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(": free\n") && said.contains("/me shows the client of X-Forwarded-For"), "{said}");
    assert!(said.contains("config.toml: no errors, "), "{said}");
}

#[test]
fn doctor_names_each_fault_with_its_fix() {
    let folder = Folder::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let keys = folder.0.join("device.keys");
    fs::write(&keys, "k".repeat(40)).unwrap();
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o644)).unwrap();
    let listen = format!("listen = \"http://{}\"", taken.local_addr().unwrap());
    let tables = "[device]\nsecret = \"${file:device.keys}\"\n[log]\naccess = \"missing/access.log\"\n\
                  [admin]\nlisten = \"unix:/missing-directory/admin.sock\"\n";
    let old = "HTTP/1.1 200 OK\r\nDate: Mon, 05 Jan 2015 10:00:00 GMT\r\nConnection: close\r\n\r\n";
    let (code, said) = doctor(&folder, application(old, false), &listen, tables, &["--whoami", "/me"]);
    assert_eq!(code, Some(1), "{said}");
    for (fault, fix) in [
        ("another program listens there", "ss -ltnp"),
        ("all visitors are one client", "name the proxy"),
        ("others can read or change it (mode 644)", "chmod 600"),
        ("/missing/access.log: ", "LogsDirectory="),
        ("there is no directory /missing-directory", "RuntimeDirectory="),
        ("s apart", "NTP"),
        ("X-Forwarded-For is ignored", "set_real_ip_from"),
    ] {
        let lines = lines_of(&said);
        let at = lines.iter().position(|line| line.contains(fault) && !line.contains("fix:"));
        let at = at.unwrap_or_else(|| panic!("{fault} is not in\n{said}"));
        assert!(lines[at + 1].contains("fix:") && lines[at + 1].contains(fix), "{fix} is not in\n{said}");
    }
}

#[test]
fn doctor_tells_of_an_application_and_a_store_that_are_away() {
    let folder = Folder::new();
    let nobody = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let listen = format!("listen = \"http://0.0.0.0:{}\"", free_port());
    let store = format!("[store]\nurl = \"redis://127.0.0.1:{}\"\n", free_port());
    let (code, said) = doctor(&folder, nobody, &listen, &store, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("err   upstream http://127.0.0.1:"), "{said}");
    assert!(said.contains("err   store redis"), "{said}");
    assert!(said.contains("fix: start the store"), "{said}");
}

#[test]
fn files_of_a_unit_are_found_where_systemd_puts_them() {
    let folder = Folder::new();
    for directory in ["credentials", "logs", "state"] {
        fs::create_dir(folder.0.join(directory)).unwrap();
    }
    fs::write(folder.0.join("credentials/device.keys"), "k".repeat(40)).unwrap();
    let file = "listen = \"http://127.0.0.1:8080\"\nupstream = \"http://127.0.0.1:8081\"\n\
                [route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"10 per 5m\"\n\
                [device]\nsecret = \"${file:device.keys}\"\n[log]\naccess = \"access.log\"\n\
                [store]\nsnapshot = \"buckets\"\n";
    fs::write(folder.0.join("config.toml"), file).unwrap();
    assert_eq!(folder.run(&["check"]).code, Some(78), "the key is not beside the file");
    let path = |name: &str| folder.0.join(name).display().to_string();
    let [credentials, logs, state] = ["credentials", "logs", "state"].map(path);
    let unit =
        [("CREDENTIALS_DIRECTORY", &*credentials), ("LOGS_DIRECTORY", &*logs), ("STATE_DIRECTORY", &*state)];
    let said = folder.run_in(&["check"], &unit, "");
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    let said = folder.run_in(&["doctor"], &unit, "");
    for place in [format!("log.access {logs}/access.log"), format!("store.snapshot {state}/buckets")] {
        assert!(said.out.contains(&place), "{place} is not in\n{}", said.out);
    }
}

#[test]
fn a_store_that_is_away_is_told_before_the_first_attempt() {
    let file = "upstream = \"http://127.0.0.1:9\"\n[route.login]\nmatch = \"POST /login\"\n\
                [limit.address]\nrate = \"10 per 5m\"\n[store]\n";
    let gate =
        Gate::start(&format!("{file}url = \"redis://127.0.0.1:{}\"\non_error = \"deny\"\n", free_port()));
    let is_told = || {
        let said = gate.messages();
        said.contains("the store (redis") && said.contains("every attempt is answered 503 (store.on_error)")
    };
    assert!(eventually(Duration::from_secs(20), is_told), "{}", gate.messages());
}
