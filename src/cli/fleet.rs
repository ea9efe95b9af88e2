//! `tollgate fleet`: the gates that share a store, the policy of each, what it holds and how it sees the store.
//!
//! It talks to the store and not to a gate. A gate reports itself there every ten seconds, and takes itself out when it
//! ends; one that was killed is listed for a minute.

use std::collections::BTreeMap;
use std::fmt::Write;

use clap::Args;
use serde::Serialize;

use super::Exit;
use super::admin_api::OutputFormat;
use super::buckets::aligned;
use super::policy::{FRESH, opened};
use super::sources::ConfigArgs;
use crate::cli::output::{out, outln};
use crate::config::values::in_words;
use crate::store::{
    GateDetails, GateReport, PolicyAnswer, PolicyId, PolicyRefusal, ReportedGate, StoreHealth,
};
use crate::time::Span;

#[derive(Debug, Args)]
pub(super) struct FleetArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// How the list is printed
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    format: OutputFormat,
}

impl FleetArgs {
    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        &mut self.config
    }
}

pub(super) fn fleet(FleetArgs { config, format }: &FleetArgs) -> anyhow::Result<Exit> {
    let (newest, gates) = opened(&config.own_sources()?)?.newest_and_gates()?;
    let status = FleetStatus { newest: newest.map(|newest| newest.id()), gates };
    match format {
        OutputFormat::Json => outln!("{}", serde_json::to_string_pretty(&status.page())?),
        OutputFormat::Text => out!("{}", status.text()),
    }
    Ok(if status.is_one_behind() { Exit::Failed } else { Exit::Ok })
}

/// The gates, and the policy that those that follow have to take.
struct FleetStatus {
    newest: Option<PolicyId>,
    gates: Vec<ReportedGate>,
}

impl FleetStatus {
    /// What a gate did with the newest policy; without a policy there is nothing to do.
    fn answer<'g>(&self, gate: &'g ReportedGate) -> PolicyAnswer<'g> {
        match (&self.newest, &gate.report.policy) {
            (Some(newest), _) => gate.report.answer(newest),
            (None, Some(_)) => PolicyAnswer::Taken,
            (None, None) => PolicyAnswer::NotFollowing,
        }
    }

    fn is_one_behind(&self) -> bool {
        let is_behind = |gate| matches!(self.answer(gate), PolicyAnswer::Refused(_) | PolicyAnswer::Untried);
        self.gates.iter().any(is_behind)
    }

    fn text(&self) -> String {
        if self.gates.is_empty() {
            return "no gate has reported to the store\n".to_owned();
        }
        let mut rows = vec![HEADINGS.map(str::to_owned)];
        rows.extend(self.gates.iter().map(|gate| self.row(gate)));
        let mut text = aligned(&rows);
        let notes = self.gates.iter().filter_map(|gate| self.note(gate));
        let silent = self.gates.iter().filter_map(silence);
        let alone = self.named("not following", |report| report.policy.is_none());
        let cut_off = self.named("a server of the store is down at", |report| {
            report.details.is_some_and(|it| !it.store.is_up)
        });
        let lines = notes.chain(silent).chain(alone).chain(cut_off).chain(self.programs());
        for line in std::iter::once(self.policy_line()).chain(lines) {
            // Writing to memory cannot fail.
            let _ = writeln!(text, "{line}");
        }
        text
    }

    fn policy_line(&self) -> String {
        let Some(PolicyId { version, hash }) = &self.newest else {
            return "no policy has been pushed yet".to_owned();
        };
        let following = self.gates.iter().filter(|gate| gate.report.policy.is_some()).count();
        let taken = self.gates.iter().filter(|gate| self.answer(gate) == PolicyAnswer::Taken).count();
        format!(
            "the newest policy is {version} ({hash}), in force at {taken} of {following} gates that follow"
        )
    }

    /// The names of the gates of which this is so, behind these words.
    fn named(&self, words: &str, is_so: impl Fn(&GateReport) -> bool) -> Option<String> {
        let names: Vec<&str> =
            self.gates.iter().filter(|gate| is_so(&gate.report)).map(|gate| &*gate.name).collect();
        (!names.is_empty()).then(|| format!("{words}: {}", names.join(", ")))
    }

    fn row(&self, gate: &ReportedGate) -> [String; HEADINGS.len()] {
        let policy = match (&gate.report.policy, self.answer(gate)) {
            (None, _) => "its own".to_owned(),
            (Some(policy), PolicyAnswer::Refused(refusal)) => {
                format!("{}, refuses {}", policy.version, refusal.policy.version)
            }
            (Some(policy), _) => policy.version.to_string(),
        };
        let uptime = in_words(rounded(uptime(gate)));
        let hash = gate.report.policy.as_ref().map_or("-", |policy| &*policy.hash).to_owned();
        let [buckets, store, trips] = gate.report.details.as_ref().map_or_else(
            || ["-"; 3].map(str::to_owned),
            |GateDetails { buckets, store }| {
                let is_up = if store.is_up { "up" } else { "down" };
                [buckets.to_string(), is_up.to_owned(), trips_in_words(store, gate.age)]
            },
        );
        let heard = format!("{} ago", in_words(Span::from_secs(seconds(gate.age))));
        [gate.name.clone(), gate.report.program.clone(), uptime, policy, hash, buckets, store, trips, heard]
    }

    fn note(&self, gate: &ReportedGate) -> Option<String> {
        match self.answer(gate) {
            PolicyAnswer::Refused(PolicyRefusal { policy, why }) => {
                Some(format!("{} refuses policy {}: {why}", gate.name, policy.version))
            }
            PolicyAnswer::Untried => Some(format!("{} runs another policy than the newest", gate.name)),
            PolicyAnswer::Taken | PolicyAnswer::NotFollowing => None,
        }
    }

    /// The versions of the program, if there are several.
    fn programs(&self) -> Option<String> {
        let mut programs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for gate in &self.gates {
            programs.entry(&gate.report.program).or_default().push(&gate.name);
        }
        let of = |(program, gates): (&&str, &Vec<&str>)| format!("{program} at {}", gates.join(", "));
        let all: Vec<String> = programs.iter().map(of).collect();
        (all.len() > 1).then(|| format!("several versions of the program: {}", all.join("; ")))
    }

    fn page(&self) -> FleetPage<'_> {
        FleetPage {
            policy: self.newest.as_ref().map(PolicyIdPart::of),
            gates: self.gates.iter().map(|gate| self.part(gate)).collect(),
        }
    }

    fn part<'g>(&self, gate: &'g ReportedGate) -> GatePart<'g> {
        let ReportedGate { name, age, report, .. } = gate;
        let refused = |PolicyRefusal { policy, why }: &'g PolicyRefusal| PolicyRefusalPart {
            version: policy.version,
            hash: &policy.hash,
            why,
        };
        GatePart {
            name,
            host: &report.host,
            process: report.process,
            version: &report.program,
            uptime: seconds(uptime(gate)),
            policy: report.policy.as_ref().map(PolicyIdPart::of),
            refused: report.refused.as_ref().map(refused),
            newest: match self.answer(gate) {
                PolicyAnswer::Taken => "taken",
                PolicyAnswer::Refused(_) => "refused",
                PolicyAnswer::Untried => "untried",
                PolicyAnswer::NotFollowing => "not following",
            },
            heard: seconds(*age),
            buckets: report.details.map(|details| details.buckets),
            store: report.details.map(|details| StoreHealthPart::of(details.store, *age)),
        }
    }
}

