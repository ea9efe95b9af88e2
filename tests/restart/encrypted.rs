//! Clients that speak TLS while one gate follows the other: HTTP/1 on connections that are kept, and HTTP/2.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::generations::Generations;
use support::authority::{Authority, BOTH, connect_by};
use support::frames::{DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, Raw, block, frame};
use support::{Upstream, get_with};

/// How many were answered, and the first request that was not.
type Tally = (usize, Option<String>);

fn load(stop: &Arc<AtomicBool>, ask: impl Fn(&AtomicBool) -> Tally + Send + 'static) -> JoinHandle<Tally> {
    let stop = Arc::clone(stop);
    std::thread::spawn(move || ask(&stop))
}

/// E20, I7: what is encrypted begins anew with another process, and nothing is lost between the two.
#[test]
fn clients_that_speak_tls_lose_no_request_when_another_process_takes_over() {
    let (upstream, authority) = (Upstream::start(), Arc::new(Authority::new()));
    let gate = Generations::start_with(&upstream.file(""), &authority.issue(&["app.test"]));
    let (stop, tls) = (Arc::new(AtomicBool::new(false)), gate.tls);
    let config = Arc::new(authority.client_config(BOTH));
    let http1 = load(&stop, move |stop| {
        let (mut answered, mut kept) = (0, None);
        while !stop.load(Ordering::Relaxed) {
            let mut client = kept.take().unwrap_or_else(|| connect_by(&config, tls, "app.test"));
            client.send_what_goes(get_with("/", "").as_bytes());
            let Some(answer) = client.try_answer().filter(|answer| answer.status == 200) else {
                return (answered, Some("no answer over HTTP/1".to_owned()));
            };
            answered += 1;
            let is_last = answer.headers.iter().any(|(name, value)| name == "connection" && value == "close");
            kept = (!is_last).then_some(client);
        }
        (answered, None)
    });
    let http2 = load(&stop, move |stop| {
        let mut answered = 0;
        while !stop.load(Ordering::Relaxed) {
            let mut connection = Raw::connect(&authority, tls);
            match until_it_is_told_to_go(&mut connection, stop, &mut answered) {
                Ok(()) => {}
                Err(why) => return (answered, Some(why)),
            }
        }
        (answered, None)
    });
    for _ in 0..5 {
        assert!(gate.hand_over());
        std::thread::sleep(Duration::from_millis(200));
    }
    stop.store(true, Ordering::Relaxed);
    for client in [http1, http2] {
        let (answered, failure) = client.join().unwrap();
        assert_eq!(failure, None, "after {answered} answers");
        assert!(answered > 100, "{answered}");
    }
}

/// One request after the other, until the gate says that it goes. What it says it has not taken may be asked again.
fn until_it_is_told_to_go(raw: &mut Raw, stop: &AtomicBool, answered: &mut usize) -> Result<(), String> {
    let ask = [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "app.test")];
    let mut goes = false;
    for stream in (1..).step_by(2) {
        if goes || stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        raw.send(&frame(HEADERS, END_STREAM | END_HEADERS, stream, &block(&ask)));
        loop {
            let (frames, found) = raw.until(Duration::from_secs(10), |_| true);
            let Some(seen) = frames.last().filter(|_| found) else {
                return Err(format!("stream {stream} has no answer"));
            };
            let is_over = seen.stream == stream && seen.flags & END_STREAM != 0;
            match seen.kind {
                // 200, by its number in the table (RFC 7541, A).
                HEADERS if seen.stream == stream && seen.payload.first() != Some(&0x88) => {
                    return Err(format!("stream {stream} is answered {:?}", seen.payload));
                }
                HEADERS | DATA if is_over => break,
                RST_STREAM if seen.stream == stream => return Err(format!("stream {stream} is reset")),
                PING if seen.flags == 0 => drop(raw.send(&frame(PING, 1, 0, &seen.payload))),
                GOAWAY => {
                    goes = true;
                    if u32::from_be_bytes(seen.payload[..4].try_into().unwrap()) < stream {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
        *answered += 1;
    }
    Ok(())
}
