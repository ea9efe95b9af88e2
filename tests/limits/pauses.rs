//! The challenge of browsers without scripts on a running gate: what a pause earns, and what an application may demand.

use std::net::Ipv4Addr;
use std::time::Duration;

use support::{Answer, Clocks, Gate, ONE_AN_HOUR, Reply, Upstream, get_with, post, post_with};

const WORK: &str = "[refuse]\nchallenge = \"work\"\n";
const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(127, 0, 9, 9);
const BROWSER: &str = "Accept: text/html,application/xhtml+xml;q=0.9\r\n";

/// A gate whose clock stands still, behind which the application takes every attempt.
struct Paused {
    clocks: Clocks,
    upstream: Upstream,
}

impl Paused {
    fn start(tables: &str) -> Self {
        let upstream = Upstream::start();
        Self { clocks: Clocks::frozen(&upstream.file(tables)), upstream }
    }

    fn gate(&self) -> &Gate {
        &self.clocks.gate
    }

    fn pass(&self, seconds: u64) {
        self.clocks.pass(Duration::from_secs(seconds));
    }

    fn attempt(&self) -> u16 {
        self.gate().ask(post("/login", "a=b")).status
    }

    fn browse(&self, target: &str) -> Answer {
        self.gate().ask(post_with(target, BROWSER))
    }

    /// The target of the form without scripts on the page that this target is refused with, and the words of its wait.
    fn offered(&self, target: &str) -> (String, String) {
        offered(&self.browse(target)).unwrap()
    }
}

fn offered(page: &Answer) -> Option<(String, String)> {
    assert_eq!(page.status, 429);
    let text = page.text();
    let (_, form) = text.split_once("id=\"tollgate-pause\" method=\"post\" action=\"")?;
    let (action, rest) = form.split_once('"')?;
    let (_, words) = rest.split_once("Or wait ")?;
    let (words, _) = words.split_once(" for an attempt")?;
    Some((format!("/login{}", action.replace("&amp;", "&")), words.to_owned()))
}

fn is_way_back(answer: &Answer) -> bool {
    (answer.status, answer.header("location")) == (303, Some("./login?next=%2Fhome"))
}

/// L18: a ticket counts after its pause, once, and brings the person back to the form.
#[test]
fn a_pause_earns_one_attempt_and_no_second_one() {
    let gate = Paused::start(&format!("{ONE_AN_HOUR}{WORK}"));
    assert_eq!([gate.attempt(), gate.attempt()], [200, 429]);
    let (target, words) = gate.offered("/login?next=%2Fhome");
    assert!(target.starts_with("/login?next=%2Fhome&tollgate-proof=pause-"), "{target}");
    assert_eq!(words, "30 seconds");
    gate.pass(12);
    let early = gate.browse(&target);
    assert_eq!(offered(&early), Some((target.clone(), "18 seconds".to_owned())), "the same ticket goes on");
    gate.pass(29);
    assert_eq!(offered(&gate.browse(&target)).unwrap().1, "1 second");
    gate.pass(31);
    let earned = gate.browse(&target);
    assert!(is_way_back(&earned), "{earned:?}");
    assert_eq!((earned.header("cache-control"), earned.header("set-cookie")), (Some("no-store"), None));
    assert!(is_way_back(&gate.browse(&target)), "what was earned is still there, and nothing is asked");
    assert_eq!([gate.attempt(), gate.attempt()], [200, 429]);
    let used = gate.browse(&target);
    let (next, words) = offered(&used).unwrap();
    assert_eq!(words, "7 minutes", "no pause ends before the voucher counts again");
    gate.pass(31 + 299);
    assert_eq!(gate.browse(&target).status, 429, "used");
    gate.pass(31 + 420);
    assert!(is_way_back(&gate.browse(&next)), "the next one of the same client");
    assert_eq!(gate.upstream.requests().len(), 2);
    assert!(!gate.upstream.saw("tollgate-proof"));
}

/// What was earned is forgotten before the voucher is: no page offers a pause that would be in vain.
#[test]
fn nobody_pauses_in_vain_where_much_may_be_earned() {
    let gate = Paused::start(&format!("{ONE_AN_HOUR}{WORK}challenge_rate = \"20 per 1h\"\n"));
    assert_eq!([gate.attempt(), gate.attempt()], [200, 429]);
    let (target, _) = gate.offered("/login");
    gate.pass(31);
    assert_eq!(gate.browse(&target).status, 303);
    assert_eq!([gate.attempt(), gate.attempt()], [200, 429]);
    gate.pass(31 + 200);
    let (next, words) = gate.offered("/login");
    assert_eq!(words, "3 minutes 40 seconds", "the rest of six minutes, and one more");
    gate.pass(31 + 200 + 220);
    assert_eq!(gate.browse(&next).status, 303);
    assert_eq!(gate.attempt(), 200);
}

/// L18: neither another address, nor a changed text, nor one that is too old earns anything.
#[test]
fn a_ticket_of_another_address_a_forged_and_an_old_one_earn_nothing() {
    let gate = Paused::start(&format!("{ONE_AN_HOUR}{WORK}"));
    let from_neighbour = |request: String| {
        let mut client = gate.gate().connect_from(NEIGHBOUR);
        client.send(request);
        client.answer().status
    };
    assert_eq!(gate.attempt(), 200);
    assert_eq!(from_neighbour(post("/login", "a=b")), 200);
    let (target, _) = gate.offered("/login");
    gate.pass(60);
    assert_eq!(from_neighbour(post_with(&target, BROWSER)), 429, "of another address");
    let (start, mac) = target.rsplit_once('-').unwrap();
    let last = if mac.ends_with('0') { "1" } else { "0" };
    let forged = [
        format!("{start}-{}{last}", &mac[..31]),
        format!("{}0-{mac}", &start[..start.len() - 1]),
        target.replace("pause-", ""),
        format!("{target}&{}", &target["/login?".len()..]),
        start.to_owned(),
    ];
    for target in forged.iter().filter(|forged| **forged != target) {
        assert_eq!(gate.browse(target).status, 429, "{target}");
    }
    gate.pass(30 + 301);
    assert_eq!(gate.browse(&target).status, 429, "too old");
    assert_eq!(gate.upstream.requests().len(), 2);
}

