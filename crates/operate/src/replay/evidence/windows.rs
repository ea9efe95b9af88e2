//! The greatest number of attempts in any window of one length that reached one account or client.
//!
//! Attempts come in the order of their decisions. For each key the times within the window are kept, in bounded memory;
//! beyond the bound attempts of new keys are not followed, and the report says so.

use std::collections::{HashMap, VecDeque};

use super::table::WindowKey;
use crate::policy::attempt::Client;
use crate::time::{Span, Time};

/// The times of attempts.
#[derive(Debug)]
pub(super) struct AttemptWindows {
    window: Span,
    /// Times of one key that are kept.
    keep: usize,
    times: HashMap<WindowKey, VecDeque<u64>>,
    held: usize,
    swept: Time,
    /// Attempts that are not followed.
    pub(super) left_out: u64,
}

impl AttemptWindows {
    /// For windows of this length, in which more than `most` need not be told apart.
    pub(super) fn new(window: Span, most: u64) -> Self {
        let keep = usize::try_from(most.saturating_add(1)).unwrap_or(MAX_OF_ONE).min(MAX_OF_ONE);
        Self { window, keep, times: HashMap::new(), held: 0, swept: Time::default(), left_out: 0 }
    }

    /// Adds an attempt. Returns how many of this key are in the window that ends with it.
    pub(super) fn add(&mut self, key: WindowKey, at: Time) -> u64 {
        if self.held >= MAX_TIMES || self.times.len() >= MAX_KEYS {
            self.sweep(at);
        }
        if self.held >= MAX_TIMES || (self.times.len() >= MAX_KEYS && !self.times.contains_key(&key)) {
            self.left_out += 1;
            return 0;
        }
        let times = self.times.entry(key).or_default();
        let before = times.len();
        times.push_back(at.as_nanos());
        let begin = at.before(self.window).as_nanos();
        while times.front().is_some_and(|time| *time < begin) || times.len() > self.keep {
            times.pop_front();
        }
        self.held = self.held + times.len() - before;
        u64::try_from(times.len()).unwrap_or(u64::MAX)
    }

    /// The bucket is full again.
    pub(super) fn forget(&mut self, key: &WindowKey) {
        if let Some(times) = self.times.remove(key) {
            self.held -= times.len();
        }
    }

    /// All buckets of an account are full again.
    pub(super) fn forget_account(&mut self, account: u64) {
        self.forget_if(|(_, of)| *of == Some(account));
    }

    /// All buckets of a client are full again.
    pub(super) fn forget_client(&mut self, client: Client) {
        self.forget_if(|(of, _)| *of == Some(client));
    }

    pub(super) fn forget_all(&mut self) {
        self.times.clear();
        self.held = 0;
    }

    fn forget_if(&mut self, is_meant: impl Fn(&WindowKey) -> bool) {
        self.times.retain(|key, _| !is_meant(key));
        self.held = self.times.values().map(VecDeque::len).sum();
    }

    /// Forgets keys without an attempt in the window, at most once in a while: it looks at all of them.
    fn sweep(&mut self, now: Time) {
        if now.since(self.swept) < BETWEEN_SWEEPS {
            return;
        }
        self.swept = now;
        let begin = now.before(self.window).as_nanos();
        self.times.retain(|_, times| times.back().is_some_and(|time| *time >= begin));
        self.held = self.times.values().map(VecDeque::len).sum();
    }
}

/// Times of one key at most.
const MAX_OF_ONE: usize = 100_000;
/// Keys of one limit.
const MAX_KEYS: usize = 262_144;
/// Times of all keys of one limit.
const MAX_TIMES: usize = 4_194_304;
/// By the time of the log.
const BETWEEN_SWEEPS: Span = Span::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Time {
        Time::from_nanos(secs * 1_000_000_000)
    }

    #[test]
    fn both_ends_of_a_window_are_in_it() {
        let mut windows = AttemptWindows::new(Span::from_secs(10), 100);
        let mut add = |secs| windows.add((None, Some(7)), at(secs));
        assert_eq!([100, 104, 110, 111, 115].map(&mut add), [1, 2, 3, 3, 3]);
    }

    #[test]
    fn what_an_operator_fills_begins_anew_and_other_keys_do_not() {
        let mut windows = AttemptWindows::new(Span::from_secs(10), 100);
        for account in [1, 1, 2] {
            windows.add((None, Some(account)), at(100));
        }
        windows.forget_account(1);
        assert_eq!([1, 2].map(|account| windows.add((None, Some(account)), at(101))), [1, 2]);
        windows.forget_all();
        assert_eq!((windows.add((None, Some(2)), at(102)), windows.held), (1, 1));
    }

    #[test]
    fn a_crowd_of_keys_is_bounded_and_what_is_left_out_is_counted() {
        let mut windows = AttemptWindows::new(Span::from_secs(10), 1);
        let keys = u64::try_from(MAX_KEYS).unwrap();
        (0..keys + 5).for_each(|account| _ = windows.add((None, Some(account)), at(100)));
        assert_eq!((windows.times.len(), windows.left_out), (MAX_KEYS, 5));
        assert_eq!(windows.add((None, Some(0)), at(100)), 2, "a known key is followed");
        assert_eq!(windows.add((None, Some(keys)), at(200)), 1, "the others are too old");
    }
}
