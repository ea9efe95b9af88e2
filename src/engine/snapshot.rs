//! Takes a snapshot of the buckets of the rules in force, and restores one into those of the next process.
//!
//! It reads and writes no file. The surprising thing: a limit that was changed while the gate was down is one that is changed
//! while it runs, so its buckets keep their fill level in proportion.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::rules::{classes_of, specs};
use super::{Engine, Rules};
use crate::bucket::Spec;
use crate::policy::key::KeyHasher;
use crate::policy::{Limit, LimitKind};
use crate::store::memory::{Buckets, EncodedSpec, RestoreError};
use crate::store::snapshot::{LimitSnapshot, Snapshot};
use crate::time::Time;

impl Engine {
    /// All buckets in memory as they stand now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let (rules, now) = (self.rules.load_full(), self.time());
        let kept = |(limit, buckets): (&Limit, &Arc<Buckets>)| LimitSnapshot {
            name: limit.name.to_string(),
            kind: kind_name(limit.kind).to_owned(),
            classes: limit
                .classes()
                .into_iter()
                .map(|(name, spec)| (name.to_string(), EncodedSpec::of(spec)))
                .collect(),
            buckets: buckets.snapshot(now),
        };
        let limits = rules.policy.limits.iter().zip(&rules.buckets).map(kept).collect();
        Snapshot { secret: self.hasher.secret(), limits }
    }

    /// The same engine with buckets that were kept; only before the first attempt. Says which limits begin anew all the
    /// same, and why.
    #[must_use]
    pub fn with_snapshot(self, kept: &Snapshot) -> (Self, Vec<(Arc<str>, RestoreError)>) {
        let now = self.time();
        let Rules { policy, buckets, .. } = &**self.rules.load();
        let mut anew = Vec::new();
        let restored = policy.limits.iter().zip(buckets).map(|(limit, empty)| {
            let found = kept.limits.iter().find(|kept| matches(kept, limit));
            let restored = found.map(|kept| restore(kept, limit, self.capacity, now));
            match restored {
                Some(Ok(buckets)) => buckets,
                Some(Err(why)) => {
                    anew.push((Arc::clone(&limit.name), why));
                    Arc::clone(empty)
                }
                None => Arc::clone(empty),
            }
        });
        let buckets = restored.collect();
        let flights = policy.routes.iter().map(|_| Arc::default()).collect();
        let rules = Rules {
            generation: 0,
            policy: policy.clone(),
            buckets,
            mirrors: Vec::new(),
            concurrency_limits: flights,
        };
        let hasher = KeyHasher::of_secret(kept.secret);
        (Self { hasher, rules: ArcSwap::from_pointee(rules), ..self }, anew)
    }
}

fn restore(
    kept: &LimitSnapshot,
    limit: &Limit,
    capacity: usize,
    now: Time,
) -> Result<Arc<Buckets>, RestoreError> {
    let before = kept.classes.iter().map(|(name, promise)| Ok((name.as_str().into(), promise.spec()?)));
    let before: Vec<(Arc<str>, Option<Spec>)> = before.collect::<Result<_, RestoreError>>()?;
    let promised: Vec<Spec> = before.iter().filter_map(|(_, spec)| *spec).collect();
    let old = Arc::new(Buckets::from_snapshot(&kept.buckets, capacity, &promised)?);
    let after = limit.classes();
    if before == after {
        return Ok(old);
    }
    let new = old.changed(capacity, &specs(limit), classes_of(&before, &after), now)?;
    old.close();
    Ok(Arc::new(new))
}

fn matches(kept: &LimitSnapshot, limit: &Limit) -> bool {
    kept.name == *limit.name && kept.kind == kind_name(limit.kind)
}

/// As the file calls what makes it.
fn kind_name(facet: LimitKind) -> &'static str {
    match facet {
        LimitKind::Rate => "rate",
        LimitKind::Cap => "max_failures",
        LimitKind::Escalation => "escalate",
    }
}
