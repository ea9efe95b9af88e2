//! Asks a server for its [`marker`](super::marker). What is done when it is gone is left to [`write_back`](super::write_back).

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::SharedStore;
use super::server::StoreServer;
use crate::attempt_probe::key_at;
use crate::{CompareAndSwap, ServerId};
use tollgate_bucket::{Key, Time};

impl SharedStore {
    /// Whether the server has lost its records since then. Asks it, unless it was asked a moment ago; if it has, tells the
    /// operator, and begins to write back what is known here.
    pub(super) async fn has_lost_records(self: &Arc<Self>, server: &StoreServer, since: Time) -> bool {
        if !server.marker.was_looked_at() {
            self.look_for_marker(server).await;
        }
        since < server.marker.emptied_at()
    }

    /// Looks for the marker, and writes it where there is none.
    pub(super) async fn look_for_marker(self: &Arc<Self>, server: &StoreServer) {
        let Some(key) = marker_key(&*self.backend, server.id) else { return };
        let asked = tokio::time::timeout(self.options.timeout.to_std(), self.backend.marker(key)).await;
        // Without an answer nothing is known; what is in the way is told by the next call.
        let Ok(Ok(found)) = asked else { return };
        if server.marker.record(key, found.value) {
            server.marker.set_emptied_at(self.now_at(server));
            self.runtime.spawn(Arc::clone(self).write_back(server.id, Arc::clone(&server.name)));
        }
    }
}

/// The key of a server's marker; `None` if the server holds no keys, as far as is known.
fn marker_key(backend: &dyn CompareAndSwap, server: ServerId) -> Option<Key> {
    let key = |number: u32| {
        let hash =
            Sha256::new().chain_update(b"tollgate marker").chain_update(number.to_be_bytes()).finalize();
        Key(hash.first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes)))
    };
    key_at(backend, server, (0..).map(key))
}
