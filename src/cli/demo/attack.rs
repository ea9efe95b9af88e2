//! The attacker of the demonstration: wrong passwords, one after the other, from several addresses.
//!
//! It speaks HTTP over sockets, as any client, and has no inside knowledge. Requests, time and targets are bounded; a
//! target beyond the loopback interface is refused.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use tokio::net::TcpSocket;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tollgate_base::http_client::HttpConnection;

/// The bounds of an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttackBounds {
    /// Wrong passwords in all; 300 at most.
    pub requests: u32,
    /// Addresses, from 127.0.0.11 on; 1 to 100.
    pub addresses: u8,
    /// The time between two requests, at least a millisecond.
    pub interval: Duration,
    /// The attack ends after this time, done or not; 30 s at most.
    pub duration: Duration,
}

impl Default for AttackBounds {
    /// 12.5 passwords a second for 24 seconds, from three addresses.
    fn default() -> Self {
        let interval = Duration::from_millis(80);
        Self { requests: MAX_REQUESTS, addresses: 3, interval, duration: MAX_DURATION }
    }
}

/// The responses that the attacker got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Passwords tried.
    pub tried: u32,
    /// Passwords that the application answered.
    pub let_through: u32,
    /// Passwords that the gate refused.
    pub refused: u32,
    /// Passwords that got an error or no response.
    pub failed: u32,
}

/// Tries wrong passwords at `POST /login` of `target`, and passes the tally to `observe` after each.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if the target is not on the loopback interface.
pub async fn attack(
    target: SocketAddr,
    bounds: AttackBounds,
    mut observe: impl FnMut(&Tally),
) -> io::Result<Tally> {
    if !target.ip().is_loopback() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the attacker does not leave the loopback interface",
        ));
    }
    let (requests, duration) = (bounds.requests.clamp(1, MAX_REQUESTS), bounds.duration.min(MAX_DURATION));
    let mut clients: Vec<AttackClient> = (0..bounds.addresses.clamp(1, MAX_ADDRESSES))
        .map(|index| AttackClient::new(target, FIRST + index))
        .collect();
    let mut ticks = interval(bounds.interval.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut tally = Tally::default();
    let attempts = async {
        for (index, number) in (0..clients.len()).cycle().zip(0..requests) {
            ticks.tick().await;
            tally.count(clients[index].attempt(number).await.ok());
            observe(&tally);
        }
    };
    tokio::select! {
        () = attempts => {}
        () = sleep(duration) => {}
    }
    Ok(tally)
}

impl Tally {
    fn count(&mut self, status: Option<StatusCode>) {
        self.tried += 1;
        match status {
            Some(StatusCode::TOO_MANY_REQUESTS) => self.refused += 1,
            Some(status) if !status.is_server_error() => self.let_through += 1,
            _ => self.failed += 1,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tried, let_through, refused, failed } = self;
        write!(f, "tried {tried:>3}   let through {let_through:>3}   refused {refused:>3}")?;
        if *failed > 0 { write!(f, "   failed {failed:>3}") } else { Ok(()) }
    }
}

/// One address of the attacker, with the connection that it keeps.
struct AttackClient {
    target: SocketAddr,
    source: Ipv4Addr,
    connection: Option<HttpConnection>,
}

impl AttackClient {
    fn new(target: SocketAddr, last_byte: u8) -> Self {
        Self { target, source: Ipv4Addr::new(127, 0, 0, last_byte), connection: None }
    }

    async fn attempt(&mut self, number: u32) -> anyhow::Result<StatusCode> {
        let form = format!("username=alice&password={}{number}", WRONG[number as usize % WRONG.len()]);
        let request = Request::post("/login")
            .header("host", self.target.to_string())
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Full::from(form))?;
        timeout(REQUEST_TIMEOUT, self.send(request)).await?
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> anyhow::Result<StatusCode> {
        // Taken out, and put back only after a complete response: a broken connection is not used again.
        let mut connection = match self.connection.take().filter(|connection| !connection.is_closed()) {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let response = connection.call(&mut Some(request), MAX_RESPONSE).await?;
        self.connection = Some(connection);
        Ok(response.status())
    }

    async fn connect(&self) -> anyhow::Result<HttpConnection> {
        let socket = if self.target.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        if self.target.is_ipv4() {
            // Systems other than Linux only know 127.0.0.1; there all attempts come from one address.
            let _ = socket.bind((self.source, 0).into());
        }
        Ok(HttpConnection::over(socket.connect(self.target).await?).await?)
    }
}

const MAX_REQUESTS: u32 = 300;
const MAX_DURATION: Duration = Duration::from_secs(30);
const FIRST: u8 = 11;
const MAX_ADDRESSES: u8 = 100;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a page.
const MAX_RESPONSE: usize = 1024 * 1024;
const WRONG: [&str; 6] = ["123456", "password", "qwerty", "letmein", "cheshire", "queenofhearts"];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;
    use std::net::IpAddr;
    use std::sync::{Arc, Mutex};

