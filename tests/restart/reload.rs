//! Reading the file again while the gate runs: all of it at once or nothing, and no client is disturbed.
//!
//! Everything here goes through the built binary and real signals.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use support::{
    Client, Gate, Launch, Reply, Upstream, binary, eventually, free_port, get_with, new_directory, post_with,
};

/// A bucket that does not refill while a test lasts.
fn limit(name: &str, tokens: u32) -> String {
    format!("[limit.{name}]\nrate = \"{tokens} per 1000h\"\n")
}

fn login(limits: &str) -> String {
    format!("[route.login]\nmatch = \"POST /login\"\n{limits}")
}

/// How many of these attempts are admitted.
fn admitted(gate: &Gate, attempts: usize) -> usize {
    admitted_from(gate, Ipv4Addr::LOCALHOST, attempts)
}

fn admitted_from(gate: &Gate, source: Ipv4Addr, attempts: usize) -> usize {
    let mut client = gate.connect_from(source);
    let ask = |_: &usize| {
        client.send(post_with("/login", ""));
        client.answer().status == 200
    };
    (0..attempts).filter(ask).count()
}

#[test]
fn a_kept_connection_survives_a_reload_and_its_next_request_sees_the_new_file() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&login(&limit("address", 1))));
    let mut client = gate.connect();
    let mut status = |attempt: String| {
        client.send(attempt);
        client.answer().status
    };
    assert_eq!([status(post_with("/login", "")), status(post_with("/login", ""))], [200, 429]);
    assert_eq!(status(post_with("/signin", "")), 200);
    let file = "[route.signin]\nmatch = \"POST /signin\"\n[limit.address]\nrate = \"1 per 1000h\"\n";
    assert!(gate.reload(&upstream.file(&format!("{file}[refuse]\nstatus = 403\n"))));
    assert_eq!([status(post_with("/login", "")), status(post_with("/signin", ""))], [200, 403]);
}

/// Files of which each is a little different from the one before, and every third one wrong. Which group of upstreams
/// comes first changes, and so does a limit beside the one that counts; another limit moves now and then between two
/// sizes.
struct Files {
    site: Upstream,
    one: Upstream,
    other: Upstream,
}

