//! Things that are paid for once: a list of those that were, read from its end for every question.

use tollgate::bucket::{Admission, Distinct, Time};

use super::{Model, Said, Steady};

#[derive(Debug, Clone)]
pub(crate) struct Once {
    spec: Distinct,
    level: Steady,
    /// Since the bucket was full: what was paid for or free, and which of the two.
    seen: Vec<(u64, bool)>,
}

impl Once {
    pub(crate) fn new(spec: Distinct) -> Self {
        Self { spec, level: Steady::new(spec.bucket()), seen: Vec::new() }
    }

    /// An attempt for a thing, or one that says of none what it is for.
    pub(crate) fn take(&mut self, now: Time, cost: u32, thing: Option<u64>) -> Said {
        self.level.visit(now);
        if self.level.full_at(now) <= now {
            self.seen.clear();
        }
        if let Some(thing) = thing
            && self.is_free(thing)
        {
            self.seen.push((thing, true));
            return self.level.said(now, Admission::Admitted);
        }
        let said = self.level.take(now, cost);
        if let Some(thing) = thing.filter(|_| said.answer == Admission::Admitted && cost > 0) {
            self.seen.push((thing, false));
        }
        said
    }

    fn is_free(&self, thing: u64) -> bool {
        let mut latest: Vec<u64> = Vec::new();
        for (seen, _) in self.seen.iter().rev() {
            if latest.len() < Distinct::MAX_TAGS && !latest.contains(seen) {
                latest.push(*seen);
            }
        }
        let free = self.seen.iter().filter(|(_, free)| *free).count();
        latest.contains(&thing) && self.spec.repeats().is_none_or(|most| free < most as usize)
    }
}
