//! Deciding by a store that several gates share.
//!
//! What the mirror refuses is refused at once. Where its word is older than a second, it is looked up again for one of the
//! limits that refuse. Everything else is asked of the store: all limits of an attempt at the same time, so that it waits for
//! one of them and not for one after the other; if one refuses, the others get their tokens back.
//! A rival may for a moment see one token too few, never one too many. The surprising thing: debt and growing waits of those
//! who are refused by the mirror are counted here first, and reach the store with the next question, so that whoever is
//! refused a thousand times a second does not make a thousand questions of it.

use std::pin::Pin;
use std::sync::Arc;

use smallvec::SmallVec;

use super::standing::{self, Standings, longest_wait};
use super::{Engine, Refusal, Reservation, Rules, Ruling};
use crate::bucket::{Op, Verdict};
use crate::event::{Event, Fallback};
use crate::policy::{Charge, Charges, Facet, Spends};
use crate::store::memory::{Outcome, Stale, Withdrawal, refuse_all, take_all};
use crate::store::shared::{Deed, OnError, Said, Shared, Unavailable};
use crate::time::Time;

/// What the engine says to a request at once.
#[must_use]
pub enum Consulted {
    /// The ruling.
    Now(Ruling),
    /// The store has to be asked.
    Later(Inquiry),
}

/// An attempt of which the store has been asked.
#[must_use]
pub struct Inquiry {
    shared: Arc<Shared>,
    found: Charges,
    asked: Asked,
}

/// What the store has been asked.
enum Asked {
    /// Whether a limit still refuses, as it did when it was last heard of.
    Again(Answer),
    /// For the tokens of all limits.
    All(Answers),
}

type Answers = SmallVec<[Answer; 2]>;

/// An attempt that the store has to decide on.
struct Unruled {
    shared: Arc<Shared>,
    found: Charges,
}

type Answer = Pin<Box<dyn Future<Output = Result<Said, Unavailable>> + Send>>;

/// By whom an attempt was decided, and to whom its tokens go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// The memory of this process, which may be the mirror of a store that is away.
    Memory,
    /// A store that several gates share.
    Store,
}

impl Engine {
    /// Refuses by what was in the store a moment ago; `None` if that does not refuse.
    pub(super) fn refuse_by_mirror(&self, rules: &Rules, found: &Charges, now: Time) -> Option<Refusal> {
        let (limit, refusal) = self.mirrored(rules, found, now)?;
        self.events.emit(&Event::Mirrored { limit: &rules.policy.limits[limit].name });
        Some(refusal)
    }

    /// The same, and by which limit; not counted among what the mirror answered without asking.
    fn mirrored(&self, rules: &Rules, found: &Charges, now: Time) -> Option<(usize, Refusal)> {
        let withdrawals = rules.withdrawals(found);
        let is_fresh = |at: usize| {
            let mirror = &rules.mirrors[found.charges[at].limit];
            mirror.is_fresh(&withdrawals[at].place, now)
        };
        let at = refusing(&withdrawals, now).find(|at| is_fresh(*at))?;
        // Tables of a shared store are never closed.
        let outcome = refuse_all(&withdrawals, now).ok()??;
        let mut standings = self.tell(rules, found, &outcome);
        rules.count_in_row(&mut standings, false, now);
        let route = found.routes.first().copied().unwrap_or_default();
        let refusal = Refusal { route, wait: longest_wait(&rules.policy, &standings), standings };
        Some((found.charges[at].limit, refusal))
    }

    /// Asks the store.
    pub(super) fn inquire(&self, shared: &Arc<Shared>, rules: &Rules, found: Charges, now: Time) -> Inquiry {
        let withdrawals = rules.withdrawals(&found);
        let mirror = |at: usize| &rules.mirrors[found.charges[at].limit];
        // The one that was heard of longest ago, so that each has its turn.
        let oldest =
            refusing(&withdrawals, now).min_by_key(|at| mirror(*at).seen_at(&withdrawals[*at].place));
        let asked = match oldest {
            Some(at) => {
                let Withdrawal { place, .. } = withdrawals[at];
                Asked::Again(Box::pin(shared.ask(mirror(at), place, Deed::Step(withdrawals[at].peek()))))
            }
            None => Asked::All(ask_all(shared, rules, &found)),
        };
        Inquiry { shared: Arc::clone(shared), found, asked }
    }
}

