//! The bytes of a bucket, for stores outside this process and for files.
//!
//! Layout, all numbers big endian: `version (1) | shape (1) | fingerprint (4) | spec | state`. The highest bit of the
//! shape means that the bucket has its own rate; the end of that rate (8) then stands before the spec. The record
//! holds the whole spec, not just its fingerprint: a gate that reads a bucket written under another configuration can
//! convert its fill level without knowing that configuration. The fingerprint is over the bytes of the spec and reveals
//! foreign bytes.

use super::standing_order::{BOUNDLESS, StandingOrder, is_ban, is_exemption};
use super::units::{Span, Time};
use super::{
    Continuous, Distinct, Escalation, Floor, Interval, Op, PeriodStart, Recent, Rolling, Spec, SpecError,
    Step, convert, step,
};

/// The header before the words of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    /// The specification under which the state was written.
    pub spec: Spec,
    /// The end of the bucket's own rate, if the specification is one.
    pub own_until: Option<Time>,
}

/// A rate that one bucket has instead of its limit's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Own {
    /// The rate.
    pub rate: Continuous,
    /// When the limit's rate is in force again.
    pub until: Time,
}

impl Own {
    /// The rate by which a bucket refuses everything until a time: one token in all that time. A start balance of zero tells
    /// it from other rates of one token.
    ///
    /// # Errors
    /// [`SpecError`] if that time is over, or further away than a bucket may count.
    pub fn ban(now: Time, until: Time) -> Result<Self, SpecError> {
        Ok(Self { rate: Continuous::new(1, until.since(now), 1)?.with_initial(0)?, until })
    }

    /// The rate by which a bucket refuses nothing until a time.
    ///
    /// # Errors
    /// None in fact: the rate is a valid one.
    pub fn exemption(until: Time) -> Result<Self, SpecError> {
        Ok(Self { rate: Continuous::new(BOUNDLESS, Span::from_secs(1), BOUNDLESS)?, until })
    }

    /// Whether this is a [ban](Self::ban).
    #[must_use]
    pub fn is_ban(&self) -> bool {
        is_ban(self.rate)
    }

    /// Whether this is an [exemption](Self::exemption).
    #[must_use]
    pub fn is_exemption(&self) -> bool {
        is_exemption(self.rate)
    }
}

/// Why bytes are not a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// Too short or too long for their shape.
    Length,
    /// An unknown version.
    Version(u8),
    /// An unknown shape.
    Shape(u8),
    /// The fingerprint does not match the spec.
    Fingerprint,
    /// Numbers that do not make a spec.
    Spec(SpecError),
}

/// Bytes of the longest record: a rolling window of 1,024 periods with its own rate before it.
pub const MAX_RECORD_LEN: usize = 64 + 8 * Spec::MAX_WORDS;

impl RecordHeader {
    /// The header of a bucket without its own rate.
    #[must_use]
    pub fn of(spec: Spec) -> Self {
        Self { spec, own_until: None }
    }

    /// Gives the bucket its own rate, or takes it away; the fill level stays, in proportion. [`Spec::Distinct`]
    /// keeps charging tags once; [`Spec::Escalation`] and [`Spec::Recent`] have no rate and do not
    /// change.
    pub fn give_rate(
        &mut self,
        limit: &Spec,
        own: Option<Own>,
        state: &mut [u64; Spec::MAX_WORDS],
        now: Time,
    ) {
        let to = own.map_or(Self::of(*limit), |own| Self {
            spec: limit.at_rate(own.rate),
            own_until: Some(own.until),
        });
        self.convert_to(to, state, now);
    }

    /// Has the bucket refuse everything until the end of this [ban](Own::ban); then it is full. No [step](Self::step) ends it
    /// earlier.
    pub fn ban(&mut self, ban: Own, state: &mut [u64; Spec::MAX_WORDS]) {
        // Plain, whatever the limit is: a bucket that remembers tags would let known ones pass.
        *self = Self { spec: Spec::Continuous(ban.rate), own_until: Some(ban.until) };
        state.fill(0);
        if let Some(full_at) = state.first_mut() {
            *full_at = ban.until.as_nanos();
        }
    }

