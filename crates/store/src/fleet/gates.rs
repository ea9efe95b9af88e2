//! The list of gates: what each gate of an installation reports of itself, and which policy it has tried.
//!
//! One record next to the head, which every gate rewrites. An entry is the gate's number, the time of its last report by
//! the store's clock, and the report as its writer encoded it: a gate passes on the reports of others as they came, so
//! programs of several versions share the list. A later version may only add fields at the end of a report: an earlier
//! one does not read them. The record ends by itself when no gate writes any more; if the store loses it, it is complete
//! again after twelve seconds.
//!
//! A gate reports when it starts, when it has tried a policy, when a server of its store, other than the list's own, goes
//! or comes back, and every ten seconds otherwise, which is one load and one swap. 50 gates make 5 swaps a second, of a
//! record of 4 KB.

use serde::{Deserialize, Serialize};

use super::{Fleet, FleetError, MAX_TEXT_LEN, MAX_TRIES};
use crate::{RecordVersion, StoreClock};
use tollgate_bucket::{Span, Time};

/// The number of a gate: random, and another one after each start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateId(u64);

/// A policy of an installation. The hash tells policies apart that count from 1 again, after the store lost the history.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyId {
    /// Counts from 1.
    pub version: u64,
    /// The [hash](super::PolicyEntry::hash_of) of its text.
    pub hash: String,
}

/// A policy that a gate cannot take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRefusal {
    /// The policy.
    pub policy: PolicyId,
    /// The reason, in one line.
    pub why: String,
}

/// What a gate reports of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateReport {
    /// The name of its machine.
    pub host: String,
    /// Its process, by which gates on one machine differ.
    pub process: u32,
    /// The version of its program.
    pub program: String,
    /// Whole seconds since it started.
    pub uptime: u64,
    /// The policy in force; `None` for a gate that does not follow the store.
    pub policy: Option<PolicyId>,
    /// The newest one, if it could not be taken.
    pub refused: Option<PolicyRefusal>,
    /// Stands behind the others; `None` from a program that does not report it.
    #[serde(skip)]
    pub details: Option<GateDetails>,
}

/// What a gate holds, and how its store does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateDetails {
    /// Buckets in its memory that are not full: what it knows of those in the store. An estimate for large tables.
    pub buckets: u64,
    /// Its store, as it sees it.
    pub store: StoreHealth,
}

/// How a store does and did, as one gate sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreHealth {
    /// Whether calls go to all of its servers.
    pub is_up: bool,
    /// How often calls to one of its servers were stopped since the gate started.
    pub trips: u32,
    /// Whole seconds since the last time, if there was one.
    pub since_trip: Option<u64>,
}

/// A gate in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedGate {
    /// Its number.
    pub id: GateId,
    /// The name of its machine; with its process if the list has several gates of the machine.
    pub name: String,
    /// How long ago it reported.
    pub age: Span,
    /// Its last report.
    pub report: GateReport,
}

/// What a gate did with a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyAnswer<'r> {
    /// It is in force there.
    Taken,
    /// The gate cannot take it.
    Refused(&'r PolicyRefusal),
    /// The gate has not tried it yet.
    Untried,
    /// The gate does not follow the store.
    NotFollowing,
}

/// The record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct GateList(Vec<GateEntry>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct GateEntry {
    id: GateId,
    /// In nanoseconds since 1970.
    at: u64,
    report: Vec<u8>,
}

/// The record as it was read.
struct LoadedGates {
    list: GateList,
    version: Option<RecordVersion>,
    /// By the store's clock, if it has told it.
    now: Time,
}

impl GateId {
    /// The number of a gate that starts.
    #[must_use]
    pub fn random() -> Self {
        Self(RecordVersion::random().0)
    }

    /// The number of a simulated gate.
    #[cfg(test)]
    pub(super) fn numbered(number: u64) -> Self {
        Self(number * 977 + 1)
    }

    /// How long this gate pauses between two reports: between 8 and 12 seconds, so that gates that started together do not
    /// go on together.
    #[must_use]
    pub fn report_interval(self) -> Span {
        SHORTEST_INTERVAL.plus(Span::from_millis(self.0 % 4_000))
    }
}

impl GateReport {
    /// What the gate did with this policy.
    #[must_use]
    pub fn answer(&self, policy: &PolicyId) -> PolicyAnswer<'_> {
        match (&self.policy, &self.refused) {
            (None, _) => PolicyAnswer::NotFollowing,
            (Some(in_force), _) if in_force == policy => PolicyAnswer::Taken,
            (_, Some(refusal)) if refusal.policy == *policy => PolicyAnswer::Refused(refusal),
            _ => PolicyAnswer::Untried,
        }
    }

    /// At most [`MAX_REPORT_LEN`] bytes: long texts are cut, the reason of a refusal to what the others leave.
    fn encode(&self) -> Vec<u8> {
        let (host, program) = (cut(&self.host, MAX_HOST_LEN), cut(&self.program, MAX_PROGRAM_LEN));
        let mut report = Self { host, program, refused: None, ..self.clone() };
        if let Some(PolicyRefusal { policy, why }) = &self.refused {
            report.refused = Some(PolicyRefusal { policy: policy.clone(), why: String::new() });
            let room = MAX_REPORT_LEN.saturating_sub(report.bytes().len() + LEN_OF_LEN);
            report.refused = Some(PolicyRefusal { policy: policy.clone(), why: cut(why, room) });
        }
        report.bytes()
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = bytes_of(self);
        if let Some(details) = &self.details {
            bytes.extend(bytes_of(details));
        }
        bytes
    }

    /// Ignores what a later version has added; what an earlier one does not have is `None`.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (report, behind) = postcard::take_from_bytes::<Self>(bytes).ok()?;
        let details = postcard::take_from_bytes(behind).ok().map(|(details, _)| details);
        Some(Self { details, ..report })
    }
}

