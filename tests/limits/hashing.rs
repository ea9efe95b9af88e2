//! `in_flight = "auto"`: an application that hashes passwords, under a flood.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use support::application::{ROUTE, cookie, form, right, sign_in, sign_in_with};
use support::authority::Authority;
use support::frames::{DATA, END_HEADERS, HEADERS, Raw, asks, block, frame};
use support::{Client, Gate, Launch, Reply, Upstream, eventually, free_port};

const AUTO: &str = "in_flight = \"auto\"\n";
const PLENTY: &str = "[limit.account]\nkey = \"user\"\nrate = \"100000 per 1h\"\n";
const SLOTS: usize = 4;
const HASH: Duration = Duration::from_millis(250);
const STRANGERS: u32 = 1000;
const DEVICES: usize = 4;

/// An application that hashes four passwords at once; further requests wait inside it.
struct HashingApplication {
    upstream: Upstream,
    /// The time that all slots together were busy.
    busy: Arc<Mutex<Duration>>,
}

impl HashingApplication {
    fn start() -> Self {
        let busy = Arc::<Mutex<Duration>>::default();
        let (slots, counted) = (Arc::new((Mutex::new(SLOTS), Condvar::new())), Arc::clone(&busy));
        let upstream = Upstream::answering(move |request, _| {
            let (free, freed) = &*slots;
            let mut free_slots = freed.wait_while(free.lock().unwrap(), |free| *free == 0).unwrap();
            *free_slots -= 1;
            drop(free_slots);
            let started = Instant::now();
            // The hash: the load is what the test is about.
            std::thread::sleep(HASH);
            *counted.lock().unwrap() += started.elapsed();
            *free.lock().unwrap() += 1;
            freed.notify_one();
            match String::from_utf8_lossy(request).contains("pwd=right-of-") {
                true => Reply::text("HTTP/1.1 302 Found\r\nLocation: /home\r\nContent-Length: 0\r\n\r\n"),
                false => Reply::ok(),
            }
        });
        Self { upstream, busy }
    }

    /// The share of the slots that were busy while this ran, in per cent.
    fn busy_while(&self, act: impl FnOnce()) -> u128 {
        let (before, started) = (*self.busy.lock().unwrap(), Instant::now());
        act();
        let busy = *self.busy.lock().unwrap() - before;
        busy.as_millis() * 100 / (started.elapsed().as_millis() * SLOTS as u128)
    }
}

/// What strangers saw.
#[derive(Default)]
struct Flood {
    is_over: AtomicBool,
    answered: AtomicUsize,
    refused: AtomicUsize,
    /// Answers that are neither.
    surprises: AtomicUsize,
}

