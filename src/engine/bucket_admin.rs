//! What operators see and change of single buckets.
//!
//! The functions are futures, because a store outside this process takes time; the memory store replies at once. One
//! limit of the file may be several buckets here. They are shown together, and a reset resets all of them; tokens and
//! own rates go to the bucket with the rate.

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

/// The buckets of a client or an account, for an operator.
#[derive(Debug, Clone, Default)]
pub struct BucketReport {
    /// In the order of the file.
    pub buckets: Vec<BucketView>,
    /// Limits that exempt this client.
    pub exempt: Vec<Arc<str>>,
    /// Limits whose keys have more parts than an address or an account, so that the selector names no single bucket.
    pub not_shown: Vec<Arc<str>>,
}

/// One limit's buckets of one client or account.
#[derive(Debug, Clone)]
pub struct BucketView {
    /// The limit.
    pub limit: Arc<str>,
    /// What the limit does with what it decides.
    pub mode: Mode,
    /// The class of clients; empty for the default class.
    pub class: Arc<str>,
    /// The clients that share the bucket, if it is one for addresses.
    pub network: Option<IpNet>,
    /// The tokens.
    pub rate: BucketLevel,
    /// The bucket's own rate, if it has one.
    pub own: Option<Own>,
    /// The failures left before `max_failures`.
    pub cap: Option<BucketLevel>,
    /// The strikes left before the next wait of `escalate`.
    pub escalation: Option<BucketLevel>,
}

/// The level of a bucket; reading it takes nothing.
#[derive(Debug, Clone, Copy)]
pub struct BucketLevel {
    /// The specification in force.
    pub spec: Spec,
    /// The verdict on an attempt that costs one token.
    pub verdict: Verdict,
}

