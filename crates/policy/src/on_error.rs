//! What happens to an attempt while the store of its buckets does not answer.
//!
//! A limit's own word comes first, then that of its route. The word of the store is left to the caller.

use super::{Charges, Limit, Mode, Policy};
use tollgate_bucket::OnError;

impl Policy {
    /// The strictest word of the limits that an attempt is charged to; `of_store` is the word of the store. Limits that
    /// refuse nothing have a say only among themselves.
    #[must_use]
    pub fn on_error(&self, found: &Charges, of_store: OnError) -> OnError {
        let strictest = |is_enforced: bool| {
            let charges = found.charges.iter().filter(|charge| charge.effect.is_enforced() == is_enforced);
            charges.map(|charge| self.on_error_of(charge.limit, found, of_store)).max()
        };
        strictest(true).or_else(|| strictest(false)).unwrap_or(of_store)
    }

    /// The strictest of the routes that count the attempt: a client can make a milder one count it as well.
    fn on_error_of(&self, limit: usize, found: &Charges, of_store: OnError) -> OnError {
        let own = self.limits.get(limit).and_then(Limit::own_on_error);
        let routes = found.routes.clone().into_iter().filter_map(|index| self.routes.get(index));
        let of_routes = routes.filter(|route| route.limits.contains(&limit));
        let of_routes = of_routes.map(|route| route.on_error.unwrap_or(of_store));
        own.or_else(|| of_routes.max()).unwrap_or(of_store)
    }
}

impl Limit {
    /// Its own word. While the store of a directory's failures is away, no gate knows what others forward.
    fn own_on_error(&self) -> Option<OnError> {
        let denies = self.directory.is_some() && self.mode == Mode::Enforce;
        self.on_error.or_else(|| denies.then_some(OnError::Deny))
    }
}
