//! What happened to each bucket, in the order in which it happened, and what of that no bucket may have allowed.
//!
//! Arithmetic of its own: the kept attempts of every window weigh at most what a bucket holds and what its rate brings
//! in that time. A change of the limit scales their weight. An attempt may turn out to be kept long after it was made,
//! so each audit adds everything up anew.

use std::collections::{BTreeMap, HashMap};

use tollgate::bucket::Key;
use tollgate::policy::LimitKind;

use crate::signins::rules::{Drawn, Owner, Rules};

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    logs: BTreeMap<Owner, Vec<Line>>,
    keys: HashMap<Owner, Key>,
    owners: HashMap<Key, Owner>,
    /// All rules there were, and since when.
    epochs: Vec<(u64, Rules)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    at: u64,
    /// Which rules were in force.
    epoch: usize,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum What {
    /// Taken, with an unknown outcome so far.
    Open(u32),
    Kept(u32),
    /// Given back, when.
    Undone(u32, u64),
    /// Full again after a success.
    Reset,
    /// What was taken before that, and was given back after it.
    Again(u32),
}

/// An attempt that is in the books.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) owner: Owner,
    line: usize,
}

impl Ledger {
    pub(crate) fn rules_from(&mut self, at: u64, rules: &Rules) {
        self.epochs.push((at, rules.clone()));
    }

    /// Whether this bucket is always the same for this owner, and belongs to no other.
    pub(crate) fn is_his(&mut self, owner: &Owner, key: Key) -> bool {
        *self.keys.entry(owner.clone()).or_insert(key) == key
            && self.owners.entry(key).or_insert_with(|| owner.clone()).2 == owner.2
    }

    pub(crate) fn take(&mut self, owner: Owner, at: u64, tokens: u32, is_final: bool) -> Entry {
        let epoch = self.epochs.len() - 1;
        let what = if is_final { What::Kept(tokens) } else { What::Open(tokens) };
        let log = self.logs.entry(owner.clone()).or_default();
        log.push(Line { at, epoch, what });
        Entry { owner, line: log.len() - 1 }
    }

    pub(crate) fn settle(&mut self, Entry { owner, line }: &Entry, at: u64, is_kept: bool) {
        let epoch = self.epochs.len() - 1;
        let log = self.logs.get_mut(owner).unwrap();
        let What::Open(tokens) = log[*line].what else { return };
        log[*line].what = if is_kept { What::Kept(tokens) } else { What::Undone(tokens, at) };
        if !is_kept && log[*line..].iter().any(|line| line.what == What::Reset) {
            log.push(Line { at, epoch, what: What::Again(tokens) });
        }
    }

    pub(crate) fn reset(&mut self, owner: Owner, at: u64) {
        let epoch = self.epochs.len() - 1;
        self.logs.entry(owner).or_default().push(Line { at, epoch, what: What::Reset });
    }

    /// Whether the limit has been the same ever since this was taken.
    pub(crate) fn is_unchanged(&self, Entry { owner, line }: &Entry) -> bool {
        let from = self.logs[owner][*line].epoch;
        (from..self.epochs.len()).all(|epoch| self.size(owner, epoch) == self.size(owner, from))
    }

    /// The same for a bucket from which perhaps nothing was taken.
    pub(crate) fn is_unchanged_since(&self, owner: &Owner, drawn: Drawn, reloads: u64) -> bool {
        let from = usize::try_from(reloads).unwrap();
        (from..self.epochs.len())
            .all(|epoch| self.size(owner, epoch) == Some((drawn.burst, drawn.per.into())))
    }

    /// For each limit how often a bucket must have been forgotten, or the owner who found more than there can have been.
    pub(crate) fn audit(&self) -> BTreeMap<&'static str, (u64, String)> {
        let mut found: BTreeMap<&'static str, (u64, String)> = BTreeMap::new();
        for (owner, log) in &self.logs {
            let excess = self.excesses(owner, log);
            if let Some(last) = excess.last() {
                let (count, words) = found.entry(owner.0).or_default();
                *count += excess.len() as u64;
                *words = format!("{owner:?} took too much: {last}");
            }
        }
        found
    }

    fn excesses(&self, owner: &Owner, log: &[Line]) -> Vec<String> {
        let (mut weight, mut since, mut epoch, mut found) = (0_u128, 0, 0, Vec::new());
        for (number, line) in log.iter().enumerate() {
            while epoch < line.epoch {
                let at = self.epochs[epoch + 1].0;
                weight = weight.saturating_sub(u128::from(at - since));
                since = at;
                let (old, new) = (self.size(owner, epoch), self.size(owner, epoch + 1));
                weight = match (old, new) {
                    (Some((old, before)), Some((new, after))) if (old, before) != (new, after) => {
                        weight * (u128::from(new) * after) / (u128::from(old) * before)
                    }
                    (Some(_), Some(_)) => weight,
                    _ => 0,
                };
                epoch += 1;
            }
            let Some((burst, per)) = self.size(owner, epoch) else { continue };
            weight = weight.saturating_sub(u128::from(line.at - since));
            since = line.at;
            match line.what {
                What::Kept(tokens) => weight += per * u128::from(tokens),
                What::Open(_) | What::Undone(..) => {}
                What::Reset => weight = 0,
                What::Again(tokens) => weight = weight.saturating_sub(per * u128::from(tokens)),
            }
            if weight > per * u128::from(burst) {
                found.push(format!("line {number} under {burst} tokens, {per} ns each, in {log:?}"));
                weight = match line.what {
                    What::Kept(tokens) => per * u128::from(tokens),
                    _ => 0,
                };
            }
        }
        found
    }

    /// Tokens, and nanoseconds for each.
    fn size(&self, owner: &Owner, epoch: usize) -> Option<(u32, u128)> {
        let is = |facet: LimitKind| facet as u8 == owner.1 && facet != LimitKind::Escalation;
        let all = &self.epochs[epoch].1.0;
        let drawn = all.iter().find(|drawn| drawn.name == owner.0 && is(drawn.facet))?;
        Some((drawn.burst, drawn.per.into()))
    }

    /// Whether what was given back can have been given back too late to help: in some window attempts were on their way
    /// for so long, side by side, that nothing of what they took has come back by now. A bucket does not refill by what
    /// is on its way: an attempt that ends well has cost as much time as it took, at most that of its tokens, and time
    /// gives back one second in a second.
    pub(crate) fn is_busy(&self, owner: &Owner, now: u64) -> bool {
        let Some((burst, per)) = self.size(owner, self.epochs.len() - 1) else { return false };
        let lines = self.logs.get(owner).map_or(&[][..], Vec::as_slice);
        let mut cost = 0;
        for line in lines.iter().rev() {
            cost += match line.what {
                What::Open(tokens) | What::Kept(tokens) => per * u128::from(tokens),
                What::Undone(tokens, at) => (per * u128::from(tokens)).min((at - line.at).into()),
                What::Reset | What::Again(_) => 0,
            };
            if cost > per * u128::from(burst - 1) + u128::from(now - line.at) {
                return true;
            }
        }
        false
    }
}