/// Why a change was not made, or not to all buckets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BucketAdminError {
    /// The client or account has no bucket under that limit.
    #[error("{0}")]
    NoBucket(String),
    /// The store refused the own rate.
    #[error(transparent)]
    OwnRate(#[from] OwnRateError),
    /// The shared store did not reply; the change may have been made all the same.
    #[error("the store does not answer: try again; a change may have been made, or not")]
    Unavailable(#[from] Unavailable),
}

/// A change to one bucket.
#[derive(Clone, Copy)]
enum BucketAction {
    Credit(u32),
    Reset,
    Rate(Option<(Continuous, Time)>),
}

impl Engine {
    /// The buckets of a client or an account; takes nothing.
    ///
    /// # Errors
    /// [`BucketAdminError::Unavailable`].
    pub async fn show(&self, selector: &BucketSelector) -> Result<BucketReport, BucketAdminError> {
        let rules = self.rules.load_full();
        let selected = rules.policy.buckets_of(selector, &self.hasher);
        self.show_of(&rules, selector, &selected).await
    }

    /// Adds tokens to the buckets of a client or an account, or to that of one limit; none above the bucket's size.
    ///
    /// # Errors
    /// See [`BucketAdminError`].
    pub async fn credit(
        &self,
        selector: &BucketSelector,
        limit: Option<&str>,
        tokens: u32,
        by: Operator,
    ) -> Result<BucketReport, BucketAdminError> {
        self.change(selector, limit, is_rate, (Change::Credited(tokens), BucketAction::Credit(tokens)), by)
            .await
    }

    /// Resets the buckets of a client or an account, or those of one limit: full, without failures and without waits.
    /// Own rates stay.
    ///
    /// # Errors
    /// See [`BucketAdminError`].
    pub async fn reset(
        &self,
        selector: &BucketSelector,
        limit: Option<&str>,
        by: Operator,
    ) -> Result<BucketReport, BucketAdminError> {
        self.change(selector, limit, |_| true, (Change::Reset, BucketAction::Reset), by).await
    }

    /// Gives a client or an account a rate of its own under one limit, for the time `lasts`. The limit's `debt` and
    /// `wait` stay if they fit the new rate.
    ///
    /// # Errors
    /// See [`BucketAdminError`].
    pub async fn give_rate(
        &self,
        selector: &BucketSelector,
        limit: &str,
        (rate, lasts): (Continuous, Span),
        by: Operator,
    ) -> Result<BucketReport, BucketAdminError> {
        let until = self.time().after(lasts);
        let change = (Change::RateGiven { rate, until }, BucketAction::Rate(Some((rate, until))));
        self.change(selector, Some(limit), is_rate, change, by).await
    }

    /// Ends the own rates of a client or an account, or the one under one limit.
    ///
    /// # Errors
    /// See [`BucketAdminError`].
    pub async fn end_rate(
        &self,
        selector: &BucketSelector,
        limit: Option<&str>,
        by: Operator,
    ) -> Result<BucketReport, BucketAdminError> {
        self.change(selector, limit, is_rate, (Change::RateEnded, BucketAction::Rate(None)), by).await
    }

    /// Changes each selected bucket, and emits one event for all of them.
    async fn change(
        &self,
        selector: &BucketSelector,
        limit: Option<&str>,
        kinds: fn(LimitKind) -> bool,
        (change, action): (Change, BucketAction),
        by: Operator,
    ) -> Result<BucketReport, BucketAdminError> {
        let rules = self.rules.load_full();
        let targets = rules.targets(&rules.policy.buckets_of(selector, &self.hasher), limit, kinds)?;
        let (mut limits, mut done): (Vec<Arc<str>>, _) = (Vec::new(), Ok(()));
        for target in targets {
            done = self.apply_action(selector, &target, action).await;
            if done.is_err() {
                break;
            }
            if !limits.contains(&target.limit) {
                limits.push(target.limit);
            }
        }
        if !limits.is_empty() {
            let owner = match selector {
                BucketSelector::Client(client) => BucketOwner::Client(*client),
                BucketSelector::Account(account) => BucketOwner::Account(self.hasher.log_id(account)),
            };
            self.events.emit(&Event::BucketsChanged(BucketsChanged { by, owner, limits: &limits, change }));
        }
        done?;
        let rules = self.rules.load_full();
        let mut selected = rules.policy.buckets_of(selector, &self.hasher);
        selected
            .buckets
            .retain(|bucket| limit.is_none_or(|limit| *rules.policy.limits[bucket.limit].name == *limit));
        self.show_of(&rules, selector, &selected).await
    }

    /// Applies by the newest rules; does nothing if they have no such bucket any more.
    async fn apply_action(
        &self,
        selector: &BucketSelector,
        target: &BucketTarget,
        action: BucketAction,
    ) -> Result<(), BucketAdminError> {
        for _ in 0..MAX_TRIES {
            let rules = self.rules.load_full();
            let found = rules.policy.buckets_of(selector, &self.hasher).buckets;
            let Some(bucket) = found.iter().find(|bucket| *target == rules.target(bucket)) else {
                return Ok(());
            };
            if let Some(shared) = &self.shared {
                let mirror = &rules.mirrors[bucket.limit];
                return Ok(action.apply_in_store(shared, mirror, bucket_key(bucket)).await?);
            }
            let buckets = &rules.buckets[bucket.limit];
            match action.apply_in_memory(buckets, &bucket_key(bucket), self.clock.now()) {
                Err(OwnRateError::Stale(Stale)) => std::thread::yield_now(),
                done => return Ok(done?),
            }
        }
        Err(OwnRateError::Stale(Stale).into())
    }

    async fn show_of(
        &self,
        rules: &Rules,
        selector: &BucketSelector,
        selected: &SelectedBuckets,
    ) -> Result<BucketReport, BucketAdminError> {
        let mut levels = Vec::new();
        for bucket in &selected.buckets {
            levels.push(self.level(rules, bucket).await?);
        }
        Ok(rules.show(selector, selected, &levels))
    }

    async fn level(
        &self,
        rules: &Rules,
        bucket: &BucketRef,
    ) -> Result<(BucketLevel, Option<Own>), Unavailable> {
        let (key, now) = (bucket_key(bucket), self.time());
        let (verdict, own) = match &self.shared {
            Some(shared) => {
                let peek = StoreOp::Step(Op::Peek(1));
                let reply = shared.call(&rules.mirrors[bucket.limit], key, peek).await?;
                (reply.verdict, reply.own)
            }
            None => {
                let buckets = &rules.buckets[bucket.limit];
                (buckets.peek(&key, now, 1), buckets.own_rate(bucket.key, now))
            }
        };
        let spec = own.map_or(key.spec, |own| key.spec.at_rate(own.rate));
        Ok((BucketLevel { spec, verdict }, own))
    }
}

impl BucketAction {
    fn apply_in_memory(self, buckets: &Buckets, bucket: &BucketKey, now: Time) -> Result<(), OwnRateError> {
        match self {
            Self::Credit(tokens) => {
                if buckets.peek(bucket, now, 1).full_at > now {
                    // A bucket may begin with fewer tokens than it holds: it has to exist before tokens can be added.
                    buckets.apply(bucket, now, Op::Take(0))?;
                    buckets.apply(bucket, now, Op::Give(tokens))?;
                }
                Ok(())
            }
            Self::Reset => Ok(buckets.reset(bucket, now)?),
            Self::Rate(rate) => buckets.set_own_rate(bucket, own_rate(bucket, rate), now),
        }
    }

    async fn apply_in_store(
        self,
        shared: &Arc<SharedStore>,
        mirror: &Arc<Mirror>,
        bucket: BucketKey,
    ) -> Result<(), Unavailable> {
        let op = match self {
            Self::Credit(tokens) => {
                shared.call(mirror, bucket, StoreOp::Step(Op::Take(0))).await?;
                StoreOp::Step(Op::Give(tokens))
            }
            Self::Reset => StoreOp::Reset,
            Self::Rate(rate) => StoreOp::Rate(own_rate(&bucket, rate)),
        };
        shared.call(mirror, bucket, op).await.map(drop)
    }
}

/// A bucket by names, which stay valid when the rules are replaced.
#[derive(PartialEq)]
struct BucketTarget {
    limit: Arc<str>,
    kind: LimitKind,
    class: Arc<str>,
}

impl Rules {
    /// `levels` has one entry for each selected bucket, in the same order.
    fn show(
        &self,
        selector: &BucketSelector,
        selected: &SelectedBuckets,
        levels: &[(BucketLevel, Option<Own>)],
    ) -> BucketReport {
        let names =
            |limits: &[usize]| limits.iter().map(|&at| Arc::clone(&self.policy.limits[at].name)).collect();
        let all = selected.buckets.iter().zip(levels);
        let of_rates = all.filter(|(bucket, _)| self.policy.limits[bucket.limit].kind == LimitKind::Rate);
        BucketReport {
            buckets: of_rates.map(|bucket| self.view_of(selector, bucket, selected, levels)).collect(),
            exempt: names(&selected.exempt),
            not_shown: names(&selected.not_addressable),
        }
    }

    fn view_of(
        &self,
        selector: &BucketSelector,
        (bucket, &(rate, own)): (&BucketRef, &(BucketLevel, Option<Own>)),
        selected: &SelectedBuckets,
        levels: &[(BucketLevel, Option<Own>)],
    ) -> BucketView {
        let limit = &self.policy.limits[bucket.limit];
        let beside = |kind| {
            let is_it = |(other, _): &(&BucketRef, &(BucketLevel, Option<Own>))| {
                self.policy.limits[other.limit].kind == kind
                    && self.policy.rate_limit_of(other.limit) == bucket.limit
                    && other.class == bucket.class
            };
            selected.buckets.iter().zip(levels).find(is_it).map(|(_, (level, _))| *level)
        };
        let network = match selector {
            BucketSelector::Client(client) => client.ip().and_then(|ip| limit.prefixes.network_of(ip)),
            BucketSelector::Account(_) => None,
        };
        BucketView {
            limit: Arc::clone(&limit.name),
            mode: limit.mode,
            class: Arc::clone(&bucket.class_name),
            network,
            rate,
            own,
            cap: beside(LimitKind::Cap),
            escalation: beside(LimitKind::Escalation),
        }
    }

    fn target(&self, bucket: &BucketRef) -> BucketTarget {
        let limit = &self.policy.limits[bucket.limit];
        let (name, class) = (Arc::clone(&limit.name), Arc::clone(&bucket.class_name));
        BucketTarget { limit: name, kind: limit.kind, class }
    }

    /// The selected buckets of these kinds and this limit, or why there is none.
    fn targets(
        &self,
        selected: &SelectedBuckets,
        limit: Option<&str>,
        kinds: fn(LimitKind) -> bool,
    ) -> Result<Vec<BucketTarget>, BucketAdminError> {
        let all = selected.buckets.iter().map(|bucket| self.target(bucket));
        let is_meant =
            |target: &BucketTarget| kinds(target.kind) && limit.is_none_or(|limit| *target.limit == *limit);
        let targets: Vec<BucketTarget> = all.filter(is_meant).collect();
        let Some(limit) = limit.filter(|_| targets.is_empty()) else { return Ok(targets) };
        let named = |limits: &[usize]| limits.iter().any(|&at| *self.policy.limits[at].name == *limit);
        Err(BucketAdminError::NoBucket(if named(&selected.exempt) {
            format!("the limit `{limit}` exempts this client: there is no bucket")
        } else if named(&selected.not_addressable) {
            format!("the key of `{limit}` has more parts than an address or an account")
        } else if self.index_of(limit, LimitKind::Rate).is_some() {
            format!("the limit `{limit}` has another kind of key")
        } else {
            format!("there is no limit `{limit}`")
        }))
    }
}

fn bucket_key(bucket_ref: &BucketRef) -> BucketKey {
    BucketKey { key: bucket_ref.key, class: bucket_ref.class, spec: bucket_ref.spec }
}

fn is_rate(kind: LimitKind) -> bool {
    kind == LimitKind::Rate
}

fn own_rate(bucket: &BucketKey, rate: Option<(Continuous, Time)>) -> Option<Own> {
    rate.map(|(rate, until)| Own { rate: with_debt_and_wait_of(&bucket.spec, rate), until })
}

/// The rate with the debt and the wait of the limit's own bucket.
fn with_debt_and_wait_of(spec: &Spec, rate: Continuous) -> Continuous {
    let like = match spec {
        Spec::Continuous(bucket) => *bucket,
        Spec::Floor(floor) => floor.pool(),
        _ => return rate,
    };
    let whole = rate.with_debt(like.debt()).and_then(|rate| rate.with_hold(like.hold()));
    whole.unwrap_or(rate)
}
