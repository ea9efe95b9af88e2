//! What operators see of single buckets, and do to them.
//!
//! The functions are futures, because a store outside this process takes its time; the memory store answers at once. The
//! surprising thing: what the file calls one limit may be several buckets here. They are shown together, and a reset is a
//! reset of all of them; tokens are given to the one with the rate, and so is a rate.

use std::sync::Arc;

use ipnet::IpNet;

use super::{Engine, MOST_TRIES, Rules};
use crate::bucket::{Continuous, Op, Own, Spec, Verdict};
use crate::event::{BucketsChanged, Change, Event, Operator, Whose};
use crate::policy::holder::{Held, Holder, Holdings};
use crate::policy::{Facet, Mode};
use crate::store::memory::{Buckets, NotGiven, Place, Stale};
use crate::store::shared::{Deed, Mirror, Shared, Unavailable};
use crate::time::{Span, Time};

/// What an operator sees of a holder's buckets.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// In the order of the file.
    pub buckets: Vec<Seen>,
    /// Limits that do not see this client.
    pub exempt: Vec<Arc<str>>,
    /// Limits whose buckets are kept for more than an address or an account.
    pub not_shown: Vec<Arc<str>>,
}

/// One limit's buckets of one holder.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The limit.
    pub limit: Arc<str>,
    /// What the limit does with what it decides.
    pub mode: Mode,
    /// The class of clients; empty for the one of most.
    pub class: Arc<str>,
    /// The clients that share the bucket, if it is one for addresses.
    pub network: Option<IpNet>,
    /// Its tokens.
    pub rate: Level,
    /// The rate that it has of its own.
    pub own: Option<Own>,
    /// The failures that `max_failures` leaves.
    pub cap: Option<Level>,
    /// The strikes that `escalate` leaves.
    pub escalation: Option<Level>,
}

/// What a bucket says when nothing is taken from it.
#[derive(Debug, Clone, Copy)]
pub struct Level {
    /// What it promises now.
    pub spec: Spec,
    /// What it says to an attempt that costs one token.
    pub verdict: Verdict,
}

