//! The bytes of logs: plain, gzip or Zstandard by content, cut into blocks of whole lines.
//!
//! It knows no formats of lines. A line that is too long is cut just behind the bound, so that its reader can tell.

use std::io::{self, Cursor, Read};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;

use super::ReplayError;
use super::line::MAX_LINE;
use crate::observe::line_log::zstd::{ZstdFrames, is_zstd};

/// One log: its name in messages, and its bytes.
pub struct LogInput {
    /// The name.
    pub name: String,
    /// The bytes as stored, compressed or not.
    pub bytes: Box<dyn Read + Send>,
}

/// Some whole lines of one log.
pub(super) struct LineBlock {
    /// The name of the log.
    pub(super) log: Arc<str>,
    /// The number of the first line, from 1.
    pub(super) first_line: u64,
    /// The lines; the last one may have no line feed.
    pub(super) bytes: Vec<u8>,
}

/// Reads all logs, one after the other.
pub(super) struct BlockReader {
    waiting: std::vec::IntoIter<LogInput>,
    current: Option<OpenLog>,
}

struct OpenLog {
    name: Arc<str>,
    text: Box<dyn Read + Send>,
    /// The beginning of a line whose end was not read yet.
    rest: Vec<u8>,
    next_line: u64,
    /// Whether the rest of a line that is too long is skipped.
    is_skipping: bool,
}

impl BlockReader {
    pub(super) fn new(logs: Vec<LogInput>) -> Self {
        Self { waiting: logs.into_iter(), current: None }
    }

    /// The next lines; `None` at the end of the last log.
    ///
    /// # Errors
    /// [`ReplayError::Read`].
    pub(super) fn next(&mut self) -> Result<Option<LineBlock>, ReplayError> {
        loop {
            if self.current.is_none() {
                let Some(LogInput { name, bytes }) = self.waiting.next() else { return Ok(None) };
                let text = decoded(bytes).map_err(|error| ReplayError::Read { name: name.clone(), error })?;
                let name = name.into();
                self.current =
                    Some(OpenLog { name, text, rest: Vec::new(), next_line: 1, is_skipping: false });
            }
            let Some(log) = &mut self.current else { return Ok(None) };
            match log.next() {
                Ok(Some(block)) => return Ok(Some(block)),
                Ok(None) => self.current = None,
                Err(error) => return Err(ReplayError::Read { name: log.name.to_string(), error }),
            }
        }
    }
}

impl OpenLog {
    fn next(&mut self) -> io::Result<Option<LineBlock>> {
        loop {
            let mut bytes = std::mem::take(&mut self.rest);
            let old = bytes.len();
            let room = BLOCK.saturating_sub(old);
            bytes.reserve_exact(room);
            let is_end = self.text.by_ref().take(room as u64).read_to_end(&mut bytes)? < room;
            if self.is_skipping {
                let Some(end) = memchr::memchr(b'\n', &bytes) else {
                    if is_end {
                        return Ok(None);
                    }
                    continue;
                };
                bytes.drain(..=end);
                self.is_skipping = false;
            }
            let Some(end) = memchr::memrchr(b'\n', &bytes).map(|at| at + 1) else {
                if is_end {
                    return Ok((!bytes.is_empty()).then(|| self.block(bytes)));
                }
                if bytes.len() > MAX_LINE {
                    bytes.truncate(MAX_LINE + 1);
                    self.is_skipping = true;
                    return Ok(Some(self.block(bytes)));
                }
                self.rest = bytes;
                continue;
            };
            self.rest = bytes.split_off(end);
            return Ok(Some(self.block(bytes)));
        }
    }

    fn block(&mut self, bytes: Vec<u8>) -> LineBlock {
        let first_line = self.next_line;
        let feeds = memchr::memchr_iter(b'\n', &bytes).count();
        // A last line without a line feed is one, too.
        let lines = feeds + usize::from(bytes.last().is_some_and(|&byte| byte != b'\n'));
        self.next_line += u64::try_from(lines).unwrap_or(0);
        LineBlock { log: Arc::clone(&self.name), first_line, bytes }
    }
}

/// The text of a file, plain or compressed by gzip or Zstandard; its first bytes tell.
///
/// # Errors
/// If it cannot be read.
pub fn decoded(mut bytes: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut magic = Vec::with_capacity(4);
    bytes.by_ref().take(4).read_to_end(&mut magic)?;
    let kind: [u8; 4] = magic.as_slice().try_into().unwrap_or_default();
    let all = Cursor::new(magic).chain(bytes);
    Ok(match kind {
        [0x1F, 0x8B, ..] => Box::new(MultiGzDecoder::new(all)),
        magic if is_zstd(magic) => Box::new(ZstdFrames::new(all)),
        _ => Box::new(all),
    })
}

/// Bytes of lines that one thread reads at once.
const BLOCK: usize = 1 << 20;

#[cfg(test)]
mod tests;
