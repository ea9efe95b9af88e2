//! A gate, an upstream that keeps every byte, and what became of a request between them.

use std::time::Duration;

use support::{Ambiguity, Gate, Recorded, Upstream, parse};

pub(crate) struct World {
    upstream: Upstream,
    gate: Gate,
}

/// What became of the bytes of one connection.
pub(crate) struct Seen {
    /// Whether the gate ended the connection.
    pub(crate) ended: bool,
    /// The status of each answer.
    pub(crate) answers: Vec<u16>,
    /// What arrived at the upstream, by connection.
    pub(crate) arrived: Result<Vec<Recorded>, Ambiguity>,
}

impl World {
    pub(crate) fn new() -> Self {
        let upstream = Upstream::start();
        // A request without an end, and a connection that is kept, both end by these.
        let file = "[proxy]\nthreads = 1\nheader_timeout = \"150ms\"\nbody_timeout = \"150ms\"\nidle_timeout = \"150ms\"\n";
        Self { gate: Gate::start(&upstream.file(file)), upstream }
    }

    /// Sends the bytes on a connection of their own and waits until it ends.
    pub(crate) fn send(&self, bytes: &[u8]) -> Seen {
        self.upstream.forget();
        let mut client = self.gate.connect();
        client.send_what_goes(bytes);
        let (answers, end) = client.all_until_the_end(Duration::from_secs(10));
        let arrived = self.upstream.connections().iter().map(|bytes| parse(bytes)).collect();
        Seen { ended: end.is_some(), answers: statuses(&answers), arrived }
    }

    /// How many requests the gate has counted, whatever it answered.
    pub(crate) fn counted(&self) -> f64 {
        // The last one is counted when its answer has left, which may be after the client has seen it.
        std::thread::sleep(Duration::from_millis(200));
        self.gate.metric("tollgate_requests_total", "")
    }
}

impl Seen {
    /// How many complete requests arrived.
    pub(crate) fn forwarded(&self) -> usize {
        self.arrived.iter().flatten().map(|recorded| recorded.requests.len()).sum()
    }
}

/// Of final answers: an interim one promises nothing.
fn statuses(bytes: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(bytes);
    let heads = text.match_indices("HTTP/1.").filter_map(|(at, _)| text.get(at + 9..at + 12)?.parse().ok());
    heads.filter(|status| *status >= 200 || *status == 101).collect()
}
