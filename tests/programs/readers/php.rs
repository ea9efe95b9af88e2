//! What is read of a sign-in, beside what PHP reads of it, and WordPress: never less.
//!
//! Bodies and names are what an attacker would write: names in disguise, delimiters in odd places, heads that are broken
//! in every way. Seeded: a failure shows its body. Needs PHP and WordPress, which `scripts/real-apps --install` gets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "these are tests")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, COOKIE};
use http::{HeaderMap, HeaderValue, Method};
use support::{installed, root};
use tollgate::policy::account::Account;
use tollgate::policy::attempt::{Attempt, AttemptBody, Client};
use tollgate::policy::field::{Field, Half, Values, values};
use tollgate::policy::key::TooManyValues;
use tollgate::policy::{Policy, Route, RouteReading};

const NAMES: [&str; 2] = ["log", "user[email]"];

#[test]
#[ignore = "needs PHP"]
fn php_never_finds_a_value_in_a_form_that_we_do_not() {
    compare(10_000, |dice| (FORM.to_vec(), urlencoded(dice)));
}

#[test]
#[ignore = "needs PHP"]
fn php_never_finds_a_value_in_a_multipart_body_that_we_do_not() {
    compare(10_000, multipart);
}

/// L1, L2: whatever the method, and wherever it stands: query, form or cookie.
#[test]
#[ignore = "needs PHP"]
fn php_without_a_php_ini_never_finds_a_guess_that_is_free() {
    let server = Php::start(&["-n"], "request.php");
    let field = |name| vec![Field::form(name).unwrap()];
    let patterns = vec!["POST /".parse().unwrap()];
    let route = Route {
        reading: RouteReading { user: field("log"), password: field("pwd"), ..RouteReading::default() },
        ..Route::new("form", patterns)
    };
    let policy = Policy::new(vec![route], Vec::new());
    let mut dice = dice();
    let (mut guesses, mut free) = (0, 0);
    for _ in 0..10_000 {
        let request = Guess::any(&mut dice);
        let (headers, query) = (request.headers(), request.query.clone());
        let attempt = Attempt {
            method: &request.method,
            path: "/",
            query: (!query.is_empty()).then_some(&*query),
            host: "",
            client: Client::UnixSocket,
            headers: &headers,
            body: AttemptBody::Whole(&request.body),
            descriptor: None,
            tls: None,
        };
        let is_counted = !policy.routes_of(&attempt).is_empty();
        // What is no request to PHP has no answer.
        let Some((names, is_guess)) = server.ask(&request) else { continue };
        guesses += u32::from(is_guess);
        free += u32::from(!is_counted);
        assert!(is_counted || !is_guess, "PHP finds a guess in {request:?}");
        let ours = values(&policy.routes[0].reading.user, Half::User, &attempt);
        for name in names.iter().filter(|_| is_guess) {
            let is_known = ours.as_ref().map_or(true, |ours| ours.iter().any(|known| known == name));
            assert!(is_known, "PHP knows {:?} of {request:?}", String::from_utf8_lossy(name));
        }
    }
    println!("{guesses} guesses, {free} requests that are free");
    assert!(guesses > 3_000 && free > 1_000, "{guesses} guesses, {free} free");
}

#[test]
#[ignore = "needs WordPress"]
fn names_that_wordpress_takes_for_one_are_one_account_or_odd() {
    let mut dice = dice();
    let mut names: Vec<Vec<u8>> = (0..30_000).map(|_| name_of_account(&mut dice)).collect();
    names.extend(('\u{80}'..'\u{ffff}').map(|letter| format!("x{letter}y").into_bytes()));
    let odd = Account::fold(b"<");
    let cleaned = cleaned_by_wordpress(&names);
    let mut same = 0;
    for (name, cleaned) in names.iter().zip(&cleaned) {
        let (ours, theirs) = (Account::fold(name), Account::fold(cleaned));
        same += u32::from(ours == theirs);
        assert!(
            ours == theirs || ours == odd,
            "{:?} is {:?}, and not {:?}",
            String::from_utf8_lossy(name),
            String::from_utf8_lossy(cleaned),
            String::from_utf8_lossy(ours.as_bytes())
        );
    }
    println!("{same} of {} names are the same to both", names.len());
    assert!(same > 70_000, "only {same}");
}

