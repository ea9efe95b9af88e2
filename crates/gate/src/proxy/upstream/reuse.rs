//! How long an idle connection to an upstream can be trusted.
//!
//! An application may close an idle connection without saying so, while a request is on its way to it; whether that
//! request was read, nobody knows. So the gate remembers after how short a rest a connection was found closed, and reuses
//! none that has rested longer, but for requests that may be sent once more (RFC 9110, 9.2.2). Connections that rest
//! longer and still live lift the limit again.

use std::cell::Cell;
use std::time::Duration;

/// The longest rest after which connections to an upstream are reused for any request.
#[derive(Debug)]
pub(super) struct ReuseLimit {
    longest: Cell<Duration>,
    /// Whether any connection was still open after a rest.
    keeps_connections: Cell<bool>,
}

impl Default for ReuseLimit {
    fn default() -> Self {
        Self { longest: Cell::new(Duration::MAX), keeps_connections: Cell::new(false) }
    }
}

impl ReuseLimit {
    /// Whether a connection that has rested for so long is safe for a request that can be sent only once.
    pub(super) fn allows(&self, rested: Duration) -> bool {
        rested < self.longest.get()
    }

    /// A connection that had rested for so long was closed.
    pub(super) fn was_closed(&self, rested: Duration) {
        // It was closed at any moment before; on a busy machine that is heard of late.
        let closes_each = rested < SHORTEST || !self.keeps_connections.get();
        let likely = if closes_each { Duration::ZERO } else { rested / 2 };
        self.longest.set(self.longest.get().min(likely));
    }

    /// A connection that had rested for so long was not closed.
    pub(super) fn was_open(&self, rested: Duration) {
        self.keeps_connections.set(true);
        self.longest.set(self.longest.get().max(rested));
    }
}

/// Whoever closes sooner closes after each response.
const SHORTEST: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_that_closes_early_is_remembered_until_a_longer_rest_succeeds() {
        let (limit, rest) = (ReuseLimit::default(), Duration::from_millis);
        assert!(limit.allows(rest(4000)));
        limit.was_open(rest(1));
        limit.was_closed(rest(20));
        limit.was_closed(rest(900));
        assert!(limit.allows(rest(9)) && !limit.allows(rest(10)));
        limit.was_open(rest(5));
        assert!(!limit.allows(rest(10)));
        limit.was_open(rest(50));
        assert!(limit.allows(rest(49)) && !limit.allows(rest(50)));
        limit.was_closed(Duration::from_micros(50));
        assert!(!limit.allows(Duration::ZERO), "it closes after each response");
    }

    #[test]
    fn an_upstream_that_never_kept_one_is_not_trusted_however_late_that_is_heard_of() {
        let (limit, rest) = (ReuseLimit::default(), Duration::from_millis);
        limit.was_closed(rest(40));
        assert!(!limit.allows(Duration::ZERO));
        limit.was_open(rest(50));
        assert!(limit.allows(rest(49)));
    }
}
