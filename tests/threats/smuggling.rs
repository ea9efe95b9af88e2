//! What a request may not mean to two servers, case by case; the table of all spellings is `smuggling/corpus.txt`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use std::time::Duration;

use support::{Gate, ONE_AN_HOUR, Reply, Upstream, get_with, post};

const LONG: Duration = Duration::from_secs(5);

/// A7, A15: what is refused for its spelling is refused in words that the client understands, and the connection ends.
#[test]
fn a_request_that_could_be_read_in_two_ways_is_answered_in_the_form_that_its_client_accepts() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    for (accept, kind) in [
        ("text/html", "text/html; charset=utf-8"),
        ("application/json", "application/problem+json; charset=utf-8"),
        ("text/plain", "text/plain; charset=utf-8"),
    ] {
        for (end, length) in [("\n", "5"), ("\r\n", "05")] {
            let mut client = gate.connect();
            client.send(format!(
                "POST /form HTTP/1.1{end}Host: app.test\r\nAccept: {accept}\r\nContent-Length: {length}\r\n\r\nabcde"
            ));
            let answer = client.answer();
            assert_eq!((answer.status, answer.header("content-type")), (400, Some(kind)));
            assert!(answer.closes() && client.ends_well_within(LONG));
        }
    }
    assert_eq!(upstream.bytes(), b"");
    assert!(gate.metric("tollgate_requests_total", "code=\"400\"") >= 6.0, "they are counted");
}

/// A9: a body belongs to its request, whatever the method.
#[test]
fn the_body_of_any_method_is_forwarded_as_its_body() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: app.test\r\n\r\n";
    for method in ["GET", "OPTIONS", "DELETE", "POST"] {
        for (lines, body) in [
            (format!("Content-Length: {}\r\n", smuggled.len()), smuggled.to_owned()),
            (
                "Transfer-Encoding: chunked\r\n".to_owned(),
                format!("{:x}\r\n{smuggled}\r\n0\r\n\r\n", smuggled.len()),
            ),
        ] {
            upstream.forget();
            let mut client = gate.connect();
            let head = format!("{method} /form HTTP/1.1\r\nHost: app.test\r\n{lines}\r\n");
            client.send(head + &body + &get_with("/next", ""));
            assert_eq!([client.answer().status, client.answer().status], [200, 200], "{method} {lines}");
            let mut seen: Vec<_> =
                upstream.requests().into_iter().map(|request| (request.target, request.body)).collect();
            seen.sort();
            let wanted =
                [("/form".to_owned(), smuggled.as_bytes().to_vec()), ("/next".to_owned(), Vec::new())];
            assert_eq!(seen, wanted, "{method} {lines}");
        }
    }
}

/// A10: a client that waits for `100 Continue` gets a refusal instead.
#[test]
fn a_refusal_comes_before_the_invitation_to_send_the_body() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ONE_AN_HOUR));
    gate.drain("/login", "");
    upstream.forget();
    let mut client = gate.connect();
    client
        .send("POST /login HTTP/1.1\r\nHost: app.test\r\nExpect: 100-continue\r\nContent-Length: 20\r\n\r\n");
    let answer = client.answer();
    assert_eq!((answer.status, answer.interim.as_slice()), (429, &[][..]));
    assert_eq!(upstream.bytes(), b"");
}

/// A10: `100 Continue` is sent once, and an unknown `Expect` is refused.
#[test]
fn only_100_continue_can_be_expected() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    let mut client = gate.connect();
    client.send("POST /form HTTP/1.1\r\nHost: app.test\r\nExpect: 100-Continue\r\nContent-Length: 5\r\n\r\n");
    // The body follows when it is asked for, or after a while.
    std::thread::sleep(Duration::from_millis(100));
    client.send("abcde");
    let answer = client.answer();
    assert_eq!((answer.status, answer.interim.as_slice()), (200, &[100][..]));
    assert_eq!((upstream.last().body.as_slice(), upstream.last().only("expect")), (&b"abcde"[..], ""));
    upstream.forget();
    for lines in ["Expect: x\r\n", "Expect: 100-continue, x\r\n", "Expect: 100-continue\r\nExpect: x\r\n"] {
        let head = format!("POST /form HTTP/1.1\r\nHost: app.test\r\n{lines}Content-Length: 5\r\n\r\nabcde");
        assert_eq!(gate.ask(head).status, 417, "{lines:?}");
    }
    assert_eq!(upstream.bytes(), b"");
}

