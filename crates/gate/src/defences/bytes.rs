//! `unit = "bytes"`: a limit that counts the bytes of answers. It holds them back, and refuses nothing.
//!
//! For exports, backups and attachments, which one request makes long. Each value of the key has a bucket of bytes in the
//! memory of this process, whatever the store is: each piece of each answer asks it, and a shared store would be asked
//! thousands of times a second. What is not passed on is not read from the application either, so nothing is buffered.
//! The proxy does that, by the [`Pace`] that this gives an admitted attempt.

mod buckets;

use std::any::Any;
use std::str::FromStr;
use std::sync::Arc;

use http::StatusCode;
use tollgate_grammar::byte_rate::{ByteRate, in_units};
use tollgate_grammar::duration::in_words;
use tollgate_grammar::kind::{Key, Text};
use tollgate_grammar::schema::Schema;
use tollgate_grammar::{Mistake, Syntax, tables};

use self::buckets::{ByteBuckets, ByteTerms};
use crate::bucket::Key as BucketKey;
use crate::policy::key::KeyPart;
use crate::policy::{
    AttemptNote, ByteLimit, Defence, DefenceRefusal, Limit, Mode, Needs, Pace, ReadAttempt, Route,
};
use crate::time::{Span, Time};

tables! {
    /// The key of a limit that counts bytes.
    pub RawBytes {
        direction: Key<Text<CountedBytes>> = Own,
    }
}

/// The bytes that a limit counts: those of bodies of answers.
#[derive(Debug)]
pub struct CountedBytes;

/// A limit that counts bytes. Clones share their buckets.
#[derive(Debug, Clone)]
pub struct AnswerLimit {
    limit: Limit,
    rate: ByteRate,
    buckets: Arc<ByteBuckets>,
}

/// The limits of a file that count bytes, at a route.
#[derive(Debug)]
struct AnswerLimits {
    /// All of the file: at most [`MAX_LIMITS`].
    all: Vec<AnswerLimit>,
    /// The same.
    shared: Vec<Arc<dyn ByteLimit>>,
    /// The numbers of those that apply here.
    here: Vec<usize>,
}

impl FromStr for CountedBytes {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        match text {
            "answer" => Ok(Self),
            "request" => Err(Mistake::new("bytes of requests are not counted", "direction = \"answer\"")),
            _ => Err(Mistake::new(format!("unknown value `{text}`"), "known: `answer`")),
        }
    }
}

impl Syntax for CountedBytes {
    fn pattern() -> Option<String> {
        Some("^answer$".to_owned())
    }

    fn schema() -> Schema {
        Schema::words(vec!["answer"])
    }
}

impl AnswerLimit {
    /// A limit with the key, mode and exempt clients of `limit`, and full buckets, of which at most `capacity` are
    /// kept that are not.
    #[must_use]
    pub fn new(limit: Limit, rate: ByteRate, capacity: usize) -> Self {
        let terms = ByteTerms { rate, holds: limit.mode == Mode::Enforce };
        Self { limit, rate, buckets: Arc::new(ByteBuckets::new(capacity, terms)) }
    }

    fn terms(&self) -> ByteTerms {
        ByteTerms { rate: self.rate, holds: self.limit.mode == Mode::Enforce }
    }

    /// The limit, whose buckets of attempts nobody uses.
    #[must_use]
    pub fn as_limit(&self) -> &Limit {
        &self.limit
    }

    /// The least burst with which the rate is reached although timers are late, if this one is smaller.
    #[must_use]
    pub fn least_burst(rate: ByteRate) -> Option<String> {
        let in_lateness = per(rate, LATENESS);
        (rate.burst < in_lateness).then(|| in_units(in_lateness.next_multiple_of(1000)))
    }

    /// Whether clients would give up at this rate.
    #[must_use]
    pub fn is_too_slow(rate: ByteRate) -> bool {
        per(rate, Span::from_secs(1)) < LEAST
    }

    /// Whether a limit can have a bucket of bytes for each value of this.
    #[must_use]
    pub fn has_key(part: &KeyPart) -> bool {
        !matches!(part, KeyPart::Password | KeyPart::Owner)
    }
}