/// L18: tickets that were collected before, and eight connections that use them at once, are one attempt.
#[test]
fn a_thousand_tickets_at_once_earn_as_much_as_one() {
    let gate = Paused::start(&format!("{ONE_AN_HOUR}{WORK}"));
    assert_eq!(gate.attempt(), 200);
    let targets = (0..40).map(|second| {
        gate.pass(second);
        gate.offered("/login").0
    });
    let targets: Vec<_> = targets.collect();
    gate.pass(120);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for target in &targets {
                    gate.browse(target);
                    gate.attempt();
                }
            });
        }
    });
    assert_eq!(gate.upstream.requests().len(), 2, "one of the rate, one earned");
}

/// A pause that is no shorter than the wait would help nobody, and programs get no page.
#[test]
fn a_pause_is_offered_where_it_helps() {
    let route = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"1 per 20s\"\n";
    let gate = Paused::start(&format!("{route}{WORK}"));
    assert_eq!(gate.attempt(), 200);
    let page = gate.browse("/login");
    assert_eq!(offered(&page), None);
    assert!(page.text().contains("data-challenge="), "work is quicker");
    assert!(!gate.gate().ask(post_with("/login", "Accept: */*\r\n")).text().contains("tollgate-proof"));
}

#[test]
fn a_gate_without_pauses_offers_work_alone() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&format!("{ONE_AN_HOUR}{WORK}challenge_pause = \"off\"\n")));
    assert_eq!(gate.ask(post("/login", "a=b")).status, 200);
    let page = gate.ask(post_with("/login", BROWSER));
    assert_eq!(offered(&page), None);
    assert!(page.text().contains("data-challenge=") && !page.text().contains("id=\"tollgate-pause\""));
}

fn demanding() -> Upstream {
    Upstream::answering(|request, _| {
        let asks = request.windows(4).any(|four| four == b"?ask");
        let line = if asks { "X-Tollgate-Challenge: 1\r\n" } else { "" };
        Reply::Bytes(format!("HTTP/1.1 200 OK\r\n{line}Content-Length: 2\r\n\r\nok").into())
    })
}

/// An application may demand that a client earns its next attempt. The client sees no sign of it, and cannot say so itself.
#[test]
fn an_application_may_demand_a_challenge() {
    let tables = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"20 per 1h\"\n";
    let upstream = demanding();
    let clocks = Clocks::frozen(&upstream.file(&format!("{tables}{WORK}")));
    let gate = &clocks.gate;
    let lie = gate.ask(post_with("/login", "X-Tollgate-Challenge: 1\r\n"));
    assert_eq!((lie.status, upstream.saw("Challenge")), (200, false));
    assert_eq!(gate.ask(post("/login", "")).status, 200, "what a client says counts for nothing");
    let asked = gate.ask(post("/login?ask", ""));
    assert_eq!((asked.status, asked.header("x-tollgate-challenge")), (200, None));
    let page = gate.ask(post_with("/login", BROWSER));
    let (target, words) = offered(&page).unwrap();
    assert_eq!(words, "30 seconds");
    assert!(page.text().contains("data-challenge="));
    let mut neighbour = gate.connect_from(NEIGHBOUR);
    neighbour.send(post("/login", ""));
    assert_eq!(neighbour.answer().status, 200, "the demand is about one client");
    clocks.pass(Duration::from_secs(31));
    assert_eq!(gate.ask(post_with(&target, BROWSER)).status, 303);
    assert_eq!(gate.ask(post("/login", "")).status, 200);
    assert_eq!(gate.ask(post("/login", "")).status, 429);
}

#[test]
fn no_client_sees_a_demand_and_a_gate_without_challenges_obeys_none() {
    let tables = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"2 per 1h\"\n";
    let upstream = demanding();
    let gate = Gate::start(&upstream.file(&format!("{tables}{WORK}")));
    let page = gate.ask(get_with("/page?ask", ""));
    assert_eq!((page.status, page.header("x-tollgate-challenge")), (200, None));
    assert_eq!([0; 2].map(|_| gate.ask(post("/login", "")).status), [200, 200], "a page is no attempt");
    let switching = Upstream::answering(|_, _| {
        let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n";
        Reply::Bytes(format!("{switch}X-Tollgate-Challenge: 1\r\n\r\n").into())
    });
    let gate = Gate::start(&switching.file(&format!("{tables}{WORK}")));
    let mut socket = gate.connect();
    socket.send(get_with("/socket", "Connection: upgrade\r\nUpgrade: websocket\r\n"));
    let head = socket.take_head_text();
    assert!(head.starts_with("HTTP/1.1 101 ") && !head.to_lowercase().contains("challenge"), "{head}");
    let plain = Gate::start(&upstream.file(tables));
    let statuses = [0; 3].map(|_| plain.ask(post("/login?ask", "")).status);
    assert_eq!(statuses, [200, 200, 429]);
}
