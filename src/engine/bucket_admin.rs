//! What operators see and change of single buckets.
//!
//! The functions are futures, because a store outside this process takes its time; the memory store answers at once. The
//! surprising thing: what the file calls one limit may be several buckets here. They are shown together, and a reset is a
//! reset of all of them; tokens are given to the one with the rate, and so is a rate.

use std::sync::Arc;

use ipnet::IpNet;

use super::{Engine, MAX_TRIES, Rules};
use crate::bucket::{Continuous, Op, Own, Spec, Verdict};
use crate::event::{BucketOwner, BucketsChanged, Change, Event, Operator};
use crate::policy::bucket_ref::{BucketRef, BucketSelector, SelectedBuckets};
use crate::policy::{LimitKind, Mode};
use crate::store::memory::{BucketKey, Buckets, OwnRateError, Stale};
use crate::store::shared::{Mirror, SharedStore, StoreOp, Unavailable};
use crate::time::{Span, Time};

/// What an operator sees of a holder's buckets.
#[derive(Debug, Clone, Default)]
pub struct BucketReport {
    /// In the order of the file.
    pub buckets: Vec<BucketView>,
    /// Limits that do not see this client.
    pub exempt: Vec<Arc<str>>,
    /// Limits whose buckets are kept for more than an address or an account.
    pub not_shown: Vec<Arc<str>>,
}

/// One limit's buckets of one holder.
#[derive(Debug, Clone)]
pub struct BucketView {
    /// The limit.
    pub limit: Arc<str>,
    /// What the limit does with what it decides.
    pub mode: Mode,
    /// The class of clients; empty for the one of most.
    pub class: Arc<str>,
    /// The clients that share the bucket, if it is one for addresses.
    pub network: Option<IpNet>,
    /// Its tokens.
    pub rate: BucketLevel,
    /// The rate that it has of its own.
    pub own: Option<Own>,
    /// The failures that `max_failures` leaves.
    pub cap: Option<BucketLevel>,
    /// The strikes that `escalate` leaves.
    pub escalation: Option<BucketLevel>,
}

/// What a bucket says when nothing is taken from it.
#[derive(Debug, Clone, Copy)]
pub struct BucketLevel {
    /// What it promises now.
    pub spec: Spec,
    /// What it says to an attempt that costs one token.
    pub verdict: Verdict,
}

