//! Single buckets as operators see and change them.
//!
//! The functions are futures, because a store in another process takes time. One limit of the file may be several
//! buckets here. They are shown together, and a reset resets all of them; added tokens and a rate for one client apply to the bucket
//! with the rate.

mod changes;
mod forget;
mod report;

use std::collections::BTreeSet;
use std::sync::Arc;

use ipnet::IpNet;

pub use self::forget::{ForgetScope, ForgottenBuckets};
pub use self::report::{BucketLevel, BucketReport, BucketView, FilledBucket};

use self::changes::changes_of;
use super::{Engine, MAX_TRIES, Rules};
use crate::bucket::{Continuous, Own, SpecError};
use crate::event::{BucketOwner, BucketsChanged, Change, Event, Operator};
use crate::policy::account::Account;
use crate::policy::attempt::Client;
use crate::policy::bucket_ref::{BucketRef, BucketSelector, SelectedBuckets};
use crate::policy::key::KeyPart;
use crate::policy::{Limit, LimitKind};
use crate::store::BucketChangeError;
use crate::store::memory::{BucketKey, OwnRateError, Stale};
use crate::store::shared::Unavailable;
use crate::time::{Span, Time};

/// Which of the buckets that a selector names an operator's change is for.
#[derive(Debug, Clone, Copy)]
pub struct ChangeScope<'a> {
    /// Under this limit only.
    pub limit: Option<&'a str>,
    /// Whether limits that count an address together with more neighbours than others do are left out.
    pub spares_neighbours: bool,
    /// The only limits that the operator may change; `None` is all of them.
    pub within: Option<&'a BTreeSet<Arc<str>>>,
}

