//! fail2ban's own filters for access logs: in the gate's log they find what they find in nginx's, of the same requests.
//!
//! These are all that Debian has: its other filters for web servers read error logs, which have other lines.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use support::authority::{Authority, TABLE};
use support::frames::{self, GOAWAY, Raw};
use support::polite::{Polite, request, run};
use support::servers::{Process, wait_for};
use support::{Client, Gate, Launch, eventually, free_port, get_with, installed, post_with};

/// The same pages for all: with a log of nginx's own, and without one behind the gate.
const NGINX: &str = "daemon off;
master_process off;
pid DIRECTORY/nginx.pid;
error_log DIRECTORY/error.log;
events {}
http {
  client_body_temp_path DIRECTORY/body;
  fastcgi_temp_path DIRECTORY/fastcgi;
  proxy_temp_path DIRECTORY/proxy;
  uwsgi_temp_path DIRECTORY/uwsgi;
  scgi_temp_path DIRECTORY/scgi;
  server {
    listen 127.0.0.1:PLAIN;
    listen 127.0.0.1:TLS ssl http2;
    ssl_certificate DIRECTORY/server.pem;
    ssl_certificate_key DIRECTORY/server.key;
    access_log DIRECTORY/nginx.log;
    include DIRECTORY/pages.conf;
  }
  server {
    listen 127.0.0.1:BEHIND;
    access_log off;
    include DIRECTORY/pages.conf;
  }
}
";

const PAGES: &str = "location / { return 404; }
location = / { return 200 'welcome'; }
location /page { return 200 'a page'; }
location /private { return 401; }
";

/// And how many lines of what is sent here each of them finds, at least.
const FILTERS: [(&str, usize); 6] = [
    ("nginx-bad-request", 8),
    ("nginx-botsearch", 8),
    ("apache-badbots", 4),
    // It wants one more word before the time than nginx writes, at least in Debian 12.
    ("apache-fakegooglebot", 0),
    ("php-url-fopen", 2),
    // Traefik names the account, and the gate does not.
    ("traefik-auth[mode=aggressive]", 4),
];

/// nginx and a gate before it, whose logs are side by side.
struct Both {
    gate: Gate,
    authority: Authority,
    /// Where clients connect to nginx, without and with TLS.
    nginx: [SocketAddr; 2],
    _process: Process,
}

impl Both {
    fn start() -> Self {
        let (authority, ports) = (Authority::new(), [free_port(), free_port(), free_port()]);
        let pair = authority.issue(&["app.test"]);
        let [plain, tls, behind] = ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let file = format!("upstream = \"http://{behind}\"\n[log]\naccess = \"{{dir}}/gate.log\"\n{TABLE}");
        let launch = Launch::new(&file).on_tls_too().with(&pair, "server").beside("pages.conf", PAGES);
        let gate = launch.start();
        let names = ["PLAIN", "TLS", "BEHIND"].into_iter().zip(ports);
        let text = names.fold(NGINX.to_owned(), |text, (name, port)| text.replace(name, &port.to_string()));
        let config = gate.directory.join("nginx.conf");
        fs::write(&config, text.replace("DIRECTORY", gate.directory.to_str().unwrap())).unwrap();
        let mut command = installed("nginx", "nginx-light");
        command.arg("-p").arg(&gate.directory).args(["-e", "stderr", "-c"]).arg(&config);
        let process = Process::spawn(&mut command).unwrap();
        for address in [plain, tls, behind] {
            wait_for(address);
        }
        Self { gate, authority, nginx: [plain, tls], _process: process }
    }

    /// Sends these bytes to both, each on a connection of its own, and waits for what comes.
    fn send(&self, bytes: &[u8]) {
        for address in [self.nginx[0], self.gate.address] {
            let mut client = Client::connect(address);
            client.send_what_goes(bytes);
            client.try_answer();
        }
    }

