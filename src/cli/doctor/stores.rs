//! The store: whether it works, how long it takes, and whether its clock is ours.

use std::time::Duration;

use super::Symptom;
use crate::cli::check::probe::probe;
use crate::cli::store::{OpenedStore, open};
use crate::config::StoreSettings;
use crate::time::{Clock, Span};

pub(super) fn look(store: &StoreSettings) -> Vec<Symptom> {
    let place = format!("store {}", store.address);
    if !store.address.is_shared() {
        return vec![Symptom::good(place, "buckets are in this process")];
    }
    let probed = probe(store);
    if let Some(error) = probed.errors.first() {
        let mend =
            "start the store, or correct store.url or its user's rights; until then store.on_error decides";
        return vec![Symptom::bad(place, error.clone(), mend)];
    }
    let warnings = probed.warnings.into_iter();
    let warnings = warnings.map(|words| Symptom::doubtful(place.clone(), words, "see docs/stores.md"));
    let slow = open(store).ok().flatten().and_then(|opened| latency(&opened));
    warnings.chain(slow.map(|took| speed(&place, took, store.options.timeout))).collect()
}

/// The median time of a call.
fn latency(opened: &OpenedStore) -> Option<Span> {
    let (clock, mut times) = (Clock::system(), Vec::new());
    for _ in 0..CALLS {
        let server = *opened.servers().first()?;
        let begin = clock.now().as_nanos();
        opened.call(CALL_TIMEOUT, |store| store.probe(server)).ok()?;
        times.push(clock.now().as_nanos().saturating_sub(begin));
    }
    times.sort_unstable();
    times.get(CALLS / 2).copied().map(Span::from_nanos)
}

fn speed(place: &str, took: Span, timeout: Span) -> Symptom {
    let millis = |span: Span| span.as_nanos() / 1_000_000;
    let words =
        format!("a call takes up to {} ms; store.timeout is {} ms", millis(took) + 1, millis(timeout));
    match took.as_nanos().saturating_mul(4) > timeout.as_nanos() {
        true => Symptom::doubtful(place, words, "a store nearby, or a longer store.timeout"),
        false => Symptom::good(place, words),
    }
}

/// The first call connects as well, so the median leaves it out.
const CALLS: usize = 7;
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
