//! What a layer tells its program: events of `tracing`, from its own threads too.

use std::io;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use support::application::{ROUTE, form as fields};
use support::{ONE_AN_HOUR, eventually, get_with, post, post_with};

use crate::program::layer;
use crate::{ACCOUNT, Form, form};

/// What is written into it.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    /// All events of this process from now on.
    fn of_all() -> &'static Self {
        static ALL: LazyLock<Written> = LazyLock::new(|| {
            let written = Written::default();
            let events = written.clone();
            tracing_subscriber::fmt().with_writer(move || events.clone()).init();
            written
        });
        &ALL
    }

    fn has(&self, level: &str, text: &str) -> bool {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        String::from_utf8_lossy(&told).lines().any(|line| line.contains(level) && line.contains(text))
    }

    fn comes_to_have(&self, level: &str, text: &str) -> bool {
        eventually(Duration::from_secs(30), || self.has(level, text))
    }
}

#[test]
fn what_is_surely_wrong_in_a_policy_is_told_with_its_line() {
    let told = Written::of_all();
    drop(layer(&format!("client.trust = [\"0.0.0.0/0\"]\n{ONE_AN_HOUR}")));
    assert!(told.has("WARN", "") && told.has("", "policy.toml:1:17"));
}

#[test]
fn a_proxy_that_is_not_trusted_is_told() {
    let told = Written::of_all();
    let program = Form::start(ONE_AN_HOUR, form);
    let mut proxy = program.connect();
    for client in 1..=120 {
        proxy.send(post_with("/login", &format!("X-Forwarded-For: 192.0.2.{client}\r\n")));
        proxy.answer();
    }
    assert!(told.comes_to_have("WARN", "nearly all attempts come from 127.0.0.1, a private address"));
}

#[test]
fn a_store_that_does_not_answer_is_told_before_the_first_attempt() {
    let told = Written::of_all();
    let store = "[store]\nurl = \"redis://127.0.0.1:1\"\non_error = \"allow\"\n";
    let layer = layer(&format!("{ONE_AN_HOUR}{store}"));
    assert!(told.comes_to_have("ERROR", "every attempt is admitted (store.on_error)"));
    drop(layer);
}

#[test]
fn beyond_what_may_be_undecided_requests_are_answered_at_once_and_this_is_told() {
    let told = Written::of_all();
    let program = Form::start(&format!("proxy.connections = 1\n{ROUTE}{ACCOUNT}"), form);
    let (body, mut slow) = (fields("alice", "wrong"), program.connect());
    let lines = format!(
        "Content-Type: application/x-www-form-urlencoded\r\nExpect: 100-continue\r\nContent-Length: {}\r\n",
        body.len()
    );
    slow.send(format!("POST /login HTTP/1.1\r\nHost: app.test\r\n{lines}\r\n"));
    assert_eq!(slow.take(25).unwrap(), b"HTTP/1.1 100 Continue\r\n\r\n");
    for _ in 0..3 {
        assert_eq!(program.ask(get_with("/", "")).status, 503);
    }
    assert!(told.has("WARN", "a connection was rejected") && told.has("WARN", "proxy.connections"));
    slow.send(body);
    assert_eq!(slow.answer().status, 200);
    assert!(eventually(Duration::from_secs(30), || program.ask(post("/", "")).status == 200));
}