/// Holds back the answers of a route by those limits of the file that are `here`.
pub fn limit_answers(route: &mut Route, all: &[Option<AnswerLimit>], here: &[usize]) {
    let known = all.iter().enumerate().filter_map(|(at, limit)| Some((at, limit.as_ref()?.clone())));
    let (places, all): (Vec<usize>, Vec<AnswerLimit>) = known.unzip();
    let applies = |number: &usize| here.contains(&places[*number]);
    let here: Vec<usize> = (0..all.len()).filter(applies).collect();
    if !here.is_empty() {
        route.defences.add(AnswerLimits::new(all, here));
    }
}

impl AnswerLimits {
    fn new(all: Vec<AnswerLimit>, here: Vec<usize>) -> Self {
        let shared = all.iter().map(|limit| Arc::new(limit.clone()) as Arc<dyn ByteLimit>);
        Self { shared: shared.collect(), all, here }
    }

    /// Those that apply here and are on, with their numbers.
    fn here(&self) -> impl Iterator<Item = (usize, &AnswerLimit)> {
        let here = self.here.iter().filter_map(|&number| Some((number, self.all.get(number)?)));
        here.filter(|(_, limit)| limit.limit.mode != Mode::Off)
    }

    /// A note for each bucket: its key, with the number of the limit in the last bits.
    fn notes(&self, attempt: &ReadAttempt<'_>) -> Vec<AttemptNote> {
        let mut notes = Vec::new();
        for (number, limit) in self.here() {
            // These rules are in force: also at the end of what an operator has changed for a while.
            limit.buckets.go_by(limit.terms());
            match attempt.buckets_of(&limit.limit) {
                Ok(buckets) => notes.extend(buckets.iter().map(|bucket| note(*bucket, number))),
                Err(_) if limit.limit.mode == Mode::Enforce => notes.push(TOO_MANY),
                Err(_) => {}
            }
        }
        notes
    }
}

impl Defence for AnswerLimits {
    fn name(&self) -> &'static str {
        "bytes"
    }

    fn describe(&self) -> Option<String> {
        let names: Vec<_> = self.here().map(|(_, limit)| format!("`{}`", limit.limit.name)).collect();
        (!names.is_empty()).then(|| format!("the bytes of its answers pass by {}", names.join(" and ")))
    }

    fn settings(&self) -> String {
        let settings = self.here().map(|(_, AnswerLimit { limit, rate, .. })| {
            let Limit { name, key, prefixes, exempt, mode, .. } = limit;
            let exempt: Vec<_> = exempt.iter().map(|(net, ())| net.to_string()).collect();
            format!("{name} {rate} {key:?} {prefixes:?} {mode:?} {}", exempt.join(" "))
        });
        settings.collect::<Vec<_>>().join("; ")
    }

    fn needs(&self) -> Needs {
        let of_accounts = self.here().filter(|(_, limit)| limit.limit.is_of_accounts());
        let modes: Vec<Mode> = of_accounts.map(|(_, limit)| limit.limit.mode).collect();
        // Otherwise a body that nobody can read would pass by no limit.
        Needs { accounts: !modes.is_empty(), is_strict: modes.contains(&Mode::Enforce), ..Needs::default() }
    }

    fn note(&self, attempt: &ReadAttempt<'_>) -> Option<AttemptNote> {
        self.notes(attempt).first().copied()
    }

    fn further_notes(&self, attempt: &ReadAttempt<'_>) -> Vec<AttemptNote> {
        self.notes(attempt).into_iter().skip(1).collect()
    }

    fn refusal(&self, note: AttemptNote) -> Option<&'static DefenceRefusal> {
        (note == TOO_MANY).then_some(&REFUSAL)
    }

    fn pace(&self, AttemptNote(high, low): AttemptNote) -> Option<Pace> {
        let number = usize::try_from(low & NUMBERS).ok()?;
        let bucket = BucketKey(u128::from(high) << 64 | u128::from(low));
        Some(Pace { limit: Arc::clone(self.shared.get(number)?), bucket })
    }

    fn byte_limits(&self) -> &[Arc<dyn ByteLimit>] {
        &self.shared
    }

    fn byte_limits_here(&self) -> &[usize] {
        &self.here
    }

    fn explain(&self, _: AttemptNote) -> Option<(&'static str, String)> {
        let words = self.here().map(|(_, limit)| format!("{}: {}", limit.limit.name, limit.describe()));
        Some(("bytes", words.collect::<Vec<_>>().join("; ")))
    }

    fn with_limits(&self, change: &dyn Fn(&mut Limit)) -> Option<Arc<dyn Defence>> {
        let mut all = self.all.clone();
        for limit in &mut all {
            change(&mut limit.limit);
            limit.buckets.go_by(limit.terms());
        }
        Some(Arc::new(Self::new(all, self.here.clone())))
    }

    fn share(&mut self, former: &dyn Defence) {
        let Some(former) = (former as &dyn Any).downcast_ref::<Self>() else { return };
        let mut all = std::mem::take(&mut self.all);
        for limit in &mut all {
            let same = former.all.iter().find(|former| former.limit.name == limit.limit.name);
            limit.buckets = same.map_or(Arc::clone(&limit.buckets), |former| Arc::clone(&former.buckets));
            limit.buckets.go_by(limit.terms());
        }
        *self = Self::new(all, std::mem::take(&mut self.here));
    }
}

