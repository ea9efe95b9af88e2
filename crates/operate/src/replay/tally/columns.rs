//! Attempts and refusals over time, in a bounded number of columns that widen as the log goes on.

use crate::replay::report::TimeSeries;
use crate::time::Time;

/// Attempts and refusals of each column.
#[derive(Debug, Default)]
pub(in crate::replay) struct SeriesTally {
    start: Option<u64>,
    /// The width of a column is this power of two, in seconds.
    log_width: u32,
    columns: Vec<[u64; 2]>,
}

impl SeriesTally {
    /// Columns from this time on, and not from the first attempt.
    pub(in crate::replay) fn starting_at(start: Time) -> Self {
        Self { start: Some(start.as_nanos() / 1_000_000_000), ..Self::default() }
    }

    /// Counts an attempt. One that is earlier than the first column counts there.
    pub(in crate::replay) fn add(&mut self, now: Time, is_refused: bool) {
        let second = now.as_nanos() / 1_000_000_000;
        let after = second.saturating_sub(*self.start.get_or_insert(second));
        while after >> self.log_width >= MAX_COLUMNS as u64 {
            self.widen();
        }
        let at = usize::try_from(after >> self.log_width).unwrap_or(MAX_COLUMNS - 1);
        if self.columns.len() <= at {
            self.columns.resize(at + 1, [0, 0]);
        }
        self.columns[at][0] += 1;
        self.columns[at][1] += u64::from(is_refused);
    }

    fn widen(&mut self) {
        let pair =
            |pair: &[[u64; 2]]| pair.iter().fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
        self.columns = self.columns.chunks(2).map(pair).collect();
        self.log_width += 1;
    }

    pub(in crate::replay) fn report(&self) -> TimeSeries {
        TimeSeries {
            start: self.start.unwrap_or_default(),
            width: 1 << self.log_width,
            attempts: self.columns.iter().map(|column| column[0]).collect(),
            refused: self.columns.iter().map(|column| column[1]).collect(),
        }
    }
}

/// Columns at most; of a day each has 1,024 seconds.
const MAX_COLUMNS: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_widens_the_columns_and_loses_no_attempt() {
        let mut series = SeriesTally::default();
        for second in 0..86_400 {
            series.add(Time::from_nanos((1_000 + second) * 1_000_000_000), second % 3 == 0);
        }
        let report = series.report();
        assert_eq!((report.start, report.width), (1_000, 1_024));
        assert_eq!(report.attempts.iter().sum::<u64>(), 86_400);
        assert_eq!(report.refused.iter().sum::<u64>(), 28_800);
        assert!(report.attempts.len() <= MAX_COLUMNS);
    }
}
