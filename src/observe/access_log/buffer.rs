//! The buffer of one thread's formatted lines, until the writer collects them.
//!
//! It also keeps the formatted second, because formatting a date costs more than the rest of a line.

use std::mem;

use jiff::Timestamp;

use super::line;
use crate::event::AccessLogEntry;
use crate::observe::client_format::ClientFormatter;
use crate::observe::settings::AccessLogStyle;
use crate::time::Time;

/// Formatted lines.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    text: Vec<u8>,
    lines: u64,
    stamp: TimestampCache,
}

/// Whole lines on their way to the writer.
#[derive(Debug, Default)]
pub(super) struct LineBatch {
    pub(super) text: Vec<u8>,
    pub(super) lines: u64,
}

impl LineBuffer {
    /// Adds a line; returns all lines once they reach 32 KiB.
    pub(super) fn write(
        &mut self,
        style: AccessLogStyle,
        clients: &ClientFormatter,
        entry: &AccessLogEntry,
    ) -> Option<LineBatch> {
        if self.text.capacity() == 0 {
            self.text.reserve_exact(FLUSH_AT + LINE_RESERVE);
        }
        let stamp = self.stamp.of(entry.at, style);
        match style {
            AccessLogStyle::Combined => line::combined(&mut self.text, stamp, clients, entry),
            AccessLogStyle::Json => line::json(&mut self.text, stamp, clients, entry),
        }
        self.lines += 1;
        (self.text.len() >= FLUSH_AT).then(|| self.take())
    }

    /// Takes all lines.
    pub(super) fn take(&mut self) -> LineBatch {
        LineBatch { text: mem::take(&mut self.text), lines: mem::take(&mut self.lines) }
    }
}

/// The last second as text.
#[derive(Debug, Default)]
struct TimestampCache {
    second: Option<u64>,
    text: String,
}

impl TimestampCache {
    fn of(&mut self, time: Time, style: AccessLogStyle) -> &str {
        let second = time.as_nanos() / 1_000_000_000;
        if self.second != Some(second) {
            self.second = Some(second);
            let format = match style {
                AccessLogStyle::Combined => "%d/%b/%Y:%H:%M:%S +0000",
                AccessLogStyle::Json => "%Y-%m-%dT%H:%M:%S",
            };
            // `Time` ends in 2554, well within jiff's range.
            let stamp = i64::try_from(second).ok().and_then(|second| Timestamp::from_second(second).ok());
            self.text = stamp.unwrap_or_default().strftime(format).to_string();
        }
        &self.text
    }
}

/// Large enough that writing is cheap, small enough for the processor's cache.
const FLUSH_AT: usize = 32 * 1024;
const LINE_RESERVE: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::samples::AT;
    use crate::time::Span;

    #[test]
    fn the_second_is_written_again_only_when_it_changes() {
        let mut stamp = TimestampCache::default();
        assert_eq!(stamp.of(AT, AccessLogStyle::Combined), "20/Nov/2026:23:21:52 +0000");
        assert_eq!(
            stamp.of(AT.after(Span::from_millis(956)), AccessLogStyle::Combined),
            "20/Nov/2026:23:21:52 +0000"
        );
        assert_eq!(
            stamp.of(AT.after(Span::from_millis(957)), AccessLogStyle::Combined),
            "20/Nov/2026:23:21:53 +0000"
        );
        assert_eq!(stamp.of(AT, AccessLogStyle::Combined), "20/Nov/2026:23:21:52 +0000");
        assert_eq!(TimestampCache::default().of(AT, AccessLogStyle::Json), "2026-11-20T23:21:52");
        assert_eq!(
            TimestampCache::default().of(Time::from_nanos(u64::MAX), AccessLogStyle::Json),
            "2554-07-21T23:34:33"
        );
    }
}
