//! Refusals with a page, a status or a delay of the site, and what headers say about the tokens left.

use std::time::{Duration, Instant};

use support::{Gate, ONE_AN_HOUR, Reply, Upstream, eventually, get_with, new_directory, post};

#[test]
fn a_site_may_refuse_with_a_page_and_a_status_of_its_own() {
    let folder = new_directory();
    std::fs::write(folder.join("busy.txt"), "{{limit}}: {{retry_after}} s").unwrap();
    let page = folder.join("busy.txt");
    let upstream = Upstream::start();
    let refuse = format!("[refuse]\nstatus = 503\ntext = \"{}\"\nheaders = \"never\"\n", page.display());
    let gate = Gate::start(&upstream.file(&format!("{ONE_AN_HOUR}{refuse}")));
    assert_eq!(gate.ask(post("/login", "a=b")).status, 200);
    let answer = gate.ask(post("/login", "a=b"));
    assert_eq!((answer.status, answer.text().starts_with("address: 3")), (503, true), "{}", answer.text());
    assert_eq!((answer.header("ratelimit"), answer.header("ratelimit-policy")), (None, None));
}

#[test]
fn a_refusal_can_be_held_and_others_do_not_wait_for_it() {
    let upstream = Upstream::start();
    let gate = Gate::start(
        &upstream.file(&format!("{ONE_AN_HOUR}[refuse]\ndelay = \"2s\"\n[proxy]\nthreads = 1\n")),
    );
    assert_eq!(gate.ask(post("/login", "a=b")).status, 200);
    let started = Instant::now();
    let mut held = gate.connect();
    held.send(post("/login", "a=b"));
    assert_eq!(gate.ask(get_with("/", "")).status, 200);
    assert!(started.elapsed() < Duration::from_secs(2));
    assert_eq!(held.answer().status, 429);
    assert!(started.elapsed() >= Duration::from_secs(2));
}

/// H4: whoever collects held refusals collects few, and people find a place.
#[test]
fn held_refusals_leave_the_places_that_people_need() {
    let upstream = Upstream::start();
    let table = "[refuse]\ndelay = \"1m\"\n[proxy]\nthreads = 2\nconnections = 80\nclient_max = 64\n";
    let gate = Gate::start(&upstream.file(&format!("{ONE_AN_HOUR}{table}")));
    assert_eq!(gate.ask(post("/login", "a=b")).status, 200);
    let mut guessers: Vec<_> = (0..60).map(|_| gate.connect()).collect();
    guessers.iter_mut().for_each(|guesser| guesser.send(post("/login", "a=b")));
    let sent = || gate.metric("tollgate_requests_total", "code=\"429\"");
    assert!(eventually(Duration::from_secs(10), || sent() >= 52.0), "{} were not held", sent());
    let mut people: Vec<_> = (1..=60).map(|host| gate.connect_from([127, 0, 9, host].into())).collect();
    for person in &mut people {
        person.send(get_with("/", ""));
        assert_eq!(person.answer().status, 200);
    }
    assert!(sent() < 53.0, "eight are held");
}

#[test]
fn admitted_attempts_show_what_is_left_if_the_file_says_always() {
    let upstream = Upstream::start();
    let limit = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"3 per 1h\"\n";
    let gate = Gate::start(&upstream.file(&format!("{limit}[refuse]\nheaders = \"always\"\n")));
    for left in [2, 1, 0] {
        let answer = gate.ask(post("/login", "a=b"));
        assert_eq!(answer.header("ratelimit-policy"), Some("\"address\";q=3;w=3600"));
        assert!(answer.header("ratelimit").unwrap().starts_with(&format!("\"address\";r={left};t=")));
    }
}

#[test]
fn programs_that_know_only_the_old_names_read_them_by_legacy() {
    let reply =
        "HTTP/1.1 200 OK\r\nX-RateLimit-Limit: 99\r\nX-RateLimit-Used: 1\r\nContent-Length: 0\r\n\r\n";
    let upstream = Upstream::answering(move |_, _| Reply::text(reply));
    let limit = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"2 per 1h\"\n";
    let gate = Gate::start(&upstream.file(&format!("{limit}[refuse]\nheaders = \"legacy\"\n")));
    for (status, left) in [(200, "1"), (200, "0"), (429, "0")] {
        let answer = gate.ask(post("/login", "a=b"));
        let lines = |name| answer.headers.iter().filter(move |(known, _)| known == name);
        let of = |name| lines(name).map(|(_, value)| value.as_str()).collect::<Vec<_>>();
        assert_eq!((answer.status, of("x-ratelimit-limit")), (status, vec!["2"]), "theirs is replaced");
        assert_eq!(of("x-ratelimit-remaining"), [left]);
        let reset: u64 = of("x-ratelimit-reset")[0].parse().unwrap();
        assert!((1..=1800).contains(&reset), "seconds until the next token, not a time of day: {reset}");
        assert_eq!(of("x-ratelimit-used").len(), usize::from(status == 200), "nobody replaces that");
        assert!(of("ratelimit")[0].starts_with(&format!("\"address\";r={left};t=")));
        assert_eq!(answer.header("retry-after").is_some(), status == 429);
    }
    let other = gate.ask(get_with("/about", ""));
    assert_eq!(other.header("x-ratelimit-limit"), Some("99"), "no attempt: the application's");
}
