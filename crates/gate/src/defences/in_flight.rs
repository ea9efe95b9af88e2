//! `in_flight`: attempts at the application at once, of a route and of each bucket of a limit, over all workers. What finds a number
//! for `"auto"` is in `concurrency`.
//!
//! For a route without it only held attempts are counted, so that other attempts there share only the buckets with other
//! threads. If other clients find no place, one client prefix gets at most half of the places.

use std::any::Any;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_grammar::diagnostic::grouped;
use tollgate_grammar::document::TomlValue;
use tollgate_grammar::kind::{Checked as _, Given, Key, Kind, Whole};
use tollgate_grammar::schema::Schema;
use tollgate_grammar::{Findings, Located, Spot, tables};

use super::concurrency::AdaptiveLimit;
use crate::bucket::Key as BucketKey;
use crate::policy::{BucketCounter, Limit, PermitCounter, PermitRequest, Route, RouteCounter, RouteCounters};
use crate::time::{Span, Time};

tables! {
    /// The key of a route that bounds what is under way at once.
    pub RawRouteBounds {
        in_flight: Key<RouteBound> = Example Own Common,
    }

    /// The same of a limit.
    pub RawBounds {
        in_flight: Key<Bound> = Example Own Common,
    }
}

type Bound = Whole<u32, 1, 1_000_000>;

impl RawBounds {
    /// The name of its key, and where the file has it.
    pub fn place(&self) -> (&'static str, Option<&Spot>) {
        ("in_flight", self.in_flight.as_ref().map(|number| &number.spot))
    }
}

/// A number, or `auto`.
enum RouteBound {}

/// How many attempts of a route may be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MostInFlight {
    Number(u32),
    /// As many as the application serves well.
    Adapted,
}

/// The requests in flight of one route, at most `max`.
#[derive(Debug)]
struct RouteInFlight {
    max: u32,
    places: Arc<Mutex<Places>>,
}

/// The requests in flight of each bucket of one limit, at most `max` of each.
#[derive(Debug)]
struct BucketsInFlight {
    max: u32,
    counts: Arc<Mutex<HashMap<BucketKey, u32>>>,
}

/// The requests of one counter.
#[derive(Debug, Default)]
struct Places {
    taken: u32,
    of_clients: HashMap<Option<IpAddr>, u32>,
    /// A client that has its share leaves the rest to others until then: one of them found no place.
    shared_until: Time,
}

/// Bounds the attempts of a route. `forwards`: whether the gate does, and not only answers proxies that ask.
pub fn bound_route(raw: &RawRouteBounds, forwards: bool, route: Option<&mut Route>, f: &mut Findings) {
    let most = most(&raw.in_flight, forwards, f);
    if let Some(route) = route {
        route.permits = match most {
            None => counters(None),
            Some(MostInFlight::Number(max)) => counters(Some(max)),
            Some(MostInFlight::Adapted) => {
                RouteCounters { concurrency: Some(Arc::new(AdaptiveLimit::new())), ..counters(None) }
            }
        };
    }
}

fn counters(max: Option<u32>) -> RouteCounters {
    let counter = |max| -> Arc<RouteCounter> { Arc::new(RouteInFlight { max, places: Arc::default() }) };
    RouteCounters { all: max.map(counter), held: max.is_none().then(|| counter(MAX_HELD)), concurrency: None }
}

/// Bounds the attempts of each bucket of a limit.
pub fn bound_limit(raw: &RawBounds, forwards: bool, limit: Option<&mut Limit>, f: &mut Findings) {
    let max = most(&raw.in_flight, forwards, f);
    if let (Some(limit), Some(max)) = (limit, max) {
        limit.permits = Some(Arc::new(BucketsInFlight { max, counts: Arc::default() }));
    }
}

fn most<K: Kind>(in_flight: &Option<Given<K>>, forwards: bool, f: &mut Findings) -> Option<K::Value> {
    let most = in_flight.checked(f);
    if let Some(given) = in_flight.as_ref().filter(|_| !forwards) {
        let hint = "leave it to the proxy that forwards; or `listen` as well";
        f.error(&given.spot, "no endpoint sees how many requests are in flight", hint);
    }
    most
}

impl Kind for RouteBound {
    type Raw = TomlValue;
    type Value = MostInFlight;

    fn schema() -> Schema {
        Schema::any_of(vec![Bound::schema(), Schema::words(vec![AUTO])])
    }

