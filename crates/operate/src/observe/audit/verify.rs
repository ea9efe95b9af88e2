//! Whether the lines of files are one chain.

use std::io::{self, BufRead, Read};

use super::chain::{LineHash, LineLink};
use super::file::MAX_LINE;

/// What files that are one chain hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditSummary {
    /// All lines.
    pub lines: u64,
    /// Lines that a gate began and did not end.
    pub torn: u64,
    /// The hash before the first line: that of the last line of an earlier file, or all zeros.
    pub first: LineHash,
    /// The hash of the last line.
    pub head: LineHash,
    /// The times of the first and the last line.
    pub times: Option<(String, String)>,
}

/// The first line that breaks the chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {why}")]
pub struct AuditBreak {
    file: String,
    line: u64,
    why: BreakReason,
}

/// Why a line breaks the chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum BreakReason {
    #[error("this is no line of an audit log")]
    Foreign,
    #[error("the line has no end: the gate ended while it wrote, or the file was cut")]
    Torn,
    #[error(
        "it follows {named}, but the line before it is {before}: a line was changed, removed, added or moved"
    )]
    Other { named: LineHash, before: LineHash },
    #[error(
        "it follows {0}, a line of none of these files: the beginning was removed, or an earlier file is missing"
    )]
    Beheaded(LineHash),
    #[error("no line has the hash {0}: the end was cut off, or what is before it was changed")]
    Missing(LineHash),
    #[error("cannot be read: {0}")]
    Unreadable(String),
}

/// Reads files, the oldest first, as one chain. `expected` is the hash of a line that has to be there.
///
/// # Errors
/// The first line that breaks the chain.
pub fn verify(
    files: impl IntoIterator<Item = (String, impl BufRead)>,
    expected: Option<LineHash>,
) -> Result<AuditSummary, AuditBreak> {
    let mut check = ChainCheck { is_found: expected.is_none(), expected, ..ChainCheck::default() };
    for (name, file) in files {
        check.file(name, file)?;
    }
    check.finish()
}

#[derive(Debug, Default)]
struct ChainCheck {
    summary: AuditSummary,
    expected: Option<LineHash>,
    is_found: bool,
    /// A line that is not one of an audit log, until the next one says that a gate did not finish it.
    unexplained: Option<AuditBreak>,
    file: String,
    line: u64,
}

impl ChainCheck {
    fn file(&mut self, name: String, mut file: impl BufRead) -> Result<(), AuditBreak> {
        (self.file, self.line) = (name, 0);
        let mut text = Vec::new();
        loop {
            text.clear();
            let read = file.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut text);
            self.line += 1;
            match read {
                Ok(0) => return Ok(()),
                Ok(_) => self.line(&text)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(BreakReason::Unreadable(error.to_string()))),
            }
        }
    }

    fn line(&mut self, text: &[u8]) -> Result<(), AuditBreak> {
        let (line, has_end) = match text.strip_suffix(b"\n") {
            Some(line) => (line, true),
            None => (text, false),
        };
        let hash = LineHash::of(line);
        let link = serde_json::from_slice::<LineLink>(line).ok();
        let unexplained = self.unexplained.take();
        match &link {
            Some(link) => {
                let is_first = self.summary.lines == 0;
                if is_first && !link.may_be_first() {
                    return Err(self.broken(BreakReason::Beheaded(link.previous)));
                } else if is_first {
                    self.summary.first = link.previous;
                } else if link.previous != self.summary.head {
                    let (named, before) = (link.previous, self.summary.head);
                    return Err(self.broken(BreakReason::Other { named, before }));
                }
                match unexplained.filter(|_| !link.torn) {
                    Some(broken) => return Err(broken),
                    None => self.summary.torn += u64::from(link.torn),
                }
                let first = self.summary.times.take().map_or_else(|| link.time.clone(), |(first, _)| first);
                self.summary.times = Some((first, link.time.clone()));
            }
            None if unexplained.is_some() => {
                return Err(unexplained.unwrap_or_else(|| self.broken(BreakReason::Foreign)));
            }
            None => {}
        }
        if link.is_none() || !has_end {
            let why = if has_end { BreakReason::Foreign } else { BreakReason::Torn };
            self.unexplained = Some(self.broken(why));
        }
        self.summary.lines += 1;
        self.summary.head = hash;
        self.is_found |= self.expected == Some(hash);
        Ok(())
    }

    fn broken(&self, why: BreakReason) -> AuditBreak {
        AuditBreak { file: self.file.clone(), line: self.line, why }
    }

    fn finish(self) -> Result<AuditSummary, AuditBreak> {
        match (&self.unexplained, self.expected) {
            (Some(broken), _) => Err(broken.clone()),
            (None, Some(expected)) if !self.is_found => Err(AuditBreak {
                file: self.file.clone(),
                line: self.line,
                why: BreakReason::Missing(expected),
            }),
            (None, _) => Ok(self.summary),
        }
    }
}