/// Asks PHP and us about as many bodies.
fn compare(count: usize, body: impl Fn(&mut Dice) -> (Vec<u8>, Vec<u8>)) {
    let server = Php::start(&[], "post.php");
    let mut dice = dice();
    let (mut found, mut unreadable) = (0, 0);
    for _ in 0..count {
        let (kind, body) = body(&mut dice);
        let theirs = server.post(&kind, &body);
        for (name, theirs) in NAMES.iter().zip(theirs) {
            // More than eight are refused.
            let Ok(ours) = read(name, &kind, &body) else { continue };
            unreadable += usize::from(ours.is_unreadable() && !theirs.is_empty());
            found += theirs.len();
            // Readers differ about where a broken part ends, and no name of an account is empty, has several
            // lines or looks like a delimiter.
            let is_name =
                |value: &Vec<u8>| !value.is_empty() && !value.starts_with(b"--") && !value.contains(&b'\n');
            for value in theirs.into_iter().filter(|value| !ours.is_unreadable() || is_name(value)) {
                // What is broken has other blanks around it, which names do without.
                let is_same = |known: &[u8]| match ours.is_unreadable() {
                    true => Account::fold(known) == Account::fold(&value),
                    false => known == value,
                };
                assert!(
                    ours.iter().any(is_same),
                    "{name} is {:?} to PHP in\n{}\n{}",
                    String::from_utf8_lossy(&value),
                    String::from_utf8_lossy(&kind),
                    String::from_utf8_lossy(&body)
                );
            }
        }
    }
    println!("{found} values found by both, {unreadable} of them in bodies that are unreadable to us");
    assert!(found > count / 10, "only {found} values in {count} bodies");
}

fn read(name: &str, kind: &[u8], body: &[u8]) -> Result<Values, TooManyValues> {
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_bytes(kind).unwrap())]);
    let attempt = Attempt {
        method: &Method::POST,
        path: "/",
        query: None,
        host: "",
        client: Client::UnixSocket,
        headers: &headers,
        body: AttemptBody::Whole(body),
        descriptor: None,
        tls: None,
    };
    values(&[Field::form(name).unwrap()], Half::User, &attempt)
}

/// PHP's own server; ended when it is dropped.
struct Php {
    process: Child,
    port: u16,
}

