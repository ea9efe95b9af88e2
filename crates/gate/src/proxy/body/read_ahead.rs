//! How much of a response is read ahead of its client, so that the application need not wait for a slow one.
//!
//! The first bytes need no memory of this kind: a connection holds so many in any case. What is beyond is reserved, and
//! returned when the body is dropped. Where nothing is free, the application waits for the client.

use std::net::IpAddr;
use std::sync::Arc;

use super::memory::{BodyMemory, MemoryReservation};

/// What may be read ahead of one client.
pub(in crate::proxy) struct ReadAhead {
    memory: Arc<BodyMemory>,
    owner: Option<IpAddr>,
    max_bytes: usize,
    reservation: Option<MemoryReservation>,
    reserved: usize,
}

impl ReadAhead {
    /// At most `max_bytes`, of the memory of this client prefix.
    pub(in crate::proxy) fn new(memory: &Arc<BodyMemory>, owner: Option<IpAddr>, max_bytes: usize) -> Self {
        Self { memory: Arc::clone(memory), owner, max_bytes, reservation: None, reserved: 0 }
    }

    /// Whether more may be read while the client has not taken `held` bytes.
    pub(in crate::proxy) fn allows(&mut self, held: usize) -> bool {
        if held < self.reserved {
            return true;
        }
        if held >= self.max_bytes {
            return false;
        }
        let (memory, owner) = (&self.memory, self.owner);
        let reservation = self.reservation.get_or_insert_with(|| {
            let reservation = memory.reserve(owner);
            // It was taken from the application, and cannot be given up any more.
            reservation.pin();
            reservation
        });
        // The first step reserves what is held already as well.
        let more = (held + STEP).min(self.max_bytes) - self.reserved;
        let is_free = reservation.try_reserve(more);
        self.reserved += if is_free { more } else { 0 };
        is_free
    }
}

const STEP: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_than_the_bound_and_the_memory_of_the_client_allow() {
        let memory = BodyMemory::new(4 * 256 * 1024);
        let owner = |last| Some(IpAddr::from([192, 0, 2, last]));
        let mut first = ReadAhead::new(&memory, owner(1), 200 * 1024);
        assert!([64, 128, 192].map(|kib| first.allows(kib * 1024)).iter().all(|allows| *allows));
        assert!(!first.allows(200 * 1024), "the bound");
        let mut second = ReadAhead::new(&memory, owner(1), 200 * 1024);
        assert!(!second.allows(64 * 1024), "a quarter is for one client");
        assert!(ReadAhead::new(&memory, owner(2), 200 * 1024).allows(64 * 1024));
        drop(first);
        assert!(second.allows(64 * 1024));
    }
}