    /// The specification in force now: the bucket's own rate until its end, then the limit's. Converts the state once
    /// if it was written under another specification.
    pub fn effective_spec(&mut self, limit: &Spec, state: &mut [u64; Spec::MAX_WORDS], now: Time) -> Spec {
        match self.own_until {
            Some(until) if until > now => {}
            // The own rate refills until its end, not until now.
            Some(until) => self.convert_to(Self::of(*limit), state, until),
            None => self.convert_to(Self::of(*limit), state, now),
        }
        self.spec
    }

    /// Decides one operation of an attempt as [`step`](step()) does. A [ban](Own::ban) refuses every attempt and an
    /// [exemption](Own::exemption) admits every one; both last until their end, whatever attempts take or give back.
    pub fn step(&self, state: &mut [u64], now: Time, op: Op) -> Step {
        let own = self.spec.rate().zip(self.own_until);
        let order = own.and_then(|(rate, until)| StandingOrder::of(rate, until, state));
        if let Some(order) = order.filter(|order| order.is_in_force(now)) {
            return order.step(state, now, op);
        }
        let words = self.spec.words().min(state.len());
        match state.get_mut(..words) {
            Some(words) => step(&self.spec, words, now, op),
            None => step(&self.spec, state, now, op),
        }
    }

    /// Writes header and state, and returns the number of bytes.
    #[must_use]
    pub fn encode(&self, state: &[u64], bytes: &mut [u8; MAX_RECORD_LEN]) -> usize {
        let mut writer = RecordWriter { bytes, at: 0 };
        writer.put(&[LAYOUT, shape_of(&self.spec) | if self.own_until.is_some() { OWN } else { 0 }]);
        writer.put(&self.spec.fingerprint().to_be_bytes());
        if let Some(until) = self.own_until {
            writer.word(until.as_nanos());
        }
        write_spec(&self.spec, &mut writer);
        for word in state.iter().take(self.spec.words()) {
            writer.word(*word);
        }
        writer.at
    }

    /// Reads what [`RecordHeader::encode`] wrote. The state's words are [`Spec::words`] of the header's spec.
    ///
    /// # Errors
    /// [`DecodeError`] for all other bytes.
    pub fn decode(bytes: &[u8], state: &mut [u64; Spec::MAX_WORDS]) -> Result<Self, DecodeError> {
        let (header, rest) = Self::decode_first(bytes, state)?;
        if rest.is_empty() { Ok(header) } else { Err(DecodeError::Length) }
    }

    /// As [`RecordHeader::decode`], of a record that other bytes follow. Returns those.
    ///
    /// # Errors
    /// [`DecodeError`] for all other bytes.
    pub fn decode_first<'b>(
        bytes: &'b [u8],
        state: &mut [u64; Spec::MAX_WORDS],
    ) -> Result<(Self, &'b [u8]), DecodeError> {
        let mut reader = RecordReader(bytes);
        let [version, shape] = reader.take()?;
        if version != LAYOUT {
            return Err(DecodeError::Version(version));
        }
        let fingerprint = u32::from_be_bytes(reader.take()?);
        let own_until = if shape & OWN == 0 { None } else { Some(Time::from_nanos(reader.word()?)) };
        let from_spec = reader.0;
        let spec = read_spec(shape & !OWN, &mut reader)?;
        // A constructor may correct numbers and make the same spec of other bytes: such bytes are foreign.
        let (written, length) = spec_bytes(&spec);
        let is_written_so = written.get(1..length).is_some_and(|written| from_spec.starts_with(written));
        if spec.fingerprint() != fingerprint || !is_written_so {
            return Err(DecodeError::Fingerprint);
        }
        state.fill(0);
        for word in state.iter_mut().take(spec.words()) {
            *word = reader.word()?;
        }
        Ok((Self { spec, own_until }, reader.0))
    }

    fn convert_to(&mut self, to: Self, state: &mut [u64; Spec::MAX_WORDS], now: Time) {
        if self.spec != to.spec {
            let mut before = *state;
            let (from, words) = (self.spec.words(), to.spec.words());
            if let (Some(before), Some(after)) = (before.get_mut(..from), state.get_mut(..words)) {
                convert(&self.spec, before, &to.spec, after, now);
            }
        }
        *self = to;
    }
}

