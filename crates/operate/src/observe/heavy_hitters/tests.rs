//! Floods, windows and reloads, as the listener hears of them.

use std::collections::HashMap;

use super::*;
use crate::event::LimitRecord;
use crate::observe::samples::{AT, attempt, entry, policy};
use crate::policy::attempt::Client;
use crate::policy::key::{KeyPart, PrefixLengths};

/// The events of one gate.
struct HitterEvents {
    hitters: HeavyHitters,
    entry: AccessLogEntry,
}

impl HitterEvents {
    fn new(policy: Policy) -> Self {
        let stream = Self { hitters: HeavyHitters::default(), entry: entry() };
        stream.with(policy)
    }

    fn with(mut self, policy: Policy) -> Self {
        self.hitters.on_event(&Event::Rules { generation: 0, policy: &policy });
        let attempt = AttemptRecord { policy: Arc::new(policy), ..attempt() };
        self.entry.attempt = Some(Box::new(attempt));
        self
    }

    fn records(&mut self) -> &mut AttemptRecord {
        self.entry.attempt.as_mut().unwrap()
    }

    fn complete(&mut self, client: [u8; 4], at: Time) {
        (self.entry.client, self.entry.at) = (Client::from_ip(client.into()), at);
        self.hitters.on_event(&Event::RequestCompleted(&self.entry));
    }

    fn top(
        &self,
        order: HitterOrder,
        limit: &str,
        window: CountedTime,
        now: Time,
    ) -> Vec<(BucketOwner, u32, u32)> {
        let found = self.hitters.top(order, 20, Some(limit), window, now);
        found.iter().map(|hitter| (hitter.owner, hitter.attempts, hitter.refused)).collect()
    }
}

fn client(ip: [u8; 4]) -> BucketOwner {
    BucketOwner::Client(Client::from_ip(ip.into()))
}

const WINDOW: CountedTime = CountedTime::TenMinutes;
const ONE: [u8; 4] = [192, 0, 2, 1];
const TWO: [u8; 4] = [192, 0, 2, 2];

#[test]
fn clients_are_listed_by_refusals_or_by_attempts_each_limit_for_itself() {
    let mut stream = HitterEvents::new(policy(&["login"], &["address", "account"]));
    for (ip, times) in [(ONE, 3), (TWO, 5)] {
        (0..times).for_each(|_| stream.complete(ip, AT));
    }
    let refused = stream.top(HitterOrder::Refused, "address", WINDOW, AT);
    assert_eq!(refused, [(client(TWO), 5, 5), (client(ONE), 3, 3)]);
    assert_eq!(stream.top(HitterOrder::Refused, "account", WINDOW, AT), [], "that one admitted all");
    assert_eq!(stream.top(HitterOrder::Attempts, "account", WINDOW, AT)[0], (client(TWO), 5, 0));
    assert_eq!(stream.top(HitterOrder::Attempts, "other", WINDOW, AT), []);
    let all = stream.hitters.top(HitterOrder::Attempts, 3, None, WINDOW, AT);
    let named: Vec<_> = all.iter().map(|hitter| (&*hitter.limit, hitter.attempts, hitter.refused)).collect();
    assert_eq!(named, [("address", 5, 5), ("account", 5, 0), ("address", 3, 3)]);
    assert_eq!(
        (all[0].error, all[0].last),
        (0, Time::from_nanos(AT.as_nanos() / 1_000_000_000 * 1_000_000_000))
    );
}

#[test]
fn what_a_limit_would_have_refused_counts_as_refused_and_what_it_exempts_does_not_count() {
    let mut stream = HitterEvents::new(policy(&["login"], &["address", "account"]));
    stream.records().limits[0].decision = LimitDecision::Observe;
    stream.records().limits[1].decision = LimitDecision::Exempt;
    stream.complete(ONE, AT);
    assert_eq!(stream.top(HitterOrder::Refused, "address", WINDOW, AT), [(client(ONE), 1, 1)]);
    assert_eq!(stream.top(HitterOrder::Attempts, "account", WINDOW, AT), []);
}

