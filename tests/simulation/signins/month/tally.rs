//! What came of a month.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use serde_json::{Value, json};

use super::START;
use super::attackers::Attacker;
use super::limiters::Verdict;
use super::site::{Entrance, Try};
use crate::signins::directory::Directory;
use crate::signins::rules::{DAY, MINUTE};

/// Counts of tries. Those of people have numbers, which are the same in a month without attackers.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Right passwords of people.
    pub(super) sign_ins: u64,
    /// Those that were refused.
    pub(super) refused: BTreeSet<u64>,
    by_form: FormTally,
    /// The same in a month without attackers.
    refused_in_peace: BTreeSet<u64>,
    minutes: u64,
    /// People refused because of strangers where they had signed in before.
    pub(super) owners_locked_out: BTreeSet<u64>,
    /// People refused because of strangers where they never were.
    newcomers_refused: u64,
    attackers: [AttackerTally; 6],
    /// Guesses at an account on a day.
    at_account: HashMap<(u64, u64), u64>,
    /// Accounts at which a password was sprayed before it was refused, and whether it was.
    sprayed: BTreeMap<u64, (u64, bool)>,
    seen: HashSet<(u64, Origin)>,
    /// What would lock accounts if it were behind the site.
    pub(super) directory: Directory,
    number: u64,
}

/// Right passwords that a person typed into the form: no program tries again by itself.
#[derive(Debug, Default)]
struct FormTally {
    sign_ins: u64,
    refused: u64,
}

#[derive(Debug, Default, Clone)]
struct AttackerTally {
    guesses: u64,
    reached: u64,
    taken: BTreeSet<u64>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum Origin {
    Browser(u64),
    Address(IpAddr),
}

impl Tally {
    /// Of a month with attackers, after the same one without.
    pub(super) fn after(peace: Self) -> Self {
        Self { refused_in_peace: peace.refused, ..Self::default() }
    }

    pub(super) fn count(&mut self, one: &Try, day: u64, verdict: Verdict) {
        if verdict == Verdict::Admitted {
            self.directory.bind(one.account, one.is_right, START + day * DAY + one.at);
        }
        match one.attacker {
            Some(attacker) => self.guess(one, attacker, day, verdict),
            None => self.person(one, verdict),
        }
    }

    fn person(&mut self, one: &Try, verdict: Verdict) {
        self.number += 1;
        if !one.is_right {
            return;
        }
        self.sign_ins += 1;
        if one.entrance == Entrance::Form {
            self.by_form.sign_ins += 1;
            self.by_form.refused += u64::from(verdict != Verdict::Admitted);
        }
        let origins = [Origin::Browser(one.client), Origin::Address(one.from)];
        let is_known = |origin: &Origin| *origin != Origin::Browser(0);
        match verdict {
            Verdict::Admitted => {
                let new = origins.into_iter().filter(is_known);
                self.seen.extend(new.map(|origin| (one.account, origin)));
            }
            Verdict::Refused { wait } => {
                self.refused.insert(self.number);
                self.minutes += wait / MINUTE;
                let mut known = origins.into_iter().filter(is_known);
                let is_by_strangers = !self.refused_in_peace.contains(&self.number);
                if is_by_strangers && known.any(|origin| self.seen.contains(&(one.account, origin))) {
                    self.owners_locked_out.insert(one.account);
                } else if is_by_strangers {
                    self.newcomers_refused += 1;
                }
            }
        }
    }

    fn guess(&mut self, one: &Try, attacker: usize, day: u64, verdict: Verdict) {
        let is_admitted = verdict == Verdict::Admitted;
        let tally = &mut self.attackers[attacker];
        tally.guesses += 1;
        if attacker == Attacker::Spray as usize {
            let (accounts, is_refused) = self.sprayed.entry(day).or_default();
            *is_refused |= !is_admitted;
            *accounts += u64::from(!*is_refused);
        }
        if !is_admitted {
            return;
        }
        tally.reached += 1;
        if one.is_right {
            tally.taken.insert(one.account);
        }
        *self.at_account.entry((one.account, day)).or_default() += 1;
    }

    pub(super) fn guesses(&self) -> u64 {
        self.attackers.iter().map(|attacker| attacker.guesses).sum()
    }

    pub(super) fn most_at_one_account(&self) -> u64 {
        self.at_account.values().copied().max().unwrap_or(0)
    }

    /// The most accounts at which a password was tried before the first of them was refused.
    pub(super) fn sprayed_before_refusal(&self) -> u64 {
        self.sprayed.values().map(|(accounts, _)| *accounts).max().unwrap_or(0)
    }

    pub(super) fn figures(&self) -> Value {
        let taken: BTreeSet<u64> = self.attackers.iter().flat_map(|one| one.taken.iter().copied()).collect();
        let attackers = Attacker::ALL.iter().zip(&self.attackers).map(|(attacker, tally)| {
            let AttackerTally { guesses, reached, taken } = tally;
            let figures = json!({ "guesses": guesses, "reached": reached, "taken": taken.len() });
            (format!("{attacker:?}"), figures)
        });
        json!({
            "attackers": attackers.collect::<serde_json::Map<_, _>>(),
            "accounts_taken": taken.len(),
            "most_guesses_at_one_account_in_a_day": self.most_at_one_account(),
            "accounts_sprayed_before_refusal": self.sprayed_before_refusal(),
            "sign_ins": self.sign_ins,
            "refused": self.refused.len(),
            "form_sign_ins": self.by_form.sign_ins,
            "form_refused": self.by_form.refused,
            "refused_without_attackers": self.refused_in_peace.len(),
            "minutes_refused": self.minutes,
            "owners_locked_out": self.owners_locked_out.len(),
            "strangers_refused_because_of_attackers": self.newcomers_refused,
            "directory_locks": self.directory.locks,
        })
    }
}
