//! The headers of a message that is passed on: those that were received, in the order and spelling of their sender,
//! without those that are removed, and behind them those that the gate adds.
//!
//! Old applications compare names by case. So what came by HTTP/1 leaves as it came: the bytes of the received head are
//! copied line by line. What came by HTTP/2, and what the gate adds, is written in Title-Case (`X-Forwarded-For`).

use std::ops::Range;

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::received_head::ReceivedHead;

/// How names are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeaderCase {
    /// As their sender wrote them; else in Title-Case.
    #[default]
    Preserve,
    /// In lower case, all of them.
    Lower,
}

/// The headers of a message that is passed on.
#[derive(Debug, Default)]
pub struct PassedHeaders {
    received: HeaderMap,
    /// The head that they were parsed from; empty over HTTP/2.
    head: ReceivedHead,
    /// What is removed, replaced and added. Not in place: the headers of most responses stay as they are.
    changes: Vec<HeaderChange>,
    /// What their names begin with and how long they are: excludes most others.
    marks: NameMarks,
}

#[derive(Debug)]
struct HeaderChange {
    name: HeaderName,
    /// `None` if the header is only removed.
    value: Option<HeaderValue>,
    /// Whether what was received by this name goes no further.
    removes: bool,
}

/// Marks of names in any spelling.
#[derive(Debug, Default, Clone, Copy)]
struct NameMarks(u64);

impl NameMarks {
    fn of(name: &[u8]) -> u64 {
        let letter = |at: Option<&u8>| usize::from(at.map_or(0, |byte| byte & 0x1F));
        // Fewer than one in thirty of the usual names that pass has the mark of one that is changed.
        1 << ((name.len() + letter(name.first()) + letter(name.last()) * 5) & 63)
    }

    fn add(&mut self, mark: u64) {
        self.0 |= mark;
    }

    fn has(self, mark: u64) -> bool {
        self.0 & mark != 0
    }
}

impl PassedHeaders {
    /// All headers of a message. `head` is the head that they were parsed from; it is empty for a message over HTTP/2.
    /// Boxed in its place, because it is large.
    #[must_use]
    pub fn new(received: HeaderMap, head: ReceivedHead) -> Box<Self> {
        let (changes, marks) = (Vec::new(), NameMarks(0));
        Box::write(Box::new_uninit(), Self { received, head, changes, marks })
    }

    /// What was received.
    #[must_use]
    pub fn received(&self) -> &HeaderMap {
        &self.received
    }

    /// The first header with this name.
    #[must_use]
    pub fn get(&self, name: &HeaderName) -> Option<&HeaderValue> {
        let received = || self.received.get(name).filter(|_| !self.removes(name));
        let added = || self.changes.iter().find(|change| change.name == *name && change.value.is_some());
        received().or_else(|| added()?.value.as_ref())
    }

    /// Whether there is a header with this name.
    #[must_use]
    pub fn contains(&self, name: &HeaderName) -> bool {
        self.get(name).is_some()
    }

    /// Removes all headers with this name.
    pub fn remove(&mut self, name: &HeaderName) {
        self.change(name.clone(), None, true);
    }

    /// Whether what was received by this name is removed or replaced.
    #[must_use]
    pub fn removes(&self, name: &HeaderName) -> bool {
        self.removal_of(name.as_str().as_bytes()).is_some()
    }

    /// Replaces all headers with this name by one.
    pub fn set(&mut self, name: HeaderName, value: HeaderValue) {
        self.change(name, Some(value), true);
    }

    /// Adds a header.
    pub fn append(&mut self, name: HeaderName, value: HeaderValue) {
        self.change(name, Some(value), false);
    }

    fn change(&mut self, name: HeaderName, value: Option<HeaderValue>, removes: bool) {
        let mark = NameMarks::of(name.as_str().as_bytes());
        if self.changes.is_empty() {
            self.changes.reserve(TYPICAL_CHANGES);
        } else if removes && self.marks.has(mark) {
            self.changes.retain(|before| before.name != name);
        }
        self.marks.add(mark);
        self.changes.push(HeaderChange { name, value, removes });
    }

    /// The number of the change that removes a name, in any spelling.
    #[inline]
    fn removal_of(&self, name: &[u8]) -> Option<usize> {
        if self.marks.has(NameMarks::of(name)) { self.find_removal(name) } else { None }
    }

    fn find_removal(&self, name: &[u8]) -> Option<usize> {
        let is_removed = |change: &HeaderChange| {
            change.removes && change.name.as_str().as_bytes().eq_ignore_ascii_case(name)
        };
        self.changes.iter().position(is_removed)
    }

