//! HTTP/1 as old clients and old applications speak it: what they write arrives as they wrote it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use support::dice::Dice;
use support::{Gate, ONE_AN_HOUR, Reply, Upstream, eventually};

/// The lines of a head behind its first one.
fn lines_of(head: &str) -> Vec<String> {
    let head = head.split("\r\n\r\n").next().unwrap();
    head.split("\r\n").skip(1).map(str::to_owned).collect()
}

/// Names as old software writes them, and values with blanks within.
fn random_lines(dice: &mut Dice) -> Vec<String> {
    let known =
        ["SOAPAction", "ETag", "WWW-Authenticate", "DNT", "MIME-Version", "x-lower", "X-UPPER", "Set-Cookie"];
    let letters: Vec<char> = ('a'..='z').chain('A'..='Z').chain('0'..='9').chain(['-']).collect();
    let word = |dice: &mut Dice, most: u64| -> String {
        (0..dice.within(1..most)).map(|_| dice.pick(&letters)).collect()
    };
    (0..dice.within(0..30))
        .map(|_| {
            let name =
                if dice.once_in(4) { dice.pick(&known).to_owned() } else { format!("Q{}", word(dice, 20)) };
            let words: Vec<String> = (0..dice.within(0..4)).map(|_| word(dice, 12)).collect();
            format!("{name}: {}", words.join(dice.pick(&[" ", ", ", "\t", "; a=\""])))
        })
        .collect()
}

#[test]
fn heads_pass_as_they_were_written_in_both_directions() {
    let upstream = Upstream::answering(|request, _| {
        let seed = String::from_utf8_lossy(request).split(['/', ' ']).nth(2).unwrap().parse().unwrap();
        let lines = random_lines(&mut Dice::new(seed)).join("\r\n");
        let end = if lines.is_empty() { "" } else { "\r\n" };
        Reply::text(&format!("HTTP/1.1 200 Fine\r\n{lines}{end}Content-Length: 2\r\nX-Last: 1\r\n\r\nok"))
    });
    let gate = Gate::start(&upstream.file("[proxy]\nthreads = 1\n"));
    let mut client = gate.connect();
    for seed in 0..500_u64 {
        upstream.forget();
        let mut sent = random_lines(&mut Dice::new(seed + 1_000));
        sent.insert(sent.len() / 2, "hOST: app.test".to_owned());
        client.send(format!("GET /{seed} HTTP/1.1\r\n{}\r\n\r\n", sent.join("\r\n")));
        let head = client.take_head_text();
        client.take_bytes(2);
        let mut expected = random_lines(&mut Dice::new(seed));
        expected.extend(["Content-Length: 2".to_owned(), "X-Last: 1".to_owned()]);
        let received: Vec<String> =
            lines_of(&head).into_iter().filter(|line| !line.starts_with("Date: ")).collect();
        assert_eq!(head.split("\r\n").next(), Some("HTTP/1.1 200 Fine"));
        assert_eq!(received, expected, "answer {seed}");
        let seen = String::from_utf8(upstream.bytes()).unwrap();
        let (kept, added): (Vec<String>, Vec<String>) = lines_of(&seen).into_iter().partition(|line| {
            !["X-Forwarded-For: ", "X-Forwarded-Proto: ", "X-Forwarded-Host: ", "X-Request-Id: "]
                .iter()
                .any(|added| line.starts_with(added))
        });
        assert_eq!(kept, sent, "request {seed}");
        assert_eq!(added.len(), 4, "{added:?}");
    }
}

#[test]
fn names_are_written_in_lower_case_where_that_is_asked_for() {
    let upstream =
        Upstream::answering(|_, _| Reply::text("HTTP/1.1 200 OK\r\nETag: A\r\nContent-Length: 0\r\n\r\n"));
    let gate = Gate::start(&upstream.file("[proxy]\nheader_case = \"lower\"\n"));
    let mut client = gate.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nSOAPAction: B\r\n\r\n");
    let head = client.take_head_text();
    assert!(head.contains("\r\netag: A\r\n") && head.contains("\r\ndate: "), "{head}");
    let seen = String::from_utf8(upstream.bytes()).unwrap();
    assert!(
        seen.contains("\r\nsoapaction: B\r\n") && seen.contains("\r\nx-forwarded-for: 127.0.0.1\r\n"),
        "{seen}"
    );
}

#[test]
fn a_refusal_is_written_in_title_case() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ONE_AN_HOUR));
    let mut client = gate.connect();
    for status in ["200", "429"] {
        client.send("POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        let head = client.take_head_text();
        assert_eq!(head.split(' ').nth(1), Some(status));
        if status == "429" {
            for name in
                ["Retry-After", "Content-Type", "Content-Length", "Cache-Control", "X-Request-Id", "Date"]
            {
                assert!(head.contains(&format!("\r\n{name}: ")), "{name}: {head}");
            }
        } else {
            client.take_bytes(2);
        }
    }
}

