//! Known devices at a running gate: their cookie is between the browser and the gate.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use std::fs;
use std::time::Duration;

use support::{Gate, Launch, Upstream, eventually, get_with};

const DEVICE: &str = "[device]\nsecret = \"${file:device.keys}\"\n";
const KEY: &str = "planted-planted-planted-planted-planted\n";

/// A gate with this key in its file of keys.
fn start(upstream: &Upstream, tables: &str) -> Gate {
    Launch::new(&upstream.file(tables)).beside("device.keys", KEY).start()
}

/// The lines of `Cookie` that the application got since it was asked last, as they came.
fn cookies(upstream: &Upstream) -> Vec<Vec<u8>> {
    let bytes = upstream.bytes();
    upstream.forget();
    assert!(bytes.ends_with(b"\r\n\r\n"), "a request came");
    let lines =
        bytes.split(|&byte| byte == b'\n').filter(|line| line.to_ascii_lowercase().starts_with(b"cookie:"));
    lines.map(|line| line["cookie: ".len()..].to_vec()).collect()
}

/// Messages are written in their own time.
fn assert_says(gate: &Gate, words: &str) {
    let says = || gate.messages().contains(words);
    assert!(eventually(Duration::from_secs(5), says), "no {words:?}");
}

#[test]
fn the_cookie_of_a_device_never_reaches_the_application_and_every_other_does_as_it_was() {
    let upstream = Upstream::start();
    let gate = start(&upstream, DEVICE);
    for (sent, left) in [
        ("", vec![]),
        ("Cookie: tollgate_device=x\r\n", vec![]),
        ("Cookie: __Host-tollgate_device=x; tollgate_device=y;\r\n", vec![]),
        ("Cookie: a=1;  tollgate_device=x;b=\"2; 3\" ; c\r\n", vec!["a=1;b=\"2; 3\" ; c"]),
        ("Cookie: $Version=1; tollgate_device=x; $Path=\"/\"; b=2\r\n", vec!["$Version=1; b=2"]),
        ("Cookie: a=1\r\nX: y\r\ncookie: tollgate_device=x\r\nCOOKIE: b=\t2\r\n", vec!["a=1", "b=\t2"]),
        ("Cookie: q=\"; tollgate_device=x; r=\"\r\n", vec!["q=\"; r=\""]),
        (
            "Cookie: tollgate.device=1; tollgate_device2=2; TOLLGATE_DEVICE=3\r\n",
            vec!["tollgate.device=1; tollgate_device2=2; TOLLGATE_DEVICE=3"],
        ),
    ] {
        for request in [get_with("/", sent), support::post_with("/login", sent)] {
            assert_eq!(gate.ask(request).status, 200);
            let expected: Vec<Vec<u8>> = left.iter().map(|line| format!("{line}\r").into()).collect();
            assert_eq!(cookies(&upstream), expected, "{sent}");
        }
    }
    let hostile = b"GET / HTTP/1.1\r\nHost: a\r\nCookie: a=\xe4\xff; tollgate_device=\xff; b=\x80\r\n\r\n";
    assert_eq!(gate.ask(hostile).status, 200);
    assert_eq!(cookies(&upstream), [b"a=\xe4\xff; b=\x80\r".to_vec()]);
}

#[test]
fn an_upgrade_goes_without_the_cookie_as_well() {
    let upstream = Upstream::start();
    let gate = start(&upstream, DEVICE);
    let lines = "Connection: upgrade\r\nUpgrade: websocket\r\nCookie: tollgate_device=x; a=1\r\n";
    assert_eq!(gate.ask(get_with("/socket", lines)).status, 200);
    assert_eq!(cookies(&upstream), [b"a=1\r"]);
}

#[test]
fn without_known_devices_every_cookie_passes_and_a_reload_changes_that() {
    let upstream = Upstream::start();
    let gate = start(&upstream, "");
    let ask = || {
        assert_eq!(gate.ask(get_with("/", "Cookie: tollgate_device=x\r\n")).status, 200);
        cookies(&upstream).len()
    };
    assert_eq!(ask(), 1);
    assert!(gate.reload(&upstream.file(DEVICE)));
    assert_eq!(ask(), 0);
    assert_says(&gate, "`device` changed");
    assert!(gate.reload(&upstream.file(DEVICE)));
    assert_says(&gate, "nothing has changed");
    assert!(gate.reload(&upstream.file(&format!("{DEVICE}cookie = \"other\"\n"))));
    assert_eq!(ask(), 1, "by the name that holds now");
}

#[test]
fn a_rotation_of_keys_is_a_reload_without_a_signal_and_a_bad_one_is_refused() {
    let upstream = Upstream::start();
    let gate = start(&upstream, DEVICE);
    let keys = gate.directory.join("device.keys");
    fs::write(&keys, format!("newer-newer-newer-newer-newer-newer\n{KEY}")).unwrap();
    assert!(eventually(Duration::from_secs(10), || gate.reloads() == (1, 0)), "the file is watched");
    assert_says(&gate, "`device` changed");
    fs::write(&keys, "planted-too-short\n").unwrap();
    assert!(eventually(Duration::from_secs(10), || gate.reloads() == (1, 1)));
    assert_says(&gate, "line 1 of `device.keys` is too short");
    assert!(!gate.messages().contains("planted"), "{}", gate.messages());
}

#[test]
fn a_secret_may_come_from_any_variable_and_is_read_again_where_the_file_names_another() {
    let upstream = Upstream::start();
    let file = |name: &str| upstream.file(&format!("[device]\nsecret = \"${{{name}}}\"\n"));
    let launch = Launch::new(&file("GATE_KEYS")).environment("GATE_KEYS", KEY);
    let gate = launch.environment("OTHER_KEYS", &KEY.replace('p', "q")).start();
    assert!(gate.reload(&file("OTHER_KEYS")), "{}", gate.messages());
    assert_says(&gate, "`device` changed");
    assert!(!gate.reload(&file("NO_KEYS")));
    assert_says(&gate, "no variable `NO_KEYS`");
    assert!(!gate.messages().contains("lanted"), "{}", gate.messages());
}

#[test]
fn no_log_holds_a_cookie() {
    for style in ["combined", "json"] {
        let upstream = Upstream::start();
        let log = format!("[log]\naccess = \"{{dir}}/access.log\"\nstyle = \"{style}\"\nlevel = \"trace\"\n");
        let gate = start(&upstream, &format!("{DEVICE}{log}"));
        assert_eq!(gate.ask(get_with("/last", "Cookie: tollgate_device=planted; a=planted\r\n")).status, 200);
        let read = || fs::read_to_string(gate.directory.join("access.log")).unwrap_or_default();
        assert!(eventually(Duration::from_secs(5), || read().contains("/last")), "the log is written");
        assert!(!read().contains("planted") && !gate.messages().contains("planted"), "{}", read());
    }
}