impl ByteLimit for AnswerLimit {
    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn describe(&self) -> String {
        let ByteRate { bytes, period, burst } = self.rate;
        let each = match PERIODS.iter().find(|(length, _)| *length == period) {
            Some((_, words)) => (*words).to_owned(),
            None => format!("every {}", in_words(period)),
        };
        format!("at most {} at once, then {} {each}", in_units(burst), in_units(bytes))
    }

    fn usage(&self, now: Time) -> (usize, u64) {
        self.buckets.usage(self.rate, now)
    }

    fn passed(&self) -> [u64; 2] {
        self.buckets.passed()
    }

    fn piece(&self, bucket: BucketKey, now: Time) -> usize {
        let ByteTerms { rate, holds } = self.buckets.terms();
        if !holds {
            return usize::MAX;
        }
        let in_moment = usize::try_from(per(rate, MOMENT)).unwrap_or(MAX_PIECE).clamp(MIN_PIECE, MAX_PIECE);
        // What is there waits for nobody.
        in_moment.max(usize::try_from(self.buckets.held(bucket, rate, now)).unwrap_or(usize::MAX))
    }

    fn take(&self, bucket: BucketKey, bytes: usize, now: Time) -> Span {
        let ByteTerms { rate, holds } = self.buckets.terms();
        let wait = self.buckets.take(bucket, bytes, rate, holds, now);
        if holds { wait } else { Span::ZERO }
    }

    fn give_back(&self, bucket: BucketKey, bytes: usize) {
        self.buckets.give_back(bucket, bytes);
    }
}

/// The note of a bucket.
fn note(BucketKey(key): BucketKey, number: usize) -> AttemptNote {
    #[expect(clippy::cast_possible_truncation, reason = "halves")]
    let (high, low) = ((key >> 64) as u64, key as u64);
    AttemptNote(high, low & !NUMBERS | number as u64 & NUMBERS)
}

/// The bytes that come back within this time.
fn per(ByteRate { bytes, period, .. }: ByteRate, time: Span) -> u64 {
    let all = u128::from(bytes) * u128::from(time.as_nanos());
    let passed = all.checked_div(u128::from(period.as_nanos())).unwrap_or_default();
    u64::try_from(passed).unwrap_or(u64::MAX)
}

/// Limits of bytes of a configuration at most: a note has the number of one.
pub const MAX_LIMITS: usize = 64;
const NUMBERS: u64 = MAX_LIMITS as u64 - 1;

/// The note of an attempt with more values of a header or a cookie than are told apart.
const TOO_MANY: AttemptNote = AttemptNote(u64::MAX, u64::MAX);

const REFUSAL: DefenceRefusal = DefenceRefusal {
    status: StatusCode::BAD_REQUEST,
    why: "more than 8 values for one header or cookie",
    detail: "The request has too many values for one header or cookie.",
};