    use http::Response;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::net::TcpListener;

    use super::*;
    use crate::cli::demo::application::{Application, serve_application};

    type Seen = Arc<Mutex<BTreeMap<IpAddr, u32>>>;

    /// Lets two attempts through from each address, and closes every connection after its third response.
    async fn gate() -> (SocketAddr, Seen) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Seen::default());
        let all = Arc::clone(&seen);
        tokio::spawn(async move {
            loop {
                let (stream, peer) = listener.accept().await.unwrap();
                let all = Arc::clone(&all);
                tokio::spawn(http1::Builder::new().serve_connection(
                    TokioIo::new(stream),
                    service_fn(move |_| {
                        let mut all = all.lock().unwrap();
                        let count = all.entry(peer.ip()).or_default();
                        *count += 1;
                        let mut response = Response::new(Full::<Bytes>::from("text"));
                        *response.status_mut() =
                            if *count > 2 { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK };
                        if *count % 3 == 0 {
                            response.headers_mut().insert("connection", "close".parse().unwrap());
                        }
                        std::future::ready(Ok::<_, Infallible>(response))
                    }),
                ));
            }
        });
        (address, seen)
    }

    fn bounds(requests: u32, addresses: u8, millis: u64) -> AttackBounds {
        let (interval, duration) = (Duration::ZERO, Duration::from_millis(millis));
        AttackBounds { requests, addresses, interval, duration }
    }

    #[tokio::test]
    async fn every_address_is_counted_for_itself() {
        let (address, seen) = gate().await;
        let mut lines = Vec::new();
        let tally =
            attack(address, bounds(30, 3, 30_000), |tally| lines.push(tally.to_string())).await.unwrap();
        assert_eq!(tally, Tally { tried: 30, let_through: 6, refused: 24, failed: 0 });
        assert_eq!(lines.len(), 30);
        assert_eq!(lines[29], "tried  30   let through   6   refused  24");
        let seen = seen.lock().unwrap();
        let addresses: Vec<_> = seen.keys().map(ToString::to_string).collect();
        assert_eq!(addresses, ["127.0.0.11", "127.0.0.12", "127.0.0.13"]);
        assert!(seen.values().all(|&count| count == 10));
    }

    #[tokio::test]
    async fn without_a_gate_every_attempt_reaches_the_application_and_none_is_right() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, application) = (listener.local_addr().unwrap(), Arc::new(Application::default()));
        tokio::spawn(serve_application(listener, Arc::clone(&application)));
        let tally = attack(address, bounds(20, 2, 30_000), |_| {}).await.unwrap();
        assert_eq!(tally, Tally { tried: 20, let_through: 20, refused: 0, failed: 0 });
        assert_eq!(application.attempts(), 20);
    }

    #[tokio::test]
    async fn the_attack_ends_in_time_and_survives_a_dead_target() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dead = listener.local_addr().unwrap();
        drop(listener);
        let tally = attack(dead, bounds(5, 200, 100), |_| {}).await.unwrap();
        assert!(tally.failed > 0 && tally.let_through == 0, "{tally:?}");

        // Accepts, and never answers.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let attacked = attack(silent.local_addr().unwrap(), bounds(u32::MAX, 1, 200), |_| {});
        timeout(Duration::from_secs(4), attacked).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn the_attacker_does_not_leave_the_loopback_interface() {
        let elsewhere = "192.0.2.1:80".parse().unwrap();
        assert_eq!(
            attack(elsewhere, AttackBounds::default(), |_| {}).await.unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }
}
