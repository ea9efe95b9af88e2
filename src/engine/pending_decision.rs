//! Decides by a store that several gates share.
//!
//! If the mirror refuses, the engine refuses at once. If the mirror's entry is older than a second, one of the refusing
//! limits is first checked again in the store. All other attempts go to the store: all limits of an attempt are called
//! at the same time, so that it waits for the slowest call, not for the sum; if one limit refuses, the others get their
//! tokens back. Meanwhile another attempt may see one token too few, never one too many.
//!
//! For refusals by the mirror, debt and growing waits are counted here first and reach the store with the next call: a
//! client that is refused a thousand times a second does not cause a thousand calls.

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

/// The first step of a decision.
#[must_use]
pub enum DecisionState {
    /// The decision is made.
    Ready(Decision),
    /// The decision waits for the store.
    Pending(PendingDecision),
}

/// An attempt that waits for the store.
#[must_use]
pub struct PendingDecision {
    shared: Arc<SharedStore>,
    found: Charges,
    calls: StoreCalls,
}

/// The calls to the store.
enum StoreCalls {
    /// Checks again whether a limit refuses, as its mirror entry does.
    Recheck(ReplyFuture),
    /// Takes the tokens of all limits.
    Take(ReplyFutures),
}

type ReplyFutures = SmallVec<[ReplyFuture; 2]>;

/// An attempt for the store to decide on.
struct PendingAttempt {
    shared: Arc<SharedStore>,
    found: Charges,
}

type ReplyFuture = Pin<Box<dyn Future<Output = Result<StoreReply, Unavailable>> + Send>>;

/// Where an attempt was decided, and where its refund goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecidedBy {
    /// The memory of this process; it may be the mirror of an unavailable store.
    Memory,
    /// A store that several gates share.
    Store,
}

impl Engine {
    /// Refuses by the mirror; `None` if no fresh entry refuses.
    pub(super) fn refuse_by_mirror(&self, rules: &Rules, found: &Charges, now: Time) -> Option<Refusal> {
        let (limit, refusal) = self.mirrored(rules, found, now)?;
        self.events.emit(&Event::Mirrored { limit: &rules.policy.limits[limit].name });
        Some(refusal)
    }

    /// The refusal and the limit that refused; emits no [`Event::Mirrored`].
    fn mirrored(&self, rules: &Rules, found: &Charges, now: Time) -> Option<(usize, Refusal)> {
        let withdrawals = rules.withdrawals(found);
        let is_fresh = |at: usize| {
            let mirror = &rules.mirrors[found.charges[at].limit];
            mirror.is_fresh(&withdrawals[at].bucket, now)
        };
        let at = refusing(&withdrawals, now).find(|at| is_fresh(*at))?;
        // Tables of a shared store are never closed.
        let outcome = refuse_all(&withdrawals, now).ok()??;
        let mut statuses = self.limit_statuses(rules, found, &outcome);
        rules.count_consecutive(&mut statuses, false, now);
        let route = found.routes.first().copied().unwrap_or_default();
        let refusal = Refusal { route, wait: longest_wait(&rules.policy, &statuses), statuses };
        Some((found.charges[at].limit, refusal))
    }

    /// Starts the calls to the store.
    pub(super) fn begin_decision(
        &self,
        shared: &Arc<SharedStore>,
        rules: &Rules,
        found: Charges,
        now: Time,
    ) -> PendingDecision {
        let withdrawals = rules.withdrawals(&found);
        let mirror = |at: usize| &rules.mirrors[found.charges[at].limit];
        // The oldest entry first, so that each limit has its turn.
        let oldest =
            refusing(&withdrawals, now).min_by_key(|at| mirror(*at).seen_at(&withdrawals[*at].bucket));
        let calls = match oldest {
            Some(at) => {
                let Withdrawal { bucket, .. } = withdrawals[at];
                StoreCalls::Recheck(Box::pin(shared.call(
                    mirror(at),
                    bucket,
                    StoreOp::Step(withdrawals[at].peek()),
                )))
            }
            None => StoreCalls::Take(call_all(shared, rules, &found)),
        };
        PendingDecision { shared: Arc::clone(shared), found, calls }
    }
}

