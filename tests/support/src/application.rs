//! An application with a sign-in form, three accounts, and the habits of real ones.

use std::net::Ipv4Addr;
use std::sync::Barrier;

use crate::{Answer, Gate, Reply, Upstream};

/// The route to the form, which counts as WordPress's does: 302 is a success.
pub const ROUTE: &str = r#"
[route.login]
match = "POST /login"
user = "form:log"
password = "form:pwd"
success = { status = 302, location = "/home*" }
"#;

/// A bucket of five for each address, which failures empty.
pub const FIVE: &str = "[limit.address]\nrate = \"5 per 1h\"\ncount = \"failures\"\n";

/// Answers 302 to a right password, 200 to a wrong one, and 500 to `broken`.
pub fn application() -> Upstream {
    Upstream::answering(|request, _| answer(request))
}

fn answer(request: &[u8]) -> Reply {
    let body =
        request.windows(4).position(|window| window == b"\r\n\r\n").map_or(&[][..], |at| &request[at + 4..]);
    let body = String::from_utf8_lossy(body);
    match (field(&body, "log"), field(&body, "pwd")) {
        (_, Some("crash")) => Reply::text("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"),
        (_, Some("silence")) => Reply::Silence,
        (Some(user), Some(password)) if right(user) == password => Reply::text(
            "HTTP/1.1 302 Found\r\nLocation: /home\r\nSet-Cookie: SESSION=planted-session\r\nContent-Length: 0\r\n\r\n",
        ),
        _ => Reply::text(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 19\r\n\r\n<p>Login failed</p>",
        ),
    }
}

fn field<'b>(body: &'b str, name: &str) -> Option<&'b str> {
    body.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// The right password of an account.
pub fn right(user: &str) -> String {
    format!("right-of-{user}")
}

/// The body of a sign-in.
pub fn form(user: &str, password: &str) -> String {
    format!("log={user}&pwd={password}")
}

/// A POST of a form to this target, with these further header lines (each ended by CRLF).
pub fn post(target: &str, lines: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {target} HTTP/1.1\r\nHost: app.test\r\nContent-Type: application/x-www-form-urlencoded\r\n{lines}\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

/// A sign-in with these further header lines (each ended by CRLF).
pub fn sign_in_with(lines: &str, body: &str) -> String {
    post("/login", lines, body)
}

/// A sign-in.
pub fn sign_in(user: &str, password: &str) -> String {
    sign_in_with("", &form(user, password))
}

/// A sign-in from this address; the status of the answer.
pub fn status_from(gate: &Gate, address: Ipv4Addr, user: &str, password: &str) -> u16 {
    let mut client = gate.connect_from(address);
    client.send(sign_in(user, password));
    client.answer().status
}

/// How many wrong passwords for this account reach the application before one is refused; at most 100.
pub fn guesses(gate: &Gate, user: &str) -> usize {
    (0..100).take_while(|number| gate.ask(sign_in(user, &format!("wrong{number}"))).status != 429).count()
}

/// How many of 500 wrong passwords for alice are refused that come at once, at these gates by turns.
pub fn refused_of_500_at_once(gates: &[Gate]) -> usize {
    let (threads, each) = (50, 10);
    let ready = &Barrier::new(threads);
    std::thread::scope(|scope| {
        let guess = move |thread: usize| {
            // All of them are connected before the first guess is sent.
            let mut clients: Vec<_> = (0..each).map(|number| gates[number % gates.len()].connect()).collect();
            ready.wait();
            for (number, client) in clients.iter_mut().enumerate() {
                client.send(sign_in("alice", &format!("wrong{thread}-{number}")));
            }
            clients.iter_mut().map(|client| client.answer().status).filter(|&status| status == 429).count()
        };
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || guess(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

/// The value of a cookie that an answer sets.
pub fn cookie(answer: &Answer, name: &str) -> Option<String> {
    let lines = answer.headers.iter().filter(|(header, _)| header == "set-cookie");
    let mut values =
        lines.filter_map(|(_, line)| line.strip_prefix(name)?.strip_prefix('=')?.split(';').next());
    values.next().map(str::to_owned)
}