/// A11, A12, A13: a chunk that turns bad after its request was forwarded.
#[test]
fn a_body_that_turns_bad_on_its_way_never_comes_to_an_end() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file("[proxy]\nthreads = 1\nrequest_buffer = \"off\"\n"));
    for bad in [
        "5 \r\nabcde\r\n",
        "5;\0\r\nabcde\r\n",
        "0\r\nX: y\nZ: z\r\n\r\n",
        "00000000000000005\r\nabcde\r\n",
        "5\nabcde",
    ] {
        upstream.forget();
        let mut client = gate.connect();
        client.send(
            "POST /form HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
        );
        assert!(support::eventually(LONG, || upstream.saw("abcde")), "the beginning is on its way");
        client.send(format!("{bad}0\r\n\r\n"));
        assert_eq!(client.answer().status, 400, "{bad:?}");
        assert!(client.ends_within(LONG));
        assert!(upstream.requests().is_empty(), "{bad:?} is no end");
        assert_eq!(gate.ask(get_with("/next", "")).status, 200);
    }
    assert_eq!(upstream.connections().len(), 6, "none of these connections was used again");
}

/// A14: trailers stay where they are.
#[test]
fn trailers_never_become_headers() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    let names = ["Content-Length", "Transfer-Encoding", "Host", "Authorization", "X-Forwarded-For", "Cookie"];
    let trailers: String = names.iter().map(|name| format!("{name}: 5\r\n")).collect();
    let head = "POST /form HTTP/1.1\r\nHost: app.test\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n";
    let announced = format!("Trailer: {}\r\n\r\n", names.join(", "));
    assert_eq!(gate.ask(format!("{head}{announced}5\r\nabcde\r\n0\r\n{trailers}\r\n")).status, 200);
    let request = upstream.last();
    assert_eq!((request.only("host"), request.only("authorization")), ("app.test", ""));
    assert_eq!(request.only("x-forwarded-for"), "127.0.0.1");
    let many = "X: y\r\n".repeat(2000);
    assert_eq!(gate.ask(format!("{head}\r\n5\r\nabcde\r\n0\r\n{many}\r\n")).status, 400);
}

/// A18: HTTP/2 without negotiation.
#[test]
fn the_preface_of_http_2_is_answered_in_http_1() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0";
    for before in ["", "GET /first HTTP/1.1\r\nHost: app.test\r\n\r\n"] {
        let mut client = gate.connect();
        client.send(format!("{before}{preface}"));
        if !before.is_empty() {
            assert_eq!(client.answer().status, 200);
        }
        assert_eq!(client.answer().status, 400);
        assert!(client.ends_within(LONG));
    }
    assert_eq!(upstream.requests().len(), 1);
}

/// A19: the host of an absolute target is the host, and there is only one.
#[test]
fn an_absolute_target_says_the_host_where_nothing_else_does() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    assert_eq!(gate.ask("GET http://other.test:81/form?a=b HTTP/1.0\r\n\r\n").status, 200);
    let request = upstream.last();
    assert_eq!((&request.target[..], request.only("host")), ("/form?a=b", "other.test:81"));
    assert_eq!(request.only("x-forwarded-host"), "other.test:81");
}

/// A21: what a reverse proxy has no use for.
#[test]
fn connect_is_not_served_and_a_star_is_for_options() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    let answer = gate.ask("CONNECT app.test:443 HTTP/1.1\r\nHost: app.test\r\n\r\n");
    assert!(answer.status == 405 && answer.header("allow").is_some() && answer.closes());
    assert_eq!(gate.ask("GET * HTTP/1.1\r\nHost: app.test\r\n\r\n").status, 400);
    assert_eq!(upstream.bytes(), b"");
    assert_eq!(gate.ask("OPTIONS * HTTP/1.1\r\nHost: app.test\r\n\r\n").status, 200);
    assert_eq!(upstream.last().target, "*");
}

/// A23: HTTP/2 by upgrade would carry requests past every limit.
#[test]
fn nothing_of_an_upgrade_to_http_2_is_passed_on() {
    let upstream = switching();
    let gate = Gate::start(&upstream.file(""));
    for upgrade in ["h2c", "H2C", "websocket, h2c", "h2c, websocket", "h2", "h2c-14"] {
        for connection in ["Upgrade, HTTP2-Settings", "upgrade", "HTTP2-Settings", "close"] {
            let lines =
                format!("Connection: {connection}\r\nUpgrade: {upgrade}\r\nHTTP2-Settings: AAMAAABk\r\n");
            assert_eq!(gate.ask(get_with("/", &lines)).status, 200, "{upgrade} {connection}");
            let request = upstream.last();
            assert_eq!((request.only("upgrade"), request.only("http2-settings")), ("", ""));
        }
    }
}

