//! A wire that is so many milliseconds long, and nothing else.
//!
//! Bytes arrive in their order, each a fixed time after they were sent, however many are on their way: the other
//! [relay](crate::together::relay) hands on one piece after the other and so would be slow as well. Threads and not timers of
//! tokio, which are a millisecond long at least.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// The URL of a wire to the server that this URL names, a question and its answer taking this much longer. It stays
/// until the process ends.
pub(crate) fn lengthened(url: &str, round_trip: Duration) -> String {
    if round_trip.is_zero() {
        return url.to_owned();
    }
    let (before, behind) = url.split_once("127.0.0.1:").unwrap();
    let digits = behind.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(behind.len());
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, behind[..digits].parse().unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(server) else { continue };
            carry(&client, &server, round_trip / 2);
            carry(&server, &client, round_trip / 2);
        }
    });
    format!("{before}127.0.0.1:{port}{}", &behind[digits..])
}

fn carry(from: &TcpStream, to: &TcpStream, delay: Duration) {
    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    to.set_nodelay(true).unwrap();
    let (sender, receiver) = channel();
    std::thread::spawn(move || read(from, &sender));
    std::thread::spawn(move || write(to, &receiver, delay));
}

fn read(mut from: TcpStream, sender: &Sender<(Instant, Vec<u8>)>) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if sender.send((Instant::now(), buffer[..length].to_vec())).is_err() {
            return;
        }
    }
}

fn write(mut to: TcpStream, receiver: &Receiver<(Instant, Vec<u8>)>, delay: Duration) {
    while let Ok((sent, bytes)) = receiver.recv() {
        std::thread::sleep((sent + delay).saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
