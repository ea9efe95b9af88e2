//! Reads and parses in threads, and hands the lines on in their order.
//!
//! One thread reads and decompresses, several parse. Blocks go round the parsers in turn and are collected in the same
//! turn, so the order is that of the log. All queues are short: memory does not grow with the log.

use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::available_parallelism;

use super::ReplayError;
use super::attempt::LoggedAttempt;
use super::input::{BlockReader, LineBlock};
use super::judged::LogColumns;
use super::line::{
    self, AccessLogFormat, FormatChoice, LineError, LogLineFormat, LogPattern, LogPatternError, LoggedRequest,
};
use super::report::UnreadableLine;
use super::seen_paths::SeenPaths;
use crate::policy::Policy;
use crate::time::Time;

/// What a block of lines shows.
#[derive(Debug, Default)]
pub(super) struct ParsedBlock {
    pub(super) lines: u64,
    pub(super) unreadable: u64,
    pub(super) first_unreadable: Option<UnreadableLine>,
    pub(super) formats: Vec<&'static str>,
    pub(super) first: Option<Time>,
    pub(super) last: Option<Time>,
    pub(super) attempts: Vec<LoggedAttempt>,
    /// The paths of requests with `POST`, as long as no attempt was found.
    pub(super) posts: SeenPaths,
}

/// How lines are read, and which of them matter.
pub(super) struct LineFilter {
    pub(super) format: Option<LogLineFormat>,
    pub(super) policies: Vec<Policy>,
}

