//! A server on a Unix socket that answers as a gate once did, with the pages of `pages.json`, and keeps what it is asked.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use support::{eventually, new_directory};

pub(crate) struct RecordedGate {
    pub(crate) socket: PathBuf,
    asked: Arc<Mutex<Vec<String>>>,
}

impl RecordedGate {
    pub(crate) fn start() -> Self {
        Self::slow(|_| Duration::ZERO)
    }

    /// Waits before it answers a path.
    pub(crate) fn slow(wait: fn(&str) -> Duration) -> Self {
        let socket = new_directory().join("admin.sock");
        let asked = Arc::default();
        let gate = Self { socket: socket.clone(), asked: Arc::clone(&asked) };
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::spawn(move || {
            let pages = pages();
            for stream in listener.incoming() {
                answer(stream.unwrap(), &pages, wait, &asked);
            }
        });
        gate
    }

    /// Method, target and body of each request so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn is_asked(&self, wanted: &str) -> bool {
        eventually(Duration::from_secs(10), || self.asked().iter().any(|asked| asked.starts_with(wanted)))
    }
}

impl Drop for RecordedGate {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.socket.parent().unwrap());
    }
}

fn pages() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/top/pages.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn answer(stream: UnixStream, pages: &Value, wait: fn(&str) -> Duration, asked: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(&stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() < 3 {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let Some(request) = lines.first() else { return };
    let length =
        lines.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    let (request, _) = request.rsplit_once(' ').unwrap();
    asked.lock().unwrap().push(format!("{request} {}", String::from_utf8(body).unwrap()));
    let (method, target) = request.split_once(' ').unwrap();
    std::thread::sleep(wait(target));
    let page = pages.get(target.split('?').next().unwrap());
    let (status, text) = match (method, page) {
        ("GET", Some(page)) => ("200 OK", page.to_string()),
        ("GET", None) => ("404 Not Found", "{\"detail\":\"there is no such page\"}".to_owned()),
        ("DELETE", _) => ("422 Unprocessable Entity", "{\"detail\":\"`address` is frozen\"}".to_owned()),
        _ => ("200 OK", "{}".to_owned()),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n");
    // A caller that ended meanwhile reads nothing.
    let _ = write!(&stream, "{head}Content-Length: {}\r\n\r\n{text}", text.len());
}
