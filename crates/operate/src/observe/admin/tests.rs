//! Tests over real sockets with plain clients.

use std::io::{Read, Write};
use std::net::TcpStream as Client;
use std::os::unix::net::UnixStream as LocalClient;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use tokio::runtime;
use tokio::sync::oneshot;

use super::*;
use crate::event::{ConnectionEvent, Event, EventListener};

/// A server that runs until it is dropped.
struct Running {
    draining: Arc<AtomicBool>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start<S: Into<AdminSocket>>(bind: impl FnOnce() -> io::Result<S> + Send + 'static) -> Self {
        let metrics = Arc::new(Metrics::new());
        metrics.on_event(&Event::Connection(ConnectionEvent::Opened));
        let draining = Arc::new(AtomicBool::new(false));
        let admin = Arc::new(Admin::new(metrics, Arc::clone(&draining)));
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let socket = bind().unwrap().into();
                admin.serve(socket, async { drop(stopped.await) }).await;
            });
        });
        Self { draining, stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

fn over_tcp() -> (Running, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    (Running::start(move || TcpListener::from_std(listener)), address)
}

fn exchange(mut stream: impl Read + Write, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

fn call(address: SocketAddr, method: &str, path: &str) -> String {
    let client = Client::connect(address).unwrap();
    exchange(client, &format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"))
}

#[test]
fn the_gate_is_alive_and_ready_until_it_drains() {
    let (running, address) = over_tcp();
    assert!(call(address, "GET", "/livez").starts_with("HTTP/1.1 200 OK\r\n"));
    let ready = call(address, "GET", "/readyz");
    assert!(ready.starts_with("HTTP/1.1 200 OK\r\n") && ready.ends_with("\r\n\r\nok\n"), "{ready}");
    running.draining.store(true, Ordering::Relaxed);
    assert!(call(address, "GET", "/readyz").starts_with("HTTP/1.1 503 "));
    assert!(call(address, "GET", "/livez").starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn metrics_are_served_as_the_text_that_prometheus_reads() {
    let (_running, address) = over_tcp();
    let response = call(address, "GET", "/metrics");
    assert!(response.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{response}");
    assert!(response.contains("\ntollgate_connections 1\n"), "{response}");
    let head = call(address, "HEAD", "/metrics");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn metrics_are_served_as_open_metrics_to_a_scraper_that_asks_for_it() {
    let (_running, address) = over_tcp();
    let accept = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2";
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n{accept}\r\n\r\n");
    let response = exchange(Client::connect(address).unwrap(), &request);
    let content_type = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
    assert!(response.contains(content_type), "{response}");
    assert!(response.contains("\n# TYPE tollgate_panics counter\ntollgate_panics_total 0\n"), "{response}");
    assert!(response.contains("\ntollgate_connections 1\n"), "{response}");
    assert!(response.ends_with("\n# EOF\n"), "{response}");
}

#[test]
fn other_pages_and_methods_are_problems() {
    let (_running, address) = over_tcp();
    let missing = call(address, "GET", "/metrics/");
    assert!(missing.starts_with("HTTP/1.1 404 "), "{missing}");
    assert!(missing.contains("content-type: application/problem+json\r\n"), "{missing}");
    let written = call(address, "DELETE", "/metrics");
    assert!(written.starts_with("HTTP/1.1 405 ") && written.contains("allow: GET, HEAD\r\n"), "{written}");
}

#[test]
fn a_foreign_host_is_refused_over_tcp_and_does_not_matter_on_a_unix_socket() {
    let request = "GET /livez HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\n\r\n";
    let (_running, address) = over_tcp();
    let refused = exchange(Client::connect(address).unwrap(), request);
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    assert!(refused.contains("\"status\":403"), "{refused}");

    let path = std::env::temp_dir().join(format!("tollgate-admin-{}.sock", std::process::id()));
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let _running = Running::start(move || UnixListener::from_std(listener));
    let accepted = exchange(LocalClient::connect(&path).unwrap(), request);
    std::fs::remove_file(&path).unwrap();
    assert!(accepted.starts_with("HTTP/1.1 200 OK\r\n"), "{accepted}");
}

#[test]
fn idle_callers_do_not_keep_others_out_for_good_or_the_gate_from_stopping() {
    let (running, address) = over_tcp();
    let idle: Vec<_> =
        (0..caller_permits::MAX_CALLERS + 1).map(|_| Client::connect(address).unwrap()).collect();
    drop(running);
    drop(idle);
}

#[test]
fn garbage_is_answered_and_the_next_caller_is_served() {
    let (_running, address) = over_tcp();
    let response = exchange(Client::connect(address).unwrap(), "\0\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
    assert!(call(address, "GET", "/livez").starts_with("HTTP/1.1 200 OK\r\n"));
}