impl Files {
    fn start() -> Self {
        let saying = |body: &str| {
            let answer = Reply::text(&format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{body}"));
            Upstream::answering(move |_, _| answer.clone())
        };
        Self { site: Upstream::start(), one: saying("1"), other: saying("2") }
    }

    fn number(&self, number: u32) -> String {
        let mut routes = [("one", &self.one), ("other", &self.other)].map(|(name, upstream)| {
            let address = upstream.address;
            format!("[route.{name}]\nmatch = \"ANY /{name}\"\nlimits = []\nupstream = \"http://{address}\"\n")
        });
        routes.rotate_left(usize::from(number % 2 == 1));
        let wrong = if number % 3 == 2 { "cost = 0\n" } else { "" };
        let (beside, limits) = match number % 4 {
            3 => (String::new(), "[\"address\"]"),
            _ => (limit("beside", 1_000_000 + number), "[\"beside\", \"address\"]"),
        };
        self.site.file(&format!(
            "# {number}\n[store]\ncapacity = 1000\n{}[route.login]\nmatch = \"POST /login\"\nlimits = {limits}\n{wrong}\
             [route.moving]\nmatch = \"POST /moving\"\nlimits = [\"moving\"]\n{beside}{}{}",
            routes.concat(),
            limit("address", TOKENS),
            limit("moving", if (number / 7).is_multiple_of(2) { 1000 } else { 2000 }),
        ))
    }
}

#[test]
fn a_hundred_reloads_under_load_fail_no_request_and_refill_no_bucket() {
    let files = Files::start();
    let gate = Gate::start(&files.number(0));
    let (over, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let taken = ["/login", "/moving"].map(|target| (target, AtomicU32::new(0)));
    let work = |number: usize| {
        let mut client = gate.connect();
        let mut ask = |request: String| {
            client.send(request);
            client.answer()
        };
        let (own, body) = if number.is_multiple_of(2) { ("/one", "1") } else { ("/other", "2") };
        while !over.load(Ordering::Relaxed) {
            let answer = ask(get_with(own, ""));
            assert_eq!((answer.status, &*answer.text()), (200, body), "its own upstream");
            for (target, taken) in &taken {
                let status = ask(post_with(target, "")).status;
                assert!(matches!(status, 200 | 429), "{status}");
                taken.fetch_add(u32::from(status == 200), Ordering::Relaxed);
            }
            asked.fetch_add(1, Ordering::Relaxed);
        }
    };
    let (mut good, mut before) = (0, Vec::new());
    std::thread::scope(|scope| {
        let work = &work;
        (0..4).for_each(|number| drop(scope.spawn(move || work(number))));
        for number in 1..=100 {
            good += usize::from(gate.reload(&files.number(number)));
            before.push(asked.load(Ordering::Relaxed));
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(good, 67);
    assert!(before.windows(2).filter(|two| two[0] < two[1]).count() > 50, "there was load: {before:?}");
    let [login, moving] = taken.map(|(target, taken)| {
        let (under_load, mut client) = (taken.into_inner(), gate.connect());
        let later = (0..=TOKENS).filter(|_| {
            client.send(post_with(target, ""));
            client.answer().status == 200
        });
        (under_load, under_load + u32::try_from(later.count()).unwrap())
    });
    assert_eq!(login.1, TOKENS, "{} under load", login.0);
    assert!(login.0 > 100, "{}", login.0);
    assert!((900..=2000).contains(&moving.1), "{moving:?}");
}

const TOKENS: u32 = 3000;

/// E18: a reload neither refills a bucket nor takes from it; what is left stays the same part of the bucket, and only
/// a limit that was removed is forgotten.
#[test]
fn a_reload_never_refills_a_bucket() {
    let upstream = Upstream::start();
    let file = |limits: &str| upstream.file(&login(limits));
    let gate = Gate::start(&file(&limit("address", 12)));
    let (drained, half, fresh) =
        (Ipv4Addr::new(127, 0, 0, 5), Ipv4Addr::new(127, 0, 0, 6), Ipv4Addr::new(127, 0, 0, 7));
    assert_eq!([admitted_from(&gate, drained, 13), admitted_from(&gate, half, 6)], [12, 6]);
    let reload = |limits: &str| assert!(gate.reload(&file(limits)));
    reload(&format!("# a comment\n{}", limit("address", 12)));
    assert_eq!(admitted_from(&gate, drained, 1), 0, "nothing has changed");
    reload(&limit("address", 120));
    assert_eq!(admitted_from(&gate, drained, 1), 0, "a larger bucket");
    reload(&limit("address", 4));
    assert_eq!(admitted_from(&gate, drained, 1), 0, "a smaller one");
    reload("[limit.address]\nrate = \"12 per 100h\"\n");
    assert_eq!(admitted_from(&gate, drained, 1), 0, "another rate");
    reload("[limit.address]\nrate = \"12 per 1000h\"\nkey = \"ip\"\nroutes = [\"login\"]\ninitial = 12\n");
    assert_eq!(admitted_from(&gate, drained, 1), 0, "the same in other words");
    // In proportion, less than a token lost at each change: six of twelve, and one of them in a smaller bucket.
    let left = admitted_from(&gate, half, 12);
    assert!((5..=6).contains(&left), "half of it is left: {left}");
    assert_eq!(admitted_from(&gate, fresh, 13), 12, "an untouched bucket is full");
    reload("");
    assert_eq!(admitted_from(&gate, drained, 20), 20, "a limit that is gone");
    reload(&limit("address", 12));
    assert_eq!(admitted_from(&gate, drained, 13), 12, "and comes back begins anew");
}

#[test]
fn a_changed_limit_keeps_the_part_that_is_left() {
    let upstream = Upstream::start();
    let file = |tokens| upstream.file(&login(&limit("address", tokens)));
    for (tokens, wanted) in [(20, 9..=10), (4, 1..=2), (10, 5..=5)] {
        let gate = Gate::start(&file(10));
        assert_eq!(admitted(&gate, 5), 5);
        assert!(gate.reload(&file(tokens)));
        let left = admitted(&gate, 40);
        assert!(wanted.contains(&left), "{left} of {tokens}");
    }
}

#[test]
fn requests_in_flight_finish_where_they_began_and_later_ones_go_to_the_new_upstream() {
    let slow = Upstream::answering(|_, _| Reply::ok().after(Duration::from_millis(600)));
    let (stays, new) = (Upstream::start(), Upstream::start());
    let route = |upstream: &Upstream| {
        format!(
            "[route.app]\nmatch = \"ANY /app\"\nlimits = []\nupstream = \"http://{}\"\n",
            upstream.address
        )
    };
    let gate = Gate::start(&stays.file(&format!("{}[proxy]\nthreads = 1\n", route(&slow))));
    let up = |upstream: &Upstream| {
        gate.metrics()
            .contains(&format!("tollgate_upstream_up{{upstream=\"http://{}\"}} 1", upstream.address))
    };
    let mut others = gate.connect();
    let mut ask = |target: &str| {
        others.send(get_with(target, ""));
        others.answer().status
    };
    assert_eq!((ask("/"), up(&slow), up(&new)), (200, true, false));
    let mut waiting = gate.connect();
    waiting.send(get_with("/app", ""));
    slow.wait_for(1);
    let proxy = "[proxy]\nthreads = 1\nreply_timeout = \"300ms\"\n";
    assert!(gate.reload(&stays.file(&format!("{}{proxy}", route(&new)))));
    assert_eq!([ask("/app"), ask("/")], [200, 200]);
    assert_eq!((new.requests().len(), slow.requests().len()), (1, 1));
    assert_eq!(stays.connections().len(), 1, "the connection to an upstream that stays is used again");
    assert_eq!(waiting.answer().status, 200, "under the time-out that it began with");
    assert_eq!((up(&slow), up(&new), up(&stays)), (false, true, true));
}

#[test]
fn bounds_and_time_outs_of_the_proxy_are_taken_over() {
    let upstream = Upstream::answering(|_, _| Reply::ok().after(Duration::from_millis(400)));
    let file = |proxy: &str| upstream.file(&format!("[proxy]\nthreads = 1\n{proxy}"));
    let gate = Gate::start(&file(""));
    assert_eq!(gate.ask(get_with("/", "")).status, 200);
    let changed = "reply_timeout = \"100ms\"\nclient_max = 1\nheader_timeout = \"300ms\"\n";
    assert!(gate.reload(&file(changed)));
    assert!(eventually(Duration::from_secs(5), || gate.metric("tollgate_connections", "") < 0.5));
    let mut only = gate.connect();
    only.send(get_with("/", "Connection: close\r\n"));
    let mut second = gate.connect();
    assert!(second.ends_within(Duration::from_secs(5)), "there is one place");
    assert_eq!(only.answer().status, 504);
    assert!(only.ends_within(Duration::from_secs(5)));
    assert!(eventually(Duration::from_secs(5), || gate.metric("tollgate_connections", "") < 0.5));
    let mut silent = gate.connect();
    assert!(silent.ends_within(Duration::from_secs(5)), "a head has to come sooner");
    assert!(gate.reload(&file("client_max = 5\nclient_rate = \"1/h\"\n")));
    let _first = gate.connect();
    assert!(gate.connect().ends_within(Duration::from_secs(5)), "one connection an hour");
}

#[test]
fn a_change_that_needs_a_restart_refuses_the_whole_file() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&login(&limit("address", 1))));
    assert_eq!(admitted(&gate, 2), 1);
    let port = free_port();
    let wanted = upstream.file(&login(&limit("address", 100)));
    assert!(!gate.reload(&format!("{wanted}[store]\ncapacity = 5\n[proxy]\nthreads = 7\n")));
    let said = || gate.messages();
    let names = |key: &str| said().contains(&format!("error: `{key}` cannot change while the gate runs"));
    assert!(eventually(Duration::from_secs(5), || names("store.capacity") && names("proxy.threads")));
    assert!(said().contains("restart the gate to change it"));
    let file = gate.directory.join("gate.toml");
    let text =
        fs::read_to_string(&file).unwrap().replace(&gate.address.port().to_string(), &port.to_string());
    fs::write(&file, text).unwrap();
    gate.signal("HUP");
    assert!(eventually(Duration::from_secs(5), || names("listen")));
    assert_eq!(admitted(&gate, 1), 0, "the limit is the old one");
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(eventually(Duration::from_secs(5), || gate.reloads() == (0, 2)));
    assert!(gate.reload(&wanted), "and a file without such a change is taken over");
}

/// I2: a configuration with mistakes.
#[test]
fn a_bad_file_is_reported_as_at_a_start_and_the_old_one_runs_on() {
    let upstream = Upstream::start();
    let good = upstream.file(&login(&limit("address", 1)));
    let mut gate = Gate::start(&good);
    assert_eq!(admitted(&gate, 2), 1);
    assert!(!gate.reload(&good.replace("rate =", "rat =").replace("POST /login", "POST login")));
    let file = gate.directory.join("gate.toml");
    let check = Command::new(binary()).args(["check", "-c"]).arg(&file).output().unwrap();
    let wanted = String::from_utf8(check.stderr).unwrap();
    let blocks: Vec<&str> =
        wanted.split("\n\n").map(str::trim).filter(|block| block.starts_with("error")).collect();
    assert_eq!(blocks.len(), 3, "{wanted}");
    let said = |text: &str| {
        // As JSON, because standard error is no terminal here.
        let text = serde_json::to_string(text).unwrap();
        eventually(Duration::from_secs(5), || gate.messages().contains(text.trim_matches('"')))
    };
    assert!(blocks.iter().all(|block| said(block)), "{}\n{wanted}", gate.messages());
    assert!(said("the new configuration is refused, the old one stays"));
    fs::remove_file(&file).unwrap();
    gate.signal("HUP");
    assert!(said("cannot read the configuration"));
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    gate.signal("HUP");
    assert!(said("not a regular file"));
    assert!(eventually(Duration::from_secs(5), || gate.reloads() == (0, 3)));
    assert_eq!(admitted(&gate, 1), 0);
    fs::remove_file(&file).unwrap();
    assert!(gate.reload(&good.replace("address", "newcomer")));
    let changes = "limit `newcomer` added, limit `address` removed, route `login` changed";
    assert!(said(&format!("the configuration was read again: {changes}")), "{}", gate.messages());
    gate.signal("TERM");
    assert!(gate.exit_status(Duration::from_secs(5)).is_some_and(|status| status.success()));
}

#[test]
fn the_message_names_what_has_changed_and_nothing_else() {
    let (upstream, other) = (Upstream::start(), Upstream::start());
    let route = |name: &str, rest: &str| format!("[route.{name}]\nmatch = \"POST /{name}\"\n{rest}");
    let (first, second, one) = (route("a", ""), route("b", ""), limit("one", 1));
    let with = |upstream: &Upstream, parts: &[&str]| upstream.file(&parts.concat());
    let gate = Gate::start(&with(&upstream, &[&first, &second, &one]));
    let own = format!("upstream = \"http://{}\"\n", other.address);
    let office = |list: &str| {
        format!("[networks]\noffice = [\"{list}\"]\n{first}{second}{one}exempt = [\"office\"]\n")
    };
    for (file, wanted) in [
        (with(&upstream, &["# the same\n", &first, &one, &second]), "nothing has changed"),
        (with(&upstream, &[&first, &one, "[limit.one.escalate]\n", &second]), "limit `one` changed"),
        (with(&upstream, &[&first, &one, "escalate = { after = 3 }\n", &second]), "limit `one` changed"),
        (with(&upstream, &[&first, &one, "escalate.after = 3\n", &second]), "nothing has changed"),
        (with(&upstream, &[&first, &one, &second]), "limit `one` changed"),
        (with(&upstream, &[&second, &first, &one]), "routes in another order"),
        (with(&upstream, &[&second, &route("a", &own), &one]), "route `a` changed"),
        (with(&other, &[&second, &route("a", &own), &one]), "`upstream` changed"),
        (
            with(&upstream, &[&office("192.0.2.0/24")]),
            "limit `one` changed, route `a` changed, routes in another order, `upstream` changed",
        ),
        (with(&upstream, &[&office("192.0.2.0/25")]), "limit `one` changed"),
        (
            with(&upstream, &[&limit("two", 1), &office("192.0.2.0/25")]),
            "limit `two` added, route `a` changed, route `b` changed",
        ),
        (
            with(
                &upstream,
                &[
                    "[client]\nipv4 = 32\nipv6 = 56\n[refuse]\nstatus = 403\n[proxy]\nclient_max = 9\n[log]\nclients = \"hash\"\n",
                ],
            ),
            "limit `two` removed, limit `one` removed, route `a` removed, route `b` removed, `client` changed, `refuse` changed, `proxy` changed, `log` changed",
        ),
    ] {
        assert!(gate.reload(&file), "{wanted}");
        let wanted = format!("the configuration was read again: {wanted}\"");
        let is_said = || gate.messages().lines().last().is_some_and(|line| line.contains(&wanted));
        assert!(eventually(Duration::from_secs(5), is_said), "{wanted}");
    }
}

#[test]
fn what_is_logged_and_how_is_taken_over() {
    let upstream = Upstream::start();
    let file = |log: &str| upstream.file(&format!("[log]\naccess = \"access.log\"\n{log}"));
    let gate = Gate::start(&file(""));
    let log = || fs::read_to_string(gate.directory.join("access.log")).unwrap_or_default();
    let source = Ipv4Addr::new(127, 9, 8, 7);
    let ask = || {
        let mut client = gate.connect_from(source);
        client.send(get_with("/", ""));
        client.answer();
    };
    ask();
    assert!(eventually(Duration::from_secs(5), || log().contains("127.9.8.7 ")));
    assert!(
        gate.reload(&format!("{}[client]\nipv4 = 16\n", file("clients = \"prefix\"\nlevel = \"error\"\n")))
    );
    ask();
    assert!(eventually(Duration::from_secs(5), || log().contains("127.9.0.0 ")));
    assert!(gate.reload(&file("level = \"error\"\n")));
    assert!(!gate.reload("nonsense"));
    assert!(eventually(Duration::from_secs(5), || gate
        .messages()
        .contains("the new configuration is refused")));
    assert!(!gate.messages().contains("the configuration was read again"), "that is no error");
}

#[test]
fn a_storm_of_hang_ups_is_answered_and_the_last_file_is_the_one_that_runs() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    let mut client = gate.connect();
    for number in 0..100 {
        gate.write(&upstream.file(&format!("# {number}\n")));
        gate.signal("HUP");
        client.send(get_with("/", ""));
        assert_eq!(client.answer().status, 200);
    }
    gate.write(&upstream.file(&login(&limit("address", 1))));
    gate.signal("HUP");
    let is_last = || gate.metrics().contains("limit=\"address\"");
    assert!(eventually(Duration::from_secs(5), is_last));
    assert_eq!(admitted(&gate, 2), 1);
    let (good, bad) = gate.reloads();
    assert!((1..=101).contains(&good) && bad == 0, "{good} {bad}");
}

#[test]
fn a_hang_up_before_the_gate_serves_waits_until_it_does() {
    let directory = new_directory();
    // Long enough for the gate to be at it when the signal comes.
    let list: String =
        (0..200_000_u32).map(|number| format!("{}\n", Ipv4Addr::from(0x0A00_0000 + number))).collect();
    fs::write(directory.join("list.txt"), list).unwrap();
    let (port, admin) = (free_port(), free_port());
    let file = directory.join("gate.toml");
    let text = format!(
        "listen = \"http://127.0.0.1:{port}\"\nupstream = \"http://127.0.0.1:9\"\n[networks]\nmany = [\"@list.txt\"]\n\
         {}exempt = [\"many\"]\n[admin]\nlisten = \"http://127.0.0.1:{admin}\"\n",
        login(&limit("address", 1))
    );
    fs::write(&file, text).unwrap();
    let mut process =
        Command::new(binary()).args(["run", "-c"]).arg(&file).stderr(Stdio::null()).spawn().unwrap();
    let catches = || {
        let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & 1 == 1
    };
    // The program does not report when it handles signals; until then one would end it, as it would any program.
    while !catches() {
        std::thread::yield_now();
    }
    let is_signalled = support::signal(process.id(), "HUP");
    let early = std::net::TcpStream::connect(("127.0.0.1", port)).is_err();
    let metrics = || {
        std::net::TcpStream::connect(("127.0.0.1", admin)).is_ok() && {
            let mut client = Client::connect(([127, 0, 0, 1], admin).into());
            client.send("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
            client.answer().text().contains("tollgate_config_reloads_total{result=\"ok\"} 1")
        }
    };
    let reloaded = eventually(Duration::from_secs(20), metrics);
    let ended = process.try_wait().unwrap();
    let _ = process.kill();
    let _ = process.wait();
    let _ = fs::remove_dir_all(&directory);
    assert!(is_signalled && early && reloaded && ended.is_none(), "{early} {reloaded} {ended:?}");
}

/// I5: a file that is written while it is read, reached through a link that is turned elsewhere, a directory, or one that
/// does not end.
#[test]
fn a_file_is_taken_over_as_a_whole_or_not_at_all_however_it_is_replaced() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&login(&limit("address", 2))));
    assert_eq!(admitted(&gate, 1), 1);
    let file = gate.directory.join("gate.toml");
    let whole = fs::read_to_string(&file).unwrap();
    let taken = || {
        let before = gate.reloads();
        gate.signal("HUP");
        let mut after = before;
        assert!(eventually(Duration::from_secs(10), || {
            after = gate.reloads();
            after != before
        }));
        after.0 > before.0
    };
    for half in [&whole[..whole.len() / 2], &whole[..whole.len() - 20], ""] {
        fs::write(&file, half).unwrap();
        assert!(!taken(), "{half}");
    }
    let (one, other) = (gate.directory.join("one.toml"), gate.directory.join("other.toml"));
    fs::write(&one, &whole).unwrap();
    fs::write(&other, whole.replace("2 per", "5 per")).unwrap();
    fs::remove_file(&file).unwrap();
    symlink(&one, &file).unwrap();
    assert!(taken());
    let link = gate.directory.join("link");
    symlink(&other, &link).unwrap();
    fs::rename(&link, &file).unwrap();
    assert!(taken());
    for place in ["/dev/zero", "/dev/null", gate.directory.to_str().unwrap(), "/nowhere/at/all"] {
        fs::remove_file(&file).unwrap();
        symlink(place, &file).unwrap();
        assert!(!taken(), "{place}");
    }
    fs::File::create(&one).unwrap().set_len(1 << 40).unwrap();
    fs::rename(&one, &file).unwrap();
    assert!(!taken(), "a file of a tebibyte");
    assert!(gate.memory() < 400_000, "{} KiB", gate.memory());
    assert_eq!(
        admitted(&gate, 5),
        2,
        "one of two was left, so two of five are and one is kept back by rounding"
    );
}

