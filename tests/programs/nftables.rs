//! Clients that the kernel drops: its own answer to their connections, and what `nft` shows of the table.
//!
//! Each test has a network of its own, in which all of 10.9.0.0/16 and 2001:db8::/32 are addresses of this machine.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use socket2::{Domain, Socket, Type};
use support::{
    Answer, Client, Gate, Launch, Upstream, binary, eventually, free_port, installed, new_directory, post,
};
use tollgate::net::nftables::{AddressRange, NftElement, NftSet, NftTable};

/// Every second attempt of an address begins the longest wait.
const ESCALATES: &str = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"1 per 1h\"\n\
                         [limit.address.escalate]\nafter = 1\nwait = \"1h\"\nmax = \"1h\"\n[kernel]\nnftables = \"on\"\n";

/// Runs a test on a thread with a network of its own, and with it all that the thread starts.
fn in_own_network(test: impl FnOnce() + Send + 'static) {
    let run = || {
        let mut unshare = installed("unshare", "util-linux");
        unshare.args(["--net", "sh", "-c", "echo; exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut keeper = unshare.spawn().unwrap();
        BufReader::new(keeper.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        let network = File::open(format!("/proc/{}/ns/net", keeper.id())).unwrap();
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("root may use another network");
        drop(keeper.stdin.take());
        keeper.wait().unwrap();
        for line in [
            "link set lo up",
            "route add local 10.9.0.0/16 dev lo",
            "-6 route add local 2001:db8::/32 dev lo",
        ] {
            assert!(installed("ip", "iproute2").args(line.split(' ')).status().unwrap().success(), "{line}");
        }
        if !nft("add table inet trial").1 {
            eprintln!("SKIPPED: THIS KERNEL HAS NO NF_TABLES, and nothing of kernel.nftables was tried");
            return;
        }
        nft("delete table inet trial");
        test();
    };
    if let Err(panic) = std::thread::spawn(run).join() {
        std::panic::resume_unwind(panic);
    }
}

/// What `nft` prints, and whether it could.
fn nft(line: &str) -> (String, bool) {
    let done = installed("nft", "nftables").args(line.split(' ')).output().unwrap();
    let said = [done.stdout, done.stderr].concat();
    (String::from_utf8_lossy(&said).into_owned(), done.status.success())
}

/// A gate at all addresses of its network.
struct OpenGate {
    gate: Gate,
    port: u16,
    upstream: Upstream,
}

impl OpenGate {
    fn start(file: &str) -> Self {
        let (upstream, port) = (Upstream::start(), free_port());
        let launch = Launch::new(&upstream.file(file));
        let gate = launch.environment("TOLLGATE_LISTEN", &format!("http://[::]:{port}")).start();
        Self { gate, port, upstream }
    }

    /// Runs `tollgate buckets ...`, which succeeds.
    fn buckets(&self, line: &str) {
        self.run(&format!("buckets {line}"));
    }

    /// Runs `tollgate ...`, which succeeds, and returns what it says.
    fn run(&self, line: &str) -> String {
        let mut command = Command::new(binary());
        command.args(line.split(' ')).arg("--socket").arg(self.gate.admin_socket());
        let done = command.output().unwrap();
        let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        assert!(done.status.success(), "{line}: {said}");
        said
    }

    /// Lets a new process take over, and returns its number.
    fn upgrade(&mut self) -> u32 {
        self.gate.signal("USR2");
        let successor = || {
            let said = self.gate.messages();
            let line = said.lines().find(|line| line.contains("has taken over"))?.to_owned();
            line.split("process ").nth(1)?.split(' ').next()?.parse::<u32>().ok()
        };
        assert!(eventually(PATIENCE, || successor().is_some()), "{}", self.gate.messages());
        let successor = successor().unwrap();
        assert!(self.gate.exit_status(PATIENCE).is_some(), "the old process has ended");
        successor
    }

    /// The gate's address of the same family.
    fn seen_from(&self, source: &str) -> SocketAddr {
        let ip = if source.contains(':') { "2001:db8::1" } else { "10.9.0.1" };
        SocketAddr::new(ip.parse().unwrap(), self.port)
    }

    fn answers(&self, source: &str, at_most: Duration) -> bool {
        connect(source, self.seen_from(source), at_most).is_some()
    }

    /// A busy machine is silent as well: so for longer, while another client is answered.
    fn is_silent_to(&self, source: &str) -> bool {
        let other = if source.contains(':') { "2001:db8:ffff::1" } else { "10.9.255.1" };
        !self.answers(source, Duration::from_millis(200))
            && self.answers(other, SILENCE)
            && !self.answers(source, SILENCE)
            && self.answers(other, SILENCE)
    }

    /// Whether it answers again.
    fn answers_again(&self, source: &str) -> bool {
        eventually(PATIENCE, || self.answers(source, SILENCE))
    }

    #[track_caller]
    fn assert_answers(&self, source: &str) {
        assert!(self.answers(source, Duration::from_secs(5)), "{source}: {}", nft(LIST).0);
    }

    #[track_caller]
    fn assert_falls_silent_to(&self, source: &str) {
        assert!(
            eventually(PATIENCE, || self.is_silent_to(source)),
            "{source} is not dropped: {}",
            nft(LIST).0
        );
    }

    /// A wrong password from there.
    fn attempt(&self, source: &str, lines: &str) -> Answer {
        let mut client = connect(source, self.seen_from(source), Duration::from_secs(5)).unwrap();
        let attempt = post("/login", "name=a").replacen("\r\n", &format!("\r\n{lines}"), 1);
        client.send(attempt);
        client.answer()
    }

    /// Attempts until the longest wait has begun.
    fn escalate(&self, source: &str, lines: &str) {
        let statuses = [(); 2].map(|()| self.attempt(source, lines).status);
        assert_eq!(statuses, [200, 429], "{source}");
    }
}

/// A connection from this address, if it is answered in time.
fn connect(source: &str, to: SocketAddr, at_most: Duration) -> Option<Client> {
    let source: IpAddr = source.parse().unwrap();
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).unwrap();
    if source.is_ipv6() {
        socket.set_freebind_v6(true).unwrap();
    }
    socket.bind(&SocketAddr::new(source, 0).into()).unwrap();
    socket.connect_timeout(&to.into(), at_most).ok()?;
    Some(Client::over_tcp(socket.into()))
}

const PATIENCE: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(1);
const LIST: &str = "list ruleset";

#[test]
fn the_kernel_does_not_answer_banned_prefixes_until_the_ban_ends() {
    in_own_network(|| {
        let free = "exempt = \"10.9.1.8\"\nrates = { \"10.9.1.9\" = \"off\" }\n";
        let file = ESCALATES.replace("[limit.address]\n", &format!("[limit.address]\n{free}"));
        let gate = OpenGate::start(&format!("client.trust = [\"10.9.1.7\"]\n{file}"));
        gate.buckets("ban 10.9.1.0/24 --for 1h");
        gate.buckets("ban 2001:db8:5::/48 --for 1h --all");
        gate.buckets("ban 127.0.0.0/8 --for 1h");
        gate.assert_falls_silent_to("10.9.1.5");
        gate.assert_falls_silent_to("2001:db8:5:77::1");
        // Other clients, trusted proxies, exempt clients and this machine.
        for answered in ["10.9.2.5", "2001:db8:6::1", "10.9.1.7", "10.9.1.8", "10.9.1.9"] {
            gate.assert_answers(answered);
        }
        let at_loopback = SocketAddr::from(([127, 0, 0, 1], gate.port));
        assert!(connect("127.0.0.9", at_loopback, PATIENCE).is_some());
        let other = TcpListener::bind("0.0.0.0:0").unwrap();
        let other = SocketAddr::new("10.9.0.1".parse().unwrap(), other.local_addr().unwrap().port());
        assert!(connect("10.9.1.5", other, PATIENCE).is_some(), "another server of this machine");
        let shown = nft("list table inet tollgate").0;
        for part in ["10.9.1.10-10.9.1.255 timeout ", "2001:db8:5::/48 timeout ", "tcp dport", "flags owner"]
        {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        gate.buckets("ban 10.9.1.0/24 --end");
        assert!(gate.answers_again("10.9.1.5"), "{}", nft(LIST).0);
        gate.buckets("ban 10.9.3.0/24 --for 5s");
        gate.assert_falls_silent_to("10.9.3.5");
        assert!(gate.answers_again("10.9.3.5"), "{}", nft(LIST).0);
    });
}

#[test]
fn the_kernel_does_not_answer_a_client_at_its_longest_wait_until_an_operator_resets_it() {
    in_own_network(|| {
        let gate = OpenGate::start(&format!("client.trust = [\"10.9.9.9\"]\n{ESCALATES}"));
        gate.escalate("10.9.0.20", "");
        gate.escalate("2001:db8:7::1", "");
        gate.assert_falls_silent_to("10.9.0.20");
        gate.assert_falls_silent_to("2001:db8:7::2");
        gate.assert_answers("10.9.0.21");
        // A client behind a trusted proxy, and one that looks like a proxy.
        gate.escalate("10.9.9.9", "X-Forwarded-For: 10.9.0.30\r\n");
        gate.escalate("10.9.0.31", "X-Forwarded-For: 10.9.0.32\r\n");
        gate.buckets("ban 10.9.0.40 --for 1h");
        gate.assert_falls_silent_to("10.9.0.40");
        ["10.9.9.9", "10.9.0.30", "10.9.0.31", "10.9.0.32"]
            .iter()
            .for_each(|source| gate.assert_answers(source));
        assert!(eventually(PATIENCE, || gate.gate.metric("tollgate_kernel_elements", "") == 3.0));
        assert!(gate.gate.metric("tollgate_kernel_elements_added_total", "") >= 3.0);
        assert_eq!(gate.gate.metric("tollgate_kernel_failures_total", ""), 0.0);
        for (line, source) in [("reset 10.9.0.20", "10.9.0.20"), ("ban 10.9.0.40 --end", "10.9.0.40")] {
            gate.buckets(line);
            assert!(gate.answers_again(source), "{line}: {}", nft(LIST).0);
        }
        assert!(gate.gate.messages().contains("the kernel drops other clients"), "{}", gate.gate.messages());
    });
}

#[test]
fn a_client_is_answered_again_once_it_is_forgotten_or_limits_only_observe() {
    in_own_network(|| {
        let gate = OpenGate::start(ESCALATES);
        for source in ["10.9.0.20", "10.9.0.22"] {
            gate.escalate(source, "");
            gate.assert_falls_silent_to(source);
        }
        let said = gate.run("forget ip:10.9.0.20");
        assert!(said.contains("kernel: dropped clients"), "{said}");
        assert!(gate.answers_again("10.9.0.20"), "{}", nft(LIST).0);
        let shown = nft(LIST).0;
        assert!(!shown.contains("10.9.0.20") && shown.contains("10.9.0.22"), "{shown}");
        gate.run("mode observe --for 1h");
        assert!(gate.answers_again("10.9.0.22"), "{}", nft(LIST).0);
    });
}

#[test]
fn a_client_is_not_dropped_for_a_limit_of_some_routes_or_of_an_account() {
    in_own_network(|| {
        let partial = ESCALATES.replace("[limit.address]\n", "[limit.address]\nroutes = [\"login\"]\n");
        let other = "[route.other]\nmatch = \"POST /other\"\n[limit.rest]\nrate = \"100 per 1m\"\n";
        let accounts = ESCALATES
            .replace("\"POST /login\"\n", "\"POST /login\"\nuser = \"form:name\"\n")
            .replace("[limit.address]\n", "[limit.address]\nkey = \"user\"\n");
        for file in [format!("{other}{partial}"), accounts] {
            let gate = OpenGate::start(&file);
            gate.escalate("10.9.0.20", "Content-Type: application/x-www-form-urlencoded\r\n");
            // What is looked at later is in the sets, and so was this.
            gate.buckets("ban 10.9.4.0/24 --for 1h");
            gate.assert_falls_silent_to("10.9.4.4");
            gate.assert_answers("10.9.0.20");
            assert_eq!(gate.attempt("10.9.0.20", "").status, 429);
        }
    });
}

#[test]
fn a_gate_that_only_observes_has_nobody_dropped_but_those_banned_from_everything() {
    in_own_network(|| {
        let gate = OpenGate::start(&format!("mode = \"observe\"\n{ESCALATES}"));
        gate.buckets("ban 10.9.1.0/24 --for 1h");
        gate.buckets("ban 10.9.4.0/24 --for 1h --all");
        gate.assert_falls_silent_to("10.9.4.4");
        gate.assert_answers("10.9.1.5");
    });
}

#[test]
fn the_table_stays_over_a_reload_and_an_upgrade_and_is_gone_after_the_end() {
    in_own_network(|| {
        let mut gate = OpenGate::start(ESCALATES);
        let has_table = || nft(LIST).0.contains("table inet tollgate");
        gate.buckets("ban 10.9.1.0/24 --for 1h");
        gate.escalate("10.9.0.20", "");
        gate.assert_falls_silent_to("10.9.1.5");
        gate.assert_falls_silent_to("10.9.0.20");
        gate.gate.signal("HUP");
        let successor = gate.upgrade();
        assert!(gate.is_silent_to("10.9.1.5") && gate.is_silent_to("10.9.0.20"), "{}", nft(LIST).0);
        gate.buckets("ban 10.9.1.0/24 --end");
        gate.buckets("reset 10.9.0.20");
        for source in ["10.9.1.5", "10.9.0.20"] {
            assert!(gate.answers_again(source), "{source}: {}", nft(LIST).0);
        }
        gate.buckets("ban 10.9.2.0/24 --for 1h");
        gate.assert_falls_silent_to("10.9.2.5");
        assert!(has_table() && support::signal(successor, "TERM"));
        assert!(eventually(PATIENCE, || !has_table()), "after SIGTERM: {}", nft(LIST).0);
        let killed = OpenGate::start(ESCALATES);
        assert!(has_table());
        killed.gate.signal("KILL");
        assert!(eventually(PATIENCE, || !has_table()), "after SIGKILL: {}", nft(LIST).0);
        // A table that nobody owns is replaced.
        nft("add table inet tollgate");
        nft("add chain inet tollgate stale");
        let _gate = OpenGate::start(ESCALATES);
        assert!(!nft(LIST).0.contains("stale"), "{}", nft(LIST).0);
    });
}

#[test]
fn an_upgrade_lets_go_whom_no_new_rule_refuses_and_no_other_client() {
    in_own_network(|| {
        let mut gate = OpenGate::start(ESCALATES);
        gate.escalate("10.9.0.20", "");
        gate.escalate("2001:db8:7::1", "");
        gate.buckets("ban 10.9.0.40 --for 1h");
        for source in ["10.9.0.20", "2001:db8:7::2", "10.9.0.40"] {
            gate.assert_falls_silent_to(source);
        }
        let (rules, kernel) = ESCALATES.split_once("[limit.address.escalate]").unwrap();
        let (_, kernel) = kernel.split_once("[kernel]").unwrap();
        gate.gate.write(&gate.upstream.file(&format!("{rules}[kernel]{kernel}")));
        let successor = gate.upgrade();
        for source in ["10.9.0.20", "2001:db8:7::2"] {
            assert!(gate.answers_again(source), "{source}: {}", nft(LIST).0);
        }
        assert!(gate.is_silent_to("10.9.0.40"), "{}", nft(LIST).0);
        assert!(eventually(PATIENCE, || gate.gate.metric("tollgate_kernel_elements", "") == 1.0));
        assert!(support::signal(successor, "TERM"));
        assert!(eventually(PATIENCE, || !nft(LIST).0.contains("table inet tollgate")));
    });
}

#[test]
fn a_gate_that_may_not_change_the_table_says_why_and_does_not_start() {
    in_own_network(|| {
        let directory = new_directory();
        let file = directory.join("gate.toml");
        let listen =
            format!("listen = \"http://127.0.0.1:{}\"\nupstream = \"http://127.0.0.1:9\"\n", free_port());
        File::create(&file).unwrap().write_all(format!("{listen}{ESCALATES}").as_bytes()).unwrap();
        let run = |program: &mut Command| {
            let done = program.args(["run", "-c"]).arg(&file).output().unwrap();
            assert!(!done.status.success());
            String::from_utf8_lossy(&done.stderr).into_owned()
        };
        let mut without = installed("setpriv", "util-linux");
        let said =
            run(without.args(["--bounding-set", "-net_admin", "--inh-caps", "-net_admin"]).arg(binary()));
        assert!(said.contains("kernel.nftables: it needs the capability CAP_NET_ADMIN"), "{said}");
        let _other = OpenGate::start(ESCALATES);
        let said = run(&mut Command::new(binary()));
        assert!(said.contains("another gate owns it (each has its own `kernel.table`)"), "{said}");
        std::fs::remove_dir_all(directory).unwrap();
    });
}

#[test]
fn the_kernel_takes_ten_thousand_clients_in_a_second() {
    in_own_network(|| {
        let mut table = NftTable::create("many").unwrap();
        table.guard(&[SocketAddr::from(([0, 0, 0, 0], 9))]).unwrap();
        let element = |number: u32| {
            let ip = Ipv4Addr::from(0x0a00_0000 + number * 7);
            let v6: IpAddr = std::net::Ipv6Addr::from(u128::from(number) << 70).into();
            let ip = if number.is_multiple_of(2) { ip.into() } else { v6 };
            let range =
                AddressRange::from(ipnet::IpNet::new(ip, if ip.is_ipv4() { 32 } else { 64 }).unwrap());
            NftElement { range, lasts: Duration::from_secs(3600) }
        };
        let elements: Vec<_> = (0..10_000).map(element).collect();
        let begun = Instant::now();
        table.change(NftSet::Clients, &[], &elements).unwrap();
        let took = begun.elapsed();
        println!("10,000 elements took {took:?}");
        // The goal is one second; a busy machine has five.
        assert!(took < Duration::from_secs(5), "{took:?}");
        let shown = |set: &str| nft(&format!("list set inet many {set}")).0.matches(" timeout 1h").count();
        assert_eq!(shown("clients4") + shown("clients6"), 10_000);
        let by_range = |element: &NftElement| element.range;
        let mut listed: Vec<_> = table.elements(NftSet::Clients).unwrap().iter().map(by_range).collect();
        let mut known: Vec<_> = elements.iter().map(by_range).collect();
        listed.sort_unstable();
        known.sort_unstable();
        assert!(listed == known, "{} are listed", listed.len());
        table.change(NftSet::Clients, &elements[..9_999], &[]).unwrap();
        table.change(NftSet::Clients, &elements[..1], &[]).unwrap_err();
        assert_eq!((shown("clients4"), shown("clients6")), (0, 1));
        drop(table);
        assert!(!nft(LIST).0.contains("many"));
    });
}