impl Flood {
    /// Tries one password after the other, and comes again after three seconds at most, whatever it is told.
    fn strange(&self, gate: &Gate, number: u32) {
        let address = Ipv4Addr::from(0x7f05_0001 + number);
        while !self.is_over.load(Ordering::Relaxed) {
            let mut client = gate.connect_from(address);
            client.send(sign_in(&format!("stranger{number}"), "wrong"));
            let Some(answer) = client.try_answer() else { continue };
            if answer.status == 200 {
                self.answered.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let told = answer.retry_after();
            let is_busy = answer.status == 503 && (1..=60).contains(&told);
            let count = if is_busy { &self.refused } else { &self.surprises };
            count.fetch_add(1, Ordering::Relaxed);
            let again = Instant::now() + Duration::from_secs(told.min(3));
            while Instant::now() < again && !self.is_over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

/// Ends a flood, also if its test fails.
struct End<'f>(&'f Flood);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// The times of the sign-ins of known devices within this time, the shortest first.
fn sign_ins(gate: &Gate, devices: &[String], lasting: Duration) -> Vec<Duration> {
    let end = Instant::now() + lasting;
    let times: Mutex<Vec<Duration>> = Mutex::default();
    std::thread::scope(|scope| {
        for (number, device) in (0_u32..).zip(devices) {
            let times = &times;
            let address = Ipv4Addr::from(0x7f07_0001 + (number << 8));
            scope.spawn(move || {
                let (user, lines) = (format!("user{number}"), format!("Cookie: {device}\r\n"));
                while Instant::now() < end {
                    let started = Instant::now();
                    let mut client = gate.connect_from(address);
                    client.send(sign_in_with(&lines, &form(&user, &right(&user))));
                    let answer = client.answer();
                    // Without a sign-in it would have to come again.
                    let more = if answer.status == 302 { Duration::ZERO } else { Duration::from_secs(10) };
                    times.lock().unwrap().push(started.elapsed() + more);
                    std::thread::sleep(HASH);
                }
            });
        }
    });
    let mut times = times.into_inner().unwrap();
    times.sort();
    times
}

/// A machine that is busy with other things gets four tries of thirteen seconds; they say what they saw.
#[test]
fn known_devices_sign_in_within_a_second_while_a_thousand_strangers_keep_the_application_busy() {
    let application = HashingApplication::start();
    let tables = format!("{ROUTE}{AUTO}{PLENTY}[device]\nsecret = \"${{file:{{dir}}/device.keys}}\"\n");
    let launch = Launch::new(&application.upstream.file(&tables));
    let gate = launch.beside("device.keys", "0123456789abcdef0123456789abcdef").start();
    let known = |number| {
        let user = format!("user{number}");
        let answer = gate.ask(sign_in(&user, &right(&user)));
        format!("tollgate_device={}", cookie(&answer, "tollgate_device").unwrap())
    };
    let devices: Vec<String> = (0..DEVICES).map(known).collect();
    let (flood, mut seen) = (Flood::default(), Vec::new());
    std::thread::scope(|scope| {
        let _end = End(&flood);
        for number in 0..STRANGERS {
            let (stranger, flood, gate) = (std::thread::Builder::new().stack_size(256 * 1024), &flood, &gate);
            stranger.spawn_scoped(scope, move || flood.strange(gate, number)).unwrap();
        }
        // It learns meanwhile.
        std::thread::sleep(Duration::from_secs(8));
        for _ in 0..4 {
            let mut times = Vec::new();
            let busy = application.busy_while(|| times = sign_ins(&gate, &devices, Duration::from_secs(13)));
            let p99 = times[times.len() * 99 / 100];
            seen.push(format!("{} sign-ins, p99 {p99:?}, slots {busy} % busy", times.len()));
            if p99 < Duration::from_secs(1) && busy >= 90 {
                seen.clear();
                break;
            }
        }
    });
    let counts = [&flood.answered, &flood.refused, &flood.surprises];
    let [answered, refused, surprises] = counts.map(|count| count.load(Ordering::Relaxed));
    assert_eq!(surprises, 0);
    assert!(seen.is_empty(), "{seen:?}; strangers: {answered} answered, {refused} refused");
    assert!(answered > 50, "strangers have their turns: {answered}, and {refused} refused");
    assert!(gate.metric("tollgate_in_flight_refused_total", "route=\"login\"") > 0.5);
}

/// Attempts of clients at addresses of their own, all at once.
fn at_once(gate: &Gate, count: u32) -> Vec<Client> {
    let attempt = |number: u32| {
        let mut client = gate.connect_from(Ipv4Addr::from(0x7f06_0001 + number));
        client.send(sign_in(&format!("user{number}"), "wrong"));
        client
    };
    (0..count).map(attempt).collect()
}

#[test]
fn a_fast_application_gets_a_burst_at_once() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&format!("{ROUTE}{AUTO}{PLENTY}")));
    for _ in 0..5 {
        assert!(at_once(&gate, 60).iter_mut().all(|client| client.answer().status == 200));
    }
    assert!(gate.metric("tollgate_in_flight_limit", "route=\"login\"") > 15.5);
    assert!(eventually(Duration::from_secs(5), || gate.metric("tollgate_in_flight", "") < 0.5));
}

