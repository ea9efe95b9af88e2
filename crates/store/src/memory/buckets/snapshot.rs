//! A snapshot of the buckets of one limit, for a restart.
//!
//! Files are left to [`snapshot`](crate::snapshot). A table does not know the keys of its buckets, only their
//! lines and tags, so buckets are restored to the same lines, and only into a table of the same size with the same
//! secret.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use serde::{Deserialize, Serialize};

use super::{Buckets, Former, MAX_FORMER};
use crate::memory::table::{BucketTable, TableSnapshot, TooLarge};
use tollgate_bucket::Time;
use tollgate_bucket::{Key, MAX_RECORD_LEN, RecordHeader, Spec};

/// The buckets of one limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketsSnapshot {
    now: TableSnapshot,
    /// The tables from before each change of the limit, the last change first.
    former: Vec<FormerSnapshot>,
    /// Buckets with own rates: their keys and records.
    own: Vec<(u128, Vec<u8>)>,
}

/// A spec as a record without a level; `None` where the limit did not apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncodedSpec(Option<Vec<u8>>);

/// A former table that is still in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FormerSnapshot {
    before: TableSnapshot,
    /// For each class of clients since: its former class and spec.
    classes: Vec<Option<(u16, EncodedSpec)>>,
    since: u64,
    until: u64,
}

/// Why a snapshot cannot be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The table has another capacity.
    #[error("the snapshot was taken with another store.capacity")]
    Capacity,
    /// The snapshot contradicts itself.
    #[error("corrupt snapshot entry")]
    Corrupt,
    /// The table does not fit into memory.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

impl EncodedSpec {
    /// Encodes a spec.
    #[must_use]
    pub fn of(spec: Option<Spec>) -> Self {
        Self(spec.map(|spec| {
            let mut bytes = [0; MAX_RECORD_LEN];
            let length = RecordHeader::of(spec).encode(&[0; Spec::MAX_WORDS], &mut bytes);
            bytes[..length].to_vec()
        }))
    }

    /// Decodes the spec.
    ///
    /// # Errors
    /// [`RestoreError::Corrupt`].
    pub fn spec(&self) -> Result<Option<Spec>, RestoreError> {
        let read = |bytes: &Vec<u8>| {
            let header =
                RecordHeader::decode(bytes, &mut [0; Spec::MAX_WORDS]).map_err(|_| RestoreError::Corrupt)?;
            Ok(header.spec)
        };
        self.0.as_ref().map(read).transpose()
    }
}

impl Buckets {
    /// Takes a snapshot of all buckets that are not full.
    #[must_use]
    pub fn snapshot(&self, now: Time) -> BucketsSnapshot {
        let mut former = Vec::new();
        let mut next = self.former.load_full();
        while let Some(changed) = next.filter(|changed| changed.until > now) {
            let class = |class: &Option<(usize, Spec)>| {
                class.map(|(class, spec)| {
                    (u16::try_from(class).unwrap_or(u16::MAX), EncodedSpec::of(Some(spec)))
                })
            };
            former.push(FormerSnapshot {
                before: changed.buckets.table.snapshot(now),
                classes: changed.classes.iter().map(class).collect(),
                since: changed.since.as_nanos(),
                until: changed.until.as_nanos(),
            });
            next = changed.buckets.former.load_full();
        }
        BucketsSnapshot { now: self.table.snapshot(now), former, own: self.own_rates.records() }
    }

    /// Restores a snapshot into at least `capacity` buckets with these specs.
    ///
    /// # Errors
    /// [`RestoreError`].
    pub fn from_snapshot(
        snapshot: &BucketsSnapshot,
        capacity: usize,
        specs: &[Spec],
    ) -> Result<Self, RestoreError> {
        // Each entry allocates a table, and its width is a factor: a small file must not ask for a large one.
        let is_possible = |changed: &FormerSnapshot| usize::from(changed.before.width) <= Spec::MAX_WORDS;
        if snapshot.former.len() > MAX_FORMER || !snapshot.former.iter().all(is_possible) {
            return Err(RestoreError::Corrupt);
        }
        let new = Self::new(capacity, specs)?;
        new.table.restore(&snapshot.now)?;
        for (key, record) in &snapshot.own {
            new.own_rates.restore(Key(*key), record)?;
        }
        let mut former: Option<Arc<Former>> = None;
        for changed in snapshot.former.iter().rev() {
            let class = |class: &Option<(u16, EncodedSpec)>| -> Result<Option<(usize, Spec)>, RestoreError> {
                let Some((class, encoded)) = class else { return Ok(None) };
                Ok(encoded.spec()?.map(|spec| (usize::from(*class), spec)))
            };
            let classes = changed.classes.iter().map(class).collect::<Result<Vec<_>, _>>()?;
            let specs: Vec<Spec> = classes.iter().flatten().map(|(_, spec)| *spec).collect();
            let mut buckets = Self::new(capacity, &specs)?;
            buckets.table = BucketTable::new(capacity, usize::from(changed.before.width.max(1)))?;
            buckets.table.restore(&changed.before)?;
            buckets.own_rates = Arc::clone(&new.own_rates);
            buckets.former = ArcSwapOption::new(former.take());
            buckets.close();
            former = Some(Arc::new(Former {
                buckets: Arc::new(buckets),
                classes: classes.into(),
                since: Time::from_nanos(changed.since),
                until: Time::from_nanos(changed.until),
            }));
        }
        Ok(Self { former: ArcSwapOption::new(former), ..new })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_bucket::Continuous;
    use tollgate_bucket::Span;

    /// I11: a few bytes that ask for a table of half a terabyte, or for a thousand tables.
    #[test]
    fn what_was_kept_makes_no_table_that_no_limit_has() {
        let spec = Spec::Continuous(Continuous::new(1, Span::from_secs(60), 10).unwrap());
        let empty = Buckets::new(100, &[spec]).unwrap().snapshot(Time::from_nanos(1));
        let change = |width: u16| {
            let mut before = empty.now.clone();
            before.width = width;
            let classes = vec![Some((0, EncodedSpec::of(Some(spec))))];
            FormerSnapshot { before, classes, since: 0, until: u64::MAX }
        };
        let restored = |former: Vec<FormerSnapshot>| {
            let snapshot = BucketsSnapshot { former, ..empty.clone() };
            Buckets::from_snapshot(&snapshot, 100, &[spec]).map(drop)
        };
        assert_eq!(restored(vec![change(1)]), Ok(()));
        assert_eq!(restored((0..16).map(|_| change(1)).collect()), Ok(()));
        assert_eq!(restored((0..17).map(|_| change(1)).collect()), Err(RestoreError::Corrupt));
        assert_eq!(restored(vec![change(u16::MAX)]), Err(RestoreError::Corrupt));
        let most = u16::try_from(Spec::MAX_WORDS).unwrap();
        assert_eq!(restored(vec![change(most + 1)]), Err(RestoreError::Corrupt));
    }
}
