//! The head of a message over HTTP/1 as it came, and where its parser found the names and values in it.
//!
//! What is passed on is copied from it, in the spelling of its sender, and is not parsed again.

use std::ops::Range;

use bytes::Bytes;
use httparse::Header;

/// A head, with its first line. Over HTTP/2 there is none, and it is empty.
#[derive(Debug, Default)]
pub struct ReceivedHead {
    bytes: Bytes,
    lines: Vec<LinePlace>,
}

/// Where a name and a value are, counted from the end of the head: what a parser saw may differ in the first line.
#[derive(Debug, Clone, Copy)]
struct LinePlace {
    name: usize,
    name_len: usize,
    value: usize,
    value_len: usize,
}

impl ReceivedHead {
    /// A head whose parser found these lines in `parsed`, which ends as `bytes` do.
    #[must_use]
    pub fn new(bytes: Bytes, parsed: &[u8], lines: &[Header<'_>]) -> Self {
        let end = parsed.as_ptr().addr() + parsed.len();
        let from_end = |part: &[u8]| end.saturating_sub(part.as_ptr().addr());
        let place = |line: &Header<'_>| LinePlace {
            name: from_end(line.name.as_bytes()),
            name_len: line.name.len(),
            value: from_end(line.value),
            value_len: line.value.len(),
        };
        Self { bytes, lines: lines.iter().map(place).collect() }
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The lines behind the first one.
    pub(super) fn lines(&self) -> impl Iterator<Item = ReceivedLine<'_>> {
        let at = |from_end: usize, length: usize| {
            let start = self.bytes.len().saturating_sub(from_end);
            start..start + length
        };
        self.lines.iter().map(move |line| ReceivedLine {
            head: &self.bytes,
            name: at(line.name, line.name_len),
            value: at(line.value, line.value_len),
        })
    }
}

/// A line of a head.
pub(super) struct ReceivedLine<'h> {
    head: &'h [u8],
    name: Range<usize>,
    /// Without the blanks around it.
    value: Range<usize>,
}

impl<'h> ReceivedLine<'h> {
    pub(super) fn name(&self) -> &'h [u8] {
        self.head.get(self.name.clone()).unwrap_or_default()
    }

    pub(super) fn value(&self) -> &'h [u8] {
        self.head.get(self.value.clone()).unwrap_or_default()
    }

    /// Its place with the end of the line, if it is written as the gate would write it: `name: value` and CR LF.
    pub(super) fn plain(&self) -> Option<Range<usize>> {
        let is_plain = self.head.get(self.name.end..self.value.start) == Some(b": ")
            && matches!(self.head.get(self.value.end..), Some([b'\r', b'\n', ..]));
        is_plain.then(|| self.name.start..self.value.end + 2)
    }
}