#[test]
fn answers_that_never_end_keep_no_place() {
    let upstream = Upstream::answering(|_, _| {
        Reply::text("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
    });
    let gate = Gate::start(&upstream.file(&format!("{ROUTE}{AUTO}{PLENTY}")));
    let mut streams = at_once(&gate, 60);
    assert!(streams.iter_mut().all(|stream| stream.answer_to_head().status == 200));
    assert!(gate.metric("tollgate_in_flight", "") < 0.5);
}

#[test]
fn an_attempt_that_finds_no_place_costs_nothing_and_is_told_when_to_come_again() {
    let upstream = Upstream::answering(|_, _| Reply::Silence);
    let limit = PLENTY.replace("key = \"user\"\nrate = \"100000", "key = \"all\"\nrate = \"17");
    let gate = Gate::start(&upstream.file(&format!("{ROUTE}{AUTO}{limit}")));
    let _working = at_once(&gate, 16);
    upstream.wait_for(16);
    for _ in 0..3 {
        let answer = gate.ask(sign_in("late", "wrong"));
        assert_eq!((answer.status, answer.retry_after()), (503, 1));
    }
    // The bucket has one token left.
    for _ in 0..2 {
        let waiting = |count: f64| gate.metric("tollgate_in_flight_waiting", "") == count;
        // On a busy machine one may have waited for its second before it is seen.
        let is_seen = || {
            let queued = at_once(&gate, 1);
            let is_seen = eventually(Duration::from_millis(900), || waiting(1.0));
            drop(queued);
            is_seen
        };
        assert!(eventually(Duration::from_secs(10), is_seen), "it has a token");
        assert!(eventually(Duration::from_secs(5), || waiting(0.0)));
    }
    assert!(gate.metric("tollgate_attempts_total", "outcome=\"failure\"") < 0.5, "it is no attempt");
    assert_eq!(upstream.requests().len(), 16, "a client that leaves the queue is not forwarded");
}

/// A body of which the end is to come: longer than what is read ahead.
fn drip(gate: &Gate, number: u32) -> Client {
    let mut client = gate.connect_from(Ipv4Addr::from(0x7f08_0001 + number));
    let start = format!("username=slow{number}&pwd=wrong&more={}", "x".repeat(300 * 1024));
    client.send(format!(
        "POST /login HTTP/1.1\r\nHost: app.test\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\n\r\n{start}",
        start.len() + 1
    ));
    client
}

#[test]
fn uploads_that_drip_keep_no_place_and_need_one_at_their_end() {
    let upstream = Upstream::answering(|request, _| match request.ends_with(b"!") {
        true => Reply::Silence,
        false => Reply::ok(),
    });
    let limit = PLENTY.replace("key = \"user\"", "key = \"all\"");
    let gate = Gate::start(&upstream.file(&format!("{ROUTE}{AUTO}{limit}")));
    let mut slow: Vec<Client> = (0..18).map(|number| drip(&gate, number)).collect();
    let begun = || upstream.connections().len() >= slow.len();
    assert!(eventually(Duration::from_secs(10), begun), "their beginnings are at the application");
    assert!(gate.metric("tollgate_in_flight", "") < 0.5, "where they need no place");
    assert_eq!(gate.ask(sign_in("alice", "wrong")).status, 200);
    slow.iter_mut().take(16).for_each(|client| client.send("!"));
    assert!(eventually(Duration::from_secs(10), || gate.metric("tollgate_in_flight", "") > 15.5));
    slow[16].send("!");
    let answer = slow[16].answer();
    assert_eq!((answer.status, answer.retry_after()), (503, 1), "it waits in vain");
    // The application has their beginnings, and may have checked their passwords: alice's attempt and these are failures.
    let failures = || gate.metric("tollgate_attempts_total", "outcome=\"failure\"");
    assert!(eventually(Duration::from_secs(5), || failures() > 1.5), "a refusal costs what a failure does");
    slow[17].send("!");
    let waits = || gate.metric("tollgate_in_flight_waiting", "") > 0.5;
    assert!(eventually(Duration::from_secs(5), waits));
    slow.truncate(17);
    assert!(eventually(Duration::from_secs(5), || failures() > 2.5), "and so does leaving");
}

/// Over HTTP/2 the end of a stream may come in a frame of its own, or never: the length tells when the application has all.
#[test]
fn an_upload_over_http_2_needs_a_place_although_its_stream_goes_on() {
    let (upstream, authority) = (Upstream::answering(|_, _| Reply::Silence), Authority::new());
    let route = "[route.login]\nmatch = \"POST /login\"\nbuffer = \"off\"\n";
    let limit = "[limit.address]\nrate = \"99 per 1h\"\n";
    let gate = authority.gate(&["app.test"], &upstream.file(&format!("{route}{AUTO}{limit}")));
    let head = |length| [&asks("POST", "/login")[..], &[("content-length", length)]].concat();
    let mut client = Raw::connect(&authority, gate.tls);
    let at_work = |count: f64| gate.metric("tollgate_in_flight", "") == count;
    assert!(client.send(&frame(HEADERS, END_HEADERS, 1, &block(&head("5")))));
    assert!(client.send(&frame(DATA, 0, 1, b"wrong")));
    upstream.wait_for(1);
    assert!(eventually(Duration::from_secs(5), || at_work(1.0)), "its last byte needs a place");
    assert!(client.send(&frame(HEADERS, END_HEADERS, 3, &block(&head("0")))));
    upstream.wait_for(2);
    assert!(eventually(Duration::from_secs(5), || at_work(2.0)), "so does a body of no bytes");
}

#[test]
fn an_application_that_is_down_is_answered_as_ever() {
    let port = free_port();
    let gate = Gate::start(&format!("upstream = \"http://127.0.0.1:{port}\"\n{ROUTE}{AUTO}{PLENTY}"));
    for _ in 0..3 {
        assert!(at_once(&gate, 30).iter_mut().all(|client| client.answer().status == 502));
    }
    assert!(gate.metric("tollgate_in_flight_limit", "") > 15.5, "what fails at once teaches nothing");
}

#[test]
fn a_route_with_a_number_or_without_one_has_none_of_it() {
    let upstream = Upstream::start();
    for bound in ["", "in_flight = 32\n"] {
        let gate = Gate::start(&upstream.file(&format!("{ROUTE}{bound}{PLENTY}")));
        assert_eq!(gate.ask(sign_in("alice", "wrong")).status, 200);
        assert!(!gate.metrics().contains("tollgate_in_flight"));
    }
}
