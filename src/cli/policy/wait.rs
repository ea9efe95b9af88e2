//! Waits after a push until the gates have tried the policy, and says which of them took it.
//!
//! It waits for gates that follow the store and have reported lately. The list of gates in the store knows them; gates
//! of versions that do not report are not in it.

use clap::Args;

use super::super::Exit;
use super::super::stored_policy::SharedPolicies;
use crate::cli::output::{errln, outln};
use crate::config::values::{Duration, in_words};
use crate::store::{PolicyAnswer, PolicyId, ReportedGate};
use crate::time::{Clock, Span};

#[derive(Debug, Args)]
pub(super) struct WaitArgs {
    /// How long to wait until the gates have tried it; exits with 1 if one refuses it or does not answer
    #[arg(long, value_name = "TIME", default_value = DEFAULT_WAIT)]
    wait: Duration,
    /// Wait for no gate
    #[arg(long, conflicts_with = "wait")]
    no_wait: bool,
}

impl WaitArgs {
    /// Waits, and prints what became of the policy.
    ///
    /// # Errors
    /// If the store does not answer, or another operator has pushed another policy meanwhile.
    pub(super) fn run(&self, policies: &SharedPolicies, policy: &PolicyId) -> anyhow::Result<Exit> {
        if self.no_wait {
            return Ok(Exit::Ok);
        }
        let clock = Clock::system();
        let end = clock.now().after(self.wait.0);
        let mut awaited = AwaitedGates::default();
        loop {
            let (newest, gates) = policies.newest_and_gates()?;
            if let Some(newest) = newest.filter(|newest| newest.id() != *policy) {
                anyhow::bail!("policy {} of {} has replaced this one meanwhile", newest.version, newest.by);
            }
            awaited.see(gates);
            if awaited.have_tried(policy) || clock.now() >= end {
                return Ok(awaited.tell(policy, self.wait));
            }
            policies.pause(POLL_INTERVAL);
        }
    }
}

/// Gates that a push waits for.
#[derive(Default)]
struct AwaitedGates(Vec<ReportedGate>);

impl AwaitedGates {
    /// A gate that has left the list has ended, unless it left because it was silent.
    fn see(&mut self, gates: Vec<ReportedGate>) {
        let is_known = |gate: &ReportedGate| self.0.iter().any(|known| known.id == gate.id);
        let follows = |gate: &ReportedGate| gate.report.policy.is_some();
        let is_awaited = |gate: &ReportedGate| follows(gate) && (gate.age <= FRESH || is_known(gate));
        let awaited: Vec<_> = gates.into_iter().filter(is_awaited).collect();
        self.0.retain(|gate| gate.age > FRESH && awaited.iter().all(|other| other.id != gate.id));
        self.0.extend(awaited);
    }

    fn have_tried(&self, policy: &PolicyId) -> bool {
        self.0.iter().all(|gate| gate.report.answer(policy) != PolicyAnswer::Untried)
    }

    fn tell(&self, policy: &PolicyId, wait: Duration) -> Exit {
        let version = policy.version;
        let taken = self.0.iter().filter(|gate| gate.report.answer(policy) == PolicyAnswer::Taken);
        let taken: Vec<&str> = taken.map(|gate| &*gate.name).collect();
        match (taken.len(), self.0.len()) {
            (_, 0) => {
                outln!(
                    "no gate that follows the store has reported: gates take policy {version} when they start"
                );
            }
            (0, all) => errln!("policy {version} is in force at none of {all} gates"),
            (some, all) => {
                outln!("policy {version} is in force at {some} of {all} gates: {}", taken.join(", "));
            }
        }
        for ReportedGate { name, age, report, .. } in &self.0 {
            match report.answer(policy) {
                PolicyAnswer::Refused(refusal) => errln!("{name} refuses policy {version}: {}", refusal.why),
                PolicyAnswer::Untried => {
                    let age = in_words(Span::from_secs(age.to_std().as_secs()));
                    errln!("{name} has not answered within {wait}; it last reported {age} ago");
                }
                PolicyAnswer::Taken | PolicyAnswer::NotFollowing => {}
            }
        }
        if taken.len() == self.0.len() { Exit::Ok } else { Exit::Failed }
    }
}

const DEFAULT_WAIT: &str = "15s";
/// A gate that has not reported for longer has probably ended: it would have reported three times.
pub(in crate::cli) const FRESH: Span = Span::from_secs(30);
const POLL_INTERVAL: Span = Span::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{GateId, GateReport, PolicyRefusal};

    fn policy(version: u64) -> PolicyId {
        PolicyId { version, hash: "a".to_owned() }
    }

    fn gate(id: GateId, age: u64, version: u64) -> ReportedGate {
        let report = GateReport {
            host: "web".to_owned(),
            process: 1,
            program: "1.0.0".to_owned(),
            uptime: 1,
            policy: Some(policy(version)),
            refused: None,
            details: None,
        };
        ReportedGate { id, name: "web".to_owned(), age: Span::from_secs(age), report }
    }

    #[test]
    fn a_push_waits_for_gates_that_follow_and_have_reported_lately() {
        let mut awaited = AwaitedGates::default();
        let mut alone = gate(GateId::random(), 1, 6);
        alone.report.policy = None;
        awaited.see(vec![alone, gate(GateId::random(), 31, 6)]);
        assert!(awaited.0.is_empty() && awaited.have_tried(&policy(7)));
        awaited.see(vec![gate(GateId::random(), 30, 6)]);
        assert!(!awaited.have_tried(&policy(7)));
    }

    #[test]
    fn a_gate_that_ends_is_not_waited_for_and_one_that_falls_silent_is() {
        let (ending, silent) = (GateId::random(), GateId::random());
        let mut awaited = AwaitedGates::default();
        awaited.see(vec![gate(ending, 5, 6), gate(silent, 25, 6)]);
        awaited.see(vec![gate(silent, 59, 6)]);
        awaited.see(Vec::new());
        assert_eq!(awaited.0.iter().map(|gate| gate.id).collect::<Vec<_>>(), [silent]);
        assert!(!awaited.have_tried(&policy(7)));
    }

    #[test]
    fn a_refusal_of_this_policy_is_an_answer_and_one_of_an_earlier_policy_is_not() {
        let mut awaited = AwaitedGates::default();
        let mut refusing = gate(GateId::random(), 1, 5);
        refusing.report.refused = Some(PolicyRefusal { policy: policy(6), why: String::new() });
        awaited.see(vec![refusing]);
        assert!(awaited.have_tried(&policy(6)) && !awaited.have_tried(&policy(7)));
        assert_eq!(awaited.tell(&policy(6), Duration(FRESH)), Exit::Failed);
    }
}