/// The positions of the charges that the mirrors refuse.
fn refusing(withdrawals: &[Withdrawal<'_>], now: Time) -> impl Iterator<Item = usize> {
    let refuses = move |(at, withdrawal): (usize, &Withdrawal<'_>)| {
        (withdrawal.enforce && !withdrawal.dry_run(now).verdict.is_admitted()).then_some(at)
    };
    withdrawals.iter().enumerate().filter_map(refuses)
}

fn call_all(shared: &Arc<SharedStore>, rules: &Rules, found: &Charges) -> ReplyFutures {
    let call = |(charge, withdrawal): (&Charge, &Withdrawal<'_>)| {
        let op = StoreOp::Step(withdrawal.take());
        Box::pin(shared.call(&rules.mirrors[charge.limit], withdrawal.bucket, op)) as ReplyFuture
    };
    found.charges.iter().zip(&rules.withdrawals(found)).map(call).collect()
}

impl PendingDecision {
    /// Waits for the store and decides, without it if it is unavailable.
    pub async fn await_store(self, engine: &Engine, rules: &Rules) -> Decision {
        let Self { shared, found, calls } = self;
        let attempt = PendingAttempt { shared, found };
        let replies = match calls {
            StoreCalls::Take(replies) => replies,
            StoreCalls::Recheck(reply) => {
                if reply.await.is_err() {
                    return attempt.decide_without_store(engine, rules);
                }
                let now = attempt.shared.now();
                if let Some((_, refusal)) = engine.mirrored(rules, &attempt.found, now) {
                    return Decision::Refused(refusal);
                }
                call_all(&attempt.shared, rules, &attempt.found)
            }
        };
        attempt.decide(engine, rules, replies).await
    }
}

impl PendingAttempt {
    async fn decide(self, engine: &Engine, rules: &Rules, calls: ReplyFutures) -> Decision {
        let mut replies: SmallVec<[Result<StoreReply, Unavailable>; 2]> = SmallVec::new();
        for call in calls {
            // All calls run already: waiting for one after the other takes as long as the slowest.
            replies.push(call.await);
        }
        let verdicts: Result<SmallVec<[Verdict; 2]>, _> =
            replies.iter().map(|reply| reply.map(|reply| reply.verdict)).collect();
        match verdicts {
            Ok(verdicts) => self.decide_by_store(engine, rules, verdicts).await,
            Err(Unavailable) => {
                for (at, reply) in replies.iter().enumerate() {
                    if let Ok(StoreReply { verdict, .. }) = reply {
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
        let mut statuses = engine.limit_statuses(rules, &self.found, &CombinedVerdict { admitted, verdicts });
        self.count_consecutive(rules, &mut statuses, admitted).await;
        if admitted {
            return Decision::Admitted(Reservation::new(
                rules.generation,
                self.found,
                statuses,
                DecidedBy::Store,
            ));
        }
        let route = self.found.routes.first().copied().unwrap_or_default();
        Decision::Refused(Refusal { route, wait: longest_wait(&rules.policy, &statuses), statuses })
    }

    /// As [`Rules::count_consecutive`], in the store.
    async fn count_consecutive(&self, rules: &Rules, statuses: &mut LimitStatuses, admitted: bool) {
        for at in 0..statuses.len() {
            let charge = statuses[at].charge;
            let limit = &rules.policy.limits[charge.limit];
            if limit.kind != LimitKind::Escalation || limit.charge_on != ChargeOn::Attempts {
                continue;
            }
            let (mirror, bucket) = (&rules.mirrors[charge.limit], rules.withdrawal(&charge).bucket);
            if admitted {
                // Most keys have no strikes: then no call is needed.
                if statuses[at].verdict.left < limit.spec.burst() {
                    self.shared.enqueue(mirror, bucket, StoreOp::Step(Op::Give(1)));
                }
            } else if limit_status::is_refused_by_owner(&rules.policy, statuses, charge.limit)
                && let Ok(reply) = self.shared.call(mirror, bucket, StoreOp::Step(Op::Strike)).await
            {
                statuses[at].verdict = reply.verdict;
            }
        }
    }

    /// The store is unavailable: decides as `on_error` says.
    fn decide_without_store(self, engine: &Engine, rules: &Rules) -> Decision {
        let on_error = self.shared.on_error();
        engine.events.emit(&Event::FellBack(match on_error {
            OnError::Local => Fallback::Local,
            OnError::Allow => Fallback::Allow,
            OnError::Deny => Fallback::Deny,
        }));
        match on_error {
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
            let (mirror, bucket) = (&rules.mirrors[charge.limit], rules.withdrawal(charge).bucket);
            self.shared.enqueue(mirror, bucket, StoreOp::Step(Op::Refund(verdict.receipt)));
        }
    }
}

impl std::fmt::Debug for PendingDecision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PendingDecision({} limits)", self.found.charges.len())
    }
}