/// Why a change was not made, or not to all buckets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BucketAdminError {
    /// The client or account has no bucket under that limit.
    #[error("{0}")]
    NoBucket(String),
    /// The file has nothing remembered of sign-ins.
    #[error("nothing is remembered of sign-ins")]
    NothingRemembered,
    /// The bucket counts no such time.
    #[error("a ban lasts 73 years at most")]
    Ban(SpecError),
    /// The store refused the own rate.
    #[error(transparent)]
    OwnRate(#[from] OwnRateError),
    /// The shared store did not reply; the change may have been made all the same.
    #[error("the store does not answer: try again; a change may have been made, or not")]
    Unavailable(#[from] Unavailable),
}

impl Engine {
    /// The buckets of a client or an account; takes nothing.
    ///
    /// # Errors
    /// [`BucketAdminError::Unavailable`].
    pub async fn show(&self, selector: &BucketSelector) -> Result<BucketReport, BucketAdminError> {
        let rules = self.rules.load_full();
        let selected = rules.policy.buckets_of(selector, &self.hasher);
        if let (BucketSelector::All(limit), []) = (selector, &selected.buckets[..]) {
            return Err(rules.no_bucket(selector, limit, &selected));
        }
        self.show_of(&rules, selector, &selected).await
    }

    /// The buckets that a change of this scope is for; takes nothing.
    ///
    /// # Errors
    /// See [`BucketAdminError`].
    pub async fn show_within(
        &self,
        selector: &BucketSelector,
        scope: ChangeScope<'_>,
    ) -> Result<BucketReport, BucketAdminError> {
        let rules = self.rules.load_full();
        let mut selected = rules.policy.buckets_of(selector, &self.hasher);
        let targets = rules.targets(selector, &selected, scope, |_| true)?;
        selected.buckets.retain(|bucket| targets.contains(&rules.target(bucket)));
        self.show_of(&rules, selector, &selected).await
    }

    /// The buckets under one limit; takes nothing. None if the selector names none there.
    ///
    /// # Errors
    /// [`BucketAdminError::Unavailable`].
    pub async fn show_under(
        &self,
        selector: &BucketSelector,
        limit: &str,
    ) -> Result<Vec<BucketView>, BucketAdminError> {
        let rules = self.rules.load_full();
        let mut selected = rules.policy.buckets_of(selector, &self.hasher);
        selected.buckets.retain(|bucket| *rules.policy.limits[bucket.limit].name == *limit);
        Ok(self.show_of(&rules, selector, &selected).await?.buckets)
    }

    /// Adds tokens to the buckets of a client or an account, or to that of one limit; none above the bucket's size.
    ///
    /// # Errors
    /// See [`BucketAdminError`].
    pub async fn credit(
        &self,
        selector: &BucketSelector,
        scope: ChangeScope<'_>,
        tokens: u32,
        by: Operator,
    ) -> Result<BucketReport, BucketAdminError> {
        self.change(selector, scope, is_rate, Change::Credited(tokens), by).await
    }

    /// Resets the buckets of a client or an account, or those of one limit: full, without failures and without waits.
    /// Own rates stay.
    ///
    /// # Errors
    /// See [`BucketAdminError`].
    pub async fn reset(
        &self,
        selector: &BucketSelector,
        scope: ChangeScope<'_>,
        by: Operator,
    ) -> Result<BucketReport, BucketAdminError> {
        self.change(selector, scope, |_| true, Change::Reset, by).await
    }

    /// Gives a client or an account another rate under one limit, for the time `lasts`. The limit's `debt` and
    /// `wait` stay if they fit the new rate.
    ///
    /// # Errors
    /// See [`BucketAdminError`].
    pub async fn give_rate(
        &self,
        selector: &BucketSelector,
        scope: ChangeScope<'_>,
        rate: Continuous,
        lasts: Span,
        by: Operator,
    ) -> Result<BucketReport, BucketAdminError> {
        let until = self.time().after(lasts);
        self.change(selector, scope, is_rate, Change::RateGiven { rate, until }, by).await
    }

    /// Exempts a client or an account from the rates of all limits, or from that of one, for the time `lasts`: by a rate
    /// that no attempts can use up. Failures in a row go on counting.
    ///
    /// # Errors
    /// See [`BucketAdminError`].
    pub async fn exempt(
        &self,
        selector: &BucketSelector,
        scope: ChangeScope<'_>,
        lasts: Span,
        by: Operator,
    ) -> Result<BucketReport, BucketAdminError> {
        let until = self.time().after(lasts);
        let rate = Own::exemption(until).map_err(BucketAdminError::Ban)?.rate;
        self.change(selector, scope, is_rate, Change::RateGiven { rate, until }, by).await
    }

    /// Ends the own rates of a client or an account, or the one under one limit.
    ///
    /// # Errors
    /// See [`BucketAdminError`].
    pub async fn end_rate(
        &self,
        selector: &BucketSelector,
        scope: ChangeScope<'_>,
        by: Operator,
    ) -> Result<BucketReport, BucketAdminError> {
        self.change(selector, scope, is_rate, Change::RateEnded, by).await
    }

    /// Has the buckets of a client or an account refuse everything for the time `lasts`, or that of one limit. Then they
    /// are full. Without a limit, neighbours of an address are spared: only the limits with its narrowest prefix ban it.
    ///
    /// # Errors
    /// See [`BucketAdminError`].
    pub async fn ban(
        &self,
        selector: &BucketSelector,
        scope: ChangeScope<'_>,
        lasts: Span,
        by: Operator,
    ) -> Result<BucketReport, BucketAdminError> {
        let now = self.time();
        let until = now.after(lasts);
        Own::ban(now, until).map_err(BucketAdminError::Ban)?;
        self.change(selector, scope, is_rate, Change::Banned { until }, by).await
    }

    /// Ends the bans of a client or an account, or the one under one limit: the buckets are full.
    ///
    /// # Errors
    /// See [`BucketAdminError`].
    pub async fn end_ban(
        &self,
        selector: &BucketSelector,
        scope: ChangeScope<'_>,
        by: Operator,
    ) -> Result<BucketReport, BucketAdminError> {
        self.change(selector, scope, is_rate, Change::BanEnded, by).await
    }

    /// Changes each selected bucket, and emits one event for all of them.
    async fn change(
        &self,
        selector: &BucketSelector,
        scope: ChangeScope<'_>,
        kinds: fn(LimitKind) -> bool,
        change: Change,
        by: Operator,
    ) -> Result<BucketReport, BucketAdminError> {
        let rules = self.rules.load_full();
        let selected = rules.policy.buckets_of(selector, &self.hasher);
        let targets = rules.targets(selector, &selected, scope, kinds)?;
        let filled = (change == Change::Reset).then(|| rules.filled(selector, &targets));
        let (mut limits, mut done): (Vec<Arc<str>>, _) = (Vec::new(), Ok(()));
        for target in targets {
            done = self.change_one(selector, &target, change).await;
            if done.is_err() {
                break;
            }
            if !limits.contains(&target.limit) {
                limits.push(target.limit);
            }
        }
        if !limits.is_empty() {
            let owner = self.owner_of(selector, &selected);
            if let Change::RateGiven { .. } | Change::Banned { .. } = change {
                let is_changed =
                    |bucket: &&BucketRef| limits.contains(&rules.policy.limits[bucket.limit].name);
                let changed = selected.buckets.iter().filter(is_changed);
                self.remember_owner(changed.map(|bucket| bucket.key), owner);
            }
            self.events.emit(&Event::BucketsChanged(BucketsChanged { by, owner, limits: &limits, change }));
        }
        done?;
        let rules = self.rules.load_full();
        let mut selected = rules.policy.buckets_of(selector, &self.hasher);
        let is_meant = |name: &str| scope.limit.is_none_or(|limit| *name == *limit);
        selected.buckets.retain(|bucket| is_meant(&rules.policy.limits[bucket.limit].name));
        Ok(BucketReport { filled, ..self.show_of(&rules, selector, &selected).await? })
    }

    /// An account as logs and lists write it: a keyed hash of 48 bits.
    #[must_use]
    pub fn log_id(&self, account: &Account) -> u64 {
        self.hasher.log_id(account)
    }

    /// Whose buckets a selector names, as lists and logs have it.
    #[must_use]
    pub fn owner(&self, selector: &BucketSelector) -> BucketOwner {
        self.owner_of(selector, &self.rules.load().policy.buckets_of(selector, &self.hasher))
    }

    fn owner_of(&self, selector: &BucketSelector, selected: &SelectedBuckets) -> BucketOwner {
        match (selector.client(), selector.account(), selected.buckets.first()) {
            (Some(client), ..) => BucketOwner::Client(client),
            (_, Some(account), _) => BucketOwner::Account(self.hasher.log_id(account)),
            (.., bucket) => {
                BucketOwner::Key(bucket.map_or(0, |bucket| self.hasher.log_id_of_key(bucket.key)))
            }
        }
    }

    /// Changes by the newest rules; does nothing if they have no such bucket any more.
    async fn change_one(
        &self,
        selector: &BucketSelector,
        target: &BucketTarget,
        change: Change,
    ) -> Result<(), BucketAdminError> {
        for _ in 0..MAX_TRIES {
            let rules = self.rules.load_full();
            let found = rules.policy.buckets_of(selector, &self.hasher).buckets;
            let Some(bucket) = found.iter().find(|bucket| *target == rules.target(bucket)) else {
                return Ok(());
            };
            match self.change_bucket(&rules, bucket, change).await {
                Err(BucketChangeError::OwnRate(OwnRateError::Stale(Stale))) => std::thread::yield_now(),
                Err(BucketChangeError::OwnRate(error)) => return Err(error.into()),
                Err(BucketChangeError::Unavailable(error)) => return Err(error.into()),
                Ok(()) => return Ok(()),
            }
        }
        Err(OwnRateError::Stale(Stale).into())
    }

    async fn change_bucket(
        &self,
        rules: &Rules,
        bucket: &BucketRef,
        change: Change,
    ) -> Result<(), BucketChangeError> {
        for change in changes_of(change, &bucket.spec, self.time()) {
            self.store.change(&rules.buckets[bucket.limit], bucket_key(bucket), change).await?;
        }
        Ok(())
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
        let remembered = match selector.account() {
            Some(account) => self.count_remembered(rules, account).await?,
            None => Vec::new(),
        };
        let account = selector.account().map(|account| self.hasher.log_id(account));
        Ok(BucketReport { remembered, account, ..rules.show(selector, selected, &levels, self.time()) })
    }

    async fn level(
        &self,
        rules: &Rules,
        bucket: &BucketRef,
    ) -> Result<(BucketLevel, Option<Own>), Unavailable> {
        let key = bucket_key(bucket);
        let (verdict, own) = self.store.inspect(&rules.buckets[bucket.limit], key, 1).await?;
        let spec = own.map_or(key.spec, |own| key.spec.at_rate(own.rate));
        Ok((BucketLevel { spec, verdict }, own))
    }
}

/// A bucket, with its level and its own rate.
type SeenBucket<'b> = (&'b BucketRef, &'b (BucketLevel, Option<Own>));

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
        now: Time,
    ) -> BucketReport {
        let names =
            |limits: &[usize]| limits.iter().map(|&at| Arc::clone(&self.policy.limits[at].name)).collect();
        let all: Vec<_> = selected.buckets.iter().zip(levels).collect();
        let of_rates =
            all.iter().filter(|(bucket, _)| self.policy.limits[bucket.limit].kind == LimitKind::Rate);
        BucketReport {
            buckets: of_rates.map(|bucket| self.view_of(selector, *bucket, &all, now)).collect(),
            exempt: names(&selected.exempt),
            not_shown: names(&selected.not_addressable),
            ..BucketReport::default()
        }
    }

    fn view_of(
        &self,
        selector: &BucketSelector,
        shown: SeenBucket<'_>,
        all: &[SeenBucket<'_>],
        now: Time,
    ) -> BucketView {
        let (bucket, &(rate, own)) = shown;
        let limit = &self.policy.limits[bucket.limit];
        let is_beside = |(other, _): &&SeenBucket<'_>| {
            other.limit != bucket.limit
                && self.policy.rate_limit_of(other.limit) == bucket.limit
                && other.class == bucket.class
        };
        let beside = all.iter().filter(is_beside);
        let beside = beside.map(|(other, (level, _))| (self.policy.limits[other.limit].kind, *level));
        let network = network_of(selector, limit);
        BucketView {
            limit: Arc::clone(&limit.name),
            mode: limit.mode,
            class: Arc::clone(&bucket.class_name),
            network,
            rate,
            own,
            prefix_banned_until: selector.client().and_then(|client| self.banned_until(client, now)),
            beside: beside.collect(),
        }
    }

    fn target(&self, bucket: &BucketRef) -> BucketTarget {
        let limit = &self.policy.limits[bucket.limit];
        let (name, class) = (Arc::clone(&limit.name), Arc::clone(&bucket.class_name));
        BucketTarget { limit: name, kind: limit.kind, class }
    }

    /// The selected buckets of these kinds and this scope, or why its limit has none.
    fn targets(
        &self,
        selector: &BucketSelector,
        selected: &SelectedBuckets,
        ChangeScope { limit, spares_neighbours, within }: ChangeScope<'_>,
        kinds: fn(LimitKind) -> bool,
    ) -> Result<Vec<BucketTarget>, BucketAdminError> {
        let all = selected.buckets.iter().map(|bucket| self.target(bucket));
        let is_meant =
            |target: &BucketTarget| kinds(target.kind) && limit.is_none_or(|limit| *target.limit == *limit);
        let mut targets: Vec<BucketTarget> = all.filter(is_meant).collect();
        let meant = match selector {
            BucketSelector::All(name) => limit.or(Some(name)),
            BucketSelector::Values(_) => limit,
        };
        if let Some(limit) = meant.filter(|_| targets.is_empty()) {
            return Err(self.no_bucket(selector, limit, selected));
        }
        targets.retain(|target| within.is_none_or(|within| within.contains(&target.limit)));
        if spares_neighbours {
            self.spare_neighbours(selector, &mut targets);
        }
        Ok(targets)
    }

    /// The buckets of rates among these.
    fn filled(&self, selector: &BucketSelector, targets: &[BucketTarget]) -> Vec<FilledBucket> {
        let of_rates = targets.iter().filter(|target| is_rate(target.kind));
        let filled = of_rates.map(|target| {
            let limit = self.index_of(&target.limit, target.kind).map(|at| &self.policy.limits[at]);
            let network = limit.and_then(|limit| network_of(selector, limit));
            FilledBucket { limit: Arc::clone(&target.limit), network }
        });
        filled.collect()
    }

    /// Leaves out the limits that count an address together with more neighbours than others do.
    fn spare_neighbours(&self, selector: &BucketSelector, targets: &mut Vec<BucketTarget>) {
        let Some(ip) = selector.client().and_then(Client::ip) else { return };
        let length = |target: &BucketTarget| {
            let limit = &self.policy.limits[self.index_of(&target.limit, target.kind)?];
            let is_by_address = limit.key.contains(&KeyPart::Ip);
            is_by_address.then(|| limit.prefixes.network_of(ip)).flatten().map(|network| network.prefix_len())
        };
        let narrowest = targets.iter().filter_map(length).max();
        targets.retain(|target| length(target) == narrowest);
    }

    /// Why the selector names no bucket under this limit.
    fn no_bucket(
        &self,
        selector: &BucketSelector,
        limit: &str,
        selected: &SelectedBuckets,
    ) -> BucketAdminError {
        let named = |limits: &[usize]| limits.iter().any(|&at| *self.policy.limits[at].name == *limit);
        BucketAdminError::NoBucket(if named(&selected.exempt) {
            format!("the limit `{limit}` exempts this client: there is no bucket")
        } else if named(&selected.not_addressable) {
            format!("the key of `{limit}` has other parts than these")
        } else if self.index_of(limit, LimitKind::Rate).is_none() {
            format!("there is no limit `{limit}`")
        } else if let BucketSelector::All(_) = selector {
            format!("the limit `{limit}` has a bucket for each client: all: is for limits with key = \"all\"")
        } else {
            format!("the limit `{limit}` has another kind of key")
        })
    }
}

/// The clients that share a bucket with this one under the limit.
fn network_of(selector: &BucketSelector, limit: &Limit) -> Option<IpNet> {
    selector.client().and_then(Client::ip).and_then(|ip| limit.prefixes.network_of(ip))
}

fn bucket_key(bucket_ref: &BucketRef) -> BucketKey {
    BucketKey { key: bucket_ref.key, class: bucket_ref.class, spec: bucket_ref.spec }
}

fn is_rate(kind: LimitKind) -> bool {
    kind == LimitKind::Rate
}