impl Php {
    fn start(options: &[&str], script: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut php = installed("php", "php-cli");
        php.args(options);
        php.args(["-d", "display_errors=0", "-d", "log_errors=0", "-S", &format!("127.0.0.1:{port}")]);
        php.arg(root().join("tests/apps").join(script));
        let process = php.stderr(Stdio::null()).spawn().unwrap();
        let server = Self { process, port };
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// What it finds of each name.
    fn post(&self, kind: &[u8], body: &[u8]) -> [Vec<Vec<u8>>; 2] {
        let head = format!("POST / HTTP/1.0\r\nContent-Length: {}\r\nContent-Type: ", body.len());
        let said = self.said(&[head.as_bytes(), kind, b"\r\n\r\n", body].concat()).expect("an answer");
        let (first, second) = said.split_once("user[email]\n").expect("both names");
        [first.strip_prefix("log\n").unwrap(), second].map(|lines| lines.lines().map(bytes).collect())
    }

    /// The names that it finds in a request, and whether it is a guess.
    fn ask(&self, guess: &Guess) -> Option<(Vec<Vec<u8>>, bool)> {
        let Guess { method, query, cookies, charset, coding, body } = guess;
        let mut head = format!("{method} /?{query} HTTP/1.0\r\n").into_bytes();
        if !cookies.is_empty() {
            head.extend_from_slice(&[b"Cookie: ", &cookies[..], b"\r\n"].concat());
        }
        if !body.is_empty() {
            head.extend_from_slice(&[b"Content-Type: ", FORM, charset.as_bytes(), b"\r\n"].concat());
            head.extend_from_slice(format!("Content-Encoding: {coding}\r\n").as_bytes());
            head.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        let said = self.said(&[&head, &b"\r\n"[..], body].concat())?;
        let mut lines: Vec<&str> = said.lines().collect();
        let (length, pwd) = (lines.pop().unwrap(), lines.pop().unwrap());
        Some((lines.into_iter().map(bytes).collect(), pwd == "pwd" || length != "0"))
    }

    fn said(&self, request: &[u8]) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_to_string(&mut answer).unwrap();
        Some(answer.split_once("\r\n\r\n")?.1.to_owned())
    }
}

impl Drop for Php {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A request that may be a guess.
#[derive(Debug)]
struct Guess {
    method: Method,
    query: String,
    cookies: Vec<u8>,
    /// What is said of the body, whether it is true or not.
    charset: &'static str,
    coding: &'static str,
    body: Vec<u8>,
}

impl Guess {
    fn any(dice: &mut Dice) -> Self {
        let method = dice.pick(&["GET", "GET", "OPTIONS", "POST", "PUT", "post"]).parse().unwrap();
        let mut pairs = |between: &str| {
            let pairs = (0..dice.below(3)).map(|_| {
                let pieces = (0..=dice.below(2)).map(|_| dice.pick(&WORDS)).collect::<String>();
                format!("{pieces}{}", dice.pick(&["=a", "=b%00c", "", "=a+b", "=%61", "==", "=\"a\""]))
            });
            pairs.collect::<Vec<_>>().join(between)
        };
        let query = pairs("&");
        let cookies = pairs("; ").into_bytes();
        let body = if dice.below(3) == 0 { urlencoded(dice) } else { Vec::new() };
        let charset = dice.pick(&["", "", "; charset=utf-8", "; charset=shift_jis", "; charset=utf-16"]);
        let coding = dice.pick(&["identity", "identity", "gzip", "x"]);
        Self { method, query, cookies, charset, coding, body }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !self.cookies.is_empty() {
            headers.insert(COOKIE, HeaderValue::from_bytes(&self.cookies).unwrap());
        }
        if !self.body.is_empty() {
            let kind = [FORM, self.charset.as_bytes()].concat();
            headers.insert(CONTENT_TYPE, HeaderValue::from_bytes(&kind).unwrap());
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(self.coding));
        }
        headers
    }
}

const WORDS: [&str; 18] = [
    "log", "log", "pwd", "pwd", "LOG", "l%6fg", "p%77d", "lang", "sid", "[]", "[x]", "%5b0%5d", "+", ".",
    "%20", "%00", "[", "x",
];

fn cleaned_by_wordpress(names: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut php = installed("php", "php-cli");
    php.arg(root().join("tests/apps/sanitize.php")).arg("/usr/share/wordpress");
    let mut process = php.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    let input: String = names.iter().map(|name| digits(name) + "\n").collect();
    let writing = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let cleaned: Vec<_> = lines.map(|line| bytes(&line.unwrap())).collect();
    writing.join().unwrap();
    process.wait().unwrap();
    assert_eq!(cleaned.len(), names.len());
    cleaned
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(digits: &str) -> Vec<u8> {
    let pairs = (0..digits.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

const FORM: &[u8] = b"application/x-www-form-urlencoded";

fn urlencoded(dice: &mut Dice) -> Vec<u8> {
    let mut body = Vec::new();
    for _ in 0..dice.below(6) {
        for _ in 0..=dice.below(3) {
            body.extend_from_slice(dice.pick(&PIECES).as_bytes());
        }
        if dice.below(4) > 0 {
            body.push(b'=');
        }
        body.extend_from_slice(
            dice.pick(&["a", "b%00c", "%zz", "x;log=y", "+", "%e4", "a=b", "", "[", "%5B"]).as_bytes(),
        );
        body.extend_from_slice(dice.pick(&["&", "&", "&", ";", "&&"]).as_bytes());
    }
    splice(dice, &mut body, &[b"%", b"[", b"]", b"&", b"=", b"\0", b"+", b".", b"log"]);
    body
}

const PIECES: [&str; 26] = [
    "log",
    "log",
    "log",
    "LOG",
    "l%6fg",
    "user[email]",
    "user[email]",
    "user",
    "[email]",
    "[",
    "]",
    "[]",
    "%5B",
    "%5d",
    "%00",
    "+",
    ".",
    "_",
    "%20",
    "[+",
    "[0]",
    "[email",
    "user%5bemail%5D",
    "x",
    "%09",
    "[ ]",
];

fn multipart(dice: &mut Dice) -> (Vec<u8>, Vec<u8>) {
    let mut kind =
        dice.pick(&["multipart/form-data; boundary=", "multipart/form-data;boundary="]).as_bytes().to_vec();
    kind.extend_from_slice(dice.pick(&["--x1", "--x1", "\"--x1\""]).as_bytes());
    let mut body = Vec::new();
    for _ in 0..=dice.below(4) {
        let name = dice.pick(&[
            "log",
            "log",
            "log[]",
            "user[email]",
            "LOG",
            " log",
            "l%6fg",
            "log[",
            "x",
            "user[email][]",
        ]);
        body.extend_from_slice(b"----x1\r\n");
        body.extend_from_slice(
            dice.pick(&["", "", "", "Content-Type: text/plain\r\n", "X: y\r\n"]).as_bytes(),
        );
        let disposition = match dice.below(5) {
            0 => format!("content-disposition:form-data;name={name}"),
            1 => format!("Content-Disposition: form-data; name=\"{name}\"; filename=\"a\""),
            _ => format!("Content-Disposition: form-data; name=\"{name}\""),
        };
        body.extend_from_slice(disposition.as_bytes());
        body.extend_from_slice(b"\r\n\r\n");
        body.extend_from_slice(
            dice.pick(&["a", "b\nc", "", "--x1", "\r\n", "----x2", "a\0b", "\r\n\r\n"]).as_bytes(),
        );
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"----x1--\r\n");
    if dice.below(3) == 0 {
        splice(dice, &mut body, &MARKUP);
    }
    if dice.below(8) == 0 {
        splice(dice, &mut kind, &[b" ", b"\"", b";", b",", b"=", b"boundary=y;", b"Boundary=y", b"\\", b"x"]);
    }
    (kind, body)
}

const MARKUP: [&[u8]; 18] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b"----x1\r\n",
    b"----x1",
    b"\n----x1\n",
    b"----x1--",
    b"\r\n\r\n",
    b"\"",
    b"\\",
    b"\\\"",
    b";",
    b" name=log",
    b"; name=\"log\"",
    b"'",
    b"\t",
    b"\r\n folded",
];

/// A few letters of a name, and what WordPress passes over.
fn name_of_account(dice: &mut Dice) -> Vec<u8> {
    let mut name = Vec::new();
    for letter in ["a", "d", "m", "i", "n"] {
        if dice.below(4) == 0 {
            name.extend_from_slice(dice.pick(&ODD).as_bytes());
        }
        name.extend_from_slice(letter.as_bytes());
        if dice.below(16) == 0 {
            let letter = char::from_u32(0x80 + u32::try_from(dice.below(0x2000)).unwrap()).unwrap();
            name.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    match dice.below(6) {
        // Every letter of it in one byte.
        0 => name
            .iter()
            .map(|byte| if dice.below(3) == 0 { 0x80 + byte % 0x80 } else { *byte })
            .filter(u8::is_ascii)
            .collect(),
        1 => {
            name.iter().filter(|byte| byte.is_ascii()).flat_map(|byte| [*byte, 0xe0 + byte % 0x20]).collect()
        }
        _ => name,
    }
}

const ODD: [&str; 24] = [
    " ",
    "  ",
    "\t",
    "\n",
    "\u{b}",
    "\0",
    "<b>",
    "<b",
    ">",
    "<!-- x -->",
    "<a b='>'>",
    "%41",
    "%",
    "&amp;",
    "&",
    ";",
    "&#0;",
    "\u{e4}",
    "\u{df}",
    "\u{a3}",
    "\u{301}",
    "A",
    "\u{142}",
    "<script>x</script>",
];

/// Writes a few pieces into it, or over something of it.
fn splice(dice: &mut Dice, body: &mut Vec<u8>, pieces: &[&[u8]]) {
    for _ in 0..dice.below(3) {
        let start = dice.below(body.len() + 1);
        let end = (start + dice.below(4) * dice.below(3)).min(body.len());
        let piece = dice.pick(pieces).to_vec();
        body.splice(start..end, piece);
    }
}

fn dice() -> Dice {
    Dice(std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1))
}

/// Seeded: xorshift.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 20) % most.max(1) as u64).unwrap()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}