/// Answers of one bucket take turns with pieces of so many bytes.
const MAX_PIECE: usize = 16 * 1024;
/// And, of a slow one, with what comes back in this time.
const MOMENT: Span = Span::from_millis(20);
/// But no less.
const MIN_PIECE: usize = 256;
/// Bytes a second below which a client would give up.
const LEAST: u64 = 100;
/// By how much a timer may be late on a busy machine.
const LATENESS: Span = Span::from_millis(20);

const PERIODS: [(Span, &str); 4] = [
    (Span::from_secs(1), "a second"),
    (Span::from_secs(60), "a minute"),
    (Span::from_secs(3600), "an hour"),
    (Span::from_secs(86_400), "a day"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{Continuous, Spec};

    fn limit(rate: &str) -> AnswerLimit {
        let spec = Spec::Continuous(Continuous::new(1, Span::from_secs(1), 1).unwrap());
        AnswerLimit::new(Limit::new("export", spec), rate.parse().unwrap(), 100)
    }

    #[test]
    fn a_limit_says_what_it_lets_through() {
        assert_eq!(limit("10MB/s burst 50MB").describe(), "at most 50MB at once, then 10MB a second");
        assert_eq!(limit("1GiB per 6h").describe(), "at most 1GiB at once, then 1GiB every 6h");
        assert_eq!(limit("1GB/day").describe(), "at most 1GB at once, then 1GB a day");
    }

    #[test]
    fn pieces_are_short_for_slow_rates_once_the_bucket_is_empty() {
        let now = Time::from_nanos(1);
        let pieces = ["1GB/s", "100KB/s", "1KB/s", "1GB per 1d"].map(|rate| {
            let limit = limit(rate);
            let full = limit.piece(BucketKey(1), now);
            limit.take(BucketKey(1), full, now);
            (full, limit.piece(BucketKey(1), now))
        });
        let gigabyte = 1_000_000_000;
        let expected = [(gigabyte, MAX_PIECE), (100_000, 2000), (1000, MIN_PIECE), (gigabyte, MIN_PIECE)];
        assert_eq!(pieces, expected);
    }

    #[test]
    fn a_note_leads_back_to_its_limit_and_its_bucket() {
        let mut other = limit("1KB/s");
        other.limit.name = "other".into();
        let limits = AnswerLimits::new(vec![limit("1MB/s"), other], vec![0, 1]);
        let [one, two] = [0, 1].map(|number| limits.pace(note(BucketKey(u128::MAX >> 1), number)).unwrap());
        assert_eq!((&*one.limit.limit().name, &*two.limit.limit().name), ("export", "other"));
        assert_eq!(one.bucket.0 >> 64, u128::MAX >> 65);
        assert_eq!(limits.refusal(TOO_MANY).map(|refusal| refusal.status), Some(StatusCode::BAD_REQUEST));
    }

    #[test]
    fn a_reload_keeps_the_buckets_of_limits_that_keep_their_names() {
        let (former, now) = (AnswerLimits::new(vec![limit("1KB/s")], vec![0]), Time::from_nanos(1));
        former.shared[0].take(BucketKey(1), 1000, now);
        let mut limits = AnswerLimits::new(vec![limit("500B/s burst 1KB")], vec![0]);
        limits.share(&former);
        assert_eq!(limits.shared[0].take(BucketKey(1), 500, now), Span::from_secs(1));
        assert_eq!(former.shared[0].usage(now), limits.all[0].usage(now));
        assert_eq!(
            former.shared[0].take(BucketKey(1), 500, now),
            Span::from_secs(2),
            "also what is under way"
        );
    }

    #[test]
    fn what_is_under_way_goes_by_the_latest_rules_also_after_a_change_for_a_while() {
        let (configured, now) = (AnswerLimits::new(vec![limit("1KB/s")], vec![0]), Time::from_nanos(1));
        configured.shared[0].take(BucketKey(1), 1000, now);
        let wait = || configured.shared[0].take(BucketKey(1), 500, now);
        assert_eq!(wait(), Span::from_millis(500));
        let changed = configured.with_limits(&|limit| limit.mode = Mode::Observe).unwrap();
        assert_eq!(wait(), Span::ZERO, "it only counts");
        changed.with_limits(&|limit| limit.mode = Mode::Enforce);
        assert_eq!(wait(), Span::from_secs(1));
    }
}
