//! Where a request carries its credentials: in `Authorization: Basic`, and elsewhere.
//!
//! An application can hold both against its accounts, and so can a server in front of it. So what several routes read in
//! one place is paid once, and what stands in both is paid twice. What is a guess and what is only remembered is said in
//! [`carried`](super::inspection) and [`field`](super::field).

use super::attempt::{Attempt, AttemptBody};
use super::field::{Field, RequestFields, are_in_own_headers, has_basic};
use super::route::{Cost, Route, RouteFieldSlots};

/// Of the two places those in which a route finds something that is tried: one at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CredentialLocations {
    is_in_basic: bool,
    is_beside: bool,
}

/// Tokens for what stands in each place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SplitCost {
    /// For both.
    pub(super) total: u32,
    /// For what `Authorization: Basic` carries.
    pub(super) basic: u32,
}

impl CredentialLocations {
    /// Those of a route. `read` says whether its fields were found beside Basic, if they were looked for.
    pub(super) fn of(
        (route, places): (&Route, &RouteFieldSlots),
        sent: &RequestFields<'_>,
        read: Option<bool>,
    ) -> Self {
        let attempt = sent.attempt;
        if !has_basic(attempt) {
            return Self { is_in_basic: false, is_beside: true };
        }
        let is_counted = matches!(route.cost, Cost::Counted(_)) && has_body(attempt);
        let is_beside = is_counted || read.unwrap_or_else(|| carries_beside_basic((route, places), sent));
        Self { is_in_basic: route.reads_basic() || !is_beside, is_beside }
    }

    /// As much for each place.
    pub(super) fn each(self, tokens: u32) -> SplitCost {
        let of = |is_there: bool| if is_there { tokens } else { 0 };
        let by_basic = of(self.is_in_basic);
        SplitCost { total: by_basic.saturating_add(of(self.is_beside)), basic: by_basic }
    }

    /// As much for both together.
    pub(super) fn once(self, tokens: u32) -> SplitCost {
        SplitCost { total: tokens, basic: if self.is_beside { 0 } else { tokens } }
    }
}

impl SplitCost {
    /// Of what two routes read in the same request.
    pub(super) fn and(self, other: Self) -> Self {
        let beside = |price: Self| price.total.saturating_sub(price.basic);
        let by_basic = self.basic.max(other.basic);
        Self { total: by_basic.saturating_add(beside(self).max(beside(other))), basic: by_basic }
    }

    /// The dearer one, of the same thing.
    pub(super) fn or(self, other: Self) -> Self {
        if self.total < other.total { other } else { self }
    }

    /// No more than a bucket holds when it is full, unless what stands in one place costs more: who signs in behind a
    /// server that asks for Basic as well must not be refused for good.
    pub(super) fn within(self, burst: u32) -> Self {
        let dearest = self.basic.max(self.total.saturating_sub(self.basic));
        let whole = self.total.min(burst.max(dearest));
        Self { total: whole, basic: self.basic.min(whole) }
    }
}

/// As far as that is told without reading the body.
fn carries_beside_basic((route, places): (&Route, &RouteFieldSlots), sent: &RequestFields<'_>) -> bool {
    let reads_no_more = route.fields().next().is_some() && route.fields().all(|field| *field == Field::Basic);
    if reads_no_more {
        return false;
    }
    let lists = [&route.user, &route.password, &route.when];
    has_body(sent.attempt)
        || lists.into_iter().any(|fields| are_in_own_headers(fields, sent.attempt))
        || [&places.user, &places.password, &places.when].into_iter().any(|list| sent.has_in_query(list))
        || sent.has_in_cookies(&places.password)
}

fn has_body(attempt: &Attempt<'_>) -> bool {
    attempt.body != AttemptBody::Whole(&[])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn price() -> impl Strategy<Value = SplitCost> {
        let tokens = || prop_oneof![0..20_u32, Just(u32::MAX)];
        (tokens(), tokens()).prop_map(|(by_basic, beside)| SplitCost {
            total: by_basic.saturating_add(beside),
            basic: by_basic,
        })
    }

    proptest! {
        #[test]
        fn what_is_read_once_more_costs_no_more_and_the_order_makes_no_difference(a in price(), b in price(), c in price()) {
            prop_assert_eq!(a.and(a), a);
            prop_assert_eq!(a.and(b), b.and(a));
            prop_assert!(a.and(b).total >= a.total.max(b.total));
            prop_assert!(a.and(b).and(c).total <= a.total.saturating_add(b.total).saturating_add(c.total));
        }

        #[test]
        fn two_places_cost_no_more_than_a_full_bucket_holds(price in price(), burst in 1..30_u32) {
            let within = price.within(burst);
            let dearest = price.basic.max(price.total - price.basic);
            prop_assert!(within.total <= burst.max(dearest) && within.total >= dearest);
            prop_assert!(price.total > burst || within == price);
        }
    }
}