/// Passes what `parse` makes of all blocks to `each`, in their order, from the first one on.
///
/// # Errors
/// [`ReplayError::Read`].
pub(super) fn for_each_block<P: Send>(
    first: LineBlock,
    mut reader: BlockReader,
    parse: &(impl Fn(&LineBlock) -> P + Sync),
    mut each: impl FnMut(P),
) -> Result<(), ReplayError> {
    let parsers = available_parallelism().map_or(2, NonZeroUsize::get).clamp(1, MAX_PARSERS);
    std::thread::scope(|scope| {
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for _ in 0..parsers {
            let (input, blocks) = sync_channel(QUEUE);
            let (parsed, output) = sync_channel(QUEUE);
            scope.spawn(move || parse_all(&blocks, &parsed, parse));
            inputs.push(input);
            outputs.push(output);
        }
        scope.spawn(move || {
            let mut next = Ok(Some(first));
            for input in inputs.iter().cycle() {
                let Some(block) = next.transpose() else { return };
                let is_last = block.is_err();
                if input.send(block).is_err() || is_last {
                    return;
                }
                next = reader.next();
            }
        });
        for output in outputs.iter().cycle() {
            match output.recv() {
                Ok(parsed) => each(parsed?),
                // The parser whose turn it is has got no block any more.
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    })
}

fn parse_all<P>(
    blocks: &Receiver<Result<LineBlock, ReplayError>>,
    parsed: &SyncSender<Result<P, ReplayError>>,
    parse: &impl Fn(&LineBlock) -> P,
) {
    for block in blocks {
        if parsed.send(block.map(|block| parse(&block))).is_err() {
            return;
        }
    }
}

impl ParsedBlock {
    pub(super) fn of(block: &LineBlock, filter: &LineFilter) -> Self {
        let mut parsed = Self::default();
        for (number, line) in (block.first_line..).zip(lines(block)) {
            // A comment, as in the logs of IIS.
            if line.trim_ascii().is_empty() || line.starts_with(b"#") {
                continue;
            }
            parsed.lines += 1;
            match line::parse(line, filter.format.as_ref()) {
                Ok((request, format)) => parsed.add(&request, format, filter),
                Err(error) => {
                    parsed.unreadable += 1;
                    parsed.first_unreadable.get_or_insert_with(|| unreadable(block, number, line, error));
                }
            }
        }
        parsed
    }

    fn add(&mut self, request: &LoggedRequest<'_>, format: AccessLogFormat, filter: &LineFilter) {
        let name = format_name(request, format);
        if !self.formats.contains(&name) {
            self.formats.push(name);
        }
        let arrived = request.arrived;
        self.first = Some(self.first.map_or(arrived, |first| first.min(arrived)));
        self.last = self.last.max(Some(arrived));
        self.attempts.extend(LoggedAttempt::of(request, &filter.policies));
        if self.attempts.is_empty() && request.method == "POST" {
            self.posts.add(request.decision.as_ref().map_or(&*request.target, |decision| &*decision.route));
        }
    }
}

/// The format of a log, of which this is the beginning: that of its line `#Fields:`, or the pattern that reads most lines.
///
/// # Errors
/// [`ReplayError::Format`] if nothing reads a line.
pub(super) fn find_format(
    block: &LineBlock,
    choice: &FormatChoice,
) -> Result<Option<LogLineFormat>, ReplayError> {
    let sample: Vec<&[u8]> = lines(block).take(SAMPLE_LINES).collect();
    let fields = sample.iter().find(|line| line.starts_with(FIELDS));
    let of_fields = |line: &&[u8]| LogPattern::of_fields(String::from_utf8_lossy(line).trim_end());
    match choice {
        FormatChoice::Known(format) => Ok(Some(LogLineFormat::Known(*format))),
        FormatChoice::Found => Ok(fields.map(of_fields).transpose()?.map(LogLineFormat::Pattern)),
        FormatChoice::Columns => {
            let pattern = fields.map_or(Err(LogPatternError::NoFields), of_fields)?;
            Ok(Some(LogLineFormat::Pattern(pattern)))
        }
        FormatChoice::AnyOf(patterns) => {
            let read = |pattern: &&LogPattern| sample.iter().filter(|line| pattern.reads(line)).count();
            let best = patterns.iter().max_by_key(read).ok_or(LogPatternError::NoColumns)?;
            Ok(Some(LogLineFormat::Pattern(best.clone())))
        }
    }
}

/// What the first lines of a log show.
pub(super) fn columns(block: &LineBlock, format: Option<&LogLineFormat>) -> LogColumns {
    let mut columns = LogColumns::default();
    let requests = lines(block).filter_map(|line| line::parse(line, format).ok());
    for (request, _) in requests.take(SAMPLE_LINES) {
        columns.host |= request.host.is_some();
        columns.user |= request.user.is_some();
        columns.location |= request.location.is_some();
        columns.decisions |= request.decision.is_some();
    }
    columns
}

pub(super) fn lines(block: &LineBlock) -> impl Iterator<Item = &[u8]> {
    let bytes = block.bytes.strip_suffix(b"\n").unwrap_or(&block.bytes);
    let mut begin = 0;
    memchr::memchr_iter(b'\n', bytes).chain([bytes.len()]).map(move |end| {
        let line = &bytes[begin..end];
        begin = end + 1;
        line
    })
}

pub(super) fn unreadable(block: &LineBlock, line: u64, bytes: &[u8], error: LineError) -> UnreadableLine {
    // Escaped, because a terminal would obey what a client has put there.
    let text = bytes[..bytes.len().min(SHOWN_BYTES)].escape_ascii().to_string();
    UnreadableLine { log: block.log.to_string(), line, reason: error.to_string(), text }
}

fn format_name(request: &LoggedRequest<'_>, format: AccessLogFormat) -> &'static str {
    match format {
        AccessLogFormat::Combined => "combined",
        AccessLogFormat::Common => "common",
        AccessLogFormat::Json if request.decision.is_some() => DECISIONS,
        AccessLogFormat::Json if request.gate.is_some() => "JSON of tollgate",
        AccessLogFormat::Json => "JSON",
        AccessLogFormat::Haproxy => "HAProxy",
        AccessLogFormat::Pattern => "the given format",
    }
}

/// The name of the format of the decision log.
pub const DECISIONS: &str = "decisions of tollgate";

/// Threads that parse at most.
const MAX_PARSERS: usize = 8;

/// Blocks that wait for each parser, and behind it.
const QUEUE: usize = 2;

const FIELDS: &[u8] = b"#Fields:";

/// Lines that show which columns a log has.
const SAMPLE_LINES: usize = 1_000;

/// Bytes of an unreadable line in the report.
const SHOWN_BYTES: usize = 160;