/// Which limits refuse, as far as this process knows.
fn refusing(withdrawals: &[Withdrawal<'_>], now: Time) -> impl Iterator<Item = usize> {
    let refuses = move |(at, withdrawal): (usize, &Withdrawal<'_>)| {
        (withdrawal.enforce && !withdrawal.look(now).verdict.is_admitted()).then_some(at)
    };
    withdrawals.iter().enumerate().filter_map(refuses)
}

fn ask_all(shared: &Arc<Shared>, rules: &Rules, found: &Charges) -> Answers {
    let ask = |(charge, withdrawal): (&Charge, &Withdrawal<'_>)| {
        let deed = Deed::Step(withdrawal.take());
        Box::pin(shared.ask(&rules.mirrors[charge.limit], withdrawal.place, deed)) as Answer
    };
    found.charges.iter().zip(&rules.withdrawals(found)).map(ask).collect()
}

impl Inquiry {
    /// What the store said, or what is done without it.
    pub async fn ruling(self, engine: &Engine, rules: &Rules) -> Ruling {
        let Self { shared, found, asked } = self;
        let attempt = Unruled { shared, found };
        let answers = match asked {
            Asked::All(answers) => answers,
            Asked::Again(answer) => {
                if answer.await.is_err() {
                    return attempt.without(engine, rules);
                }
                let now = attempt.shared.now();
                if let Some((_, refusal)) = engine.mirrored(rules, &attempt.found, now) {
                    return Ruling::Refused(refusal);
                }
                ask_all(&attempt.shared, rules, &attempt.found)
            }
        };
        attempt.ruling(engine, rules, answers).await
    }
}

impl Unruled {
    async fn ruling(self, engine: &Engine, rules: &Rules, answers: Answers) -> Ruling {
        let mut said: SmallVec<[Result<Said, Unavailable>; 2]> = SmallVec::new();
        for answer in answers {
            // They were asked together, so waiting for one is waiting for all.
            said.push(answer.await);
        }
        let verdicts: Result<SmallVec<[Verdict; 2]>, _> =
            said.iter().map(|said| said.map(|said| said.verdict)).collect();
        match verdicts {
            Ok(verdicts) => self.by_store(engine, rules, verdicts).await,
            Err(Unavailable) => {
                for (at, said) in said.iter().enumerate() {
                    if let Ok(Said { verdict, .. }) = said {
                        self.give_back(rules, at, verdict);
                    }
                }
                self.without(engine, rules)
            }
        }
    }

    async fn by_store(self, engine: &Engine, rules: &Rules, mut verdicts: SmallVec<[Verdict; 2]>) -> Ruling {
        let enforced = self.found.charges.iter().map(|charge| charge.enforce);
        let admitted = !enforced.zip(&verdicts).any(|(enforce, verdict)| enforce && !verdict.is_admitted());
        if !admitted {
            for (at, verdict) in verdicts.iter_mut().enumerate().filter(|(_, verdict)| verdict.is_admitted())
            {
                self.give_back(rules, at, verdict);
                verdict.left = verdict.left.saturating_add(verdict.receipt.tokens);
            }
        }
        let mut standings = engine.tell(rules, &self.found, &Outcome { admitted, verdicts });
        self.count_in_row(rules, &mut standings, admitted).await;
        if admitted {
            return Ruling::Admitted(Reservation::new(rules.generation, self.found, standings, By::Store));
        }
        let route = self.found.routes.first().copied().unwrap_or_default();
        Ruling::Refused(Refusal { route, wait: longest_wait(&rules.policy, &standings), standings })
    }

    /// As [`Rules::count_in_row`], in the store.
    async fn count_in_row(&self, rules: &Rules, standings: &mut Standings, admitted: bool) {
        for at in 0..standings.len() {
            let charge = standings[at].charge;
            let limit = &rules.policy.limits[charge.limit];
            if limit.facet != Facet::Escalation || limit.spends != Spends::Attempts {
                continue;
            }
            let (mirror, place) = (&rules.mirrors[charge.limit], rules.withdrawal(&charge).place);
            if admitted {
                // Most have no row to break: then nothing is asked.
                if standings[at].verdict.left < limit.spec.burst() {
                    self.shared.tell(mirror, place, Deed::Step(Op::Give(1)));
                }
            } else if standing::is_refused_by_owner(&rules.policy, standings, charge.limit)
                && let Ok(said) = self.shared.ask(mirror, place, Deed::Step(Op::Strike)).await
            {
                standings[at].verdict = said.verdict;
            }
        }
    }

    /// The store is away.
    fn without(self, engine: &Engine, rules: &Rules) -> Ruling {
        let way = self.shared.on_error();
        engine.events.emit(&Event::FellBack(match way {
            OnError::Local => Fallback::Local,
            OnError::Allow => Fallback::Allow,
            OnError::Deny => Fallback::Deny,
        }));
        match way {
            OnError::Deny => Ruling::Denied,
            OnError::Allow => {
                Ruling::Admitted(Reservation::new(rules.generation, self.found, Standings::new(), By::Memory))
            }
            OnError::Local => {
                let now = self.shared.now();
                match take_all(&rules.withdrawals(&self.found), now) {
                    Ok(outcome) => engine.rule(rules, self.found, &outcome, now),
                    // Tables of a shared store are never closed.
                    Err(Stale) => Ruling::Denied,
                }
            }
        }
    }

    fn give_back(&self, rules: &Rules, at: usize, verdict: &Verdict) {
        if verdict.is_admitted() {
            let charge = &self.found.charges[at];
            let (mirror, place) = (&rules.mirrors[charge.limit], rules.withdrawal(charge).place);
            self.shared.tell(mirror, place, Deed::Step(Op::Refund(verdict.receipt)));
        }
    }
}

impl std::fmt::Debug for Inquiry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inquiry({} limits)", self.found.charges.len())
    }
}
