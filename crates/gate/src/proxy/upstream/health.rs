//! Passive health, load and connection limit of an upstream, shared by all workers.
//!
//! An upstream that cannot be connected to is skipped for a second, then two, up to 30 seconds; the next request after
//! that is the probe. `health_check` has one skipped that fails its checks. `upstream` chooses: if all upstreams of a group are
//! down, it still tries them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use http::HeaderValue;

use super::addresses::NameAddresses;
use super::health_check::CheckState;
use super::pool::ConnectionDemand;
use super::target::authority;
use super::{UpstreamAddress, UpstreamTarget};
use crate::event::{Event, Events, Failure};
use crate::net::connection_slots::ConnectionSlots;
use crate::net::connector::{AllowedTarget, Connector};
use crate::time::{Clock, Span, Time};

/// The state of one upstream that all workers share.
pub struct Health {
    pub(super) target: UpstreamTarget,
    /// Slots for connections: `upstream_max`.
    pub(super) connection_limit: Arc<ConnectionSlots>,
    /// `Host` for requests without one, or for all of them if the target has a host.
    pub(super) host: HeaderValue,
    /// Requests that wait for a slot.
    pub(super) demand: ConnectionDemand,
    pub(super) connector: Connector,
    pub(super) checks: CheckState,
    pub(super) addresses: NameAddresses,
    pub(super) clock: Clock,
    pub(super) events: Events,
    name: String,
    upstream_max: AtomicUsize,
    busy: AtomicUsize,
    /// Failures in a row, and [`ILL`].
    failures: AtomicU32,
    down_until: AtomicU64,
    _allowed: Option<AllowedTarget>,
}

impl Health {
    /// A healthy upstream with at most `max_connections` connections.
    #[must_use]
    pub fn new(
        target: impl Into<UpstreamTarget>,
        max_connections: usize,
        clock: Clock,
        events: Events,
    ) -> Arc<Self> {
        Self::with_connector(Connector::default(), target.into(), max_connections, clock, events)
    }

    /// The same with this connector.
    #[must_use]
    pub fn with_connector(
        connector: Connector,
        target: UpstreamTarget,
        max_connections: usize,
        clock: Clock,
        events: Events,
    ) -> Arc<Self> {
        let allowed = match &target.address {
            UpstreamAddress::Tcp { host, port } | UpstreamAddress::Tls { host, port } => {
                connector.allow(host, *port)
            }
            UpstreamAddress::Unix(_) => None,
        };
        let name = target.to_string();
        Arc::new(Self {
            connection_limit: ConnectionSlots::new(max_connections),
            host: host_of(&target),
            target,
            demand: ConnectionDemand::default(),
            connector,
            checks: CheckState::default(),
            addresses: NameAddresses::default(),
            clock,
            events,
            name,
            upstream_max: AtomicUsize::new(max_connections),
            busy: AtomicUsize::new(0),
            failures: AtomicU32::new(0),
            down_until: AtomicU64::new(0),
            _allowed: allowed,
        })
    }

    /// Where the upstream listens, and its name.
    #[must_use]
    pub fn target(&self) -> &UpstreamTarget {
        &self.target
    }

    /// The address and the name as configured.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Changes the limit to `max_connections` connections.
    pub fn resize(&self, max_connections: usize) {
        self.upstream_max.store(max_connections, Relaxed);
        self.connection_limit.resize(max_connections);
    }

    /// Requests in flight at the upstream.
    #[must_use]
    pub fn busy(&self) -> usize {
        self.busy.load(Relaxed)
    }

    /// The most connections that there may be.
    pub(super) fn upstream_max(&self) -> usize {
        self.upstream_max.load(Relaxed)
    }

    /// Whether the upstream is skipped, after a failure or by its health checks.
    #[must_use]
    pub fn is_down(&self) -> bool {
        let failures = self.failures.load(Relaxed);
        // The clock is read only after a failure.
        failures & ILL != 0
            || failures > 0 && Time::from_nanos(self.down_until.load(Relaxed)) > self.clock.now()
    }