impl Spec {
    /// The specification of a bucket of this limit that has this rate instead: [`Spec::Distinct`] keeps charging tags
    /// once, and [`Spec::Escalation`] and [`Spec::Recent`] have no rate.
    #[must_use]
    pub fn at_rate(&self, rate: Continuous) -> Self {
        match self {
            Self::Distinct(distinct) => {
                Distinct::new(rate, distinct.repeats()).map_or(Self::Continuous(rate), Self::Distinct)
            }
            Self::Escalation(_) | Self::Recent(_) => *self,
            _ => Self::Continuous(rate),
        }
    }

    /// The refill rate, if the shape has a single one.
    #[must_use]
    pub fn rate(&self) -> Option<Continuous> {
        match self {
            Self::Continuous(rate) => Some(*rate),
            Self::Distinct(distinct) => Some(distinct.bucket()),
            Self::Interval(_) | Self::Rolling(_) | Self::Floor(_) => None,
            Self::Escalation(_) | Self::Recent(_) => None,
        }
    }

    /// 32 bits that differ when the spec differs (FNV-1a over its bytes).
    #[must_use]
    pub fn fingerprint(&self) -> u32 {
        let (bytes, _) = spec_bytes(self);
        bytes.iter().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
    }
}

/// The bytes of shape and numbers, and their length.
fn spec_bytes(spec: &Spec) -> ([u8; MAX_SPEC_LEN], usize) {
    let mut bytes = [0; MAX_SPEC_LEN];
    let mut writer = RecordWriter { bytes: &mut bytes, at: 0 };
    writer.put(&[shape_of(spec)]);
    write_spec(spec, &mut writer);
    let length = writer.at;
    (bytes, length)
}

fn shape_of(spec: &Spec) -> u8 {
    match spec {
        Spec::Continuous(_) => 1,
        Spec::Interval(_) => 2,
        Spec::Rolling(_) => 3,
        Spec::Floor(_) => 4,
        Spec::Distinct(_) => 5,
        Spec::Escalation(_) => 6,
        Spec::Recent(_) => 7,
    }
}

fn write_spec(spec: &Spec, writer: &mut RecordWriter<'_>) {
    match spec {
        Spec::Continuous(bucket) => write_continuous(bucket, writer),
        Spec::Interval(interval) => {
            writer.word(interval.period().as_nanos());
            writer.halves(&[interval.quota(), interval.initial(), interval.debt()]);
            writer.put(&[period_start_byte(interval.period_start())]);
        }
        Spec::Rolling(rolling) => {
            writer.word(rolling.window().as_nanos());
            writer.word(rolling.period().as_nanos());
            writer.halves(&[rolling.quota(), rolling.burst(), rolling.initial(), rolling.debt()]);
            writer.put(&[period_start_byte(rolling.period_start())]);
        }
        Spec::Floor(floor) => {
            write_continuous(&floor.floor(), writer);
            write_continuous(&floor.pool(), writer);
        }
        Spec::Distinct(distinct) => {
            write_continuous(&distinct.bucket(), writer);
            writer.put(&[distinct.repeats().is_some().into()]);
            writer.halves(&[distinct.repeats().unwrap_or(0)]);
        }
        Spec::Escalation(escalation) => {
            writer.word(escalation.wait().as_nanos());
            writer.word(escalation.max().as_nanos());
            writer.halves(&[escalation.after(), escalation.factor()]);
        }
        Spec::Recent(recent) => writer.word(recent.ttl().as_nanos()),
    }
}

fn write_continuous(bucket: &Continuous, writer: &mut RecordWriter<'_>) {
    writer.word(bucket.per_token().as_nanos());
    writer.halves(&[bucket.burst(), bucket.initial(), bucket.debt()]);
    writer.word(bucket.hold().as_nanos());
}