    /// The same as a map.
    #[must_use]
    pub fn into_map(self) -> HeaderMap {
        let mut map = self.received;
        for change in self.changes.iter().filter(|change| change.removes) {
            map.remove(&change.name);
        }
        for HeaderChange { name, value, .. } in self.changes {
            if let Some(value) = value {
                map.append(name, value);
            }
        }
        map
    }

    /// Appends the lines. What replaces a received header is in its place.
    pub fn write(&self, case: HeaderCase, bytes: &mut Vec<u8>) {
        let mut replaced = Replaced::default();
        if self.head.is_empty() {
            for (name, value) in &self.received {
                match self.removal_of(name.as_str().as_bytes()) {
                    None => push_line(name, value, case, bytes),
                    Some(at) if replaced.is_first(at) => {
                        let values = self.replacements(at);
                        values.for_each(|value| push_line(name, value, case, bytes));
                    }
                    Some(_) => {}
                }
            }
        } else {
            self.write_received(case, &mut replaced, bytes);
        }
        for HeaderChange { name, value, .. } in &self.changes {
            let is_replaced = |name: &HeaderName| {
                self.removal_of(name.as_str().as_bytes()).is_some_and(|at| replaced.has(at))
            };
            if let Some(value) = value
                && !(replaced.has_any() && is_replaced(name))
            {
                push_line(name, value, case, bytes);
            }
        }
    }

    fn write_received(&self, case: HeaderCase, replaced: &mut Replaced, bytes: &mut Vec<u8>) {
        let mut has_length = false;
        // Lines that leave as they came are copied together.
        let mut as_sent = Run::default();
        let head = self.head.bytes();
        for line in self.head.lines() {
            let name = line.name();
            match self.removal_of(name) {
                // Equal lengths are one, see `request::decoder`.
                None if is_length(name) && std::mem::replace(&mut has_length, true) => {
                    as_sent.end(head, bytes);
                }
                None => match line.plain().filter(|_| case == HeaderCase::Preserve) {
                    Some(plain) => as_sent.add(plain),
                    None => {
                        as_sent.end(head, bytes);
                        push_received(name, line.value(), case, bytes);
                    }
                },
                Some(at) => {
                    as_sent.end(head, bytes);
                    if replaced.is_first(at) {
                        let values = self.replacements(at);
                        values.for_each(|value| push_received(name, value.as_bytes(), case, bytes));
                    }
                }
            }
        }
        as_sent.end(head, bytes);
    }

    /// The values of the header that the change with this number removes.
    fn replacements(&self, at: usize) -> impl Iterator<Item = &HeaderValue> {
        let name = self.changes.get(at).map(|change| &change.name);
        let same = self.changes.iter().filter(move |change| Some(&change.name) == name);
        same.filter_map(|change| change.value.as_ref())
    }
}

/// Changes to the headers of a request in most cases.
const TYPICAL_CHANGES: usize = 6;

/// The removed headers that are replaced already.
#[derive(Default)]
struct Replaced(u64);

impl Replaced {
    /// Whether it is the first time; further ones of many are replaced at the end.
    fn is_first(&mut self, at: usize) -> bool {
        let is_first = at < 64 && !self.has(at);
        if is_first {
            self.0 |= 1 << at;
        }
        is_first
    }

    fn has(&self, at: usize) -> bool {
        at < 64 && self.0 >> at & 1 == 1
    }

    fn has_any(&self) -> bool {
        self.0 != 0
    }
}

fn push_received(name: &[u8], value: &[u8], case: HeaderCase, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.extend_from_slice(name);
    if case == HeaderCase::Lower {
        bytes[start..].make_ascii_lowercase();
    }
    push_value(value, bytes);
}

fn is_length(name: &[u8]) -> bool {
    name.len() == CONTENT_LENGTH.as_str().len()
        && name.eq_ignore_ascii_case(CONTENT_LENGTH.as_str().as_bytes())
}

/// Lines that follow one another.
#[derive(Default)]
struct Run(Range<usize>);

impl Run {
    fn add(&mut self, line: Range<usize>) {
        self.0 = if self.0.is_empty() { line } else { self.0.start..line.end };
    }

    fn end(&mut self, head: &[u8], bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(head.get(std::mem::take(&mut self.0)).unwrap_or_default());
    }
}

/// Appends a line whose name is known in lower case alone.
pub fn push_line(name: &HeaderName, value: impl AsRef<[u8]>, case: HeaderCase, bytes: &mut Vec<u8>) {
    push_field(name.as_str().as_bytes(), value.as_ref(), case, bytes);
}

fn push_field(name: &[u8], value: &[u8], case: HeaderCase, bytes: &mut Vec<u8>) {
    bytes.reserve(name.len() + value.len() + 4);
    match case {
        HeaderCase::Lower => bytes.extend_from_slice(name),
        HeaderCase::Preserve => push_title_case(name, bytes),
    }
    push_value(value, bytes);
}

