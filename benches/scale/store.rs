//! The shared store: rows by key, on shards that may be down for a while or lose their rows.
//!
//! It compares, swaps and counts; it decides nothing. A shard that is down does not answer at all, so a caller waits
//! for the whole time-out.

use std::collections::HashMap;

use tollgate::time::Time;

use super::gate::Scattered;

/// A bucket, by number; see [`World`](super::world::World).
pub(crate) type BucketId = u64;

/// The row of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) tat: u64,
    pub(crate) version: u64,
    gone_at: Time,
}

/// A swap that is to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writing {
    pub(crate) old: Option<u64>,
    pub(crate) tat: u64,
    pub(crate) gone_at: Time,
}

/// The store's reply.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Said {
    Loaded(Option<Row>),
    /// Written, or stepped, with this version.
    Done(u64),
    Lost(Option<Row>),
    Nothing,
}

pub(crate) struct Store {
    rows: HashMap<BucketId, Row, Scattered>,
    away: Vec<bool>,
    /// How often each has lost its rows.
    losses: Vec<u64>,
    versions: u64,
}

impl Store {
    pub(crate) fn new(shards: u64) -> Self {
        let count = usize::try_from(shards).unwrap_or(usize::MAX);
        Self { rows: HashMap::default(), away: vec![false; count], losses: vec![0; count], versions: 0 }
    }

    /// The shard of a bucket.
    pub(crate) fn shard(&self, bucket: BucketId) -> usize {
        let mixed = bucket.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 20;
        usize::try_from(mixed).unwrap_or(0) % self.away.len()
    }

    pub(crate) fn shards(&self) -> usize {
        self.away.len()
    }

    pub(crate) fn is_away(&self, shard: usize) -> bool {
        self.away[shard]
    }

    /// How often a bucket was lost.
    pub(crate) fn losses(&self, bucket: BucketId) -> u64 {
        self.losses[self.shard(bucket)]
    }

    pub(crate) fn rows(&self, now: Time) -> u64 {
        self.rows.values().map(|row| u64::from(row.gone_at > now)).sum()
    }

    pub(crate) fn turn(&mut self, shard: usize, away: bool, is_lossy: bool) {
        self.away[shard] = away;
        if away && is_lossy {
            self.losses[shard] += 1;
            let mut rows = std::mem::take(&mut self.rows);
            rows.retain(|&bucket, _| self.shard(bucket) != shard);
            self.rows = rows;
        }
    }

    /// Serves one request: a load, or a swap.
    pub(crate) fn answer(&mut self, bucket: BucketId, writing: Option<Writing>, now: Time) -> Said {
        if self.away[self.shard(bucket)] {
            return Said::Nothing;
        }
        let row = self.rows.get(&bucket).copied().filter(|row| row.gone_at > now);
        let Some(Writing { old, tat, gone_at }) = writing else { return Said::Loaded(row) };
        if row.map(|row| row.version) != old {
            return Said::Lost(row);
        }
        Said::Done(self.put(bucket, tat, gone_at))
    }

    /// Writes a row, and returns its version.
    pub(crate) fn put(&mut self, bucket: BucketId, tat: u64, gone_at: Time) -> u64 {
        self.versions += 1;
        self.rows.insert(bucket, Row { tat, version: self.versions, gone_at });
        self.versions
    }
}
