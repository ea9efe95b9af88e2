//! The permits of an attempt: of its routes, and of the limits that bound attempts under way.
//!
//! They only count: if a request gets no permit, its caller refunds the tokens. What counts is a module of `defences`.

use smallvec::SmallVec;

use super::{Reservation, Rules};
use crate::bucket::Key;
use crate::policy::{AttemptPermit, Mode, NoPermit, PermitRequest, RouteCounters};
use crate::time::Span;

/// The permits of one attempt: one for each route that counts it, and each limit that bounds it. Dropping releases them.
#[derive(Debug, Default)]
#[must_use]
pub struct AttemptPermits {
    of_routes: SmallVec<[RoutePermit; 1]>,
    of_buckets: Vec<AttemptPermit<Key>>,
}

#[derive(Debug)]
struct RoutePermit {
    #[expect(dead_code, reason = "dropping it releases the permit")]
    permit: AttemptPermit<PermitRequest>,
    /// Whether it ends when the attempt is not held any more.
    is_for_holding: bool,
}

impl Rules {
    /// Permits for an attempt. Asks who it is for only where something is counted.
    ///
    /// # Errors
    /// [`NoPermit`] if one of its routes or limits has none left.
    pub fn acquire_permits(
        &self,
        reservation: &Reservation,
        asking: impl Fn() -> PermitRequest,
    ) -> Result<AttemptPermits, NoPermit> {
        if reservation.generation != self.generation {
            return Ok(AttemptPermits::default());
        }
        let routes = reservation.routes.iter().map(|&route| &self.policy.routes[route].permits);
        let mut permits = AttemptPermits::of_routes(routes, reservation.hold > Span::ZERO, asking)?;
        for charge in reservation.statuses.iter().map(|status| &status.charge) {
            let limit = &self.policy.limits[charge.limit];
            if let Some(counter) = limit.permits.as_ref().filter(|_| limit.mode == Mode::Enforce) {
                permits.of_buckets.push(AttemptPermit::take(counter, charge.key)?);
            }
        }
        Ok(permits)
    }
}

impl AttemptPermits {
    /// Permits of all these routes.
    ///
    /// # Errors
    /// [`NoPermit`] if one of them has none left; the others have theirs again.
    pub fn of_routes<'r>(
        routes: impl Iterator<Item = &'r RouteCounters>,
        is_held: bool,
        asking: impl Fn() -> PermitRequest,
    ) -> Result<Self, NoPermit> {
        let mut permits = Self::default();
        for (counter, is_for_holding) in routes.filter_map(|counters| counters.of(is_held)) {
            permits
                .of_routes
                .push(RoutePermit { permit: AttemptPermit::take(counter, asking())?, is_for_holding });
        }
        Ok(permits)
    }

    /// Releases the permits for holding: the attempt goes on to the upstream.
    pub fn release_held(&mut self) {
        self.of_routes.retain(|permit| !permit.is_for_holding);
    }
}