/// The list for programs; times in seconds.
#[derive(Serialize)]
struct FleetPage<'s> {
    policy: Option<PolicyIdPart<'s>>,
    gates: Vec<GatePart<'s>>,
}

#[derive(Serialize)]
struct GatePart<'s> {
    name: &'s str,
    host: &'s str,
    process: u32,
    version: &'s str,
    uptime: u64,
    policy: Option<PolicyIdPart<'s>>,
    refused: Option<PolicyRefusalPart<'s>>,
    newest: &'static str,
    heard: u64,
    /// This and the next are `null` for a program that does not report them.
    buckets: Option<u64>,
    store: Option<StoreHealthPart>,
}

/// A gate's store, as the gate sees it.
#[derive(Serialize)]
struct StoreHealthPart {
    up: bool,
    trips: u32,
    since_trip: Option<u64>,
}

#[derive(Serialize)]
struct PolicyIdPart<'s> {
    version: u64,
    hash: &'s str,
}

#[derive(Serialize)]
struct PolicyRefusalPart<'s> {
    version: u64,
    hash: &'s str,
    why: &'s str,
}

impl<'s> PolicyIdPart<'s> {
    fn of(PolicyId { version, hash }: &'s PolicyId) -> Self {
        Self { version: *version, hash }
    }
}

impl StoreHealthPart {
    /// As a report had it that is so old.
    fn of(StoreHealth { is_up, trips, since_trip }: StoreHealth, age: Span) -> Self {
        let since_trip = since_trip.map(|since| since.saturating_add(seconds(age)));
        Self { up: is_up, trips, since_trip }
    }
}

/// As in `2, last 5m6s ago`.
fn trips_in_words(store: &StoreHealth, age: Span) -> String {
    let StoreHealthPart { trips, since_trip, .. } = StoreHealthPart::of(*store, age);
    let last = since_trip.map(|since| format!(", last {} ago", in_words(rounded(Span::from_secs(since)))));
    format!("{trips}{}", last.unwrap_or_default())
}