impl GateList {
    /// Puts a report in place of the gate's last one.
    fn put(&mut self, id: GateId, report: &GateReport, now: Time) -> Result<(), FleetError> {
        self.0.retain(|entry| entry.id != id && now.since(Time::from_nanos(entry.at)) <= KEPT);
        if self.0.len() >= MAX_GATES {
            return Err(FleetError::Full);
        }
        self.0.push(GateEntry { id, at: now.as_nanos(), report: report.encode() });
        Ok(())
    }

    /// Whether the gate was in the list.
    fn remove(&mut self, id: GateId) -> bool {
        let before = self.0.len();
        self.0.retain(|entry| entry.id != id);
        self.0.len() < before
    }

    /// In the order of their names. A report that cannot be read is left out.
    fn gates(&self, now: Time) -> Vec<ReportedGate> {
        let read = |entry: &GateEntry| {
            let (report, age) = (GateReport::decode(&entry.report)?, now.since(Time::from_nanos(entry.at)));
            Some(ReportedGate { id: entry.id, name: report.host.clone(), age, report })
        };
        let mut gates: Vec<_> = self.0.iter().filter_map(read).collect();
        let hosts: Vec<_> = gates.iter().map(|gate| gate.report.host.clone()).collect();
        for gate in &mut gates {
            if hosts.iter().filter(|host| **host == gate.report.host).count() > 1 {
                gate.name = format!("{}/{}", gate.report.host, gate.report.process);
            }
        }
        gates.sort_by(|one, other| one.name.cmp(&other.name));
        gates
    }
}

impl Fleet {
    /// The gates that have reported: one request. `now` counts if the store does not tell its time.
    ///
    /// # Errors
    /// See [`FleetError`].
    pub async fn gates(&self, now: Time) -> Result<Vec<ReportedGate>, FleetError> {
        let LoadedGates { list, now, .. } = self.load_gates(now).await?;
        Ok(list.gates(now))
    }

    /// Puts a gate's report in the list. Gates that have not reported for a minute go.
    ///
    /// # Errors
    /// See [`FleetError`]; [`Conflict`](FleetError::Conflict) if another gate comes first.
    pub async fn report(&self, id: GateId, report: &GateReport, now: Time) -> Result<(), FleetError> {
        let LoadedGates { mut list, version, now } = self.load_gates(now).await?;
        list.put(id, report, now)?;
        self.write_gates(&list, version).await
    }

    /// Takes a gate that ends out of the list.
    ///
    /// # Errors
    /// See [`FleetError`].
    pub async fn sign_off(&self, id: GateId) -> Result<(), FleetError> {
        for _ in 0..MAX_TRIES {
            let LoadedGates { mut list, version, .. } = self.load_gates(Time::default()).await?;
            if !list.remove(id) {
                return Ok(());
            }
            match self.write_gates(&list, version).await {
                Err(FleetError::Conflict) => {}
                written => return written,
            }
        }
        Err(FleetError::Conflict)
    }

    async fn load_gates(&self, own: Time) -> Result<LoadedGates, FleetError> {
        let key = self.keys.gates();
        let loaded = self.backend.load(key).await?;
        let now = match loaded.clock {
            Some(StoreClock::Exact(time) | StoreClock::Seconds(time)) => time,
            None => own,
        };
        let Some(stored) = loaded.value else {
            return Ok(LoadedGates { list: GateList::default(), version: None, now });
        };
        let opened = self.keys.seal.open(key, &stored.bytes);
        let list = opened.and_then(|opened| postcard::from_bytes(opened.text).ok());
        let list = list.ok_or(FleetError::Foreign("list of gates"))?;
        Ok(LoadedGates { list, version: Some(stored.version), now })
    }

    async fn write_gates(&self, list: &GateList, version: Option<RecordVersion>) -> Result<(), FleetError> {
        let bytes = bytes_of(list);
        // Reports of a later version may be longer.
        if bytes.len() > MAX_TEXT_LEN {
            return Err(FleetError::Full);
        }
        self.swap_for(LIST_TTL, self.keys.gates(), version, &bytes, "gates").await
    }
}

pub(super) fn bytes_of(value: &impl Serialize) -> Vec<u8> {
    // Every list, report and page can be encoded.
    postcard::to_stdvec(value).unwrap_or_default()
}

/// At most so many bytes, none of which controls a terminal.
pub(super) fn cut(text: &str, most: usize) -> String {
    let mut len = 0;
    let fits = |letter: &char| {
        len += letter.len_utf8();
        len <= most
    };
    text.chars().filter(|letter| !letter.is_control()).take_while(fits).collect()
}

/// Gates in the list: with their reports they fit into a record of every database.
pub const MAX_GATES: usize = 150;
const MAX_REPORT_LEN: usize = 300;
/// The length of a text takes one more byte from 128 bytes on.
const LEN_OF_LEN: usize = 1;
const MAX_HOST_LEN: usize = 64;
const MAX_PROGRAM_LEN: usize = 32;
/// A gate that has not reported for longer is gone.
const KEPT: Span = Span::from_secs(60);
const LIST_TTL: Span = Span::from_secs(120);
const SHORTEST_INTERVAL: Span = Span::from_secs(8);

#[cfg(test)]
mod tests;
