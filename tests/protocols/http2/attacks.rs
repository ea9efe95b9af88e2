//! What streams and frames are misused for.

use std::time::Duration;

use support::authority::Authority;
use support::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PRIORITY, RST_STREAM, Raw, SETTINGS,
    WINDOW_UPDATE, asks, block, frame, request, text,
};
use support::{Gate, ONE_AN_HOUR, Reply, Upstream, eventually, post};

fn gate(authority: &Authority, upstream: &Upstream) -> Gate {
    authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR))
}

const CANCEL: [u8; 4] = [0, 0, 0, 8];

/// B1: a stream is opened and given up at once, over and over (CVE-2023-44487).
#[test]
fn rapid_reset_ends_the_connection_and_costs_the_application_little() {
    for pause in [0, 1] {
        let (upstream, authority) =
            (Upstream::answering(|_, _| Reply::ok().after(Duration::from_secs(1))), Authority::new());
        let gate = gate(&authority, &upstream);
        let before = gate.memory();
        let mut client = Raw::connect(&authority, gate.tls);
        let mut sent = 0;
        for number in 0..3000_u32 {
            let stream = 2 * number + 1;
            let both = [request(stream, "GET", "/"), frame(RST_STREAM, 0, stream, &CANCEL)].concat();
            if !client.send(&both) {
                break;
            }
            sent = number;
            std::thread::sleep(Duration::from_millis(pause));
        }
        assert!(
            sent < 2999 || client.is_ended(Duration::from_secs(5)),
            "3,000 were taken with {pause} ms between"
        );
        assert!(eventually(Duration::from_secs(5), || gate.metric("tollgate_connections", "") == 0.0));
        assert!(
            upstream.connections().len() <= 150,
            "{} reached the application",
            upstream.connections().len()
        );
        assert!(gate.memory() < before + 20_000, "{} KiB after {before}", gate.memory());
        assert_eq!(gate.metric("tollgate_panics_total", ""), 0.0);
    }
}

/// B1: a sign-in whose stream is reset has cost its token.
#[test]
fn a_sign_in_that_is_reset_costs_its_token() {
    let (upstream, authority) =
        (Upstream::answering(|_, _| Reply::ok().after(Duration::from_secs(1))), Authority::new());
    let gate = gate(&authority, &upstream);
    let mut client = Raw::connect(&authority, gate.tls);
    assert!(client.send(&request(1, "POST", "/login")));
    assert!(eventually(Duration::from_secs(5), || !upstream.bytes().is_empty()));
    assert!(client.send(&frame(RST_STREAM, 0, 1, &CANCEL)));
    assert!(client.is_alive());
    assert_eq!(gate.ask(post("/login", "")).status, 429);
}

/// B2: the client has the gate reset its streams (CVE-2025-8671).
#[test]
fn made_you_reset_ends_the_connection() {
    let (upstream, authority) =
        (Upstream::answering(|_, _| Reply::ok().after(Duration::from_secs(1))), Authority::new());
    let gate = gate(&authority, &upstream);
    let mut client = Raw::connect(&authority, gate.tls);
    let is_taken = |number: &u32| {
        let stream = 2 * number + 1;
        // A window that grows by nothing is an error of the stream.
        client.send(&[request(stream, "GET", "/"), frame(WINDOW_UPDATE, 0, stream, &[0; 4])].concat())
    };
    let sent = (0..2000).take_while(is_taken).count();
    assert!(sent < 2000 || client.is_ended(Duration::from_secs(5)));
    assert!(upstream.connections().len() <= 250, "{} reached the application", upstream.connections().len());
    assert!(eventually(Duration::from_secs(5), || gate.metric("tollgate_connections", "") == 0.0));
}

