//! The buffer of one thread's formatted lines, until the writer collects them.
//!
//! It also keeps the formatted second, because formatting a date costs more than the rest of a line.

use std::mem;

use jiff::Timestamp;

use super::LineFormat;
use super::hour_counts::HourCounts;
use crate::event::AccessLogEntry;
use crate::time::Time;

/// Formatted lines.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    text: Vec<u8>,
    lines: u64,
    hours: HourCounts,
    stamp: TimestampCache,
}

/// Whole lines on their way to the writer.
#[derive(Debug, Default)]
pub(super) struct LineBatch {
    pub(super) text: Vec<u8>,
    pub(super) lines: u64,
    /// The same by hour, where lines are counted.
    pub(super) hours: HourCounts,
}

impl LineBuffer {
    /// Adds the lines about a response; returns all lines once they reach 128 KiB.
    pub(super) fn write(
        &mut self,
        format: &dyn LineFormat,
        entry: &AccessLogEntry,
        is_counted: bool,
    ) -> Option<LineBatch> {
        if self.text.capacity() == 0 {
            self.text.reserve_exact(FLUSH_AT + LINE_RESERVE);
        }
        let stamp = self.stamp.of(entry.at, format.second());
        let lines = format.write(&mut self.text, stamp, entry);
        self.lines += lines;
        if is_counted {
            self.hours.add(entry.at, lines);
        }
        (self.text.len() >= FLUSH_AT).then(|| self.take())
    }

    /// Takes all lines.
    pub(super) fn take(&mut self) -> LineBatch {
        LineBatch {
            text: mem::take(&mut self.text),
            lines: mem::take(&mut self.lines),
            hours: mem::take(&mut self.hours),
        }
    }
}

/// The last second as text.
#[derive(Debug, Default)]
struct TimestampCache {
    second: Option<u64>,
    text: String,
}

impl TimestampCache {
    fn of(&mut self, time: Time, format: &str) -> &str {
        let second = time.as_nanos() / 1_000_000_000;
        if self.second != Some(second) {
            self.second = Some(second);
            // `Time` ends in 2554, well within jiff's range.
            let stamp = i64::try_from(second).ok().and_then(|second| Timestamp::from_second(second).ok());
            self.text = stamp.unwrap_or_default().strftime(format).to_string();
        }
        &self.text
    }
}

/// Large enough that waking the writer costs a line next to nothing, small enough for the processor's cache.
const FLUSH_AT: usize = 128 * 1024;
const LINE_RESERVE: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::samples::AT;
    use crate::time::Span;

    const COMBINED: &str = "%d/%b/%Y:%H:%M:%S +0000";
    const JSON: &str = "%Y-%m-%dT%H:%M:%S";

    #[test]
    fn the_second_is_written_again_only_when_it_changes() {
        let mut stamp = TimestampCache::default();
        assert_eq!(stamp.of(AT, COMBINED), "20/Nov/2026:23:21:52 +0000");
        assert_eq!(stamp.of(AT.after(Span::from_millis(956)), COMBINED), "20/Nov/2026:23:21:52 +0000");
        assert_eq!(stamp.of(AT.after(Span::from_millis(957)), COMBINED), "20/Nov/2026:23:21:53 +0000");
        assert_eq!(stamp.of(AT, COMBINED), "20/Nov/2026:23:21:52 +0000");
        assert_eq!(TimestampCache::default().of(AT, JSON), "2026-11-20T23:21:52");
        assert_eq!(TimestampCache::default().of(Time::from_nanos(u64::MAX), JSON), "2554-07-21T23:34:33");
    }
}
