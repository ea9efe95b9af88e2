//! Decides by a store that several gates share.
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

use super::limit_status::{self, LimitStatuses, longest_wait};
use super::{Decision, Engine, Refusal, Reservation, Rules};
use crate::bucket::{Op, Verdict};
use crate::event::{Event, Fallback};
use crate::policy::{Charge, ChargeOn, Charges, LimitKind};
use crate::store::memory::{CombinedVerdict, Stale, Withdrawal, refuse_all, take_all};
use crate::store::shared::{OnError, SharedStore, StoreOp, StoreReply, Unavailable};
use crate::time::Time;

/// What the engine says to a request at once.
#[must_use]
pub enum DecisionState {
    /// The ruling.
    Ready(Decision),
    /// The store has to be asked.
    Pending(PendingDecision),
}

/// An attempt of which the store has been asked.
#[must_use]
pub struct PendingDecision {
    shared: Arc<SharedStore>,
    found: Charges,
    calls: StoreCalls,
}

/// What the store has been asked.
enum StoreCalls {
    /// Whether a limit still refuses, as it did when it was last heard of.
    Recheck(ReplyFuture),
    /// For the tokens of all limits.
    Take(ReplyFutures),
}

type ReplyFutures = SmallVec<[ReplyFuture; 2]>;

/// An attempt that the store has to decide on.
struct PendingAttempt {
    shared: Arc<SharedStore>,
    found: Charges,
}

type ReplyFuture = Pin<Box<dyn Future<Output = Result<StoreReply, Unavailable>> + Send>>;

/// By whom an attempt was decided, and to whom its tokens go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecidedBy {
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
            mirror.is_fresh(&withdrawals[at].bucket, now)
        };
        let at = refusing(&withdrawals, now).find(|at| is_fresh(*at))?;
        // Tables of a shared store are never closed.
        let outcome = refuse_all(&withdrawals, now).ok()??;
        let mut standings = self.limit_statuses(rules, found, &outcome);
        rules.count_consecutive(&mut standings, false, now);
        let route = found.routes.first().copied().unwrap_or_default();
        let refusal = Refusal { route, wait: longest_wait(&rules.policy, &standings), statuses: standings };
        Some((found.charges[at].limit, refusal))
    }

    /// Asks the store.
    pub(super) fn begin_decision(
        &self,
        shared: &Arc<SharedStore>,
        rules: &Rules,
        found: Charges,
        now: Time,
    ) -> PendingDecision {
        let withdrawals = rules.withdrawals(&found);
        let mirror = |at: usize| &rules.mirrors[found.charges[at].limit];
        // The one that was heard of longest ago, so that each has its turn.
        let oldest =
            refusing(&withdrawals, now).min_by_key(|at| mirror(*at).seen_at(&withdrawals[*at].bucket));
        let asked = match oldest {
            Some(at) => {
                let Withdrawal { bucket: place, .. } = withdrawals[at];
                StoreCalls::Recheck(Box::pin(shared.call(
                    mirror(at),
                    place,
                    StoreOp::Step(withdrawals[at].peek()),
                )))
            }
            None => StoreCalls::Take(call_all(shared, rules, &found)),
        };
        PendingDecision { shared: Arc::clone(shared), found, calls: asked }
    }
}