/// A24: only what a browser sends becomes a tunnel.
#[test]
fn a_websocket_is_asked_for_by_a_get_that_names_it_in_connection() {
    let upstream = switching();
    let gate = Gate::start(&upstream.file(""));
    let (asks, host) = ("Connection: Upgrade\r\nUpgrade: websocket\r\n", "Host: app.test\r\n");
    for request in [
        format!("POST /chat HTTP/1.1\r\n{host}{asks}Content-Length: 0\r\n\r\n"),
        format!("PUT /chat HTTP/1.1\r\n{host}{asks}\r\n"),
        format!("GET /chat HTTP/1.1\r\n{host}Upgrade: websocket\r\n\r\n"),
        format!("GET /chat HTTP/1.1\r\n{host}Connection: close\r\nUpgrade: websocket\r\n\r\n"),
        format!("GET /chat HTTP/1.0\r\n{host}{asks}\r\n"),
        format!("GET /chat HTTP/1.1\r\n{host}{asks}Content-Length: 5\r\n\r\nabcde"),
        format!("GET /chat HTTP/1.1\r\n{host}{asks}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ] {
        assert_eq!(gate.ask(&request).status, 200, "{request:?}");
        assert_eq!(upstream.last().only("upgrade"), "");
    }
    let mut client = gate.connect();
    client.send(format!("GET /chat HTTP/1.1\r\n{host}{asks}\r\n"));
    assert_eq!(client.answer().status, 101);
    // The gate does not inspect a tunnel's bytes, however much they look like a bad request.
    let odd = "POST / HTTP/1.1\nTransfer-Encoding: chunked\r\n\r\n5 \r\nabcde\n#";
    client.send(odd);
    assert_eq!(client.take(odd.len()).as_deref(), Some(odd.as_bytes()));
}

/// A24: an upstream that switches to something else than it was asked for.
#[test]
fn an_upstream_cannot_switch_to_a_protocol_that_was_not_asked_for() {
    for lines in [
        "Upgrade: other\r\n",
        "",
        "Upgrade: websocket\r\nUpgrade: websocket\r\n",
        "Upgrade: websocket, h2c\r\n",
    ] {
        let answer = format!("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n{lines}\r\n");
        let upstream = Upstream::answering(move |_, _| Reply::text(&answer));
        let gate = Gate::start(&upstream.file(""));
        let asked = get_with("/chat", "Connection: Upgrade\r\nUpgrade: websocket\r\n");
        assert_eq!(gate.ask(asked).status, 502, "{lines:?}");
    }
}

/// A27: twenty sign-ins in one packet.
#[test]
fn each_of_twenty_sign_ins_in_one_packet_costs_a_token() {
    let upstream = Upstream::answering(|bytes, _| {
        let target = String::from_utf8_lossy(bytes).split(' ').nth(1).unwrap_or_default().to_owned();
        Reply::text(&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{target}", target.len()))
    });
    let rules = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"7 per 1h\"\n";
    let gate = Gate::start(&upstream.file(rules));
    let packet: String = (0..20).map(|number| post(&format!("/login?{number}"), "user=a&pass=b")).collect();
    let mut client = gate.connect();
    client.send(packet);
    for number in 0..20 {
        let answer = client.answer();
        if number < 7 {
            assert_eq!((answer.status, answer.text()), (200, format!("/login?{number}")), "in order");
        } else {
            assert_eq!(answer.status, 429, "number {number}");
        }
    }
    assert_eq!(upstream.requests().len(), 7);
}

/// A27: a bad request in the middle of a packet.
#[test]
fn requests_before_a_bad_one_are_answered_and_those_behind_it_are_not() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    for bad in [
        "GET /bad HTTP/1.1\nHost: app.test\r\n\r\n",
        "POST /bad HTTP/1.1\r\nHost: app.test\r\nContent-Length: 05\r\n\r\nabcde",
        "POST /bad HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\nabcde\r\n0\r\n\r\n",
    ] {
        upstream.forget();
        let mut client = gate.connect();
        client.send(post("/first", "a=b") + &get_with("/second", "") + bad + &get_with("/behind", ""));
        assert_eq!([client.answer().status, client.answer().status], [200, 200]);
        let last = client.answer();
        assert!(last.status == 400 && last.closes(), "{last:?}");
        assert!(client.ends_within(LONG));
        let mut targets: Vec<_> = upstream.requests().into_iter().map(|request| request.target).collect();
        targets.sort();
        assert_eq!(targets, ["/first", "/second"], "{bad:?}");
    }
}

/// A29: bytes that are no text, where names are looked for.
#[test]
fn a_connection_header_that_is_no_text_does_no_harm() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    for value in [&b"\xff"[..], b"\xff\xfe, X-Hop", b"X-Hop, \xc3\x28, close", b", ,\t,", b"\x80,upgrade"] {
        let request = [
            b"GET / HTTP/1.1\r\nHost: app.test\r\nX-Hop: 1\r\nUpgrade: \xfe\r\nConnection: ",
            value,
            b"\r\n\r\n",
        ];
        assert_eq!(gate.ask(request.concat()).status, 200, "{value:?}");
        let named = value.windows(5).any(|five| five == b"X-Hop");
        assert_eq!(upstream.last().only("x-hop").is_empty(), named, "{value:?}");
        assert!(!upstream.last().only("connection").contains("close"));
    }
    assert_eq!(gate.metric("tollgate_panics_total", ""), 0.0);
}

/// Switches to what it is asked for, and answers 200 otherwise.
fn switching() -> Upstream {
    Upstream::answering(|bytes, _| {
        if String::from_utf8_lossy(bytes).to_ascii_lowercase().contains("\r\nupgrade: websocket") {
            let switch =
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n";
            Reply::Echo(switch.into())
        } else {
            Reply::ok()
        }
    })
}
