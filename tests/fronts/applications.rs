//! Applications that report outcomes by the files of `examples/outcome`, each on a real server of its kind.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use support::endpoint::{Edge, forwarded};
use support::{Client, eventually, free_port, installed, root};

/// An application whose right password is `right`; gone when dropped.
struct Application(Child);

impl Drop for Application {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs an application with this text beside an example, and signs in with a right, a wrong and no receipt.
fn shows((program, package): (&str, &str), example: &str, (name, text): (&str, &str), arguments: &[&str]) {
    let tables = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"2 per 1h\"\ncount = \"failures\"\n";
    let (edge, port) = (Edge::start(tables, ""), free_port());
    let directory = &edge.gate.directory;
    let examples = root().join("examples/outcome");
    fs::copy(examples.join(example), directory.join(example)).unwrap();
    fs::write(directory.join(name), text).unwrap();
    let mut command = installed(program, package);
    command.args(arguments.iter().map(|word| word.replace("PORT", &port.to_string()))).current_dir(directory);
    command.env("TOLLGATE", format!("http://{}", edge.address)).env("PORT", port.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let process = command.spawn().unwrap();
    let (_application, address) = (Application(process), SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    assert!(eventually(Duration::from_secs(60), || TcpStream::connect(address).is_ok()), "{program} listens");
    let sign_in = |password: &str, lines: &str| {
        let body = format!("password={password}");
        let mut client = Client::connect(address);
        client.send(format!(
            "POST /login HTTP/1.1\r\nHost: app.test\r\nContent-Type: application/x-www-form-urlencoded\r\n{lines}\
             Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        assert_eq!(client.answer().status, 200);
    };
    let question = forwarded("POST", "/login", "192.0.2.1", "");
    for password in ["right", "right", "right", "wrong", "wrong"] {
        let receipt = edge.receipt(&question);
        sign_in(password, &format!("X-Tollgate-Receipt: {receipt}\r\n"));
    }
    sign_in("right", "");
    assert_eq!(edge.ask(&question).status, 429, "two failures are charged, three successes are not");
    let reported =
        |outcome: &str| edge.gate.metric("tollgate_attempts_total", &format!("outcome=\"{outcome}\""));
    assert_eq!((reported("success"), reported("failure")), (3.0, 2.0));
}

#[test]
fn an_application_in_php_reports_outcomes() {
    let text = "<?php require 'tollgate.php'; tollgate_outcome($_POST['password'] === 'right' ? 'success' : 'failure', 'anna'); echo 'ok';";
    shows(("php", "php-cli"), "tollgate.php", ("login.php", text), &["-S", "127.0.0.1:PORT", "login.php"]);
}

#[test]
fn an_application_in_python_reports_outcomes() {
    let text = "import os, tollgate\nfrom http.server import BaseHTTPRequestHandler, HTTPServer\n\
                class Login(BaseHTTPRequestHandler):\n    def do_POST(self):\n        \
                body = self.rfile.read(int(self.headers['Content-Length']))\n        \
                tollgate.outcome(self.headers, 'success' if b'=right' in body else 'failure', 'anna')\n        \
                self.send_response(200)\n        self.send_header('Content-Length', '0')\n        self.end_headers()\n\
                HTTPServer(('127.0.0.1', int(os.environ['PORT'])), Login).serve_forever()\n";
    shows(("python3", "python3"), "tollgate.py", ("login.py", text), &["login.py"]);
}

#[test]
fn an_application_in_node_reports_outcomes() {
    let text = "import http from 'node:http';\nimport { outcome } from './tollgate.mjs';\n\
                http.createServer(async (request, response) => {\n    let body = '';\n    \
                for await (const piece of request) body += piece;\n    \
                await outcome(request, body.endsWith('=right') ? 'success' : 'failure', 'anna');\n    \
                response.end('ok');\n}).listen(process.env.PORT, '127.0.0.1');\n";
    shows(("node", "nodejs"), "tollgate.mjs", ("login.mjs", text), &["login.mjs"]);
}

/// A JDK is too large to be asked for: `cargo test --test fronts -- --ignored` where there is one.
#[test]
#[ignore = "needs a JDK"]
fn an_application_in_java_reports_outcomes() {
    let text = "import com.sun.net.httpserver.HttpServer;\nimport java.net.InetSocketAddress;\n\
                class Login {\n    public static void main(String[] arguments) throws Exception {\n        \
                var port = Integer.parseInt(System.getenv(\"PORT\"));\n        \
                var server = HttpServer.create(new InetSocketAddress(\"127.0.0.1\", port), 0);\n        \
                server.createContext(\"/login\", exchange -> {\n            \
                var body = new String(exchange.getRequestBody().readAllBytes());\n            \
                var receipt = exchange.getRequestHeaders().getFirst(\"X-Tollgate-Receipt\");\n            \
                try { Tollgate.outcome(receipt, body.endsWith(\"=right\") ? \"success\" : \"failure\"); }\n            \
                catch (InterruptedException interrupted) { Thread.currentThread().interrupt(); }\n            \
                exchange.sendResponseHeaders(200, -1);\n            exchange.close();\n        });\n        \
                server.start();\n    }\n}\n";
    shows(
        ("sh", "dash"),
        "Tollgate.java",
        ("Login.java", text),
        &["-c", "javac Login.java Tollgate.java && exec java Login"],
    );
}