/// Which limits refuse, as far as this process knows.
fn refusing(withdrawals: &[Withdrawal<'_>], now: Time) -> impl Iterator<Item = usize> {
    let refuses = move |(at, withdrawal): (usize, &Withdrawal<'_>)| {
        (withdrawal.enforce && !withdrawal.dry_run(now).verdict.is_admitted()).then_some(at)
    };
    withdrawals.iter().enumerate().filter_map(refuses)
}

fn call_all(shared: &Arc<SharedStore>, rules: &Rules, found: &Charges) -> ReplyFutures {
    let ask = |(charge, withdrawal): (&Charge, &Withdrawal<'_>)| {
        let deed = StoreOp::Step(withdrawal.take());
        Box::pin(shared.call(&rules.mirrors[charge.limit], withdrawal.bucket, deed)) as ReplyFuture
    };
    found.charges.iter().zip(&rules.withdrawals(found)).map(ask).collect()
}

impl PendingDecision {
    /// What the store said, or what is done without it.
    pub async fn await_store(self, engine: &Engine, rules: &Rules) -> Decision {
        let Self { shared, found, calls: asked } = self;
        let attempt = PendingAttempt { shared, found };
        let answers = match asked {
            StoreCalls::Take(answers) => answers,
            StoreCalls::Recheck(answer) => {
                if answer.await.is_err() {
                    return attempt.decide_without_store(engine, rules);
                }
                let now = attempt.shared.now();
                if let Some((_, refusal)) = engine.mirrored(rules, &attempt.found, now) {
                    return Decision::Refused(refusal);
                }
                call_all(&attempt.shared, rules, &attempt.found)
            }
        };
        attempt.decide(engine, rules, answers).await
    }
}

impl PendingAttempt {
    async fn decide(self, engine: &Engine, rules: &Rules, answers: ReplyFutures) -> Decision {
        let mut said: SmallVec<[Result<StoreReply, Unavailable>; 2]> = SmallVec::new();
        for answer in answers {
            // They were asked together, so waiting for one is waiting for all.
            said.push(answer.await);
        }
        let verdicts: Result<SmallVec<[Verdict; 2]>, _> =
            said.iter().map(|said| said.map(|said| said.verdict)).collect();
        match verdicts {
            Ok(verdicts) => self.decide_by_store(engine, rules, verdicts).await,
            Err(Unavailable) => {
                for (at, said) in said.iter().enumerate() {
                    if let Ok(StoreReply { verdict, .. }) = said {
                        self.refund(rules, at, verdict);
                    }
                }
                self.decide_without_store(engine, rules)
            }
        }
    }

    async fn decide_by_store(
        self,
        engine: &Engine,
        rules: &Rules,
        mut verdicts: SmallVec<[Verdict; 2]>,
    ) -> Decision {
        let enforced = self.found.charges.iter().map(|charge| charge.enforce);
        let admitted = !enforced.zip(&verdicts).any(|(enforce, verdict)| enforce && !verdict.is_admitted());
        if !admitted {
            for (at, verdict) in verdicts.iter_mut().enumerate().filter(|(_, verdict)| verdict.is_admitted())
            {
                self.refund(rules, at, verdict);
                verdict.left = verdict.left.saturating_add(verdict.receipt.tokens);
            }
        }
        let mut standings =
            engine.limit_statuses(rules, &self.found, &CombinedVerdict { admitted, verdicts });
        self.count_consecutive(rules, &mut standings, admitted).await;
        if admitted {
            return Decision::Admitted(Reservation::new(
                rules.generation,
                self.found,
                standings,
                DecidedBy::Store,
            ));
        }
        let route = self.found.routes.first().copied().unwrap_or_default();
        Decision::Refused(Refusal {
            route,
            wait: longest_wait(&rules.policy, &standings),
            statuses: standings,
        })
    }

    /// As [`Rules::count_consecutive`], in the store.
    async fn count_consecutive(&self, rules: &Rules, standings: &mut LimitStatuses, admitted: bool) {
        for at in 0..standings.len() {
            let charge = standings[at].charge;
            let limit = &rules.policy.limits[charge.limit];
            if limit.kind != LimitKind::Escalation || limit.charge_on != ChargeOn::Attempts {
                continue;
            }
            let (mirror, place) = (&rules.mirrors[charge.limit], rules.withdrawal(&charge).bucket);
            if admitted {
                // Most have no row to break: then nothing is asked.
                if standings[at].verdict.left < limit.spec.burst() {
                    self.shared.enqueue(mirror, place, StoreOp::Step(Op::Give(1)));
                }
            } else if limit_status::is_refused_by_owner(&rules.policy, standings, charge.limit)
                && let Ok(said) = self.shared.call(mirror, place, StoreOp::Step(Op::Strike)).await
            {
                standings[at].verdict = said.verdict;
            }
        }
    }

    /// The store is away.
    fn decide_without_store(self, engine: &Engine, rules: &Rules) -> Decision {
        let way = self.shared.on_error();
        engine.events.emit(&Event::FellBack(match way {
            OnError::Local => Fallback::Local,
            OnError::Allow => Fallback::Allow,
            OnError::Deny => Fallback::Deny,
        }));
        match way {
            OnError::Deny => Decision::Denied,
            OnError::Allow => Decision::Admitted(Reservation::new(
                rules.generation,
                self.found,
                LimitStatuses::new(),
                DecidedBy::Memory,
            )),
            OnError::Local => {
                let now = self.shared.now();
                match take_all(&rules.withdrawals(&self.found), now) {
                    Ok(outcome) => engine.decision_of(rules, self.found, &outcome, now),
                    // Tables of a shared store are never closed.
                    Err(Stale) => Decision::Denied,
                }
            }
        }
    }

    fn refund(&self, rules: &Rules, at: usize, verdict: &Verdict) {
        if verdict.is_admitted() {
            let charge = &self.found.charges[at];
            let (mirror, place) = (&rules.mirrors[charge.limit], rules.withdrawal(charge).bucket);
            self.shared.enqueue(mirror, place, StoreOp::Step(Op::Refund(verdict.receipt)));
        }
    }
}

impl std::fmt::Debug for PendingDecision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inquiry({} limits)", self.found.charges.len())
    }
}
