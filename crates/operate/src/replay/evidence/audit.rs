//! What audit logs tell: changes with their authors, when the gate served, when its store was away, and how many lines of
//! the decision log it has written.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};

use serde::Serialize;
use serde_json::Value;

use super::runs::{GateRun, GateRuns};
use super::tally::{BucketsTouched, ChangeNote};
use crate::observe::audit::ReadAuditLine;
use crate::observe::audit::gate_lines::{BEGUN, ENDED, NAMES, SERVES, STORE_BACK, STORE_LOST, is_of_gate};
use crate::policy::attempt::Client;
use crate::replay::line::{MAX_LINE, time_of};
use crate::time::Time;

/// What audit logs tell.
#[derive(Debug, Clone, Default)]
pub struct AuditEvidence {
    /// Changes since the time that counts, by others than the gate, the oldest first.
    pub changes: Vec<ReadChange>,
    /// Changes that there was no room for.
    pub left_out: u64,
    /// When gates served.
    pub runs: Vec<GateRun>,
    /// When a store was away since the time that counts.
    pub outages: Vec<StoreOutage>,
    /// Lines of decision logs that gates have written, by the hour of their requests.
    pub written: BTreeMap<u64, u64>,
    /// Lines that gates could not write.
    pub lost: u64,
    /// What changed buckets and the configuration.
    pub notes: Vec<ChangeNote>,
}

/// A change, and where its line stands.
#[derive(Debug, Clone, Serialize)]
pub struct ReadChange {
    /// The file.
    pub file: String,
    /// The number of the line, from 1.
    pub line: u64,
    /// Its members.
    #[serde(flatten)]
    pub entry: ReadAuditLine,
}

/// A time without the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoreOutage {
    /// The gate that lost it.
    pub gate: String,
    /// RFC 3339, in UTC.
    pub from: String,
    /// `None` if no line tells of its end.
    pub until: Option<String>,
    /// The reason.
    pub why: String,
    /// Attempts that were decided by the gate's own memory meanwhile.
    pub local: u64,
    /// Attempts that were admitted without a decision.
    pub allowed: u64,
    /// Attempts that were refused without a decision.
    pub denied: u64,
}

/// Reads audit logs, the oldest first. Lines that are none are left to the check of the chain.
///
/// # Errors
/// If one cannot be read.
pub fn read_audit(
    files: impl IntoIterator<Item = (String, impl BufRead)>,
    since: Time,
    keeps_buckets: bool,
) -> io::Result<AuditEvidence> {
    let mut reader = AuditReader { since, keeps_buckets, ..AuditReader::default() };
    for (name, mut file) in files {
        let (mut text, mut number) = (Vec::new(), 0);
        loop {
            text.clear();
            if file.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut text)? == 0 {
                break;
            }
            number += 1;
            if let Ok(entry) = ReadAuditLine::parse(text.trim_ascii_end()) {
                reader.add(&name, number, entry);
            }
        }
    }
    Ok(reader.finish())
}

#[derive(Default)]
struct AuditReader {
    since: Time,
    /// Whether buckets survive the end of a process.
    keeps_buckets: bool,
    evidence: AuditEvidence,
    runs: GateRuns,
    /// The hash of the configuration that was last in force, by gate.
    configs: BTreeMap<String, Value>,
    /// What each process has lost since it began.
    lost: BTreeMap<(String, String), u64>,
}

impl AuditReader {
    fn add(&mut self, file: &str, line: u64, entry: ReadAuditLine) {
        let Some(at) = time_of(&entry.time) else { return };
        // Not by name: a token may be called `gate`.
        if is_of_gate(&entry.what) {
            return self.add_of_gate(at, &entry);
        }
        self.note_change(at, &entry);
        // A name may move every few seconds.
        if at < self.since || entry.what == NAMES {
            return;
        }
        match self.evidence.changes.len() < MAX_CHANGES {
            true => self.evidence.changes.push(ReadChange { file: file.to_owned(), line, entry }),
            false => self.evidence.left_out += 1,
        }
    }

    fn add_of_gate(&mut self, at: Time, entry: &ReadAuditLine) {
        let process = entry.target.clone().unwrap_or_default();
        match &*entry.what {
            BEGUN => {
                self.lost.remove(&(entry.gate.clone(), process.clone()));
                let was_ended = self.runs.begin(&entry.gate, &process, at);
                self.note_config(at, entry, &entry.after);
                if !(self.keeps_buckets && was_ended) {
                    self.note(at, BucketsTouched::All, false);
                }
            }
            SERVES | ENDED => {
                self.runs.serves(&entry.gate, &process, at, entry.what == ENDED);
                self.add_lines(at, process, entry);
            }
            STORE_LOST | STORE_BACK => self.add_store(at, entry),
            _ => {}
        }
    }

