//! Real proxies with the files of `examples/endpoints`, in front of a real application: each asks the gate.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use support::{Answer, Client, Gate, Upstream, eventually, free_port, installed, post_with, root};

/// A proxy between clients and an application, which asks a gate; gone when dropped.
struct Front {
    process: Child,
    address: SocketAddr,
    gate: Gate,
    application: Upstream,
}

impl Front {
    /// `command` gets the gate's directory with all examples, at free ports.
    fn start(program: &str, command: impl Fn(&Path) -> Command) -> Self {
        let (application, ports) = (Upstream::start(), [free_port(), free_port(), free_port(), free_port()]);
        let here = |text: &str| {
            text.replace(":8080", &format!(":{}", ports[0]))
                .replace("127.0.0.1:9181", &format!("127.0.0.1:{}", ports[1]))
                .replace("127.0.0.1:9182", &format!("127.0.0.1:{}", ports[2]))
                .replace("127.0.0.1:9183", &format!("127.0.0.1:{}", ports[3]))
                .replace("127.0.0.1:8081", &application.address.to_string())
                .replace("port_value: 8080", &format!("port_value: {}", ports[0]))
                .replace("port_value: 9182", &format!("port_value: {}", ports[2]))
                .replace("port_value: 9183", &format!("port_value: {}", ports[3]))
                .replace("port_value: 8081", &format!("port_value: {}", application.address.port()))
        };
        let examples = root().join("examples/endpoints");
        let read = |name: &str| here(&fs::read_to_string(examples.join(name)).unwrap());
        let gate = Gate::start(&application.file(&read("gate.toml")));
        for name in ["nginx.conf", "Caddyfile", "haproxy.cfg", "tollgate.lua", "envoy.yaml", "envoy-rls.yaml"]
        {
            fs::write(gate.directory.join(name), read(name)).unwrap();
        }
        let mut command = command(&gate.directory);
        command.current_dir(&gate.directory).env("HOME", &gate.directory).stdin(Stdio::null());
        let log = fs::File::create(gate.directory.join("front.log")).unwrap();
        let process = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports[0]));
        let front = Self { process, address, gate, application };
        let listens = || TcpStream::connect(address).is_ok();
        assert!(eventually(Duration::from_secs(20), listens), "{program} listens: {}", front.said());
        front
    }

    fn said(&self) -> String {
        fs::read_to_string(self.gate.directory.join("front.log")).unwrap_or_default()
    }

    fn ask(&self, last: u8, request: &str) -> Answer {
        let mut client = Client::connect_from(Ipv4Addr::new(127, 0, 8, last), self.address);
        client.send(request);
        client.answer()
    }

    fn sign_in(&self, last: u8, lines: &str) -> Answer {
        self.ask(last, &post_with("/login", lines))
    }

    /// Sign-ins that reached the application.
    fn reached(&self) -> usize {
        self.application.requests().iter().filter(|request| request.target == "/login").count()
    }

    /// What every proxy shows. `without_gate` is the status when the gate is gone.
    fn show(mut self, without_gate: u16) {
        for _ in 0..5 {
            assert_eq!(self.sign_in(1, "").status, 200, "{}", self.said());
        }
        let requests = self.application.requests();
        let receipts: Vec<_> =
            requests.iter().flat_map(|request| request.all("x-tollgate-receipt")).collect();
        assert!(receipts.len() == 5 && receipts.iter().all(|receipt| receipt.len() == 32), "{receipts:?}");
        self.refuses_the_sixth();
        self.is_not_fooled();
        self.admits_no_more_than_the_bucket();
        self.gate.signal("KILL");
        assert!(self.gate.exit_status(Duration::from_secs(5)).is_some());
        let reached = self.reached();
        assert_eq!(self.sign_in(3, "").status, without_gate, "{}", self.said());
        assert_eq!(self.reached(), reached, "without the gate nothing is forwarded");
    }

    /// What Envoy shows that asks by its descriptors.
    fn show_by_calls(mut self) {
        for left in (0..5).rev() {
            let answer = self.sign_in(1, "");
            assert_eq!(answer.status, 200, "{}", self.said());
            assert_eq!(answer.header("x-ratelimit-remaining"), Some(left.to_string().as_str()), "{answer:?}");
        }
        let sixth = self.sign_in(1, "");
        assert_eq!(sixth.status, 429, "{}", self.said());
        assert!((700..=720).contains(&sixth.retry_after()), "{sixth:?}");
        assert!(sixth.header("ratelimit").is_some_and(|limit| limit.starts_with("\"address\";r=0;t=")));
        assert_eq!(self.ask(1, &support::get_with("/login", "")).status, 200, "the form is free");
        assert_eq!(self.sign_in(4, "").status, 200, "another client");
        for line in LIES.split_inclusive("\r\n").chain([LIES]) {
            assert_eq!(self.sign_in(1, line.trim_start()).status, 429, "{line}");
        }
        // What the gate cannot understand is refused, and not let through.
        assert_eq!(self.ask(5, &post_with("/login%zz", "")).status, 429, "{}", self.said());
        self.admits_no_more_than_the_bucket();
        self.gate.signal("KILL");
        assert!(self.gate.exit_status(Duration::from_secs(5)).is_some());
        let reached = self.reached();
        assert_eq!(self.sign_in(3, "").status, 503, "{}", self.said());
        assert_eq!(self.reached(), reached, "without the gate nothing is forwarded");
    }

    fn refuses_the_sixth(&self) {
        let sixth = self.sign_in(1, "Accept: application/problem+json\r\n");
        assert_eq!(sixth.status, 429, "{}", self.said());
        assert!((700..=720).contains(&sixth.retry_after()), "{}", sixth.retry_after());
        assert!(
            sixth.header("ratelimit").is_some_and(|limit| limit.contains("\"address\";r=0")),
            "{sixth:?}"
        );
        assert!(sixth.header("content-type").unwrap().starts_with("application/problem+json"), "{sixth:?}");
        assert!(
            sixth.text().contains(&format!("\"retry_after\":{}", sixth.retry_after())),
            "{}",
            sixth.text()
        );
        let page = self.sign_in(1, "Accept: text/html\r\n");
        assert!(page.status == 429 && page.text().contains("<title>"), "{}", page.text());
        assert_eq!(self.ask(1, &support::get_with("/login", "")).status, 200, "the form is free");
        assert_eq!(self.sign_in(4, "").status, 200, "another client");
        assert_eq!(self.reached(), 7);
    }

    /// C12: a client says what only proxies may say.
    fn is_not_fooled(&self) {
        for line in LIES.split_inclusive("\r\n").chain([LIES]) {
            assert_eq!(self.sign_in(1, line.trim_start()).status, 429, "{line}");
        }
        let page = self.ask(1, &support::get_with("/page", "X-Tollgate-Receipt: 0123\r\n"));
        assert_eq!(page.status, 200);
        let requests = self.application.requests();
        let of_page = requests.iter().find(|request| request.target == "/page").unwrap();
        assert!(
            of_page.all("x-tollgate-receipt").iter().all(|receipt| !receipt.contains("0123")),
            "a client's own is removed"
        );
    }

    fn admits_no_more_than_the_bucket(&self) {
        let before = self.reached();
        let admitted: usize = std::thread::scope(|scope| {
            let guess = || (0..20).filter(|_| self.sign_in(2, "").status == 200).count();
            let threads: Vec<_> = (0..25).map(|_| scope.spawn(guess)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((admitted, self.reached() - before), (5, 5), "{}", self.said());
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn nginx_asks_before_it_forwards() {
    let front = Front::start("nginx", |directory| {
        let at = directory.display();
        let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let paths = paths.map(|kind| format!("{kind}_temp_path {at}/{kind};"));
        let text = format!(
            "daemon off; master_process off; pid {at}/nginx.pid; error_log stderr;\n\
             events {{ worker_connections 1000; }}\nhttp {{ access_log off; {} include {at}/nginx.conf; }}\n",
            paths.concat()
        );
        fs::write(directory.join("main.conf"), text).unwrap();
        let mut command = installed("nginx", "nginx-light");
        command.args(["-p", &at.to_string(), "-e", "stderr", "-c", &format!("{at}/main.conf")]);
        command
    });
    front.show(500);
}

#[test]
fn haproxy_asks_before_it_forwards() {
    let front = Front::start("haproxy", |_| {
        let mut command = installed("haproxy", "haproxy");
        command.args(["-db", "-f", "haproxy.cfg"]);
        command
    });
    front.show(503);
}

#[test]
fn caddy_asks_before_it_forwards() {
    let front = Front::start("caddy", |directory| {
        let file = fs::read_to_string(directory.join("Caddyfile")).unwrap();
        fs::write(directory.join("Caddyfile"), format!("{{\n\tadmin off\n}}\n{file}")).unwrap();
        let mut command = installed("caddy", "caddy");
        command.args(["run", "--config", "Caddyfile", "--adapter", "caddyfile"]);
        command
    });
    front.show(502);
}

/// Envoy with this file.
fn envoy(file: &'static str) -> Front {
    let envoy = root().join("target/tools/envoy/bin/envoy");
    Front::start("envoy", |_| {
        let mut command = installed(envoy.to_str().unwrap(), "scripts/fetch-envoy");
        let apart = ["--concurrency", "2", "--use-dynamic-base-id", "--log-level", "error"];
        command.args(["--config-path", file]).args(apart);
        command
    })
}

#[test]
fn envoy_asks_before_it_forwards() {
    let front = envoy("envoy.yaml");
    front.show(503);
}

#[test]
fn envoy_asks_its_rate_limit_service_before_it_forwards() {
    let front = envoy("envoy-rls.yaml");
    front.show_by_calls();
}

/// What only proxies may say.
const LIES: &str = "X-Original-URI: /harmless\r\nX-Original-Method: GET\r\nX-Forwarded-Uri: /harmless\r\n\
                    X-Forwarded-Method: GET\r\nX-Forwarded-Host: other.test\r\nX-Forwarded-For: 6.6.6.6\r\n\
                    X-Real-IP: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nX-Original-Body: 0\r\n\
                    X-Tollgate-Receipt: 0123\r\n";