/// Why nothing, or not everything, was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotDone {
    /// The holder has no bucket under that limit.
    #[error("{0}")]
    NoBucket(String),
    /// The store said no.
    #[error(transparent)]
    NotGiven(#[from] NotGiven),
    /// The store that several gates share did not answer; it may have been done all the same.
    #[error("the store does not answer: try again; a change may have been made, or not")]
    Unavailable(#[from] Unavailable),
}

/// What is done to a bucket.
#[derive(Clone, Copy)]
enum Work {
    Credit(u32),
    Reset,
    Rate(Option<(Continuous, Time)>),
}

impl Engine {
    /// What the buckets of a holder say; costs nothing.
    ///
    /// # Errors
    /// [`NotDone::Unavailable`].
    pub async fn show(&self, holder: &Holder) -> Result<Shown, NotDone> {
        let rules = self.rules.load_full();
        let holdings = rules.policy.holdings(holder, &self.hasher);
        self.show_of(&rules, holder, &holdings).await
    }

    /// Gives tokens to the buckets of a holder, or to that of one limit; none above its size.
    ///
    /// # Errors
    /// See [`NotDone`].
    pub async fn credit(
        &self,
        holder: &Holder,
        limit: Option<&str>,
        tokens: u32,
        by: Operator,
    ) -> Result<Shown, NotDone> {
        self.change(holder, limit, is_rate, (Change::Credited(tokens), Work::Credit(tokens)), by).await
    }

    /// Makes the buckets of a holder, or those of one limit, as if they had never been seen: full, without failures and
    /// without waits. A rate of its own stays.
    ///
    /// # Errors
    /// See [`NotDone`].
    pub async fn reset(&self, holder: &Holder, limit: Option<&str>, by: Operator) -> Result<Shown, NotDone> {
        self.change(holder, limit, |_| true, (Change::Reset, Work::Reset), by).await
    }

    /// Gives a holder a rate of its own under one limit, for so long. What the limit has besides a rate (`debt`, `wait`)
    /// stays where it fits.
    ///
    /// # Errors
    /// See [`NotDone`].
    pub async fn give_rate(
        &self,
        holder: &Holder,
        limit: &str,
        (rate, lasts): (Continuous, Span),
        by: Operator,
    ) -> Result<Shown, NotDone> {
        let until = self.time().after(lasts);
        let change = (Change::RateGiven { rate, until }, Work::Rate(Some((rate, until))));
        self.change(holder, Some(limit), is_rate, change, by).await
    }

    /// Ends the rates that a holder has of its own, or the one under one limit.
    ///
    /// # Errors
    /// See [`NotDone`].
    pub async fn end_rate(
        &self,
        holder: &Holder,
        limit: Option<&str>,
        by: Operator,
    ) -> Result<Shown, NotDone> {
        self.change(holder, limit, is_rate, (Change::RateEnded, Work::Rate(None)), by).await
    }

    /// Does something to each of a holder's buckets, and tells that it was done.
    async fn change(
        &self,
        holder: &Holder,
        limit: Option<&str>,
        facets: fn(Facet) -> bool,
        (change, work): (Change, Work),
        by: Operator,
    ) -> Result<Shown, NotDone> {
        let rules = self.rules.load_full();
        let targets = rules.targets(&rules.policy.holdings(holder, &self.hasher), limit, facets)?;
        let (mut limits, mut done): (Vec<Arc<str>>, _) = (Vec::new(), Ok(()));
        for target in targets {
            done = self.act_on(holder, &target, work).await;
            if done.is_err() {
                break;
            }
            if !limits.contains(&target.limit) {
                limits.push(target.limit);
            }
        }
        if !limits.is_empty() {
            let whose = match holder {
                Holder::Client(client) => Whose::Client(*client),
                Holder::Account(account) => Whose::Account(self.hasher.brief(account)),
            };
            self.events.emit(&Event::BucketsChanged(BucketsChanged { by, whose, limits: &limits, change }));
        }
        done?;
        let rules = self.rules.load_full();
        let mut holdings = rules.policy.holdings(holder, &self.hasher);
        holdings
            .buckets
            .retain(|held| limit.is_none_or(|limit| *rules.policy.limits[held.limit].name == *limit));
        self.show_of(&rules, holder, &holdings).await
    }

    /// By the newest rules; a bucket that is not there any more needs nothing.
    async fn act_on(&self, holder: &Holder, target: &Target, work: Work) -> Result<(), NotDone> {
        for _ in 0..MOST_TRIES {
            let rules = self.rules.load_full();
            let found = rules.policy.holdings(holder, &self.hasher).buckets;
            let Some(held) = found.iter().find(|held| *target == rules.target(held)) else { return Ok(()) };
            if let Some(shared) = &self.shared {
                return Ok(work.ask(shared, &rules.mirrors[held.limit], held.place()).await?);
            }
            match work.act(&rules.buckets[held.limit], &held.place(), self.clock.now()) {
                Err(NotGiven::Stale(Stale)) => std::thread::yield_now(),
                done => return Ok(done?),
            }
        }
        Err(NotGiven::Stale(Stale).into())
    }

    async fn show_of(&self, rules: &Rules, holder: &Holder, holdings: &Holdings) -> Result<Shown, NotDone> {
        let mut levels = Vec::new();
        for held in &holdings.buckets {
            levels.push(self.level(rules, held).await?);
        }
        Ok(rules.show(holder, holdings, &levels))
    }

    async fn level(&self, rules: &Rules, held: &Held) -> Result<(Level, Option<Own>), Unavailable> {
        let (place, now) = (held.place(), self.time());
        let (verdict, own) = match &self.shared {
            Some(shared) => {
                let peek = Deed::Step(Op::Peek(1));
                let said = shared.ask(&rules.mirrors[held.limit], place, peek).await?;
                (said.verdict, said.own)
            }
            None => {
                let buckets = &rules.buckets[held.limit];
                (buckets.peek(&place, now, 1), buckets.own(held.key, now))
            }
        };
        let spec = own.map_or(place.spec, |own| place.spec.at_rate(own.rate));
        Ok((Level { spec, verdict }, own))
    }
}

impl Work {
    fn act(self, buckets: &Buckets, place: &Place, now: Time) -> Result<(), NotGiven> {
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
            Self::Rate(rate) => buckets.set_own(place, own_at(place, rate), now),
        }
    }

    async fn ask(self, shared: &Arc<Shared>, mirror: &Arc<Mirror>, place: Place) -> Result<(), Unavailable> {
        let deed = match self {
            Self::Credit(tokens) => {
                shared.ask(mirror, place, Deed::Step(Op::Take(0))).await?;
                Deed::Step(Op::Give(tokens))
            }
            Self::Reset => Deed::Reset,
            Self::Rate(rate) => Deed::Rate(own_at(&place, rate)),
        };
        shared.ask(mirror, place, deed).await.map(drop)
    }
}