fn read_spec(shape: u8, reader: &mut RecordReader<'_>) -> Result<Spec, DecodeError> {
    Ok(match shape {
        1 => Spec::Continuous(read_continuous(reader)?),
        2 => {
            let period = Span::from_nanos(reader.word()?);
            let [quota, initial, debt] = reader.halves()?;
            let interval = Interval::new(quota, period, reader.period_start()?);
            let interval = interval.and_then(|interval| interval.with_initial(initial)?.with_debt(debt));
            Spec::Interval(interval.map_err(DecodeError::Spec)?)
        }
        3 => {
            let (window, period) = (Span::from_nanos(reader.word()?), Span::from_nanos(reader.word()?));
            let [quota, rate, initial, debt] = reader.halves()?;
            let rolling = Rolling::new(quota, window, period, reader.period_start()?);
            let rolling =
                rolling.and_then(|rolling| rolling.with_rate(rate)?.with_initial(initial)?.with_debt(debt));
            Spec::Rolling(rolling.map_err(DecodeError::Spec)?)
        }
        4 => {
            let (floor, pool) = (read_continuous(reader)?, read_continuous(reader)?);
            Spec::Floor(Floor::new(floor, pool).map_err(DecodeError::Spec)?)
        }
        5 => {
            let (bucket, [bounded], [repeats]) = (read_continuous(reader)?, reader.take()?, reader.halves()?);
            let distinct = Distinct::new(bucket, (bounded != 0).then_some(repeats));
            Spec::Distinct(distinct.map_err(DecodeError::Spec)?)
        }
        6 => {
            let (wait, max) = (Span::from_nanos(reader.word()?), Span::from_nanos(reader.word()?));
            let [after, factor] = reader.halves()?;
            let escalation = Escalation::new(after, wait, factor, max);
            Spec::Escalation(escalation.map_err(DecodeError::Spec)?)
        }
        7 => Spec::Recent(Recent::new(Span::from_nanos(reader.word()?)).map_err(DecodeError::Spec)?),
        unknown => return Err(DecodeError::Shape(unknown)),
    })
}

fn read_continuous(reader: &mut RecordReader<'_>) -> Result<Continuous, DecodeError> {
    let per_token = Span::from_nanos(reader.word()?);
    let [burst, initial, debt] = reader.halves()?;
    let hold = Span::from_nanos(reader.word()?);
    let bucket = Continuous::new(1, per_token, burst);
    let bucket = bucket.and_then(|bucket| bucket.with_initial(initial)?.with_debt(debt)?.with_hold(hold));
    bucket.map_err(DecodeError::Spec)
}

fn period_start_byte(period_start: PeriodStart) -> u8 {
    match period_start {
        PeriodStart::First => 0,
        PeriodStart::Clock => 1,
    }
}

struct RecordWriter<'b> {
    bytes: &'b mut [u8],
    at: usize,
}

impl RecordWriter<'_> {
    /// Appends bytes. Bytes that do not fit are dropped; the buffers are large enough for all records.
    fn put(&mut self, bytes: &[u8]) {
        let end = self.at.saturating_add(bytes.len());
        if let Some(target) = self.bytes.get_mut(self.at..end) {
            target.copy_from_slice(bytes);
            self.at = end;
        }
    }

    fn word(&mut self, word: u64) {
        self.put(&word.to_be_bytes());
    }

    fn halves(&mut self, halves: &[u32]) {
        halves.iter().for_each(|half| self.put(&half.to_be_bytes()));
    }
}

struct RecordReader<'b>(&'b [u8]);

impl RecordReader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(DecodeError::Length)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn word(&mut self) -> Result<u64, DecodeError> {
        self.take().map(u64::from_be_bytes)
    }

    fn halves<const N: usize>(&mut self) -> Result<[u32; N], DecodeError> {
        let mut halves = [0; N];
        for half in &mut halves {
            *half = u32::from_be_bytes(self.take()?);
        }
        Ok(halves)
    }

    fn period_start(&mut self) -> Result<PeriodStart, DecodeError> {
        match self.take()? {
            [0] => Ok(PeriodStart::First),
            [1] => Ok(PeriodStart::Clock),
            _ => Err(DecodeError::Fingerprint),
        }
    }
}

/// The version of the layout: increases when the meaning of the bytes changes.
pub const LAYOUT: u8 = 1;
const OWN: u8 = 0x80;
/// A shape byte and two continuous buckets.
const MAX_SPEC_LEN: usize = 1 + 2 * 28;

#[cfg(test)]
mod tests;
