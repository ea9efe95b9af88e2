//! A histogram with fixed bounds and no lock.
//!
//! The library's own takes a lock for every observation. Bounds here are whole nanoseconds, so an observation costs a
//! few integer comparisons; only a scrape converts them to seconds.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::time::Span;

/// Counts of spans between bounds. `N` is the number of bounds plus one, for spans above all of them.
#[derive(Debug)]
pub(super) struct AtomicHistogram<const N: usize> {
    counts: [AtomicU64; N],
    /// Nanoseconds; wraps after 584 years of requests.
    sum: AtomicU64,
}

/// The sum of several histograms.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HistogramTotal {
    /// Seconds.
    pub(super) sum: f64,
    /// All observations.
    pub(super) count: u64,
    /// The upper bound in seconds and the observations in each bucket, not cumulated.
    pub(super) buckets: Vec<(f64, u64)>,
}

impl<const N: usize> Default for AtomicHistogram<N> {
    fn default() -> Self {
        Self { counts: std::array::from_fn(|_| AtomicU64::new(0)), sum: AtomicU64::new(0) }
    }
}

impl<const N: usize> AtomicHistogram<N> {
    /// Counts a span; `bounds` are ascending and inclusive.
    pub(super) fn observe(&self, bounds: &[Span], span: Span) {
        let bucket = bounds.partition_point(|&bound| bound < span);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
            self.sum.fetch_add(span.as_nanos(), Ordering::Relaxed);
        }
    }

    /// The sum of these histograms.
    pub(super) fn total<'a>(all: impl Iterator<Item = &'a Self> + Clone, bounds: &[Span]) -> HistogramTotal {
        let bounds = bounds.iter().map(|bound| seconds(bound.as_nanos())).chain([f64::INFINITY]);
        let counts =
            (0..N).map(|i| all.clone().map(|one| one.counts[i].load(Ordering::Relaxed)).sum::<u64>());
        let buckets: Vec<_> = bounds.zip(counts).collect();
        // Summed from the buckets, so that the count and the last bucket never disagree.
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = seconds(all.map(|one| one.sum.load(Ordering::Relaxed)).sum());
        HistogramTotal { sum, count, buckets }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "above 104 days of busy time single nanoseconds do not matter"
)]
fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: [Span; 2] = [Span::from_millis(1), Span::from_secs(1)];

    #[test]
    fn a_span_at_the_bound_belongs_to_the_bucket_below() {
        let histogram = AtomicHistogram::<3>::default();
        for nanos in [0, 1_000_000, 1_000_001, 1_000_000_000, 1_500_000_000] {
            histogram.observe(&BOUNDS, Span::from_nanos(nanos));
        }
        let total = AtomicHistogram::total([&histogram].into_iter(), &BOUNDS);
        assert_eq!(total.buckets, [(0.001, 2), (1.0, 2), (f64::INFINITY, 1)]);
        assert_eq!(total.count, 5);
        assert!((total.sum - 2.502_000_001).abs() < 1e-9, "{}", total.sum);
    }

    #[test]
    fn several_histograms_are_shown_as_one() {
        let (one, other) = (AtomicHistogram::<3>::default(), AtomicHistogram::<3>::default());
        one.observe(&BOUNDS, Span::ZERO);
        other.observe(&BOUNDS, Span::from_secs(9));
        let total = AtomicHistogram::total([&one, &other].into_iter(), &BOUNDS);
        assert_eq!(total.buckets, [(0.001, 1), (1.0, 0), (f64::INFINITY, 1)]);
    }
}
