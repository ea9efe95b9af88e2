//! Zones: `limit_req_zone` and `limit_conn_zone`, and how `limit_req` uses them.

use super::directives::Directive;
use crate::cli::import::rates::{OldRule, WrittenRate, WrittenShape};

/// A `limit_req_zone` or `limit_conn_zone`.
#[derive(Debug)]
pub(super) struct ZoneDirective {
    /// Its number among the directives.
    pub(super) at: usize,
    /// As written.
    pub(super) key: String,
    pub(super) name: String,
    /// Requests, and the seconds in which they may come; `None` for a zone of connections.
    pub(super) rate: Option<(u32, u64)>,
}

impl ZoneDirective {
    /// `None` if the words are not those of a zone.
    pub(super) fn read(at: usize, directive: &Directive) -> Option<Self> {
        let key = directive.words.first()?.clone();
        let name = value(directive, "zone=")?;
        let name = name.split(':').next().unwrap_or(name).to_owned();
        let rate = match &*directive.name {
            "limit_req_zone" => Some(rate(value(directive, "rate=")?)?),
            _ => None,
        };
        Some(Self { at, key, name, rate })
    }
}

/// How a `limit_req` uses its zone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ZoneUse {
    pub(super) zone: String,
    burst: u32,
    /// Attempts beyond the first that are not held; `None` for all.
    free: Option<u32>,
}

impl ZoneUse {
    pub(super) fn read(directive: &Directive) -> Option<Self> {
        let zone = value(directive, "zone=")?.to_owned();
        let burst = value(directive, "burst=").map_or(Some(0), |burst| burst.parse().ok());
        let burst = burst.filter(|burst| *burst <= MOST)?;
        let free = match value(directive, "delay=") {
            Some(delay) => Some(delay.parse::<u32>().ok()?.min(burst)),
            None if directive.words.iter().any(|word| word == "nodelay") => None,
            None => Some(0),
        };
        Some(Self { zone, burst, free })
    }

    /// The old rule and the new one; the third is whether attempts were held longer than tollgate can.
    pub(super) fn rules(&self, (count, period): (u32, u64)) -> (OldRule, WrittenRate, bool) {
        let old = OldRule::Leaky { count: count.into(), period, burst: self.burst.into() };
        let free = self.free.unwrap_or(self.burst);
        let held = u64::from(self.burst - free);
        let wait = held.saturating_mul(period).saturating_mul(1000).div_ceil(u64::from(count));
        let shape = WrittenShape::Steady { wait: wait.min(LONGEST_WAIT) };
        let rate = WrittenRate { count, period, burst: free.saturating_add(1), shape };
        (old, rate, wait > LONGEST_WAIT)
    }
}

/// As in `5r/m`.
fn rate(text: &str) -> Option<(u32, u64)> {
    let (count, period) = match (text.strip_suffix("r/s"), text.strip_suffix("r/m")) {
        (Some(count), _) => (count, 1),
        (_, Some(count)) => (count, 60),
        (None, None) => return None,
    };
    // A bucket counts whole nanoseconds for a token.
    Some((count.parse().ok().filter(|count| (1..=MOST).contains(count))?, period))
}

fn value<'d>(directive: &'d Directive, key: &str) -> Option<&'d str> {
    directive.words.iter().find_map(|word| word.strip_prefix(key))
}

/// The longest `wait`, in milliseconds.
const LONGEST_WAIT: u64 = 60_000;
/// Requests of a rate, or of a burst.
const MOST: u32 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::super::directives::Directives;
    use super::*;

    fn written(rate: &str, words: &str) -> (WrittenRate, bool) {
        let file =
            Directives::parse(&format!("limit_req_zone $a zone=z:1m rate={rate}; limit_req zone=z {words};"));
        let zone = ZoneDirective::read(0, &file.all[0]).unwrap();
        let (old, rate, is_cut) = ZoneUse::read(&file.all[1]).unwrap().rules(zone.rate.unwrap());
        if !is_cut {
            assert_eq!(old.most(86_400), rate.most(86_400));
        }
        (rate, is_cut)
    }

    #[test]
    fn a_burst_is_a_bucket_of_one_more_or_a_wait() {
        let steady = |wait| WrittenShape::Steady { wait };
        let expected = |count, period, burst, wait| WrittenRate { count, period, burst, shape: steady(wait) };
        assert_eq!(written("5r/m", "burst=4 nodelay"), (expected(5, 60, 5, 0), false));
        assert_eq!(written("10r/s", "burst=20"), (expected(10, 1, 1, 2000), false));
        assert_eq!(written("5r/s", "burst=12 delay=8"), (expected(5, 1, 9, 800), false));
        assert_eq!(written("1r/s", ""), (expected(1, 1, 1, 0), false));
        assert_eq!(written("1r/m", "burst=5"), (expected(1, 60, 1, 60_000), true));
    }
}