/// Appends a name in Title-Case. Those that the gate adds most often are known in it.
fn push_title_case(name: &[u8], bytes: &mut Vec<u8>) {
    let known: &[u8] = match name {
        b"content-length" => b"Content-Length",
        b"date" => b"Date",
        b"host" => b"Host",
        b"x-forwarded-for" => b"X-Forwarded-For",
        b"x-forwarded-host" => b"X-Forwarded-Host",
        b"x-forwarded-proto" => b"X-Forwarded-Proto",
        b"x-request-id" => b"X-Request-Id",
        _ => b"",
    };
    if !known.is_empty() {
        return bytes.extend_from_slice(known);
    }
    let start = bytes.len();
    bytes.extend_from_slice(name);
    let mut begins_word = true;
    for byte in &mut bytes[start..] {
        if begins_word {
            byte.make_ascii_uppercase();
        }
        begins_word = *byte == b'-';
    }
}

fn push_value(value: &[u8], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(b": ");
    bytes.extend_from_slice(value);
    bytes.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn head(text: &'static str) -> ReceivedHead {
        let mut lines = [httparse::EMPTY_HEADER; 16];
        let mut parsed = httparse::Request::new(&mut lines);
        parsed.parse(text.as_bytes()).unwrap();
        ReceivedHead::new(Bytes::from_static(text.as_bytes()), text.as_bytes(), parsed.headers)
    }

    fn written(headers: &PassedHeaders, case: HeaderCase) -> String {
        let mut bytes = Vec::new();
        headers.write(case, &mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    fn received(lines: &[(&str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).fold(
            HeaderMap::new(),
            |mut map, (name, value): (HeaderName, HeaderValue)| {
                map.append(name, value);
                map
            },
        )
    }

    #[test]
    fn lines_in_another_form_are_written_in_the_usual_one() {
        let head = "GET / HTTP/1.1\r\nA: 1\r\nB:\t2\r\nC:3 \r\nD:  4\nE: \r\nF: 6\r\nG:7\n\r\n";
        let headers = PassedHeaders::new(HeaderMap::new(), self::head(head));
        let lines = "A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\nE: \r\nF: 6\r\nG: 7\r\n";
        assert_eq!(written(&headers, HeaderCase::Preserve), lines);
    }

    const HEAD: &str =
        "\r\nGET / HTTP/1.1\r\nSOAPAction: \"a\"\r\nset-cookie:1\r\nX_y:\t z \r\nSet-Cookie: 2\r\n\r\n";

    fn passed() -> Box<PassedHeaders> {
        let map =
            received(&[("soapaction", "\"a\""), ("set-cookie", "1"), ("x_y", "z"), ("set-cookie", "2")]);
        PassedHeaders::new(map, head(HEAD))
    }

    #[test]
    fn names_and_their_order_stay_as_they_were_received() {
        let mut headers = passed();
        headers.set(HeaderName::from_static("x-request-id"), HeaderValue::from_static("7"));
        let lines = "SOAPAction: \"a\"\r\nset-cookie: 1\r\nX_y: z\r\nSet-Cookie: 2\r\nX-Request-Id: 7\r\n";
        assert_eq!(written(&headers, HeaderCase::Preserve), lines);
        assert_eq!(written(&headers, HeaderCase::Lower), lines.to_ascii_lowercase());
    }

    #[test]
    fn what_is_removed_is_gone_in_each_spelling() {
        let mut headers = passed();
        headers.remove(&HeaderName::from_static("set-cookie"));
        headers.set(HeaderName::from_static("x_y"), HeaderValue::from_static("new"));
        assert_eq!(written(&headers, HeaderCase::Preserve), "SOAPAction: \"a\"\r\nX_y: new\r\n");
        assert_eq!(headers.get(&HeaderName::from_static("x_y")).unwrap(), "new");
        assert_eq!(headers.into_map(), received(&[("soapaction", "\"a\""), ("x_y", "new")]));
    }

    #[test]
    fn what_came_by_http2_is_written_in_title_case() {
        let headers = PassedHeaders::new(
            received(&[("www-authenticate", "Basic"), ("etag", "1"), ("x-", "")]),
            ReceivedHead::default(),
        );
        let lines = "Www-Authenticate: Basic\r\nEtag: 1\r\nX-: \r\n";
        assert_eq!(written(&headers, HeaderCase::Preserve), lines);
    }

    #[test]
    fn equal_lengths_become_one() {
        let head = "POST / HTTP/1.1\r\nContent-Length: 3\r\ncontent-length: 3\r\n\r\n";
        let headers = PassedHeaders::new(received(&[("content-length", "3")]), self::head(head));
        assert_eq!(written(&headers, HeaderCase::Preserve), "Content-Length: 3\r\n");
    }
}
