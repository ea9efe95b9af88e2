//! A client of HTTP/2 is a client like any other.

use std::time::Duration;

use h2::client::Builder;

use support::authority::Authority;
use support::polite::{Polite, post, request, run};
use support::{ONE_AN_HOUR, Reply, Upstream, eventually};

#[test]
fn a_sign_in_is_limited_and_forwarded_as_http_1() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR));
    run(async {
        let mut client = Polite::connect(&authority, gate.tls).await;
        assert_eq!(client.post("/login?a=%2f", "user=a").await, 200);
        let refused = client.ask(post("/login"), "user=a").await.unwrap();
        assert_eq!(refused.status(), 429);
        assert!(
            refused.headers().contains_key("retry-after") && !refused.headers().contains_key("connection")
        );
        assert!(!refused.body().is_empty());
        assert_eq!(client.ask(request("GET", "/"), "").await.unwrap().body(), "ok", "the connection is kept");
        assert_eq!(client.ask(request("HEAD", "/"), "").await.unwrap().body(), "");
    });
    let first = &upstream.requests()[0];
    assert_eq!((first.method.as_str(), first.target.as_str()), ("POST", "/login?a=%2f"));
    assert_eq!((first.only("host"), first.body.as_slice()), ("app.test", &b"user=a"[..]));
    assert_eq!(first.only("x-forwarded-proto"), "https");
    assert_eq!(gate.ask("POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").status, 429);
}

/// B7: many sign-ins in one packet.
#[test]
fn thirty_sign_ins_at_once_get_no_more_than_there_are_tokens() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let limits = ONE_AN_HOUR.replace("1 per 1h", "7 per 1h");
    let gate = authority.gate(&["app.test"], &upstream.file(&limits));
    let admitted = run(async {
        let mut client = Polite::connect(&authority, gate.tls).await;
        let mut answers = Vec::new();
        for _ in 0..30 {
            answers.push(client.begin(post("/login"), "user=a").await.unwrap());
        }
        let mut admitted = 0;
        for answer in answers {
            admitted += usize::from(answer.await.unwrap().status() == 200);
        }
        admitted
    });
    assert_eq!((admitted, upstream.requests().len()), (7, 7));
}

#[test]
fn answers_come_as_they_are_ready_and_bodies_of_any_size_pass() {
    let big = "x".repeat(2 << 20);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{big}", big.len());
    let upstream = Upstream::answering(move |request, _| match request.starts_with(b"GET /slow") {
        true => Reply::ok().after(Duration::from_secs(2)),
        false => Reply::text(&answer),
    });
    let authority = Authority::new();
    let gate = authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR));
    run(async {
        let mut client = Polite::connect(&authority, gate.tls).await;
        let slow = client.begin(request("GET", "/slow"), "").await.unwrap();
        let begun = std::time::Instant::now();
        assert_eq!(client.ask(request("GET", "/big"), "").await.unwrap().body().len(), 2 << 20);
        assert!(begun.elapsed() < Duration::from_secs(2), "not behind the slow one");
        assert_eq!(slow.await.unwrap().status(), 200);
    });
}

#[test]
fn a_connection_without_streams_ends_and_one_with_them_does_not() {
    let upstream = Upstream::answering(|_, _| Reply::ok().after(Duration::from_secs(2)));
    let authority = Authority::new();
    let table = format!("{ONE_AN_HOUR}[proxy]\nidle_timeout = \"1s\"\nheader_timeout = \"500ms\"\n");
    let gate = authority.gate(&["app.test"], &upstream.file(&table));
    run(async {
        let mut client = Polite::connect(&authority, gate.tls).await;
        assert_eq!(
            client.ask(request("GET", "/"), "").await.unwrap().status(),
            200,
            "longer than idle_timeout"
        );
        assert_eq!(gate.metric("tollgate_connections", ""), 1.0);
        tokio::time::sleep(Duration::from_millis(2500)).await;
        assert!(client.ask(request("GET", "/"), "").await.is_err(), "it has ended");
        let silent = Polite::connect(&authority, gate.tls).await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert!(silent.send.clone().ready().await.is_err(), "nor does one stay that never asks");
    });
    assert!(eventually(Duration::from_secs(5), || gate.metric("tollgate_connections", "") == 0.0));
}

#[test]
fn requests_in_flight_are_answered_when_the_gate_stops() {
    let upstream = Upstream::answering(|_, _| Reply::ok().after(Duration::from_millis(800)));
    let authority = Authority::new();
    let mut gate = authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR));
    run(async {
        let mut client = Polite::connect(&authority, gate.tls).await;
        let answer = client.begin(request("GET", "/"), "").await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        gate.signal("TERM");
        assert_eq!(answer.await.unwrap().status(), 200);
    });
    assert!(gate.exit_status(Duration::from_secs(5)).is_some_and(|status| status.success()));
}

/// B5: a client that lets nothing of its answers out.
#[test]
fn a_stream_that_is_not_read_is_ended_and_its_connection_to_the_upstream_with_it() {
    let big = "x".repeat(1 << 20);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{big}", big.len());
    let upstream = Upstream::answering(move |request, _| match request.starts_with(b"GET /big") {
        true => Reply::text(&answer),
        false => Reply::ok(),
    });
    let authority = Authority::new();
    let table = format!("{ONE_AN_HOUR}[proxy]\nidle_timeout = \"1s\"\nupstream_max = 20\n");
    let gate = authority.gate(&["app.test"], &upstream.file(&table));
    run(async {
        let mut builder = Builder::new();
        builder.initial_window_size(0);
        let mut greedy = Polite::connect_by(&authority, gate.tls, &builder).await;
        let mut answers = Vec::new();
        for _ in 0..20 {
            answers.push(greedy.begin(request("GET", "/big"), "").await.unwrap());
        }
        let mut bodies = Vec::new();
        for answer in answers {
            bodies.push(answer.await.unwrap().into_body());
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
        for mut body in bodies {
            assert!(!matches!(body.data().await, Some(Ok(_))), "nothing of it came, and nothing will");
        }
    });
    assert_eq!(
        gate.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status,
        200,
        "the places of the upstream are free"
    );
}
