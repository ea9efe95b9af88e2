//! Checks what was admitted against the specs, bucket by bucket, with arithmetic of its own.
//!
//! Refunded attempts are not reported to it: the remaining admissions of a bucket have to fit the limit as well. Gates
//! matter only where they decided alone; with a store that answers, they are one.

use std::collections::BTreeMap;

use tollgate::bucket::Spec;
use tollgate::time::Time;

/// The admissions of one bucket.
#[derive(Debug, Clone, Default)]
pub(crate) struct Admissions(Vec<(Time, Option<usize>)>);

/// The result of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// Admissions beyond the limit of one bucket.
    pub(crate) over: u64,
    /// Gates that decided alone.
    pub(crate) alone: u64,
}

impl Admissions {
    /// Adds an attempt that was admitted, by the store or by this gate alone.
    pub(crate) fn add(&mut self, at: Time, alone: Option<usize>) {
        self.0.push((at, alone));
    }

    /// # Panics
    /// If this is more than the spec allows a bucket that the store, or a mirror, forgot `losses` times.
    pub(crate) fn judge(mut self, spec: &Spec, losses: u64) -> Judgement {
        self.0.sort_unstable();
        let mut alone: BTreeMap<usize, Vec<Time>> = BTreeMap::new();
        for &(at, gate) in &self.0 {
            if let Some(gate) = gate {
                alone.entry(gate).or_default().push(at);
            }
        }
        for (gate, times) in &alone {
            // A gate that saw a row forgets it with the store.
            let over = excess(spec, times.iter().copied());
            let most = losses * u64::from(spec.burst());
            assert!(
                over <= most,
                "gate {gate} alone gave {over} more than the limit, and {most} were forgotten"
            );
        }
        let over = excess(spec, self.0.iter().map(|&(at, _)| at));
        let gates = alone.len() as u64;
        assert!(over == 0 || losses + gates > 0, "the store gave {over} more than the limit");
        let passed = match (self.0.first(), self.0.last()) {
            (Some((first, _)), Some((last, _))) => last.since(*first).as_nanos(),
            _ => 0,
        };
        let limit = u64::from(spec.burst()) + passed / per_token(spec);
        let most = (1 + losses + gates) * limit;
        assert!(self.0.len() as u64 <= most, "{} of at most {most} were admitted", self.0.len());
        Judgement { over, alone: gates }
    }
}

/// How many of these do not fit into one bucket.
fn excess(spec: &Spec, times: impl Iterator<Item = Time>) -> u64 {
    let (token, size) = (u128::from(per_token(spec)), u128::from(spec.burst()));
    let (mut taken, mut last, mut excess) = (0_u128, None::<Time>, 0);
    for at in times {
        let passed = last.map_or(0, |last| u128::from(at.since(last).as_nanos()));
        taken = taken.saturating_sub(passed);
        last = Some(at);
        if taken + token <= size * token {
            taken += token;
        } else {
            excess += 1;
        }
    }
    excess
}

fn per_token(spec: &Spec) -> u64 {
    match spec {
        Spec::Continuous(bucket) => bucket.per_token().as_nanos(),
        _ => unreachable!("the simulation has no other shape"),
    }
}