#[test]
fn clients_are_those_that_share_a_bucket_and_accounts_stand_for_themselves() {
    let mut rules = policy(&["login"], &["address", "account", "pair"]);
    rules.limits[0].prefixes = PrefixLengths { ipv4: 24, ipv6: 48 };
    rules.limits[1].key = vec![KeyPart::User];
    rules.limits[2].key = vec![KeyPart::User, KeyPart::Ip];
    let mut stream = HitterEvents::new(rules);
    let pair = LimitRecord { limit: 2, ..stream.records().limits[0] };
    stream.records().limits.push(pair);
    stream.complete(ONE, AT);
    stream.complete(TWO, AT);
    let top = |stream: &HitterEvents, limit: &str| stream.top(HitterOrder::Attempts, limit, WINDOW, AT);
    assert_eq!(top(&stream, "address"), [(client([192, 0, 2, 0]), 2, 2)]);
    assert_eq!(top(&stream, "account"), [(BucketOwner::Account(0x1234_5678_9abc), 2, 0)]);
    assert_eq!(top(&stream, "pair").len(), 2, "by address");
    stream.records().facts.account = None;
    stream.entry.client = Client::UnixSocket;
    stream.hitters.on_event(&Event::RequestCompleted(&stream.entry));
    assert!(top(&stream, "account").contains(&(BucketOwner::Client(Client::UnixSocket), 1, 0)));
}

#[test]
fn a_window_ends_now_and_begins_at_a_whole_minute() {
    let mut stream = HitterEvents::new(policy(&["login"], &["address", "account"]));
    let minute = |number: u64| AT.after(Span::from_secs(60 * number));
    for number in 0..90 {
        stream.complete(ONE, minute(number));
    }
    let now = minute(89);
    let attempts = |window| stream.top(HitterOrder::Attempts, "address", window, now)[0].1;
    assert_eq!([CountedTime::OneMinute, CountedTime::TenMinutes].map(attempts), [2, 11]);
    let hour = CountedTime::SixtyMinutes;
    let since = now.since(hour.since(now)).as_nanos() / 60_000_000_000;
    assert!((60..70).contains(&since), "{since}");
    assert_eq!(u64::from(attempts(hour)), since + 1);
    assert_eq!(stream.top(HitterOrder::Attempts, "address", hour, minute(200)), [], "after that long");
    assert_eq!(stream.top(HitterOrder::Attempts, "address", CountedTime::OneMinute, minute(92)), []);
}

#[test]
fn a_reload_keeps_counts_by_the_name_of_their_limit() {
    let mut stream = HitterEvents::new(policy(&["login"], &["address", "account"]));
    stream.complete(ONE, AT);
    let old = stream.entry.clone();
    let mut stream = stream.with(policy(&["login"], &["new", "address"]));
    stream.complete(TWO, AT);
    stream.hitters.on_event(&Event::RequestCompleted(&old));
    let top = |limit: &str| stream.top(HitterOrder::Attempts, limit, WINDOW, AT);
    assert_eq!(
        top("address"),
        [(client(ONE), 2, 2), (client(TWO), 1, 0)],
        "also of attempts under the old rules"
    );
    assert_eq!(top("new"), [(client(TWO), 1, 1)]);
    assert_eq!(top("account"), [], "a limit that is gone");
}

/// The ranks of a skewed flood: each by Zipf's law about as often as one over its number.
#[expect(clippy::cast_possible_truncation, reason = "a draw")]
fn ranks(seed: u64) -> impl Iterator<Item = u32> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        // Knuth's linear congruential generator (MMIX).
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let uniform = (state >> 11) as f64 / (1_u64 << 53) as f64;
        (uniform * f64::from(ADDRESSES).ln()).exp() as u32
    })
}

const ADDRESSES: u32 = 100_000;

#[test]
fn the_true_top_20_of_a_million_refusals_from_100_000_addresses_are_listed_within_5_percent() {
    let stream = HitterEvents::new(policy(&["login"], &["address", "account"]));
    let mut truth: HashMap<[u8; 4], u32> = HashMap::new();
    std::thread::scope(|scope| {
        let flood = |seed| {
            let (hitters, mut entry) = (&stream.hitters, stream.entry.clone());
            move || {
                let mut truth: HashMap<[u8; 4], u32> = HashMap::new();
                for rank in ranks(seed).take(500_000) {
                    let ip = (0x0a00_0000 + rank).to_be_bytes();
                    *truth.entry(ip).or_default() += 1;
                    entry.client = Client::from_ip(ip.into());
                    hitters.on_event(&Event::RequestCompleted(&entry));
                }
                truth
            }
        };
        for thread in [1, 2].map(|seed| scope.spawn(flood(seed))) {
            thread.join().unwrap().into_iter().for_each(|(ip, times)| *truth.entry(ip).or_default() += times);
        }
    });
    let mut truth: Vec<_> = truth.into_iter().collect();
    truth.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    let found = stream.top(HitterOrder::Refused, "address", WINDOW, AT);
    for (ip, times) in &truth[..20] {
        let (_, attempts, refused) = found.iter().find(|(owner, ..)| *owner == client(*ip)).unwrap();
        assert!(refused <= times && times - refused <= times / 20, "{ip:?}: {refused} of {times}");
        assert_eq!(attempts, refused);
    }
}
