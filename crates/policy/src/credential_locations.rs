//! The locations of a request's credentials: `Authorization`, and elsewhere.
//!
//! An application can check both against its accounts, and so can a server in front of it. So credentials that several
//! routes read in one location are charged once, and credentials in both locations are charged twice.
//! [`inspection`](super::inspection) and [`field`](super::field) tell a guess from a remembered name.

use super::field::{Field, RequestFields, are_in_own_headers};
use super::route::SlottedRoute;

/// The locations in which a route finds credentials: at least one of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CredentialLocations {
    is_in_authorization: bool,
    is_beside: bool,
}

/// The cost in tokens, split by location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SplitCost {
    /// The cost of both locations.
    pub(super) total: u32,
    /// The cost of `Authorization`.
    pub(super) authorization: u32,
}

impl CredentialLocations {
    /// The locations for a route. `read` is whether its fields were found as well as Basic, if they were read.
    pub(super) fn of(slotted: SlottedRoute<'_>, request: &RequestFields<'_>, read: Option<bool>) -> Self {
        let attempt = request.attempt;
        if !request.has_authorization() {
            return Self { is_in_authorization: false, is_beside: true };
        }
        let is_counted = slotted.route.reads_cost() && slotted.route.may_have_body(attempt);
        let is_beside = is_counted || read.unwrap_or_else(|| carries_beside_authorization(slotted, request));
        Self { is_in_authorization: slotted.route.reads_authorization() || !is_beside, is_beside }
    }

    /// Charges `tokens` for each location.
    pub(super) fn each(self, tokens: u32) -> SplitCost {
        let of = |is_there: bool| if is_there { tokens } else { 0 };
        let authorization = of(self.is_in_authorization);
        SplitCost { total: authorization.saturating_add(of(self.is_beside)), authorization }
    }

    /// Charges `tokens` for both locations together.
    pub(super) fn once(self, tokens: u32) -> SplitCost {
        SplitCost { total: tokens, authorization: if self.is_beside { 0 } else { tokens } }
    }
}

impl SplitCost {
    /// The combined cost of two routes for the same request.
    pub(super) fn and(self, other: Self) -> Self {
        let beside = |cost: Self| cost.total.saturating_sub(cost.authorization);
        let authorization = self.authorization.max(other.authorization);
        Self { total: authorization.saturating_add(beside(self).max(beside(other))), authorization }
    }

    /// The higher of two costs of the same thing.
    pub(super) fn or(self, other: Self) -> Self {
        if self.total < other.total { other } else { self }
    }

    /// At most a full bucket, unless one location alone costs more: a client that signs in behind a server that
    /// itself asks for Basic must not be refused for good.
    pub(super) fn within(self, burst: u32) -> Self {
        let dearest = self.authorization.max(self.total.saturating_sub(self.authorization));
        let total = self.total.min(burst.max(dearest));
        Self { total, authorization: self.authorization.min(total) }
    }
}

/// Whether the request carries other credentials than Basic, as far as that shows without reading the body.
fn carries_beside_authorization(
    SlottedRoute { route, slots }: SlottedRoute<'_>,
    request: &RequestFields<'_>,
) -> bool {
    let reads_no_more = route.fields().next().is_some() && route.fields().all(Field::is_in_authorization);
    if reads_no_more {
        return false;
    }
    let lists = [&route.reading.user, &route.reading.password, &route.matching.when];
    route.may_have_body(request.attempt)
        || lists.into_iter().any(|fields| are_in_own_headers(fields, request.attempt))
        || [&slots.user, &slots.password, &slots.when].into_iter().any(|list| request.has_in_query(list))
        || request.has_in_cookies(&slots.password)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split_cost() -> impl Strategy<Value = SplitCost> {
        let tokens = || prop_oneof![0..20_u32, Just(u32::MAX)];
        (tokens(), tokens()).prop_map(|(authorization, beside)| SplitCost {
            total: authorization.saturating_add(beside),
            authorization,
        })
    }

    proptest! {
        #[test]
        fn what_is_read_once_more_costs_no_more_and_the_order_makes_no_difference(
            (a, b, c) in (split_cost(), split_cost(), split_cost()),
        ) {
            prop_assert_eq!(a.and(a), a);
            prop_assert_eq!(a.and(b), b.and(a));
            prop_assert!(a.and(b).total >= a.total.max(b.total));
            prop_assert!(a.and(b).and(c).total <= a.total.saturating_add(b.total).saturating_add(c.total));
        }

        #[test]
        fn two_places_cost_no_more_than_a_full_bucket_holds(cost in split_cost(), burst in 1..30_u32) {
            let within = cost.within(burst);
            let dearest = cost.authorization.max(cost.total - cost.authorization);
            prop_assert!(within.total <= burst.max(dearest) && within.total >= dearest);
            prop_assert!(cost.total > burst || within == cost);
        }
    }
}