#[test]
fn a_client_of_http_1_0_keeps_its_connection_where_the_answer_has_a_length() {
    let upstream = Upstream::answering(|request, _| match request.starts_with(b"GET /chunks") {
        true => Reply::text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
        false => Reply::ok(),
    });
    let gate = Gate::start(&upstream.file(""));
    let mut client = gate.connect();
    for _ in 0..3 {
        client.send("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
        let answer = client.answer();
        assert_eq!((answer.text().as_str(), answer.header("connection")), ("ok", Some("keep-alive")));
    }
    // Without a length the end of the connection is the end of the answer, and it is not said to go on.
    client.send("GET /chunks HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
    let (bytes, in_peace) = client.all_until_the_end(Duration::from_secs(5));
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.ends_with("\r\n\r\nok") && in_peace == Some(true), "{text}");
    assert!(!text.to_ascii_lowercase().contains("keep-alive"), "{text}");
}

#[test]
fn interim_answers_reach_the_client_and_a_continue_of_the_application_does_not() {
    let upstream = Upstream::answering(|_, _| {
        Reply::text(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n\
             HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nConnection: close\r\n\r\n\
             HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        )
    });
    let gate = Gate::start(&upstream.file(""));
    let mut client = gate.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.take_head_text(), "HTTP/1.1 102 Processing\r\n\r\n");
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
    assert_eq!(client.take_head_text(), hints);
    assert_eq!(client.answer().text(), "ok");
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert!(client.take_head_text().starts_with("HTTP/1.1 200 OK\r\n"), "an old client knows none");
}

#[test]
fn trailers_pass_in_both_directions_but_those_that_would_say_who_sends() {
    let upstream = Upstream::answering(|_, _| {
        Reply::text(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\
             Server-Timing: app;dur=1\r\nContent-Length: 9\r\n\r\n",
        )
    });
    let gate = Gate::start(&upstream.file(""));
    let mut client = gate.connect();
    client.send(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\
         X-Checksum: 7\r\nX-Forwarded-For: 6.6.6.6\r\nRemote-User: root\r\n\r\n",
    );
    client.take_head_text();
    let rest = "2\r\nok\r\n0\r\nServer-Timing: app;dur=1\r\n\r\n";
    assert_eq!(client.take_bytes(rest.len()), rest);
    let seen = String::from_utf8(upstream.bytes()).unwrap();
    assert!(seen.ends_with("3\r\nabc\r\n0\r\nX-Checksum: 7\r\n\r\n"), "{seen}");
}

/// As nginx does; some clients wait for it.
#[test]
fn who_expects_to_be_invited_is_also_for_a_body_of_no_bytes() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    let mut client = gate.connect();
    for length in ["Content-Length: 0\r\n", ""] {
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n{length}\r\n"));
        assert_eq!(client.take_head_text(), "HTTP/1.1 100 Continue\r\n\r\n");
        assert_eq!(client.answer().status, 200);
    }
    client.send("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n");
    assert!(client.take_head_text().starts_with("HTTP/1.1 200 OK\r\n"), "an old client knows none");
}