    /// Sends a request over HTTP/2 to both.
    fn send_over_http2(&self, method: &str, path: &str, (name, value): (&str, &str)) {
        for address in [self.nginx[1], self.gate.tls] {
            run(async {
                let mut polite = Polite::connect(&self.authority, address).await;
                let mut request = request(method, path);
                request
                    .headers_mut()
                    .insert(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
                polite.ask(request, "").await.unwrap();
            });
        }
    }

    /// A request over HTTP/2 whose path begins with no slash, to both.
    fn send_broken_over_http2(&self) {
        for address in [self.nginx[1], self.gate.tls] {
            let mut raw = Raw::connect(&self.authority, address);
            assert!(raw.send(&frames::request(1, "GET", "page")));
            raw.until(Duration::from_secs(15), |frame| frame.stream == 1 || frame.kind == GOAWAY);
        }
    }

    /// The text of a log once it has this many lines.
    fn log(&self, name: &str, count: usize) -> String {
        let read = || fs::read_to_string(self.gate.directory.join(name)).unwrap_or_default();
        assert!(
            eventually(Duration::from_secs(10), || read().lines().count() >= count),
            "{name}: {}",
            read()
        );
        read()
    }

    /// What a filter finds in a log, sorted: the client, the request and the status.
    fn found(&self, filter: &str, log: &str) -> Vec<String> {
        let (name, options) = filter.split_at(filter.find('[').unwrap_or(filter.len()));
        let output = installed("fail2ban-regex", "fail2ban")
            .args(["-o", "<ip> <matches>"])
            .arg(self.gate.directory.join(log))
            .arg(format!("/etc/fail2ban/filter.d/{name}.conf{options}"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{filter}: {}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).unwrap();
        let mut found: Vec<_> = said.lines().filter(|line| !line.trim().is_empty()).map(essence).collect();
        found.sort();
        found
    }
}

/// Of a found line the client, the request and the status. nginx shows what it could not read, and the gate does not.
fn essence(line: &str) -> String {
    let client = line.split(' ').next().unwrap();
    let (request, rest) = line.split_once("] \"").unwrap().1.split_once("\" ").unwrap();
    match &rest[..3] {
        "400" => format!("{client} 400"),
        status => format!("{client} {request} {status}"),
    }
}

/// What scanners and people ask for: method, path and a header.
const ASKED: [(&str, &str, (&str, &str)); 15] = [
    ("GET", "/", ("user-agent", "Mozilla/5.0")),
    ("GET", "/page", ("user-agent", "Mozilla/5.0")),
    ("GET", "/missing", ("user-agent", "Mozilla/5.0")),
    ("GET", "/wp-login.php", ("user-agent", "Mozilla/5.0")),
    ("POST", "/phpmyadmin/index.php", ("user-agent", "Mozilla/5.0")),
    ("HEAD", "/roundcube/", ("user-agent", "Mozilla/5.0")),
    ("GET", "/cgi-bin/test?a=b", ("user-agent", "Mozilla/5.0")),
    ("GET", "/page/1", ("user-agent", "EmailSiphon")),
    ("GET", "/page/2", ("user-agent", "Mozilla/5.0 Jorgee")),
    (
        "GET",
        "/page/3",
        ("user-agent", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"),
    ),
    ("GET", "/page/4", ("user-agent", "a \"quoted\" Googlebot/2.1")),
    ("GET", "/page?include=http://evil.test/", ("user-agent", "Mozilla/5.0")),
    ("GET", "/page%zz", ("user-agent", "Mozilla/5.0")),
    ("GET", "/private", ("authorization", "Basic YW5uYTp3cm9uZw==")),
    ("GET", "/private", ("user-agent", "Mozilla/5.0")),
];

/// What is no request: each is answered 400.
const BROKEN: [&[u8]; 6] = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"SSH-2.0-Go\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
];

#[test]
fn filters_find_in_the_log_of_the_gate_what_they_find_in_nginxs() {
    let both = Both::start();
    for (method, path, (name, value)) in ASKED {
        let line = format!("{name}: {value}\r\nConnection: close\r\n");
        let text = if method == "POST" { post_with(path, &line) } else { get_with(path, &line) };
        both.send(text.replacen("GET", method, 1).as_bytes());
        both.send_over_http2(method, path, (name, value));
    }
    for broken in BROKEN {
        both.send(broken);
    }
    let logs = ["nginx.log", "gate.log"];
    let [of_nginx, of_gate] = logs.map(|log| both.log(log, 2 * ASKED.len() + BROKEN.len()));
    for (filter, count) in FILTERS {
        let [nginx, gate] = logs.map(|log| both.found(filter, log));
        assert_eq!(gate, nginx, "{filter}\n{of_nginx}\n{of_gate}");
        assert!(gate.len() >= count, "{filter}: {gate:#?}");
    }
}

#[test]
fn what_is_no_request_over_http2_is_in_the_log_of_the_gate_as_in_nginxs() {
    let both = Both::start();
    both.send_broken_over_http2();
    for log in ["nginx.log", "gate.log"] {
        assert!(both.log(log, 1).contains("\" 400 "), "{log}");
    }
}
