//! Rules of other programs, rates as they are written here, and how many attempts each admits at most.
//!
//! All are upper bounds by arithmetic. `tollgate check` prints the bound of the written file by its own checked types.

/// A rule of another program. Periods are seconds.
#[derive(Debug, Clone, Copy)]
pub(super) enum OldRule {
    /// nginx: attempts leak from a bucket at a steady rate, `burst` beyond the first may wait or pass at once.
    Leaky { count: u64, period: u64, burst: u64 },
    /// HAProxy: at most this many in any period, by two counters of which the old one fades.
    Window { count: u64, period: u64 },
    /// fail2ban and mod_evasive: so many within a time, then none for another.
    Ban { count: u64, within: u64, length: u64 },
}

impl OldRule {
    /// Attempts in so many seconds, at most.
    pub(super) fn most(self, seconds: u64) -> u64 {
        match self {
            Self::Leaky { count, period, burst } => {
                within(count, period, seconds).saturating_add(burst).saturating_add(1)
            }
            Self::Window { count, period } => windows(count, period, seconds),
            Self::Ban { count, within: period, length } => {
                let banned = windows(count, length, seconds);
                // One below the threshold is never banned.
                banned.max(windows(count.saturating_sub(1), period, seconds))
            }
        }
    }
}

/// Tokens, as they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct WrittenRate {
    pub(super) count: u32,
    /// Seconds.
    pub(super) period: u64,
    pub(super) burst: u32,
    pub(super) shape: WrittenShape,
}

/// The keys that go with the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum WrittenShape {
    /// An attempt is held for its token for this many milliseconds.
    Steady { wait: u64 },
    /// A window of whole periods, which are so many seconds long.
    Rolling { every: u64 },
    /// A refused client waits for so many seconds.
    Block { wait: u64 },
    /// After so many failures in a row the client waits for so many seconds.
    Ban { after: u32, wait: u64, factor: u32, max: u64 },
}

impl WrittenRate {
    /// Attempts in so many seconds, at most.
    pub(super) fn most(self, seconds: u64) -> u64 {
        let count = u64::from(self.count);
        let steady = within(count, self.period, seconds).saturating_add(u64::from(self.burst));
        match self.shape {
            WrittenShape::Steady { wait } => {
                let period = self.period.saturating_mul(1000);
                steady.saturating_add(within(count, period, wait))
            }
            WrittenShape::Rolling { every } => {
                // The time may begin and end within periods.
                let touched = seconds.div_ceil(every.max(1)).saturating_add(1);
                let periods = (self.period / every.max(1)).max(1);
                count.saturating_mul(touched.div_ceil(periods))
            }
            // A client that stays just below the rate is never refused.
            WrittenShape::Block { .. } => steady,
            WrittenShape::Ban { after, wait, .. } => steady.min(windows(after.into(), wait, seconds)),
        }
    }
}

/// Whole tokens that come in so many seconds.
fn within(count: u64, period: u64, seconds: u64) -> u64 {
    count.saturating_mul(seconds) / period.max(1)
}

/// The count once, and again after each whole period.
fn windows(count: u64, period: u64, seconds: u64) -> u64 {
    // An attempt at the very end of the time belongs to the next.
    count.saturating_mul(1 + seconds.saturating_sub(1) / period.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaky_bucket_admits_its_rate_and_its_burst_and_one() {
        let login = OldRule::Leaky { count: 5, period: 60, burst: 4 };
        assert_eq!([60, 3600, 86_400].map(|seconds| login.most(seconds)), [10, 305, 7205]);
        let shape = WrittenShape::Steady { wait: 0 };
        let written = WrittenRate { count: 5, period: 60, burst: 5, shape };
        assert_eq!([60, 3600, 86_400].map(|seconds| written.most(seconds)), [10, 305, 7205]);
    }

    #[test]
    fn attempts_that_are_held_count_like_a_burst() {
        let shape = WrittenShape::Steady { wait: 2000 };
        let written = WrittenRate { count: 10, period: 1, burst: 1, shape };
        assert_eq!(written.most(60), OldRule::Leaky { count: 10, period: 1, burst: 20 }.most(60));
    }

    #[test]
    fn a_ban_admits_its_count_once_a_ban_or_one_less_without_any() {
        let jail = OldRule::Ban { count: 5, within: 600, length: 3600 };
        assert_eq!([60, 3600, 86_400].map(|seconds| jail.most(seconds)), [5, 24, 576]);
        let short = OldRule::Ban { count: 5, within: 600, length: 60 };
        assert_eq!(short.most(3600), 300);
    }

    #[test]
    fn no_number_of_a_file_overflows() {
        let shape = WrittenShape::Steady { wait: u64::MAX };
        let written = WrittenRate { count: u32::MAX, period: u64::MAX, burst: u32::MAX, shape };
        assert!(written.most(u64::MAX) > 0);
        assert_eq!(OldRule::Window { count: u64::MAX, period: 0 }.most(86_400), u64::MAX);
    }
}
