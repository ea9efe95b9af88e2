//! What the application's own answer says of an attempt.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::response::Response;
use support::application::{FIVE, ROUTE, cookie, form as fields, right, sign_in, sign_in_with};
use support::eventually;

use crate::{ACCOUNT, Form, answered, form};

/// Judged by the body of the answer alone.
pub(crate) const BY_BODY: &str = "[route.login]\nmatch = \"POST /login\"\nuser = \"form:log\"\npassword = \"form:pwd\"\n\
                       failure = { body = \"Login failed\" }\notherwise = \"success\"\n";

fn status(program: &Form, password: &str) -> u16 {
    program.ask(sign_in("alice", password)).status
}

/// How many wrong passwords pass until one is refused; at most 50.
fn guesses(program: &Form) -> usize {
    (0..50).take_while(|number| status(program, &format!("wrong{number}")) != 429).count()
}

#[test]
fn of_500_right_passwords_none_is_refused_and_of_wrong_ones_exactly_the_bucket_passes() {
    let program = Form::start(&format!("{ROUTE}{FIVE}"), form);
    let mut client = program.connect();
    for number in 0..500 {
        client.send(sign_in("alice", &right("alice")));
        assert_eq!(client.answer().status, 302, "sign-in {number}");
    }
    assert_eq!(program.seen().len(), 500);
    assert_eq!(guesses(&program), 5);
    assert_eq!(program.seen().len(), 505);
}

#[test]
fn of_100_wrong_passwords_at_once_exactly_the_bucket_reaches_the_application() {
    let program = Form::start(&format!("{ROUTE}{FIVE}"), form);
    let (threads, each) = (10, 10);
    let ready = Barrier::new(threads);
    thread::scope(|scope| {
        for thread in 0..threads {
            let (program, ready) = (&program, &ready);
            scope.spawn(move || {
                let mut client = program.connect();
                ready.wait();
                for number in 0..each {
                    client.send(sign_in("alice", &format!("wrong{thread}-{number}")));
                    client.answer();
                }
            });
        }
    });
    assert_eq!(program.seen().len(), 5);
}

/// The body of a failure comes in pieces, of which none has all of the text.
fn in_pieces(_: &Parts, body: &[u8]) -> Option<Response> {
    let is_right = body.ends_with(b"pwd=right-of-alice");
    let text = if is_right { "<p>Welcome</p>" } else { "<p>Login failed</p>" };
    let pieces = Pieces { text: text.as_bytes(), tells_length: is_right };
    answered(200, ("content-type", "text/html"), Body::new(pieces))
}

/// One byte a frame. With its length, a server does not ask for what follows the last one.
struct Pieces {
    text: &'static [u8],
    tells_length: bool,
}

impl http_body::Body for Pieces {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, Self::Error>>> {
        let next = self.text.split_first().map(|(first, rest)| {
            self.text = rest;
            Ok(http_body::Frame::data(bytes::Bytes::from(vec![*first])))
        });
        std::task::Poll::Ready(next)
    }

    fn size_hint(&self) -> http_body::SizeHint {
        let length = self.tells_length.then_some(self.text.len() as u64);
        length.map_or_else(http_body::SizeHint::new, http_body::SizeHint::with_exact)
    }
}

#[test]
fn rules_read_the_body_of_the_answer_while_it_streams() {
    let program = Form::start(&format!("{BY_BODY}{FIVE}"), in_pieces);
    for number in 0..50 {
        let answer = program.ask(sign_in("alice", &right("alice")));
        assert_eq!((answer.status, &answer.text()[..]), (200, "<p>Welcome</p>"), "sign-in {number}");
    }
    let answer = program.ask(sign_in("alice", "wrong"));
    assert_eq!((answer.status, &answer.text()[..]), (200, "<p>Login failed</p>"));
    assert_eq!(guesses(&program), 4);
}

/// Browsers are known.
const OWNERS: &str = "[device]\nsecret = \"0123456789abcdef0123456789abcdef\"\n";

#[test]
fn a_browser_becomes_known_by_a_body_that_is_judged_before_its_head() {
    let program = Form::start(&format!("{BY_BODY}{ACCOUNT}{OWNERS}"), in_pieces);
    let answer = program.ask(sign_in("alice", &right("alice")));
    assert_eq!((answer.status, &answer.text()[..]), (200, "<p>Welcome</p>"));
    let device = cookie(&answer, "tollgate_device").expect("a cookie for the browser");
    assert_eq!(guesses(&program), 5);
    assert_eq!(status(&program, &right("alice")), 429, "for a stranger");
    let lines = format!("Cookie: a=1; tollgate_device={device}\r\n");
    let owner = program.ask(sign_in_with(&lines, &fields("alice", &right("alice"))));
    assert_eq!(owner.status, 200);
    assert_eq!(program.seen().last().unwrap().head.headers["cookie"], "a=1");
}

#[test]
fn a_client_that_hangs_up_before_the_answer_has_made_the_attempt() {
    let program = Form::start(&format!("{ROUTE}{FIVE}"), form);
    for _ in 0..5 {
        let before = program.seen().len();
        let mut client = program.connect();
        client.send(sign_in("alice", "silence"));
        assert!(eventually(Duration::from_secs(10), || program.seen().len() > before), "it is served");
        drop(client);
    }
    // The five are charged when they are decided, and nothing comes back.
    assert_eq!(status(&program, &right("alice")), 429);
}

#[test]
fn an_application_that_panics_has_made_the_attempt() {
    let program = Form::start(&format!("{ROUTE}{FIVE}"), form);
    for _ in 0..5 {
        let mut client = program.connect();
        client.send(sign_in("alice", "panic"));
        assert!(client.try_answer().is_none());
    }
    assert_eq!(status(&program, &right("alice")), 429);
    assert!(program.seen().is_empty());
}