    /// Whether it fails its health checks.
    #[must_use]
    pub fn is_ill(&self) -> bool {
        self.failures.load(Relaxed) & ILL != 0
    }

    /// The health checks fail now, or pass again, which also ends the pause after failures.
    pub(super) fn set_ill(&self, is_ill: bool) {
        let (former, up) = match is_ill {
            true => (self.failures.fetch_or(ILL, Relaxed), false),
            false => (self.failures.swap(0, Relaxed), true),
        };
        // One of the two was up before.
        if (former == 0) != up {
            self.events.emit(&Event::UpstreamUp { upstream: &self.name, up });
        }
    }

    /// Counts a request, until [`request_ends`](Self::request_ends).
    pub(super) fn request_begins(&self) {
        self.busy.fetch_add(1, Relaxed);
    }

    pub(super) fn request_ends(&self) {
        self.busy.fetch_sub(1, Relaxed);
    }

    pub(super) fn succeeded(&self) {
        let is_well_again = |former| former & ILL == 0 && former > 0;
        if self.failures.load(Relaxed) & !ILL > 0 && is_well_again(self.failures.fetch_and(ILL, Relaxed)) {
            self.events.emit(&Event::UpstreamUp { upstream: &self.name, up: true });
        }
    }

    /// Reports a failure; a failure to connect also marks the upstream as down.
    pub(super) fn failed(&self, failure: Failure) {
        self.events.emit(&Event::UpstreamFailed { upstream: &self.name, reason: failure });
        if matches!(failure, Failure::Timeout | Failure::Broken(_) | Failure::Busy | Failure::Exhausted) {
            return;
        }
        let one_more = |failures: u32| (failures & !ILL < !ILL).then_some(failures.wrapping_add(1));
        let failures = self.failures.fetch_update(Relaxed, Relaxed, one_more).unwrap_or_else(|most| most);
        let pause = Span::from_secs(1 << (failures & !ILL).min(5)).min(MAX_PAUSE);
        self.down_until.store(self.clock.now().after(pause).as_nanos(), Relaxed);
        if failures == 0 {
            self.events.emit(&Event::UpstreamUp { upstream: &self.name, up: false });
        }
    }
}

/// The `Host` for this upstream.
fn host_of(target: &UpstreamTarget) -> HeaderValue {
    let host = match (&target.host, &target.address) {
        (Some(host), _) => host.to_string(),
        (None, UpstreamAddress::Tcp { host, port } | UpstreamAddress::Tls { host, port }) => {
            authority(host, *port)
        }
        (None, UpstreamAddress::Unix(_)) => "localhost".to_owned(),
    };
    HeaderValue::try_from(host).unwrap_or(HeaderValue::from_static("localhost"))
}

/// The bit of an upstream that fails its health checks.
const ILL: u32 = 1 << 31;
const MAX_PAUSE: Span = Span::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_upstream_is_passed_over_for_a_while_and_one_success_clears_it() {
        let clock = Clock::manual(Time::from_nanos(1_000_000_000_000));
        let address = UpstreamAddress::Tcp { host: "127.0.0.1".into(), port: 1 };
        let health = Health::new(address, 1, clock.clone(), Events::default());
        assert!(!health.is_down());
        health.failed(Failure::Connect);
        assert!(health.is_down());
        clock.set(clock.now().after(Span::from_secs(1)));
        assert!(!health.is_down(), "probed again after a second");
        health.failed(Failure::Connect);
        clock.set(clock.now().after(Span::from_secs(1)));
        assert!(health.is_down(), "then after two");
        health.succeeded();
        assert!(!health.is_down());
    }

    #[test]
    fn a_slow_answer_does_not_put_an_upstream_aside() {
        let address = UpstreamAddress::Unix("/nowhere".into());
        let health = Health::new(address, 1, Clock::system(), Events::default());
        health.failed(Failure::Timeout);
        assert!(!health.is_down());
    }
}
