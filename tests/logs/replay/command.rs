//! Logs of all kinds on the command line, and exit codes.

use std::io::Write;

use super::{Files, printed, replay, replay_with};

const CONFIG: &str = "upstream = \"http://127.0.0.1:9\"\nlisten = \"http://127.0.0.1:0\"\n\
                      [route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"2 per 1h\"\n";

fn combined(second: usize) -> String {
    let time = format!("22/Nov/2026:10:00:{second:02} +0000");
    format!("192.0.2.1 - - [{time}] \"POST /login HTTP/1.1\" 200 5 \"-\" \"-\"\n")
}

fn files() -> Files {
    let files = Files::new();
    files.write("config.toml", CONFIG);
    files
}

#[test]
fn plain_compressed_and_piped_logs_are_one_stream() {
    let files = files();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all((0..3).map(combined).collect::<String>().as_bytes()).unwrap();
    files.write("one", gzip.finish().unwrap());
    let zstd: String = (3..6).map(combined).collect();
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    files.write("two", ruzstd::encoding::compress_to_vec(zstd.as_bytes(), level));
    let piped: String = (6..9).map(combined).collect();
    let text = printed(&replay_with(&files.0, &["one", "two", "-"], piped.as_bytes()));
    assert!(text.contains("9 lines, combined") && text.contains("7 of 9 attempts refused"), "{text}");
}

#[test]
fn formats_may_change_between_lines() {
    let files = files();
    let json = "{\"time\":\"2026-11-22T10:00:01Z\",\"client\":\"192.0.2.1\",\"request\":\"POST /login HTTP/1.1\",\
                \"status\":200}\n";
    let haproxy = "192.0.2.1:5 [22/Nov/2026:10:00:02.000] f b/s 0/0/0/0/0 200 5 - - ---- 1/1/1/1/0 0/0 \
                   \"POST /login HTTP/1.1\"\n";
    files.write("log", [&combined(0), json, haproxy].concat());
    let text = printed(&replay(&files.0, &["log"]));
    assert!(text.contains("3 lines, combined and JSON and HAProxy"), "{text}");
    assert!(text.contains("1 of 3 attempts refused"), "{text}");
    // A given format takes no other.
    let output = replay(&files.0, &["--format", "json", "log"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_line_that_comes_late_is_judged_at_its_own_time() {
    let files = files();
    let line = |minute: u32| {
        combined(0).replace("10:00:00", &format!("{:02}:{:02}:00", 10 + minute / 60, minute % 60))
    };
    // 10:01 was logged after 10:02; 10:00 comes after 12:00, too late: it is judged at 10:02 and is the third then.
    files.write("log", [line(2), line(1), line(120), line(0)].concat());
    let text = printed(&replay(&files.0, &["log"]));
    assert!(text.contains("late      1 attempt,"), "{text}");
    assert!(
        text.contains("1 of 4 attempts refused") && text.contains("first     2026-11-22T10:02:00.000Z"),
        "{text}"
    );
}

#[test]
fn what_is_mostly_unreadable_fails_and_shows_the_first_line() {
    let files = files();
    files.write("log", format!("{}sshd: \u{1b}[31mhello\nsshd: hello\n", combined(0)));
    let output = replay(&files.0, &["log"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("2 of 3 lines cannot be read, the first in line 2: in no known format"),
        "{errors}"
    );
    assert!(errors.contains(r"sshd: \x1b[31mhello"), "escaped: {errors}");
    files.write("empty", "");
    let output = replay(&files.0, &["empty"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the log is empty"));
}

#[test]
fn exit_codes_tell_usage_and_configuration_apart() {
    let files = files();
    files.write("bad.toml", "upstrem = 5\n");
    files.write("log", combined(0));
    assert_eq!(replay(&files.0, &[]).status.code(), Some(2));
    assert_eq!(replay(&files.0, &["--good-share", "200%", "log"]).status.code(), Some(2));
    assert_eq!(replay(&files.0, &["-c", "bad.toml", "log"]).status.code(), Some(78));
    assert_eq!(replay(&files.0, &["--compare", "bad.toml", "log"]).status.code(), Some(78));
    let output = replay(&files.0, &["missing"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot read missing"));
}