    fn check(given: &Located<TomlValue>, f: &mut Findings) -> Option<MostInFlight> {
        match &given.value {
            TomlValue::String(word) if word == AUTO => Some(MostInFlight::Adapted),
            TomlValue::Integer(number) => Bound::check(&given.with(*number), f).map(MostInFlight::Number),
            other => {
                let message = format!("{} where an integer or \"{AUTO}\" belongs", other.kind());
                f.error(&given.spot, message, "as in 32, without quotes");
                None
            }
        }
    }
}

impl PermitCounter<PermitRequest> for RouteInFlight {
    fn describe(&self) -> String {
        describe(self.max)
    }

    fn take(&self, &(client, now): &PermitRequest) -> bool {
        locked(&self.places).try_take(client, self.max, now)
    }

    fn give_back(&self, &(client, _): &PermitRequest) {
        locked(&self.places).give_back(client);
    }

    fn why(&self) -> &'static str {
        WHY
    }

    fn after(&self, former: &RouteCounter) -> Option<Arc<RouteCounter>> {
        let former = (former as &dyn Any).downcast_ref::<Self>()?;
        Some(Arc::new(Self { max: self.max, places: Arc::clone(&former.places) }))
    }
}

impl PermitCounter<BucketKey> for BucketsInFlight {
    fn describe(&self) -> String {
        describe(self.max)
    }

    fn take(&self, bucket: &BucketKey) -> bool {
        let mut counts = locked(&self.counts);
        let count = counts.entry(*bucket).or_default();
        let is_free = *count < self.max;
        *count = count.saturating_add(u32::from(is_free));
        is_free
    }

    fn give_back(&self, bucket: &BucketKey) {
        let mut counts = locked(&self.counts);
        if let Some(count) = counts.get_mut(bucket) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(bucket);
            }
        }
    }

    fn why(&self) -> &'static str {
        WHY
    }

    fn after(&self, former: &BucketCounter) -> Option<Arc<BucketCounter>> {
        let former = (former as &dyn Any).downcast_ref::<Self>()?;
        Some(Arc::new(Self { max: self.max, counts: Arc::clone(&former.counts) }))
    }
}

impl Places {
    /// Takes one of `max`, if one is free and not another client's.
    fn try_take(&mut self, client: Option<IpAddr>, max: u32, now: Time) -> bool {
        let own = self.of_clients.get(&client).copied().unwrap_or_default();
        let has_share = own >= max.div_ceil(2);
        if self.taken >= max {
            if !has_share {
                self.shared_until = now.after(SHARED_FOR);
            }
            return false;
        }
        if has_share && now < self.shared_until {
            return false;
        }
        self.taken += 1;
        self.of_clients.insert(client, own.saturating_add(1));
        true
    }

    fn give_back(&mut self, client: Option<IpAddr>) {
        self.taken = self.taken.saturating_sub(1);
        if let Some(own) = self.of_clients.get_mut(&client) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                self.of_clients.remove(&client);
            }
        }
    }
}

fn describe(max: u32) -> String {
    format!("at most {} in flight", grouped(max.into()))
}

