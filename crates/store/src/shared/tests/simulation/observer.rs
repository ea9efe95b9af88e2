//! Checks what was admitted against the specs: by windows and leaking levels, not by the gates' arithmetic.

use tollgate_bucket::Spec;
use tollgate_bucket::{Span, Time};

/// All attempts, by key.
pub(super) struct Observer {
    keys: Vec<(Promise, Vec<Seen>)>,
    pub(super) misfortunes: u32,
}

#[derive(Clone, Copy)]
enum Promise {
    /// `burst` tokens at once, and one more every `per_token` seconds.
    Rate { burst: f64, per_token: f64 },
    /// At most `most` tokens in any window of this length.
    Window { length: Span, most: f64 },
}

#[derive(Clone, Copy)]
enum Seen {
    Admitted {
        at: Time,
        tokens: u32,
        is_kept: bool,
    },
    Returned {
        at: Time,
        tokens: u32,
    },
    /// The clock is set.
    Stepped {
        from: Time,
        to: Time,
    },
    /// Earlier admissions do not count any more.
    Forgiven(Time),
}

/// An attempt that was decided before earlier admissions were forgiven may be reported up to this much later.
const LATER: Span = Span::from_millis(200);
/// Less than a token: what comes due while a reply is in flight.
const SLACK: f64 = 0.5;

impl Observer {
    /// Of buckets that are kept under one of two files, in turns.
    pub(super) fn new(before: &[Spec], after: &[Spec]) -> Self {
        let promise = |(before, after)| Promise::of(before).or(&Promise::of(after));
        let keys = before.iter().zip(after).map(|both| (promise(both), Vec::new()));
        Self { keys: keys.collect(), misfortunes: 0 }
    }

    pub(super) fn admitted(&mut self, key: usize, at: Time, tokens: u32) -> usize {
        self.keys[key].1.push(Seen::Admitted { at, tokens, is_kept: true });
        self.keys[key].1.len() - 1
    }

    /// Takes an admission back. If it was forgiven before, the refund adds a token on top.
    pub(super) fn refunded(&mut self, key: usize, id: usize, at: Time) {
        let seen = &mut self.keys[key].1;
        let is_forgiven = seen[id..].iter().any(|seen| matches!(seen, Seen::Forgiven(_)));
        if let Seen::Admitted { is_kept, tokens, .. } = &mut seen[id] {
            *is_kept = false;
            let tokens = *tokens;
            if is_forgiven {
                seen.push(Seen::Returned { at, tokens });
            }
        }
    }

    /// The clock was set.
    pub(super) fn stepped(&mut self, key: usize, from: Time, to: Time) {
        self.keys[key].1.push(Seen::Stepped { from, to });
    }

    pub(super) fn forgiven(&mut self, key: usize, at: Time) {
        self.keys[key].1.push(Seen::Forgiven(at));
    }

    /// Asserts that no key got more than this number of independent gates may give.
    pub(super) fn demand(&self, gates: u32, seed: u64) {
        for (key, (promise, seen)) in self.keys.iter().enumerate() {
            let promise = promise.of_gates(gates.into());
            let (most, allowed) = (promise.most(seen), promise.allowed() + SLACK);
            println!("seed {seed}, key {key}: {most:.2} of {allowed:.2}");
            assert!(most <= allowed, "seed {seed}, key {key}: {most} of {allowed}");
        }
    }
}

impl Promise {
    fn of(spec: &Spec) -> Self {
        let seconds = |span: Span| span.as_nanos() as f64 / 1e9;
        match spec {
            Spec::Continuous(rate) => {
                Self::Rate { burst: rate.burst().into(), per_token: seconds(rate.per_token()) }
            }
            Spec::Distinct(distinct) => Self::of(&Spec::Continuous(distinct.bucket())),
            Spec::Floor(both) => {
                let (floor, pool) = (both.floor(), both.pool());
                let rate = 1.0 / seconds(floor.per_token()) + 1.0 / seconds(pool.per_token());
                Self::Rate { burst: f64::from(floor.burst() + pool.burst()), per_token: 1.0 / rate }
            }
            // The end of one period and the beginning of the next.
            Spec::Interval(interval) => {
                Self::Window { length: interval.period(), most: 2.0 * f64::from(interval.quota()) }
            }
            Spec::Rolling(rolling) => Self::Window {
                length: Span::from_nanos(rolling.window().as_nanos() - rolling.period().as_nanos()),
                most: rolling.quota().into(),
            },
            Spec::Escalation(_) | Spec::Recent(_) => unreachable!("has no tokens"),
        }
    }

    /// What a bucket may give that is kept under either of two specifications. A changed limit keeps its level in
    /// proportion, so a bucket refills as under the one that it is full under soonest: one of ten that is kept for a
    /// while as one of eight is full after the time of eight tokens, and then gives ten.
    fn or(self, other: &Self) -> Self {
        match (self, *other) {
            (Self::Rate { burst, per_token }, Self::Rate { burst: other, per_token: of_other }) => {
                let soonest = (burst * per_token).min(other * of_other);
                let burst = burst.max(other);
                Self::Rate { burst, per_token: soonest / burst }
            }
            (same, _) => same,
        }
    }

    /// What so many give, each by itself.
    fn of_gates(self, gates: f64) -> Self {
        match self {
            Self::Rate { burst, per_token } => {
                Self::Rate { burst: gates * burst, per_token: per_token / gates }
            }
            Self::Window { length, most } => Self::Window { length, most: gates * most },
        }
    }

    fn allowed(&self) -> f64 {
        match self {
            Self::Rate { burst, .. } => *burst,
            Self::Window { most, .. } => *most,
        }
    }

    fn leaked(&self, level: f64, time: Span) -> f64 {
        match self {
            Self::Rate { per_token, .. } => (level - time.as_nanos() as f64 / 1e9 / per_token).max(0.0),
            Self::Window { .. } => level,
        }
    }

    /// The highest level, or the most tokens in any window.
    fn most(&self, seen: &[Seen]) -> f64 {
        let (mut most, mut level, mut last) = (0.0_f64, 0.0_f64, Time::from_nanos(0));
        let mut window: Vec<(Time, f64)> = Vec::new();
        let mut forgiven = Time::from_nanos(0);
        for seen in seen {
            let (at, tokens) = match *seen {
                Seen::Forgiven(at) => {
                    (level, forgiven) = (0.0, at.after(LATER));
                    window.clear();
                    continue;
                }
                Seen::Stepped { from, to } => {
                    level = self.leaked(level, from.since(last));
                    let by = |then: Time| if to < from { then.before(from.since(to)) } else { then };
                    window.iter_mut().for_each(|(then, _)| *then = by(*then));
                    (last, forgiven) = (to, by(forgiven));
                    continue;
                }
                Seen::Admitted { is_kept: false, .. } => continue,
                Seen::Admitted { at, .. } if at <= forgiven => continue,
                Seen::Admitted { at, tokens, .. } => (at, f64::from(tokens)),
                Seen::Returned { at, tokens } => (at, -f64::from(tokens)),
            };
            match self {
                Self::Rate { .. } => {
                    level = (self.leaked(level, at.since(last)) + tokens).max(0.0);
                    most = most.max(level);
                }
                Self::Window { length, .. } => {
                    window.push((at, tokens));
                    window.retain(|(then, _)| at < then.after(*length));
                    most = most.max(window.iter().map(|(_, tokens)| tokens).sum());
                }
            }
            last = at;
        }
        most
    }
}