/// What is to be said of a gate that has missed its reports.
fn silence(gate: &ReportedGate) -> Option<String> {
    let silent = in_words(Span::from_secs(seconds(gate.age)));
    let text =
        format!("{} has not reported for {silent}: it has ended, or does not reach the store", gate.name);
    (gate.age > FRESH).then_some(text)
}

fn uptime(gate: &ReportedGate) -> Span {
    Span::from_secs(gate.report.uptime).plus(gate.age)
}

fn seconds(span: Span) -> u64 {
    span.to_std().as_secs()
}

/// Two units are enough: `3d4h`, `4h5m`, `5m6s`.
fn rounded(uptime: Span) -> Span {
    let seconds = seconds(uptime);
    let unit = if seconds >= 86_400 {
        3_600
    } else if seconds >= 3_600 {
        60
    } else {
        1
    };
    Span::from_secs(seconds / unit * unit)
}

const HEADINGS: [&str; 9] =
    ["GATE", "VERSION", "UPTIME", "POLICY", "HASH", "BUCKETS", "STORE", "TRIPS", "HEARD"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::GateId;

    fn id(version: u64) -> PolicyId {
        PolicyId { version, hash: format!("hash {version}") }
    }

    fn gate(name: &str, program: &str, policy: Option<u64>) -> ReportedGate {
        let report = GateReport {
            host: name.to_owned(),
            process: 7,
            program: program.to_owned(),
            uptime: 93_784,
            policy: policy.map(id),
            refused: None,
            details: Some(GateDetails {
                buckets: 12,
                store: StoreHealth { is_up: true, trips: 0, since_trip: None },
            }),
        };
        ReportedGate { id: GateId::random(), name: name.to_owned(), age: Span::from_millis(2_900), report }
    }

    #[test]
    fn a_table_shows_the_gates_and_says_what_differs() {
        let mut refusing = gate("b", "0.2.0", Some(6));
        refusing.report.refused =
            Some(PolicyRefusal { policy: id(7), why: "policy 7:1:2: wrong".to_owned() });
        let store = StoreHealth { is_up: false, trips: 2, since_trip: Some(303) };
        refusing.report.details = Some(GateDetails { buckets: 4_321, store });
        let mut earlier = gate("c", "0.1.0", Some(5));
        earlier.report.details = None;
        earlier.age = Span::from_secs(45);
        let gates = vec![gate("a", "0.2.0", Some(7)), refusing, earlier, gate("d", "0.2.0", None)];
        let status = FleetStatus { newest: Some(id(7)), gates };
        let expected = "\
GATE  VERSION  UPTIME  POLICY        HASH    BUCKETS  STORE  TRIPS             HEARD
a     0.2.0    1d2h    7             hash 7  12       up     0                 2s ago
b     0.2.0    1d2h    6, refuses 7  hash 6  4321     down   2, last 5m5s ago  2s ago
c     0.1.0    1d2h    5             hash 5  -        -      -                 45s ago
d     0.2.0    1d2h    its own       -       12       up     0                 2s ago
the newest policy is 7 (hash 7), in force at 1 of 3 gates that follow
b refuses policy 7: policy 7:1:2: wrong
c runs another policy than the newest
c has not reported for 45s: it has ended, or does not reach the store
not following: d
a server of the store is down at: b
several versions of the program: 0.1.0 at c; 0.2.0 at a, b, d
";
        assert_eq!(status.text(), expected);
        assert!(status.is_one_behind());
        let FleetPage { gates, .. } = status.page();
        let answers = gates.iter().map(|gate| gate.newest).collect::<Vec<_>>();
        assert_eq!(answers, ["taken", "refused", "untried", "not following"]);
        assert_eq!((gates[0].heard, gates[0].uptime), (2, 93_786));
        let details = serde_json::to_value(&gates[1..3]).unwrap();
        assert_eq!(details[0]["store"], json!({"up": false, "trips": 2, "since_trip": 305}));
        assert_eq!((&details[1]["buckets"], &details[1]["store"]), (&json!(null), &json!(null)));
    }

    #[test]
    fn gates_that_do_not_follow_and_gates_without_a_policy_are_not_behind() {
        let gates = vec![gate("a", "0.2.0", None)];
        assert!(!FleetStatus { newest: Some(id(7)), gates }.is_one_behind());
        let status = FleetStatus { newest: None, gates: vec![gate("a", "0.2.0", Some(7))] };
        assert!(!status.is_one_behind() && status.text().ends_with("no policy has been pushed yet\n"));
        assert_eq!(
            FleetStatus { newest: None, gates: Vec::new() }.text(),
            "no gate has reported to the store\n"
        );
    }
}