fn locked<T>(counts: &Mutex<T>) -> MutexGuard<'_, T> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The held attempts of a route without `in_flight`, at most: each keeps a connection waiting.
const MAX_HELD: u32 = 32;
/// Longer than the `Retry-After` of a client that found no place.
const SHARED_FOR: Span = Span::from_secs(10);
const WHY: &str = "in_flight limit reached";
const AUTO: &str = "auto";

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::engine::AttemptPermits;
    use crate::policy::AttemptPermit;

    const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);

    /// Of eight, at this second.
    fn take_as(limit: &RouteCounters, client: u8, second: u64) -> Option<AttemptPermits> {
        let client = Some(IpAddr::from([192, 0, 2, client]));
        acquire(&[limit], false, (client, NOW.after(Span::from_secs(second))))
    }

    fn take(limit: &RouteCounters, is_held: bool) -> Option<AttemptPermits> {
        acquire(&[limit], is_held, (None, NOW))
    }

    fn acquire(limits: &[&RouteCounters], is_held: bool, asking: PermitRequest) -> Option<AttemptPermits> {
        AttemptPermits::of_routes(limits.iter().copied(), is_held, || asking).ok()
    }

    /// One client kept all others out for as long as its requests lasted.
    #[test]
    fn one_client_has_at_most_half_while_others_find_no_place() {
        let limit = counters(Some(8));
        let mut own: Vec<_> = (0..8).map(|_| take_as(&limit, 1, 0).unwrap()).collect();
        assert!(take_as(&limit, 2, 0).is_none(), "it was alone and has all of them");
        let mut others = Vec::new();
        for second in 1..=4 {
            drop(own.pop());
            assert!(take_as(&limit, 1, second).is_none(), "what gets free is for others");
            others.extend(take_as(&limit, 2, second));
        }
        assert_eq!((own.len(), others.len()), (4, 4));
        drop(own.pop());
        own.extend(take_as(&limit, 1, 5));
        assert_eq!(own.len(), 4, "a half is its own");
        drop(others);
        assert!(take_as(&limit, 1, 9).is_none());
        assert!(take_as(&limit, 1, 11).is_some(), "no one has found none for a while");
    }

    #[test]
    fn a_client_that_finds_none_beside_its_own_makes_no_room() {
        let limit = counters(Some(8));
        let mut own: Vec<_> = (0..8).map(|_| take_as(&limit, 1, 0).unwrap()).collect();
        assert!(take_as(&limit, 1, 0).is_none());
        drop(own.pop());
        assert!(take_as(&limit, 1, 1).is_some());
    }

    #[test]
    fn a_place_is_free_again_when_it_is_dropped() {
        let limit = counters(Some(2));
        let both = (take(&limit, false).unwrap(), take(&limit, true).unwrap());
        assert!(take(&limit, false).is_none());
        drop(both.0);
        assert!(take(&limit, false).is_some());
    }

    #[test]
    fn a_held_attempt_keeps_a_place_of_in_flight_when_it_departs() {
        let limit = counters(Some(1));
        let mut held = take(&limit, true).unwrap();
        held.release_held();
        assert!(take(&limit, false).is_none());
    }

    #[test]
    fn without_a_bound_only_those_that_are_held_are_counted() {
        let limit = counters(None);
        let passing: Vec<_> = (0..100).map(|_| take(&limit, false).unwrap()).collect();
        let mut held: Vec<_> = (0..MAX_HELD).map(|_| take(&limit, true).unwrap()).collect();
        assert!(take(&limit, true).is_none() && take(&limit, false).is_some());
        held[0].release_held();
        assert!(take(&limit, true).is_some());
        drop((passing, held));
        let again: Vec<_> = (0..MAX_HELD).filter_map(|_| take(&limit, true)).collect();
        assert_eq!(again.len(), MAX_HELD as usize);
    }

    #[test]
    fn a_full_route_takes_no_place_on_the_others() {
        let (wide, narrow) = (counters(Some(2)), counters(Some(1)));
        let both = || acquire(&[&wide, &narrow], false, (None, NOW));
        let first = both();
        assert!(first.is_some() && both().is_none());
        assert!(take(&wide, false).is_some());
    }

    #[test]
    fn attempts_under_way_stay_counted_when_the_number_changes() {
        let (mut limit, former) = (counters(Some(2)), counters(Some(1)));
        let _one = take(&former, false).unwrap();
        limit.all = limit.all.and_then(|after| after.after(&**former.all.as_ref()?));
        let two = take(&limit, false);
        assert!(two.is_some() && take(&limit, false).is_none());
    }

    #[test]
    fn each_bucket_has_places_of_its_own_and_one_without_requests_is_forgotten() {
        let (max, counts) = (2, Arc::<Mutex<HashMap<_, _>>>::default());
        let limit: Arc<BucketCounter> = Arc::new(BucketsInFlight { max, counts: Arc::clone(&counts) });
        let acquire = |key| AttemptPermit::take(&limit, BucketKey(key)).ok();
        let one = [acquire(1), acquire(1)];
        assert!(one.iter().all(Option::is_some) && acquire(1).is_none());
        let other = acquire(2);
        assert!(other.is_some() && locked(&counts).len() == 2);
        drop(one);
        assert!(acquire(1).is_some());
        drop(other);
        assert!(locked(&counts).is_empty());
    }

    #[test]
    fn threads_never_take_more_places_than_there_are() {
        let limit = counters(Some(3));
        let (taken, max) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        if let Some(permit) = take(&limit, false) {
                            max.fetch_max(taken.fetch_add(1, Relaxed) + 1, Relaxed);
                            taken.fetch_sub(1, Relaxed);
                            drop(permit);
                        }
                    }
                });
            }
        });
        assert!((1..=3).contains(&max.into_inner()));
    }
}
