//! How many refusals may be held before they are sent, in all and for one client prefix.
//!
//! A held refusal keeps its connection busy, so that it yields to no other client. Only a small share of the
//! connections may be kept so. `proxy` sends at once what finds no place here.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use super::super::connection_slots::{ConnectionSlot, ConnectionSlots};
use super::open_connections::ClientCounters;

/// The places of held refusals.
#[derive(Debug)]
pub(super) struct HeldRefusals {
    places: Arc<ConnectionSlots>,
    per_client: AtomicUsize,
}

/// The place of one held refusal; dropping it frees it.
#[derive(Debug)]
#[must_use]
pub struct HeldRefusal {
    _place: ConnectionSlot,
    /// `None` where the client is not counted.
    client: Option<Arc<ClientCounters>>,
}

impl HeldRefusals {
    /// Places for a share of the connections, in all and from one prefix.
    pub(super) fn new(connections: usize, per_client: usize) -> Self {
        let places = ConnectionSlots::new(share_of(connections));
        Self { places, per_client: AtomicUsize::new(share_of(per_client)) }
    }

    /// As for new ones; what is held stays.
    pub(super) fn reconfigure(&self, connections: usize, per_client: usize) {
        self.places.resize(share_of(connections));
        self.per_client.store(share_of(per_client), Relaxed);
    }

    /// A place for a refusal of this client; `None` if none is left for it.
    pub(super) fn hold(&self, client: Option<&Arc<ClientCounters>>) -> Option<HeldRefusal> {
        let place = self.places.try_take()?;
        let max = self.per_client.load(Relaxed);
        let increment = |held: usize| (held < max).then(|| held + 1);
        if let Some(client) = client {
            client.held_refusals.fetch_update(Relaxed, Relaxed, increment).ok()?;
        }
        Some(HeldRefusal { _place: place, client: client.map(Arc::clone) })
    }
}

impl Drop for HeldRefusal {
    fn drop(&mut self) {
        if let Some(client) = &self.client {
            client.held_refusals.fetch_sub(1, Relaxed);
        }
    }
}

fn share_of(connections: usize) -> usize {
    (connections / SHARES).max(1)
}

/// One connection of this many may hold a refusal: the others are for people.
const SHARES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_holds_an_eighth_of_its_connections_and_all_clients_an_eighth_of_all() {
        let held = HeldRefusals::new(32, 16);
        let (one, other): (Arc<ClientCounters>, Arc<ClientCounters>) = <_>::default();
        let mut places: Vec<_> = [held.hold(Some(&one)), held.hold(Some(&one))].into();
        assert!(places.iter().all(Option::is_some));
        assert!(held.hold(Some(&one)).is_none());
        places.extend([held.hold(Some(&other)), held.hold(None)]);
        assert!(
            places.iter().all(Option::is_some)
                && held.hold(Some(&other)).is_none()
                && held.hold(None).is_none()
        );
        places.swap_remove(0);
        assert!(held.hold(Some(&one)).is_some());
    }

    #[test]
    fn there_is_always_a_place_and_a_reload_changes_their_number() {
        let held = HeldRefusals::new(1, 1);
        let place = held.hold(None);
        assert!(place.is_some() && held.hold(None).is_none());
        held.reconfigure(16, 16);
        assert!(held.hold(None).is_some());
    }
}