/// A bucket's place in any rules.
#[derive(PartialEq)]
struct Target {
    limit: Arc<str>,
    facet: Facet,
    class: Arc<str>,
}

impl Rules {
    /// `levels` are those of all buckets.
    fn show(&self, holder: &Holder, holdings: &Holdings, levels: &[(Level, Option<Own>)]) -> Shown {
        let names =
            |limits: &[usize]| limits.iter().map(|&at| Arc::clone(&self.policy.limits[at].name)).collect();
        let all = holdings.buckets.iter().zip(levels);
        let of_rates = all.filter(|(held, _)| self.policy.limits[held.limit].facet == Facet::Rate);
        Shown {
            buckets: of_rates
                .map(|(held, level)| self.see(holder, (held, level), holdings, levels))
                .collect(),
            exempt: names(&holdings.exempt),
            not_shown: names(&holdings.not_named),
        }
    }

    fn see(
        &self,
        holder: &Holder,
        (held, &(rate, own)): (&Held, &(Level, Option<Own>)),
        holdings: &Holdings,
        levels: &[(Level, Option<Own>)],
    ) -> Seen {
        let limit = &self.policy.limits[held.limit];
        let beside = |facet| {
            let is_it = |(other, _): &(&Held, &(Level, Option<Own>))| {
                self.policy.limits[other.limit].facet == facet
                    && self.policy.owner_of(other.limit) == held.limit
                    && other.class == held.class
            };
            holdings.buckets.iter().zip(levels).find(is_it).map(|(_, (level, _))| *level)
        };
        let network = match holder {
            Holder::Client(client) => client.ip().and_then(|ip| limit.prefixes.network_of(ip)),
            Holder::Account(_) => None,
        };
        Seen {
            limit: Arc::clone(&limit.name),
            mode: limit.mode,
            class: Arc::clone(&held.class_name),
            network,
            rate,
            own,
            cap: beside(Facet::Cap),
            escalation: beside(Facet::Escalation),
        }
    }

    fn target(&self, held: &Held) -> Target {
        let limit = &self.policy.limits[held.limit];
        Target { limit: Arc::clone(&limit.name), facet: limit.facet, class: Arc::clone(&held.class_name) }
    }

    /// The buckets that are meant, or why there is none under that limit.
    fn targets(
        &self,
        holdings: &Holdings,
        limit: Option<&str>,
        facets: fn(Facet) -> bool,
    ) -> Result<Vec<Target>, NotDone> {
        let all = holdings.buckets.iter().map(|held| self.target(held));
        let is_meant =
            |target: &Target| facets(target.facet) && limit.is_none_or(|limit| *target.limit == *limit);
        let targets: Vec<Target> = all.filter(is_meant).collect();
        let Some(limit) = limit.filter(|_| targets.is_empty()) else { return Ok(targets) };
        let named = |limits: &[usize]| limits.iter().any(|&at| *self.policy.limits[at].name == *limit);
        Err(NotDone::NoBucket(if named(&holdings.exempt) {
            format!("the limit `{limit}` does not see this client: there is no bucket")
        } else if named(&holdings.not_named) {
            format!("the buckets of `{limit}` are kept for more than an address or an account")
        } else if self.index_of(limit, Facet::Rate).is_some() {
            format!("the limit `{limit}` is not kept by this kind of key")
        } else {
            format!("there is no limit `{limit}`")
        }))
    }
}

impl Held {
    fn place(&self) -> Place {
        Place { key: self.key, class: self.class, spec: self.spec }
    }
}

fn is_rate(facet: Facet) -> bool {
    facet == Facet::Rate
}

fn own_at(place: &Place, rate: Option<(Continuous, Time)>) -> Option<Own> {
    rate.map(|(rate, until)| Own { rate: as_in(&place.spec, rate), until })
}

/// A rate with what the limit's own bucket has besides one.
fn as_in(spec: &Spec, rate: Continuous) -> Continuous {
    let like = match spec {
        Spec::Continuous(bucket) => *bucket,
        Spec::Floor(floor) => floor.pool(),
        _ => return rate,
    };
    let whole = rate.with_debt(like.debt()).and_then(|rate| rate.with_hold(like.hold()));
    whole.unwrap_or(rate)
}