/// B3: a head without an end (RUSTSEC-2024-0332), and one that is too long.
#[test]
fn a_head_has_sixteen_kibibytes_and_an_end() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = gate(&authority, &upstream);
    let before = gate.memory();
    let mut client = Raw::connect(&authority, gate.tls);
    assert!(client.send(&frame(HEADERS, END_STREAM, 1, &block(&asks("GET", "/")))));
    let more = block(&[("x-more", &"y".repeat(10_000))]);
    let sent = (0..2000).take_while(|_| client.send(&frame(CONTINUATION, 0, 1, &more))).count();
    assert!(sent < 2000 || client.is_ended(Duration::from_secs(5)), "20 MB of a head were taken");
    let mut client = Raw::connect(&authority, gate.tls);
    let empty = (0..200_000).take_while(|number| {
        let is_first = *number == 0;
        let next = if is_first { frame(HEADERS, END_STREAM, 1, &[]) } else { frame(CONTINUATION, 0, 1, &[]) };
        client.send(&next)
    });
    let empty = empty.count();
    assert!(empty < 200_000 || client.is_ended(Duration::from_secs(5)), "a head of nothing, for ever");
    let mut client = Raw::connect(&authority, gate.tls);
    let long = [
        block(&asks("GET", "/")),
        block(&[("x-long", &"y".repeat(15_000))]),
        block(&[("x-too", &"y".repeat(2_000))]),
    ];
    assert!(client.send(&frame(HEADERS, END_STREAM, 1, &long[..2].concat())));
    assert!(client.send(&frame(CONTINUATION, END_HEADERS, 1, &long[2])));
    let (frames, _) =
        client.until(Duration::from_secs(5), |frame| matches!(frame.kind, HEADERS | RST_STREAM | GOAWAY));
    assert!(
        frames.last().is_some_and(|last| matches!(last.kind, HEADERS | RST_STREAM | GOAWAY)),
        "{frames:?}"
    );
    assert!(upstream.requests().is_empty() && gate.memory() < before + 20_000);
}

/// B8: a table that makes much of little.
#[test]
fn a_head_is_measured_as_it_unfolds() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = gate(&authority, &upstream);
    let before = gate.memory();
    let mut client = Raw::connect(&authority, gate.tls);
    // 4,000 bytes are put into the table (62 is the youngest entry) and named a thousand times by one byte each.
    let bomb = [
        block(&asks("GET", "/")),
        [vec![0x40], text("x-bomb"), text(&"y".repeat(4000))].concat(),
        vec![0x80 | 62; 1000],
    ];
    for stream in [1, 3, 5, 7] {
        if !client.send(&frame(HEADERS, END_STREAM | END_HEADERS, stream, &bomb.concat())) {
            break;
        }
    }
    let (frames, found) =
        client.until(Duration::from_secs(10), |frame| matches!(frame.kind, RST_STREAM | GOAWAY | HEADERS));
    assert!(found, "{frames:?}");
    assert!(upstream.requests().is_empty(), "no head of four megabytes goes anywhere");
    assert!(gate.memory() < before + 20_000, "{} KiB after {before}", gate.memory());
}

/// B3: the last words of the gate are not taken back by a reset, whatever the client has sent meanwhile.
#[test]
fn a_client_that_still_sends_learns_why_its_connection_ends() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = gate(&authority, &upstream);
    let mut client = Raw::connect(&authority, gate.tls);
    // A frame of no stream, and more than is read at once behind it.
    let ping = frame(PING, 0, 0, b"12345678");
    assert!(client.send(&[frame(HEADERS, END_HEADERS, 0, &[]), ping.repeat(1500)].concat()));
    let (frames, told) = client.until(Duration::from_secs(10), |frame| frame.kind == GOAWAY);
    assert!(told, "{frames:?}");
    client.end(Duration::from_secs(10)).unwrap();
    // A gate that has closed its socket with bytes unread has sent a reset, after which nothing can be sent.
    assert!((0..3).all(|_| client.send(&ping)), "the gate still listens");
}

/// B4: frames that cost nothing to send.
#[test]
fn floods_of_small_frames_end_the_connection_and_leave_the_memory_as_it_is() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = gate(&authority, &upstream);
    let ping = frame(PING, 0, 0, b"12345678");
    let settings = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 255, 255]);
    let priority = frame(PRIORITY, 0, 7, &[0, 0, 0, 3, 9]);
    let empty = frame(DATA, 0, 1, &[]);
    for (name, flood) in
        [("ping", ping), ("settings", settings), ("priority", priority), ("empty data", empty)]
    {
        let mut client = Raw::connect(&authority, gate.tls);
        if name == "empty data" {
            assert!(client.send(&frame(HEADERS, END_HEADERS, 1, &block(&asks("POST", "/upload")))));
        }
        let before = gate.memory();
        let thousand = flood.repeat(1000);
        // Nothing is read meanwhile, so answers pile up somewhere: here, or not at all.
        let sent = (0..200).take_while(|_| client.send(&thousand)).count();
        assert!(
            gate.memory() < before + 20_000,
            "{name}: {} KiB after {before}, {sent},000 sent",
            gate.memory()
        );
        assert!(sent < 200 || client.is_ended(Duration::from_secs(5)), "{name}: 200,000 were taken");
        assert!(
            eventually(Duration::from_secs(5), || gate.metric("tollgate_connections", "") == 0.0),
            "{name}: the connection ends"
        );
        assert_eq!(gate.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status, 200, "{name}: others are served");
    }
    assert_eq!(gate.metric("tollgate_panics_total", ""), 0.0);
}