#[test]
fn environment_and_command_line_still_win_after_a_reload() {
    let upstream = Upstream::start();
    let file = |tokens| upstream.file(&login(&limit("address", tokens)));
    let gate = Launch::new(&file(1)).environment("TOLLGATE_LIMIT__ADDRESS__RATE", "3 per 1000h").start();
    assert_eq!(admitted(&gate, 2), 2);
    assert!(gate.reload(&file(50)));
    assert_eq!(admitted(&gate, 4), 1);
}

#[test]
fn the_lists_of_the_new_file_are_watched_and_its_text_only_after_a_signal() {
    let upstream = Upstream::start();
    let list = new_directory().join("office.txt");
    fs::write(&list, "192.0.2.0/24\n").unwrap();
    let with_list = format!(
        "[networks]\noffice = [\"@{}\"]\n{}exempt = [\"office\"]\n",
        list.display(),
        login(&limit("address", 1))
    );
    let gate = Gate::start(&upstream.file(&login(&limit("address", 1))));
    assert_eq!(admitted(&gate, 2), 1);
    assert!(gate.reload(&upstream.file(&with_list)));
    gate.write("half a file");
    fs::write(&list, "127.0.0.0/8 # everybody here\n").unwrap();
    assert!(eventually(Duration::from_secs(10), || admitted(&gate, 1) == 1), "the list is in force");
    assert!(eventually(Duration::from_secs(5), || gate.reloads() == (2, 0)));
}

