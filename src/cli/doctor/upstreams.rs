//! The applications: whether they answer, whether their clock is ours, and whom they take the client for.
//!
//! Whether an application trusts `X-Forwarded-For` shows only on a page that tells the client's address; `--whoami`
//! names one.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::Symptom;
use crate::config::Config;
use crate::proxy::upstream::{UpstreamAddress, UpstreamTarget};
use crate::time::Clock;

pub(super) fn look(config: &Config, whoami: Option<&str>) -> Vec<Symptom> {
    config.upstreams.iter().flatten().flat_map(|target| upstream(target, whoami)).collect()
}

fn upstream(target: &UpstreamTarget, whoami: Option<&str>) -> Vec<Symptom> {
    let place = format!("upstream {target}");
    let (path, name) = (whoami.unwrap_or("/"), target.host.as_ref().map(ToString::to_string));
    let asked = match &target.address {
        UpstreamAddress::Tls { host, port } => return vec![connection(&place, host, *port)],
        UpstreamAddress::Tcp { host, port } => {
            connect(host, *port).and_then(|stream| ask(stream, name.as_ref().unwrap_or(host), path))
        }
        UpstreamAddress::Unix(socket) => {
            let name = name.as_deref().unwrap_or("localhost");
            UnixStream::connect(socket).and_then(|stream| ask(stream, name, path))
        }
    };
    match asked {
        Err(error) => vec![away(&place, &error)],
        Ok(reply) => {
            let mut found = vec![Symptom::good(&place, format!("answers {}", reply.status()))];
            found.extend(clock(&place, &reply));
            found.extend(whoami.map(|path| identity(&place, path, &reply)));
            found
        }
    }
}

/// TLS is left to the gate: only whether the port is open.
fn connection(place: &str, host: &str, port: u16) -> Symptom {
    match connect(host, port) {
        Ok(_) => Symptom::good(place, "accepts connections"),
        Err(error) => away(place, &error),
    }
}

fn away(place: &str, error: &io::Error) -> Symptom {
    Symptom::bad(place, format!("does not answer: {error}"), "start the application, or correct `upstream`")
}

pub(super) fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The beginning of an application's answer.
struct ApplicationReply(String);

impl ApplicationReply {
    fn status(&self) -> &str {
        self.0.lines().next().and_then(|line| line.split_whitespace().nth(1)).unwrap_or("something else")
    }

    fn header(&self, wanted: &str) -> Option<&str> {
        let head = self.0.split("\r\n\r\n").next().unwrap_or_default();
        let mut fields = head.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
    }
}

fn ask(mut stream: impl Read + Write, host: &str, path: &str) -> io::Result<ApplicationReply> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-For: {PRETENDED}\r\nX-Real-IP: {PRETENDED}\r\n\
         User-Agent: tollgate-doctor\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut reply = Vec::new();
    match stream.take(MAX_REPLY).read_to_end(&mut reply) {
        // An answer without an end still has a head.
        Err(error) if reply.is_empty() => Err(error),
        _ => Ok(ApplicationReply(String::from_utf8_lossy(&reply).into_owned())),
    }
}

/// Cookies, periods and certificates go by the clock: compares it with the application's, by its `Date`.
fn clock(place: &str, reply: &ApplicationReply) -> Option<Symptom> {
    let date = jiff::fmt::rfc2822::parse(reply.header("date")?).ok()?;
    let here = i64::try_from(Clock::system().now().as_nanos() / 1_000_000_000).ok()?;
    let apart = here.abs_diff(date.timestamp().as_second());
    (apart > CLOCKS_APART).then(|| {
        let words = format!("its clock and this machine's are {apart} s apart");
        Symptom::doubtful(place, words, "let both follow NTP: `timedatectl set-ntp true`")
    })
}

fn identity(place: &str, path: &str, reply: &ApplicationReply) -> Symptom {
    if reply.0.contains(PRETENDED) {
        return Symptom::good(place, format!("{path} shows the client of X-Forwarded-For"));
    }
    let mend = "make the application trust this machine's X-Forwarded-For (nginx: set_real_ip_from and \
                real_ip_header; Apache: mod_remoteip; Django, Rails and others: their trusted proxies)";
    Symptom::doubtful(place, format!("{path} shows another client: X-Forwarded-For is ignored"), mend)
}

/// An address from a network for documentation (RFC 5737).
const PRETENDED: &str = "192.0.2.77";
const PATIENCE: Duration = Duration::from_secs(5);
const MAX_REPLY: u64 = 256 * 1024;
/// Seconds.
const CLOCKS_APART: u64 = 5;
