//! The raw requests that gunicorn's authors collected, sent through the gate as they are.
//!
//! What comes out is read by the strict parser of `support`: an invalid request may be refused or repaired, but must
//! not reach the upstream in a form that two servers could read differently. Most files lack a Host, which gunicorn
//! does not ask for; those are also sent with one, so that the want of it does not hide what they are about.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use support::{Gate, Upstream, parse, root};

/// What became of one request.
#[derive(Debug)]
struct Outcome {
    name: String,
    /// Complete requests at the upstream.
    forwarded: usize,
    /// Why two servers could read them differently.
    ambiguity: Option<String>,
}

#[test]
fn no_invalid_request_reaches_the_upstream_in_an_ambiguous_form() {
    let files = corpus("invalid");
    assert!(files.len() >= 81, "{} files", files.len());
    let as_they_are = files.iter().map(|(name, bytes)| (name.clone(), bytes.clone()));
    let with_host = files.iter().map(|(name, bytes)| (format!("{name} with a Host"), with_host(bytes)));
    let outcomes = send_all(&as_they_are.chain(with_host).collect::<Vec<_>>());
    let forwarded: Vec<&str> = outcomes.iter().filter(|o| o.forwarded > 0).map(|o| o.name.as_str()).collect();
    println!("forwarded clean: {forwarded:?}");
    let ambiguous: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.ambiguity.is_some()).collect();
    assert!(ambiguous.is_empty(), "{ambiguous:#?}");
}

#[test]
fn most_valid_requests_are_forwarded_clean() {
    let files = corpus("valid");
    assert!(files.len() >= 62, "{} files", files.len());
    let with_host = files.iter().map(|(name, bytes)| (name.clone(), with_host(bytes)));
    let outcomes = send_all(&with_host.collect::<Vec<_>>());
    let ambiguous: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.ambiguity.is_some()).collect();
    assert!(ambiguous.is_empty(), "{ambiguous:#?}");
    let stopped: Vec<&str> = outcomes.iter().filter(|o| o.forwarded == 0).map(|o| o.name.as_str()).collect();
    println!("not forwarded: {stopped:?}");
    assert!(outcomes.len() - stopped.len() >= 42, "not forwarded: {stopped:?}");
}

/// Sends each on a connection of its own, over a few gates side by side, since some end only by a time-out.
fn send_all(requests: &[(String, Vec<u8>)]) -> Vec<Outcome> {
    let share = requests.len().div_ceil(6);
    std::thread::scope(|scope| {
        let workers: Vec<_> = requests.chunks(share).map(|some| scope.spawn(|| send_some(some))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

fn send_some(requests: &[(String, Vec<u8>)]) -> Vec<Outcome> {
    let upstream = Upstream::start();
    let file = "[proxy]\nthreads = 1\nheader_timeout = \"250ms\"\nbody_timeout = \"250ms\"\nidle_timeout = \"250ms\"\n";
    let gate = Gate::start(&upstream.file(file));
    let outcomes = requests.iter().map(|(name, bytes)| {
        upstream.forget();
        let mut client = gate.connect();
        client.send_what_goes(bytes);
        // A request without an end, and a connection that is kept, both end by the gate's time-outs.
        assert!(client.ends_within(Duration::from_secs(5)), "{name}: the connection ends");
        let recorded: Vec<_> = upstream.connections().iter().map(|bytes| parse(bytes)).collect();
        Outcome {
            name: name.clone(),
            forwarded: recorded.iter().flatten().map(|recorded| recorded.requests.len()).sum(),
            ambiguity: recorded.into_iter().find_map(Result::err),
        }
    });
    outcomes.collect()
}

/// The files of one kind, decoded, by name.
fn corpus(kind: &str) -> Vec<(String, Vec<u8>)> {
    let folder = root().join("target/corpus");
    let mut files: Vec<PathBuf> = glob(&folder, kind);
    files.sort();
    assert!(!files.is_empty(), "the corpus is missing: run scripts/fetch-corpus, which fetches it from PyPI");
    let name = |path: &Path| format!("{kind}/{}", path.file_stem().unwrap().to_string_lossy());
    files.iter().map(|path| (name(path), decode(&fs::read(path).unwrap()))).collect()
}

fn glob(folder: &Path, kind: &str) -> Vec<PathBuf> {
    let versions = fs::read_dir(folder).into_iter().flatten().flatten();
    let newest = versions
        .map(|entry| entry.path().join("tests/requests").join(kind))
        .filter(|path| path.is_dir())
        .max();
    let entries = newest.and_then(|path| fs::read_dir(path).ok()).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "http"))
        .collect()
}

/// The notation of the files: line ends are written out, and real ones mean nothing.
fn decode(file: &[u8]) -> Vec<u8> {
    let text: Vec<u8> = file.iter().copied().filter(|byte| *byte != b'\n').collect();
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let (byte, length) = match &text[at..] {
            [b'\\', b'r', ..] => (b'\r', 2),
            [b'\\', b'n', ..] => (b'\n', 2),
            [b'\\', b't', ..] => (b'\t', 2),
            [b'\\', b'0', ..] => (0, 2),
            [b'\\', b'x', high, low, ..] => (hex(*high) << 4 | hex(*low), 4),
            rest => (rest[0], 1),
        };
        bytes.push(byte);
        at += length;
    }
    bytes
}

fn hex(digit: u8) -> u8 {
    u8::try_from(char::from(digit).to_digit(16).unwrap()).unwrap()
}

/// The same with a Host in each request that has none; where a request starts is guessed from its first line.
fn with_host(bytes: &[u8]) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let mut rest = bytes;
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        lines.push(rest[..end + 2].to_vec());
        rest = &rest[end + 2..];
    }
    let lower = bytes.to_ascii_lowercase();
    let needs = !lower.windows(7).any(|seven| seven == b"\r\nhost:");
    let mut all = Vec::new();
    for line in lines {
        let is_request_line = line.windows(6).any(|six| six == b" HTTP/");
        all.extend_from_slice(&line);
        if needs && is_request_line {
            all.extend_from_slice(b"Host: app.test\r\n");
        }
    }
    all.extend_from_slice(rest);
    all
}
