//! The lines of one worker thread that the writer has not seen yet.
//!
//! The surprising thing: the formatted second is kept beside them, because formatting a date costs more than all the
//! rest of a line.

use std::mem;

use jiff::Timestamp;

use super::line;
use crate::event::Answered;
use crate::observe::clients::Clients;
use crate::observe::settings::Style;
use crate::time::Time;

/// Lines in memory.
#[derive(Debug, Default)]
pub(super) struct Page {
    text: Vec<u8>,
    lines: u64,
    stamp: Stamp,
}

/// Whole lines on their way to the writer.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) text: Vec<u8>,
    pub(super) lines: u64,
}

impl Page {
    /// Adds a line; returns all lines if there are enough of them now.
    pub(super) fn write(&mut self, style: Style, clients: &Clients, answered: &Answered) -> Option<Batch> {
        if self.text.capacity() == 0 {
            self.text.reserve_exact(ENOUGH + ROOM_FOR_A_LINE);
        }
        let stamp = self.stamp.of(answered.at, style);
        match style {
            Style::Combined => line::combined(&mut self.text, stamp, clients, answered),
            Style::Json => line::json(&mut self.text, stamp, clients, answered),
        }
        self.lines += 1;
        (self.text.len() >= ENOUGH).then(|| self.take())
    }

    /// Hands out all lines.
    pub(super) fn take(&mut self) -> Batch {
        Batch { text: mem::take(&mut self.text), lines: mem::take(&mut self.lines) }
    }
}

/// A second as text.
#[derive(Debug, Default)]
struct Stamp {
    second: Option<u64>,
    text: String,
}

impl Stamp {
    fn of(&mut self, time: Time, style: Style) -> &str {
        let second = time.as_nanos() / 1_000_000_000;
        if self.second != Some(second) {
            self.second = Some(second);
            let format = match style {
                Style::Combined => "%d/%b/%Y:%H:%M:%S +0000",
                Style::Json => "%Y-%m-%dT%H:%M:%S",
            };
            // Until 2554, where our time ends, every second is one that jiff can say.
            let stamp = i64::try_from(second).ok().and_then(|second| Timestamp::from_second(second).ok());
            self.text = stamp.unwrap_or_default().strftime(format).to_string();
        }
        &self.text
    }
}

/// Large enough that writing is cheap, small enough for the processor's cache.
const ENOUGH: usize = 32 * 1024;
const ROOM_FOR_A_LINE: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::samples::AT;
    use crate::time::Span;

    #[test]
    fn the_second_is_written_again_only_when_it_changes() {
        let mut stamp = Stamp::default();
        assert_eq!(stamp.of(AT, Style::Combined), "20/Nov/2026:23:21:52 +0000");
        assert_eq!(stamp.of(AT.after(Span::from_millis(956)), Style::Combined), "20/Nov/2026:23:21:52 +0000");
        assert_eq!(stamp.of(AT.after(Span::from_millis(957)), Style::Combined), "20/Nov/2026:23:21:53 +0000");
        assert_eq!(stamp.of(AT, Style::Combined), "20/Nov/2026:23:21:52 +0000");
        assert_eq!(Stamp::default().of(AT, Style::Json), "2026-11-20T23:21:52");
        assert_eq!(Stamp::default().of(Time::from_nanos(u64::MAX), Style::Json), "2554-07-21T23:34:33");
    }
}
