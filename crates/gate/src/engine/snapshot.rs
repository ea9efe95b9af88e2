//! Takes a snapshot of the buckets in force and of the changes of operators, and restores it in the engine of the next process.
//!
//! It reads and writes no file. If a limit was changed while no gate ran, its buckets keep their fill level in proportion, as after a
//! reload.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::remembered_clients::RememberedSets;
use super::rules::{classes_of, specs};
use super::{Engine, Overrides, Rules};
use crate::bucket::Spec;
use crate::event::Event;
use crate::policy::Limit;
use crate::policy::key::KeyHasher;
use crate::store::memory::{EncodedSpec, RestoreError};
use crate::store::snapshot::{LimitSnapshot, Snapshot};
use crate::store::{LimitBuckets, Store};
use crate::time::Time;

impl Engine {
    /// All buckets in memory, as they are now, but those of passwords.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let (rules, now) = (self.rules.load_full(), self.time());
        let encode = |(limit, buckets): (&Limit, &LimitBuckets)| LimitSnapshot {
            name: limit.name.to_string(),
            kind: limit.kind.name().to_owned(),
            classes: limit
                .classes()
                .into_iter()
                .map(|(name, spec)| (name.to_string(), EncodedSpec::of(spec)))
                .collect(),
            buckets: buckets.in_memory().snapshot(now),
        };
        let limits = rules.policy.limits.iter().zip(&rules.buckets);
        let limits = limits.filter(|(limit, _)| !limit.is_of_passwords()).map(encode);
        let remembered = rules.remembered.iter().map(|sets| sets.snapshot(now));
        let limits = limits.chain(remembered).collect();
        Snapshot { secret: self.hasher.secret(), limits, overrides: rules.overrides.encode() }
    }

    /// The same engine with the buckets of a snapshot; only before the first attempt. Also returns the limits that
    /// could not be restored and begin with new buckets, and why.
    #[must_use]
    pub fn with_snapshot(self, snapshot: &Snapshot) -> (Self, Vec<(Arc<str>, RestoreError)>) {
        let now = self.time();
        let Rules { policy, buckets, pardon, remembered, .. } = &**self.rules.load();
        let mut anew = Vec::new();
        let restored = policy.limits.iter().zip(buckets).map(|(limit, empty)| {
            let found =
                snapshot.limits.iter().find(|saved| matches(saved, limit) && !limit.is_of_passwords());
            let restored = found.map(|saved| restore(saved, limit, &self.store, now));
            match restored {
                Some(Ok(buckets)) => buckets,
                Some(Err(why)) => {
                    anew.push((Arc::clone(&limit.name), why));
                    empty.clone()
                }
                None => empty.clone(),
            }
        });
        let buckets = restored.collect();
        let remembered = remembered.as_ref().map(|empty| match empty.restored(snapshot, &self.store, now) {
            Ok(sets) => sets,
            Err(why) => {
                anew.push((empty.name.into(), why));
                empty.clone()
            }
        });
        // Bytes that a later version wrote are left out.
        let overrides = Overrides::decode(&snapshot.overrides).unwrap_or_default();
        let rules = Rules::first(policy.clone(), overrides, buckets, pardon.clone(), remembered);
        self.events.emit(&Event::Rules { generation: 0, policy: &rules.policy });
        let hasher = KeyHasher::of_secret(snapshot.secret);
        (Self { hasher, rules: ArcSwap::from_pointee(rules), ..self }, anew)
    }
}

impl RememberedSets {
    fn snapshot(&self, now: Time) -> LimitSnapshot {
        LimitSnapshot {
            name: self.name.to_owned(),
            kind: REMEMBERED.to_owned(),
            classes: vec![(String::new(), EncodedSpec::of(Some(self.spec)))],
            buckets: self.buckets.in_memory().snapshot(now),
        }
    }

    /// These empty sets, or those of the snapshot.
    fn restored(&self, snapshot: &Snapshot, store: &Store, now: Time) -> Result<Self, RestoreError> {
        let is_saved = |saved: &&LimitSnapshot| saved.name == self.name && saved.kind == REMEMBERED;
        let Some(saved) = snapshot.limits.iter().find(is_saved) else { return Ok(self.clone()) };
        let (_, encoded) = saved.classes.first().ok_or(RestoreError::Corrupt)?;
        let before = encoded.spec()?.ok_or(RestoreError::Corrupt)?;
        let buckets = store.restored(&self.name.into(), &saved.buckets, &[before])?;
        let old = Self { name: self.name, buckets, spec: before };
        old.with_spec(self.spec, store, now).map_err(Into::into)
    }
}

fn restore(
    saved: &LimitSnapshot,
    limit: &Limit,
    store: &Store,
    now: Time,
) -> Result<LimitBuckets, RestoreError> {
    let before = saved.classes.iter().map(|(name, encoded)| Ok((name.as_str().into(), encoded.spec()?)));
    let before: Vec<(Arc<str>, Option<Spec>)> = before.collect::<Result<_, RestoreError>>()?;
    let specs_before: Vec<Spec> = before.iter().filter_map(|(_, spec)| *spec).collect();
    let old = store.restored(&limit.name, &saved.buckets, &specs_before)?;
    let after = limit.classes();
    if before == after {
        return Ok(old);
    }
    let new = store.changed(&old, (&limit.name, &specs(limit)), classes_of(&before, &after), now)?;
    old.close();
    Ok(new)
}

fn matches(saved: &LimitSnapshot, limit: &Limit) -> bool {
    saved.name == *limit.name && saved.kind == limit.kind.name()
}

/// The kind of the sets of remembered clients.
const REMEMBERED: &str = "addresses";