#[test]
fn what_was_kept_for_a_changed_limit_is_let_go_of_when_its_buckets_are_full() {
    let upstream = Upstream::start();
    let file = |rate| upstream.file(&login(&format!("[limit.address]\nrate = \"{rate}\"\n")));
    let gate = Gate::start(&file("1 per 1s"));
    assert_eq!(admitted(&gate, 1), 1);
    assert!(gate.reload(&file("2 per 1s")));
    let both = gate.address_space();
    // One table of a million buckets, each of 12.8 bytes.
    let is_smaller = || gate.address_space() + 12_000 < both;
    assert!(eventually(Duration::from_secs(15), is_smaller), "{both} and now {}", gate.address_space());
}

/// As an editor saves, and as Kubernetes swaps a ConfigMap: by a link to another directory.
#[test]
fn a_watched_file_is_taken_over_without_a_signal_also_behind_a_link_that_is_swapped() {
    let upstream = Upstream::start();
    let file = |tokens| format!("reload = \"watch\"\n{}", upstream.file(&login(&limit("address", tokens))));
    let gate = Gate::start(&file(1));
    let taken = |count| eventually(Duration::from_secs(15), || gate.reloads() == (count, 0));
    gate.write(&file(2));
    assert!(taken(1), "{}", gate.messages());
    assert_eq!(admitted(&gate, 5), 2);
    let (own, first, second) =
        (gate.directory.join("gate.toml"), gate.directory.join("..1"), gate.directory.join("..2"));
    for directory in [&first, &second] {
        fs::create_dir(directory).unwrap();
    }
    let text = fs::read_to_string(&own).unwrap();
    fs::write(first.join("gate.toml"), text.replace("2 per", "4 per")).unwrap();
    fs::write(second.join("gate.toml"), text.replace("2 per", "9 per")).unwrap();
    symlink("..1", gate.directory.join("..data")).unwrap();
    symlink("..data/gate.toml", gate.directory.join("gate.new")).unwrap();
    fs::rename(gate.directory.join("gate.new"), &own).unwrap();
    assert!(taken(2), "{}", gate.messages());
    symlink("..2", gate.directory.join("..new")).unwrap();
    fs::rename(gate.directory.join("..new"), gate.directory.join("..data")).unwrap();
    assert!(taken(3), "{}", gate.messages());
    assert_eq!(admitted_from(&gate, Ipv4Addr::new(127, 0, 0, 9), 20), 9);
    fs::write(second.join("gate.toml"), "nonsense").unwrap();
    let is_refused = || gate.reloads() == (3, 1);
    assert!(eventually(Duration::from_secs(15), is_refused), "{}", gate.messages());
    assert!(gate.messages().contains("the old one stays"), "{}", gate.messages());
}