/// Why nothing, or not everything, was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BucketAdminError {
    /// The holder has no bucket under that limit.
    #[error("{0}")]
    NoBucket(String),
    /// The store said no.
    #[error(transparent)]
    OwnRate(#[from] OwnRateError),
    /// The store that several gates share did not answer; it may have been done all the same.
    #[error("the store does not answer: try again; a change may have been made, or not")]
    Unavailable(#[from] Unavailable),
}

/// What is done to a bucket.
#[derive(Clone, Copy)]
enum BucketAction {
    Credit(u32),
    Reset,
    Rate(Option<(Continuous, Time)>),
}

impl Engine {
    /// What the buckets of a holder say; costs nothing.
    ///
    /// # Errors
    /// [`BucketAdminError::Unavailable`].
    pub async fn show(&self, holder: &BucketSelector) -> Result<BucketReport, BucketAdminError> {
        let rules = self.rules.load_full();
        let holdings = rules.policy.buckets_of(holder, &self.hasher);
        self.show_of(&rules, holder, &holdings).await
    }

    /// Gives tokens to the buckets of a holder, or to that of one limit; none above its size.
    ///
    /// # Errors
    /// See [`BucketAdminError`].
    pub async fn credit(
        &self,
        holder: &BucketSelector,
        limit: Option<&str>,
        tokens: u32,
        by: Operator,
    ) -> Result<BucketReport, BucketAdminError> {
        self.change(holder, limit, is_rate, (Change::Credited(tokens), BucketAction::Credit(tokens)), by)
            .await
    }

    /// Makes the buckets of a holder, or those of one limit, as if they had never been seen: full, without failures and
    /// without waits. A rate of its own stays.
    ///
    /// # Errors
    /// See [`BucketAdminError`].
    pub async fn reset(
        &self,
        holder: &BucketSelector,
        limit: Option<&str>,
        by: Operator,
    ) -> Result<BucketReport, BucketAdminError> {
        self.change(holder, limit, |_| true, (Change::Reset, BucketAction::Reset), by).await
    }

    /// Gives a holder a rate of its own under one limit, for so long. What the limit has besides a rate (`debt`, `wait`)
    /// stays where it fits.
    ///
    /// # Errors
    /// See [`BucketAdminError`].
    pub async fn give_rate(
        &self,
        holder: &BucketSelector,
        limit: &str,
        (rate, lasts): (Continuous, Span),
        by: Operator,
    ) -> Result<BucketReport, BucketAdminError> {
        let until = self.time().after(lasts);
        let change = (Change::RateGiven { rate, until }, BucketAction::Rate(Some((rate, until))));
        self.change(holder, Some(limit), is_rate, change, by).await
    }

    /// Ends the rates that a holder has of its own, or the one under one limit.
    ///
    /// # Errors
    /// See [`BucketAdminError`].
    pub async fn end_rate(
        &self,
        holder: &BucketSelector,
        limit: Option<&str>,
        by: Operator,
    ) -> Result<BucketReport, BucketAdminError> {
        self.change(holder, limit, is_rate, (Change::RateEnded, BucketAction::Rate(None)), by).await
    }

    /// Does something to each of a holder's buckets, and tells that it was done.
    async fn change(
        &self,
        holder: &BucketSelector,
        limit: Option<&str>,
        facets: fn(LimitKind) -> bool,
        (change, work): (Change, BucketAction),
        by: Operator,
    ) -> Result<BucketReport, BucketAdminError> {
        let rules = self.rules.load_full();
        let targets = rules.targets(&rules.policy.buckets_of(holder, &self.hasher), limit, facets)?;
        let (mut limits, mut done): (Vec<Arc<str>>, _) = (Vec::new(), Ok(()));
        for target in targets {
            done = self.apply_action(holder, &target, work).await;
            if done.is_err() {
                break;
            }
            if !limits.contains(&target.limit) {
                limits.push(target.limit);
            }
        }
        if !limits.is_empty() {
            let whose = match holder {
                BucketSelector::Client(client) => BucketOwner::Client(*client),
                BucketSelector::Account(account) => BucketOwner::Account(self.hasher.log_id(account)),
            };
            self.events.emit(&Event::BucketsChanged(BucketsChanged {
                by,
                owner: whose,
                limits: &limits,
                change,
            }));
        }
        done?;
        let rules = self.rules.load_full();
        let mut holdings = rules.policy.buckets_of(holder, &self.hasher);
        holdings
            .buckets
            .retain(|held| limit.is_none_or(|limit| *rules.policy.limits[held.limit].name == *limit));
        self.show_of(&rules, holder, &holdings).await
    }

    /// By the newest rules; a bucket that is not there any more needs nothing.
    async fn apply_action(
        &self,
        holder: &BucketSelector,
        target: &BucketTarget,
        work: BucketAction,
    ) -> Result<(), BucketAdminError> {
        for _ in 0..MAX_TRIES {
            let rules = self.rules.load_full();
            let found = rules.policy.buckets_of(holder, &self.hasher).buckets;
            let Some(held) = found.iter().find(|held| *target == rules.target(held)) else { return Ok(()) };
            if let Some(shared) = &self.shared {
                return Ok(work
                    .apply_in_store(shared, &rules.mirrors[held.limit], held.bucket_key())
                    .await?);
            }
            match work.apply_in_memory(&rules.buckets[held.limit], &held.bucket_key(), self.clock.now()) {
                Err(OwnRateError::Stale(Stale)) => std::thread::yield_now(),
                done => return Ok(done?),
            }
        }
        Err(OwnRateError::Stale(Stale).into())
    }

    async fn show_of(
        &self,
        rules: &Rules,
        holder: &BucketSelector,
        holdings: &SelectedBuckets,
    ) -> Result<BucketReport, BucketAdminError> {
        let mut levels = Vec::new();
        for held in &holdings.buckets {
            levels.push(self.level(rules, held).await?);
        }
        Ok(rules.show(holder, holdings, &levels))
    }

    async fn level(
        &self,
        rules: &Rules,
        held: &BucketRef,
    ) -> Result<(BucketLevel, Option<Own>), Unavailable> {
        let (place, now) = (held.bucket_key(), self.time());
        let (verdict, own) = match &self.shared {
            Some(shared) => {
                let peek = StoreOp::Step(Op::Peek(1));
                let said = shared.call(&rules.mirrors[held.limit], place, peek).await?;
                (said.verdict, said.own)
            }
            None => {
                let buckets = &rules.buckets[held.limit];
                (buckets.peek(&place, now, 1), buckets.own_rate(held.key, now))
            }
        };
        let spec = own.map_or(place.spec, |own| place.spec.at_rate(own.rate));
        Ok((BucketLevel { spec, verdict }, own))
    }
}

impl BucketAction {
    fn apply_in_memory(self, buckets: &Buckets, place: &BucketKey, now: Time) -> Result<(), OwnRateError> {
        match self {
            Self::Credit(tokens) => {
                if buckets.peek(place, now, 1).full_at > now {
                    // A bucket that begins with less than it holds has to begin before anything can be given to it.
                    buckets.apply(place, now, Op::Take(0))?;
                    buckets.apply(place, now, Op::Give(tokens))?;
                }
                Ok(())
            }
            Self::Reset => Ok(buckets.reset(place, now)?),
            Self::Rate(rate) => buckets.set_own_rate(place, own_rate(place, rate), now),
        }
    }

    async fn apply_in_store(
        self,
        shared: &Arc<SharedStore>,
        mirror: &Arc<Mirror>,
        place: BucketKey,
    ) -> Result<(), Unavailable> {
        let deed = match self {
            Self::Credit(tokens) => {
                shared.call(mirror, place, StoreOp::Step(Op::Take(0))).await?;
                StoreOp::Step(Op::Give(tokens))
            }
            Self::Reset => StoreOp::Reset,
            Self::Rate(rate) => StoreOp::Rate(own_rate(&place, rate)),
        };
        shared.call(mirror, place, deed).await.map(drop)
    }
}

/// A bucket's place in any rules.
#[derive(PartialEq)]
struct BucketTarget {
    limit: Arc<str>,
    kind: LimitKind,
    class: Arc<str>,
}

impl Rules {
    /// `levels` are those of all buckets.
    fn show(
        &self,
        holder: &BucketSelector,
        holdings: &SelectedBuckets,
        levels: &[(BucketLevel, Option<Own>)],
    ) -> BucketReport {
        let names =
            |limits: &[usize]| limits.iter().map(|&at| Arc::clone(&self.policy.limits[at].name)).collect();
        let all = holdings.buckets.iter().zip(levels);
        let of_rates = all.filter(|(held, _)| self.policy.limits[held.limit].kind == LimitKind::Rate);
        BucketReport {
            buckets: of_rates
                .map(|(held, level)| self.view_of(holder, (held, level), holdings, levels))
                .collect(),
            exempt: names(&holdings.exempt),
            not_shown: names(&holdings.not_addressable),
        }
    }

    fn view_of(
        &self,
        holder: &BucketSelector,
        (held, &(rate, own)): (&BucketRef, &(BucketLevel, Option<Own>)),
        holdings: &SelectedBuckets,
        levels: &[(BucketLevel, Option<Own>)],
    ) -> BucketView {
        let limit = &self.policy.limits[held.limit];
        let beside = |facet| {
            let is_it = |(other, _): &(&BucketRef, &(BucketLevel, Option<Own>))| {
                self.policy.limits[other.limit].kind == facet
                    && self.policy.rate_limit_of(other.limit) == held.limit
                    && other.class == held.class
            };
            holdings.buckets.iter().zip(levels).find(is_it).map(|(_, (level, _))| *level)
        };
        let network = match holder {
            BucketSelector::Client(client) => client.ip().and_then(|ip| limit.prefixes.network_of(ip)),
            BucketSelector::Account(_) => None,
        };
        BucketView {
            limit: Arc::clone(&limit.name),
            mode: limit.mode,
            class: Arc::clone(&held.class_name),
            network,
            rate,
            own,
            cap: beside(LimitKind::Cap),
            escalation: beside(LimitKind::Escalation),
        }
    }

    fn target(&self, held: &BucketRef) -> BucketTarget {
        let limit = &self.policy.limits[held.limit];
        BucketTarget { limit: Arc::clone(&limit.name), kind: limit.kind, class: Arc::clone(&held.class_name) }
    }

    /// The buckets that are meant, or why there is none under that limit.
    fn targets(
        &self,
        holdings: &SelectedBuckets,
        limit: Option<&str>,
        facets: fn(LimitKind) -> bool,
    ) -> Result<Vec<BucketTarget>, BucketAdminError> {
        let all = holdings.buckets.iter().map(|held| self.target(held));
        let is_meant =
            |target: &BucketTarget| facets(target.kind) && limit.is_none_or(|limit| *target.limit == *limit);
        let targets: Vec<BucketTarget> = all.filter(is_meant).collect();
        let Some(limit) = limit.filter(|_| targets.is_empty()) else { return Ok(targets) };
        let named = |limits: &[usize]| limits.iter().any(|&at| *self.policy.limits[at].name == *limit);
        Err(BucketAdminError::NoBucket(if named(&holdings.exempt) {
            format!("the limit `{limit}` does not see this client: there is no bucket")
        } else if named(&holdings.not_addressable) {
            format!("the buckets of `{limit}` are kept for more than an address or an account")
        } else if self.index_of(limit, LimitKind::Rate).is_some() {
            format!("the limit `{limit}` is not kept by this kind of key")
        } else {
            format!("there is no limit `{limit}`")
        }))
    }
}

impl BucketRef {
    fn bucket_key(&self) -> BucketKey {
        BucketKey { key: self.key, class: self.class, spec: self.spec }
    }
}

fn is_rate(facet: LimitKind) -> bool {
    facet == LimitKind::Rate
}

fn own_rate(place: &BucketKey, rate: Option<(Continuous, Time)>) -> Option<Own> {
    rate.map(|(rate, until)| Own { rate: with_debt_and_wait_of(&place.spec, rate), until })
}

/// A rate with what the limit's own bucket has besides one.
fn with_debt_and_wait_of(spec: &Spec, rate: Continuous) -> Continuous {
    let like = match spec {
        Spec::Continuous(bucket) => *bucket,
        Spec::Floor(floor) => floor.pool(),
        _ => return rate,
    };
    let whole = rate.with_debt(like.debt()).and_then(|rate| rate.with_hold(like.hold()));
    whole.unwrap_or(rate)
}