/// B4: and who needs many small frames is none of them.
#[test]
fn a_download_that_is_acknowledged_piece_by_piece_comes_to_its_end() {
    const LENGTH: usize = 6 << 20;
    let body =
        [format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n").into_bytes(), vec![b'x'; LENGTH]];
    let (upstream, authority) =
        (Upstream::answering(move |_, _| Reply::Bytes(body.concat())), Authority::new());
    let gate = gate(&authority, &upstream);
    let mut client = Raw::connect(&authority, gate.tls);
    assert!(client.send(&request(1, "GET", "/")));
    let (mut taken, mut sent) = (0, 0);
    while taken < LENGTH {
        let (frames, came) = client.until(Duration::from_secs(10), |frame| frame.kind == DATA);
        assert!(came, "{taken} bytes came, {sent} frames were sent");
        let length = frames.last().map_or(0, |frame| frame.payload.len());
        taken += length;
        // Half a kibibyte at a time, for the stream and for the connection.
        for piece in
            (0..length).step_by(512).map(|at| u32::try_from((length - at).min(512)).unwrap().to_be_bytes())
        {
            let both = [frame(WINDOW_UPDATE, 0, 1, &piece), frame(WINDOW_UPDATE, 0, 0, &piece)].concat();
            assert!(client.send(&both) || taken == LENGTH, "{taken} bytes came, {sent} frames were sent");
            sent += 2;
        }
    }
    assert!(sent > 20_000, "{sent}");
}

/// B5: a client that does not agree to the end of its connection.
#[test]
fn a_stop_waits_for_no_connection_without_a_request() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let mut gate = gate(&authority, &upstream);
    let mut client = Raw::connect(&authority, gate.tls);
    assert!(client.send(&request(1, "GET", "/")));
    assert!(client.until(Duration::from_secs(5), |frame| frame.kind == HEADERS).1);
    gate.signal("TERM");
    // It answers no PING, which h2 waits for; proxy.drain is half a minute.
    assert!(gate.exit_status(Duration::from_secs(8)).is_some_and(|status| status.success()));
}

/// A10: a refusal to a client that says it waits for `100 Continue`, and does not, as curl.
#[test]
fn a_refusal_reaches_a_client_that_sends_its_body_without_waiting() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = gate(&authority, &upstream);
    gate.drain("/login", "");
    let mut client = Raw::connect(&authority, gate.tls);
    let expects = [("expect", "100-continue"), ("content-length", "3")];
    let head = [block(&asks("POST", "/login")), block(&expects)].concat();
    assert!(client.send(&frame(HEADERS, END_HEADERS, 1, &head)));
    let (_, refused) = client.until(Duration::from_secs(5), |frame| frame.kind == HEADERS);
    assert!(refused, "at once");
    assert!(client.send(&frame(DATA, END_STREAM, 1, b"a=b")));
    let (frames, reset) = client.until(Duration::from_millis(300), |frame| frame.kind == RST_STREAM);
    assert!(!reset, "{frames:?}");
    assert!(client.is_alive());
}

/// M8: one connection that takes no byte of its answers kept 8 of 8 places for 84 s, and everybody else had 503.
#[test]
fn who_takes_no_answer_holds_no_place_at_the_application() {
    for length in [5, 200_000] {
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{}", "a".repeat(length));
        let upstream = Upstream::answering(move |_, _| Reply::text(&answer));
        let authority = Authority::new();
        let tables = ONE_AN_HOUR.replace("[limit", "in_flight = 8\n[limit").replace("1 per", "100 per");
        let gate = authority.gate(&["app.test"], &upstream.file(&tables));
        let mut client = Raw::connect(&authority, gate.tls);
        // SETTINGS_INITIAL_WINDOW_SIZE
        assert!(client.send(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])));
        for number in 0..8 {
            assert!(client.send(&request(2 * number + 1, "POST", "/login")));
        }
        upstream.wait_for(8);
        let is_free = || gate.ask(post("/login", "")).status == 200;
        assert!(eventually(Duration::from_secs(5), is_free), "{length} bytes each");
        assert!(client.is_alive());
    }
}