/// A body that had come as a whole with its head lost its trailers.
#[test]
fn trailers_pass_that_came_with_the_head_of_their_answer() {
    let route = "[route.login]\nmatch = \"POST /login\"\nfailure = [{ body = \"wrong\" }]\n\
                 [limit.address]\nrate = \"9 per 1h\"\ncount = \"failures\"\n";
    for body in ["", "2\r\nok\r\n"] {
        let reply = format!("{ANSWER}{body}0\r\nServer-Timing: app;dur=1\r\n\r\n");
        let upstream = Upstream::answering(move |_, _| Reply::text(&reply));
        let gate = Gate::start(&upstream.file(route));
        for line in ["GET /", "POST /login"] {
            let mut client = gate.connect();
            client.send(format!("{line} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
            let head = client.take_head_text();
            assert!(head.contains("Transfer-Encoding: chunked"), "{line}: {head}");
            let rest = format!("{body}0\r\nServer-Timing: app;dur=1\r\n\r\n");
            assert_eq!(client.take_bytes(rest.len()), rest, "{line}");
        }
    }
}

const ANSWER: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn what_old_clients_leave_unencoded_in_a_target_passes_and_is_matched() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ONE_AN_HOUR));
    for target in ["/x?n=\u{e9}\u{4e2d}", "/x?q=\"a\"", "/<b>?q=<i>", "/a^b`c{d|e}", "/x?^`{|}"] {
        let mut client = gate.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.answer().status, 200, "{target}");
        assert!(upstream.saw(&format!("GET {target} HTTP/1.1\r\n")), "{target}");
    }
    let mut client = gate.connect();
    client.send(b"GET /x?n=\xc4\xe3\xba\xc3 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().status, 200, "GB2312");
    for (target, status) in
        [("/login?x=\"", 200), ("/login?y=<", 429), ("/x#y", 400), ("/x y", 400), ("/\u{1}", 400)]
    {
        let mut client = gate.connect();
        client.send(format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
        assert_eq!(client.answer().status, status, "{target}");
    }
}

#[test]
fn what_came_of_an_answer_that_is_cut_short_reaches_the_client() {
    let whole = vec![b'x'; 1 << 20];
    let answer = [b"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n".as_slice(), &whole].concat();
    let upstream = Upstream::answering(move |_, _| Reply::BytesAndClose(answer.clone()));
    let gate = Gate::start(&upstream.file(""));
    for version in ["1.0", "1.1"] {
        for _ in 0..10 {
            let mut client = gate.connect();
            client.send(format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n"));
            let (bytes, end) = client.all_until_the_end(Duration::from_secs(10));
            let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
            assert_eq!((bytes.len() - head, end.is_some()), (whole.len(), true), "HTTP/{version}");
        }
    }
}

#[test]
fn a_get_on_a_connection_that_the_application_closed_quietly_is_sent_once_more_and_a_post_is_not() {
    // It closes behind each answer and does not say so.
    let upstream = Upstream::answering(|request, number| match number {
        0 => Reply::ok(),
        _ if request.starts_with(b"POST") => Reply::BytesAndClose(Vec::new()),
        _ => Reply::BytesAndClose(Vec::new()),
    });
    let gate = Gate::start(&upstream.file("[proxy]\nthreads = 1\n"));
    let mut client = gate.connect();
    for number in 0..50 {
        client.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.answer().status, 200, "{number}");
    }
    let mut broken = 0;
    for number in 0..50 {
        client.send(format!("POST /p{number} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"));
        let answer = client.answer();
        broken += usize::from(answer.status == 502);
        if answer.closes() {
            client = gate.connect();
        }
    }
    assert!(broken <= 1, "an upstream that closes early is remembered: {broken}");
    let posts = upstream.requests().iter().filter(|request| request.method == "POST").count();
    assert_eq!(posts, 50, "none was sent twice");
}

#[test]
fn reuse_of_connections_can_be_turned_off() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file("[proxy]\nthreads = 1\nupstream_idle = \"0s\"\n"));
    let mut client = gate.connect();
    for _ in 0..5 {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.answer().status, 200);
    }
    assert!(eventually(Duration::from_secs(5), || upstream.connections().len() == 5));
}

#[test]
fn answers_of_old_servers_are_taken_and_what_is_ambiguous_is_named() {
    let upstream = Upstream::answering(|request, _| {
        let path = String::from_utf8_lossy(request).split(' ').nth(1).unwrap().to_owned();
        let many: String = (0..120).map(|number| format!("X-{number}: 1\r\n")).collect();
        let head = match path.as_str() {
            "/twice" => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n".to_owned(),
            "/folded" => {
                "HTTP/1.1 200 OK\r\nX-Folded: a\r\n\t b\r\n  c\r\nContent-Length: 2\r\n\r\n".to_owned()
            }
            "/blanks" => "HTTP/1.1  200   OK\r\nContent-Length: 2\r\n\r\n".to_owned(),
            "/lf" => "HTTP/1.1 200 OK\nX-A: 1\r\nX-B: 2\nContent-Length: 2\n\n".to_owned(),
            "/many" => format!("HTTP/1.1 200 OK\r\n{many}Content-Length: 2\r\n\r\n"),
            "/lengths" => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n".to_owned(),
            "/name" => "HTTP/1.1 200 OK\r\nX-A: 1\r\nX B: 2\r\nContent-Length: 2\r\n\r\n".to_owned(),
            _ => "SSH-2.0-OpenSSH_9.2\r\n\r\n".to_owned(),
        };
        Reply::text_and_close(&(head + "ok"))
    });
    let gate = Gate::start(&upstream.file(""));
    let ask = |path: &str| {
        let mut client = gate.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client.answer()
    };
    for path in ["/twice", "/folded", "/blanks", "/lf", "/many"] {
        let answer = ask(path);
        assert_eq!((answer.status, answer.text().as_str()), (200, "ok"), "{path}");
        let lengths = answer.headers.iter().filter(|(name, _)| name == "content-length").count();
        assert_eq!(lengths, 1, "{path}");
        if path == "/folded" {
            let value = answer.header("x-folded").unwrap();
            assert_eq!(value.split_ascii_whitespace().collect::<Vec<_>>(), ["a", "b", "c"]);
        }
    }
    for (path, told) in [
        ("/lengths", "its length is ambiguous"),
        ("/name", "the name of a header is not valid: line 3 of its head"),
        ("/ssh", "it is not HTTP/1"),
    ] {
        assert_eq!(ask(path).status, 502, "{path}");
        // One message of a kind in a while: the first one is enough here.
        if path == "/lengths" {
            assert!(
                eventually(Duration::from_secs(5), || gate.messages().contains(told)),
                "{}",
                gate.messages()
            );
        }
    }
}