    fn add_lines(&mut self, at: Time, process: String, entry: &ReadAuditLine) {
        let hours = entry.after["lines"].as_object().into_iter().flatten();
        for (hour, lines) in hours {
            let begin = time_of(&format!("{hour}:00:00Z"));
            if let (Some(begin), Some(lines)) = (begin, lines.as_u64()) {
                let hour = crate::observe::line_log::hour_of(begin);
                let sum = self.evidence.written.entry(hour).or_default();
                *sum = sum.saturating_add(lines);
            }
        }
        let Some(lost) = entry.after["lost"].as_u64() else { return };
        if self.lost.len() >= MAX_PROCESSES {
            self.lost.clear();
        }
        let before = self.lost.insert((entry.gate.clone(), process), lost).unwrap_or_default();
        if at >= self.since {
            self.evidence.lost = self.evidence.lost.saturating_add(lost.saturating_sub(before));
        }
    }

    fn add_store(&mut self, at: Time, entry: &ReadAuditLine) {
        let outages = &mut self.evidence.outages;
        let is_open = |outage: &StoreOutage| outage.until.is_none() && outage.gate == entry.gate;
        let number = |name: &str| entry.after[name].as_u64().unwrap_or_default();
        match outages.iter().rposition(is_open) {
            // Another server of the store may have gone as well.
            Some(open) => {
                let outage = &mut outages[open];
                outage.local = outage.local.saturating_add(number("local"));
                outage.allowed = outage.allowed.saturating_add(number("allow"));
                outage.denied = outage.denied.saturating_add(number("deny"));
                if entry.what == STORE_BACK {
                    outage.until = Some(entry.time.clone());
                }
                if outage.until.is_some() && at < self.since {
                    outages.remove(open);
                }
            }
            None if entry.what == STORE_LOST && outages.len() < MAX_OUTAGES => outages.push(StoreOutage {
                gate: entry.gate.clone(),
                from: entry.time.clone(),
                until: None,
                why: entry.after["why"].as_str().unwrap_or_default().to_owned(),
                local: 0,
                allowed: 0,
                denied: 0,
            }),
            None => {}
        }
    }

    /// What a change of an operator means for buckets and promises.
    fn note_change(&mut self, at: Time, entry: &ReadAuditLine) {
        if entry.failed.is_some() {
            return;
        }
        match &*entry.what {
            "bucket.reset" | "bucket.credit" => self.note_buckets(at, entry, None),
            "bucket.rate" | "bucket.exempt" => {
                // Without a time that can be read: until a line tells of the end.
                let until = last_until(&entry.after).unwrap_or(Time::from_nanos(u64::MAX));
                self.note_buckets(at, entry, Some(until));
            }
            // A ban replaces an own rate and an exemption.
            "bucket.ban" | "bucket.rate.end" | "bucket.exempt.end" | "bucket.ban.end" => {
                self.note_buckets(at, entry, Some(at));
            }
            // What goes with a person may be shared, as by the neighbours of an address.
            "forget" => self.note(at, BucketsTouched::All, false),
            "reload" if entry.after["changes"].is_string() => self.note(at, BucketsTouched::All, true),
            "reload" => self.note_config(at, entry, &entry.after),
            "policy" => self.note(at, BucketsTouched::All, true),
            NAMES if has_networks(entry) => self.note(at, BucketsTouched::All, true),
            _ => {}
        }
    }

    /// A configuration is in force. One that is the same as before changes nothing.
    fn note_config(&mut self, at: Time, entry: &ReadAuditLine, after: &Value) {
        let hash = &after["config"];
        if hash.is_null() {
            return;
        }
        let before = self.configs.insert(entry.gate.clone(), hash.clone());
        if before.is_some_and(|before| before != *hash) {
            self.note(at, BucketsTouched::All, true);
        }
    }

    /// A change of single buckets. Own rates and bans leave the failures of an account as they are.
    fn note_buckets(&mut self, at: Time, entry: &ReadAuditLine, until: Option<Time>) {
        let touched = entry.target.as_deref().and_then(touched).unwrap_or(BucketsTouched::All);
        let ends_row = until.is_none();
        let limits = if ends_row { Vec::new() } else { limits_of(entry) };
        self.push_note(ChangeNote { at, touched, limits, until, ends_row, is_of_configuration: false });
    }

    fn note(&mut self, at: Time, touched: BucketsTouched, is_of_configuration: bool) {
        let (limits, until) = (Vec::new(), None);
        self.push_note(ChangeNote { at, touched, limits, until, ends_row: true, is_of_configuration });
    }

    fn push_note(&mut self, note: ChangeNote) {
        let notes = &mut self.evidence.notes;
        if notes.len() >= MAX_NOTES {
            // The newest ones weigh more: what is before them counts as under another configuration.
            notes.drain(..MAX_NOTES / 2);
            notes.first_mut().into_iter().for_each(|first| first.is_of_configuration = true);
        }
        notes.push(note);
    }

    fn finish(self) -> AuditEvidence {
        AuditEvidence { runs: self.runs.finish(), ..self.evidence }
    }
}

