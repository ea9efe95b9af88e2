//! `ab` of Apache, a client of HTTP/1.0 that keeps a connection for as long as each answer says how long it is.

use support::{Gate, Reply, Upstream, installed};

/// What `ab` says after 200 requests, four at once, of which each was answered by these bytes.
fn said_of(answer: &str, then_closes: bool) -> String {
    let answer = answer.to_owned();
    let upstream = Upstream::answering(move |_, _| match then_closes {
        true => Reply::text_and_close(&answer),
        false => Reply::text(&answer),
    });
    let gate = Gate::start(&upstream.file(""));
    let url = format!("http://{}/page", gate.address);
    // It gives up after so many seconds of silence.
    let output = installed("ab", "apache2-utils")
        .args(["-k", "-n", "200", "-c", "4", "-s", "15", &url])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{said}\n{}", gate.messages());
    assert_eq!(upstream.requests().len(), 200, "{said}");
    for (name, value) in
        [("Complete requests", 200), ("Failed requests", 0), ("HTML transferred", 200 * LENGTH)]
    {
        assert_eq!(figure(&said, name), Some(value), "{name}: {said}");
    }
    assert_eq!(figure(&said, "Non-2xx responses"), None, "{said}");
    said
}

fn figure(said: &str, name: &str) -> Option<usize> {
    let line = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

const LENGTH: usize = 3000;
const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n";

#[test]
fn ab_gets_every_answer_that_ends_with_its_connection() {
    for line in ["", "Connection: close\r\n"] {
        said_of(&format!("{HEAD}{line}\r\n{}", "x".repeat(LENGTH)), true);
    }
}

#[test]
fn ab_gets_every_answer_that_came_in_chunks() {
    let chunk = |length: usize| format!("{length:x}\r\n{}\r\n", "x".repeat(length));
    let body = format!("{}{}0\r\n\r\n", chunk(1000), chunk(2000));
    let said = said_of(&format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n{body}"), false);
    assert!(!said.contains("chunked"), "{said}");
}

#[test]
fn ab_keeps_its_connections_when_answers_have_a_length() {
    let said = said_of(&format!("{HEAD}Content-Length: {LENGTH}\r\n\r\n{}", "x".repeat(LENGTH)), false);
    assert_eq!(figure(&said, "Keep-Alive requests"), Some(200), "{said}");
}