/// As IIS and Exchange do: whoever the connection was authenticated for asks every request on it.
fn serve_as_iis(stream: TcpStream) {
    let (mut lines, mut stream) = (BufReader::new(stream.try_clone().unwrap()).lines(), stream);
    let mut is_alice = false;
    loop {
        let head: Vec<String> =
            lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
        if head.is_empty() {
            return;
        }
        let says = |token| head.contains(&format!("Authorization: NTLM {token}"));
        is_alice |= says("three");
        let answer = match is_alice {
            true => "200 OK\r\nContent-Length: 17\r\n\r\nthe page of alice",
            false if says("one") => "401 No\r\nWWW-Authenticate: NTLM two\r\nContent-Length: 0\r\n\r\n",
            false => {
                "401 No\r\nWWW-Authenticate: Negotiate\r\nWWW-Authenticate: NTLM\r\nContent-Length: 0\r\n\r\n"
            }
        };
        let _ = stream.write_all(format!("HTTP/1.1 {answer}").as_bytes());
    }
}

#[test]
fn nobody_else_gets_a_connection_on_which_ntlm_was_spoken() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = format!("upstream = \"http://{}\"\n", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || serve_as_iis(stream));
        }
    });
    let gate = Gate::start(&format!("{upstream}[proxy]\nthreads = 1\n"));
    let mut alice = gate.connect();
    alice.send("GET /owa HTTP/1.1\r\nHost: a\r\nAuthorization: NTLM one\r\n\r\n");
    assert_eq!(alice.answer().status, 401);
    alice.send("GET /owa HTTP/1.1\r\nHost: a\r\nAuthorization: NTLM three\r\n\r\n");
    assert_eq!(alice.answer().text(), "the page of alice");
    for _ in 0..20 {
        let mut stranger = gate.connect();
        stranger.send("GET /owa HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(stranger.answer().status, 401);
    }
    alice.send("GET /owa HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(alice.answer().text(), "the page of alice", "hers stays hers");
    drop(alice);
    let mut stranger = gate.connect();
    stranger.send("GET /owa HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(stranger.answer().status, 401, "it ended with her");
}

#[test]
fn a_client_that_leaves_before_its_answer_leaves_a_line_and_a_count() {
    let upstream = Upstream::answering(|_, _| Reply::Silence);
    let gate = Gate::start(&upstream.file(&format!("{ONE_AN_HOUR}[log]\naccess = \"access.log\"\n")));
    let mut client = gate.connect();
    client.send("POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
    upstream.wait_for(1);
    drop(client);
    assert!(
        eventually(Duration::from_secs(5), || gate.metric("tollgate_requests_total", "code=\"499\"") == 1.0)
    );
    let is_logged = || {
        let log = std::fs::read_to_string(gate.directory.join("access.log")).unwrap_or_default();
        log.contains("\"POST /login HTTP/1.1\" 499 ")
    };
    assert!(eventually(Duration::from_secs(5), is_logged));
}

#[test]
fn what_is_no_request_leaves_a_line_and_a_count_and_silence_leaves_none() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file("[log]\naccess = \"access.log\"\nstyle = \"combined\"\n"));
    for bytes in [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"[..], b"HELLO\r\n\r\n", b"GET / HT"]
    {
        let mut client = gate.connect();
        client.send(bytes);
        client.finish();
        assert!(client.ends_within(Duration::from_secs(5)));
    }
    drop(gate.connect());
    let is_counted = || gate.metric("tollgate_requests_total", "code=\"400\"") == 3.0;
    assert!(eventually(Duration::from_secs(5), is_counted), "{}", gate.metrics());
    let lines = || std::fs::read_to_string(gate.directory.join("access.log")).unwrap_or_default();
    assert!(eventually(Duration::from_secs(5), || lines().lines().count() == 3), "{}", lines());
    assert!(lines().lines().all(|line| line.contains("] \"-\" 400 0 \"-\" \"-\"")), "{}", lines());
}