/// Whether names stand for other networks, by which clients may be exempt.
fn has_networks(names: &ReadAuditLine) -> bool {
    let changed = [&names.before, &names.after].into_iter().filter_map(Value::as_object);
    changed.flat_map(|names| names.keys()).any(|name| name.starts_with("dns:"))
}

/// The buckets of a target, as in `user:#0123456789ab` or `ip:192.0.2.0/24`.
fn touched(target: &str) -> Option<BucketsTouched> {
    if let Some(hash) = target.strip_prefix("user:#") {
        return u64::from_str_radix(hash, 16).ok().map(BucketsTouched::Account);
    }
    let address = target.strip_prefix("ip:")?.split('/').next()?;
    address.parse().ok().map(|ip| BucketsTouched::Client(Client::from_ip(ip)))
}

/// The limits whose buckets a change is about; none if the line does not name them all.
fn limits_of(entry: &ReadAuditLine) -> Vec<String> {
    let buckets = || [&entry.before, &entry.after].into_iter().filter_map(Value::as_array);
    if buckets().any(|buckets| buckets.len() >= MAX_BUCKETS) {
        return Vec::new();
    }
    let mut limits: Vec<String> = Vec::new();
    for bucket in buckets().flatten() {
        match bucket["limit"].as_str() {
            Some(limit) if limits.iter().any(|known| known == limit) => {}
            Some(limit) => limits.push(limit.to_owned()),
            None => return Vec::new(),
        }
    }
    limits
}

/// Until when buckets have what a change gave them, by the last of them.
fn last_until(after: &Value) -> Option<Time> {
    let buckets = after.as_array().into_iter().flatten();
    let of_bucket = |bucket: &Value| {
        let texts = [&bucket["exempt_until"], &bucket["own"]["until"], &bucket["until"]];
        texts.into_iter().filter_map(|text| time_of(text.as_str()?)).max()
    };
    buckets.chain([after]).filter_map(of_bucket).max()
}

/// Changes of a report.
const MAX_CHANGES: usize = 10_000;
/// Buckets that a line names; there may have been more.
const MAX_BUCKETS: usize = 50;
/// Changes of buckets and configurations that are remembered.
const MAX_NOTES: usize = 100_000;
/// Processes whose lost lines are remembered.
const MAX_PROCESSES: usize = 10_000;
/// Outages of a report.
const MAX_OUTAGES: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_tells_of_which_buckets_and_until_when_they_are_exempt() {
        let lines = [
            r#"{"time":"2026-11-20T10:00:00Z","what":"bucket.exempt","target":"ip:192.0.2.7","after":[{"exempt_until":"2026-11-20T11:00:00Z"}]}"#,
            r#"{"time":"2026-11-20T10:10:00Z","what":"bucket.rate","target":"user:#7","after":[{"limit":"a","own":{"until":"2026-11-20T12:00:00Z"}},{"limit":"b"},{"limit":"a"}]}"#,
            r#"{"time":"2026-11-20T10:20:00Z","what":"bucket.exempt.end","target":"ip:192.0.2.7","before":[{"limit":"a"}],"after":[{"limit":"a"}]}"#,
            r#"{"time":"2026-11-20T10:30:00Z","what":"bucket.reset","target":"user:#7","after":[{"limit":"a","tokens":5}]}"#,
            r#"{"time":"2026-11-20T10:40:00Z","what":"forget","target":"user:#7"}"#,
            r#"{"time":"2026-11-20T10:50:00Z","what":"names","before":{"dns:a.test":["192.0.2.1"]},"after":{"dns:a.test":[]}}"#,
            r#"{"time":"2026-11-20T10:51:00Z","what":"names","before":{"srv:b.test":[]},"after":{"srv:b.test":[]}}"#,
        ]
        .join("\n");
        let files = [("audit.log".to_owned(), lines.as_bytes())];
        let evidence = read_audit(files, Time::default(), true).unwrap();
        assert_eq!(evidence.changes.len(), 5, "names are no changes by operators");
        let notes = evidence.notes;
        let client = BucketsTouched::Client(Client::from_ip([192, 0, 2, 7].into()));
        let account = BucketsTouched::Account(7);
        let at = |clock: &str| time_of(&format!("2026-11-20T{clock}:00Z"));
        let expected: [(_, &[&str], _, _); 6] = [
            (client, &[], at("11:00"), false),
            (account, &["a", "b"], at("12:00"), false),
            (client, &["a"], at("10:20"), false),
            (account, &[], None, true),
            (BucketsTouched::All, &[], None, true),
            (BucketsTouched::All, &[], None, true),
        ];
        assert_eq!(notes.len(), expected.len());
        for (note, (touched, limits, until, ends_row)) in notes.iter().zip(expected) {
            assert_eq!((note.touched, note.until, note.ends_row), (touched, until, ends_row));
            assert_eq!(note.limits, limits, "{touched:?}");
        }
    }
}
