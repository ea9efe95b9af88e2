//! Headers that a response has in addition to those of the gate's connection: an application's, or those of an answer that
//! is given again and again.

use std::rc::Rc;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::REQUEST_ID;
use super::passed::{HeaderCase, PassedHeaders, push_line};

/// What a response body carries of its head.
#[derive(Debug)]
pub enum CarriedHeaders {
    /// Those of an application.
    Passed(Box<PassedHeaders>),
    /// Those of an answer that was rendered before, and the id of this request.
    Ready(Rc<ReadyLines>, HeaderValue),
}

/// Headers that are written again and again.
#[derive(Debug)]
pub struct ReadyLines {
    /// With any id.
    map: HeaderMap,
    /// The id's line comes last, and ends where the id begins.
    title_case: Vec<u8>,
    lower_case: Vec<u8>,
}

impl CarriedHeaders {
    /// Whether there is a header with this name.
    #[must_use]
    pub fn contains(&self, name: &HeaderName) -> bool {
        match self {
            Self::Passed(passed) => passed.contains(name),
            Self::Ready(lines, _) => lines.map.contains_key(name),
        }
    }

    /// Appends the lines.
    pub fn write(&self, case: HeaderCase, bytes: &mut Vec<u8>) {
        match self {
            Self::Passed(passed) => passed.write(case, bytes),
            Self::Ready(lines, request_id) => lines.write(request_id, case, bytes),
        }
    }

    /// The same as a map.
    #[must_use]
    pub fn into_map(self) -> HeaderMap {
        match self {
            Self::Passed(passed) => passed.into_map(),
            Self::Ready(lines, request_id) => {
                let mut map = lines.map.clone();
                // In place: an insertion makes room first, also where it replaces.
                if let Some(id) = map.get_mut(REQUEST_ID) {
                    *id = request_id;
                }
                map
            }
        }
    }
}

impl ReadyLines {
    /// Appends the lines with this id.
    pub fn write(&self, request_id: &HeaderValue, case: HeaderCase, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(match case {
            HeaderCase::Preserve => &self.title_case,
            HeaderCase::Lower => &self.lower_case,
        });
        bytes.extend_from_slice(request_id.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
}

impl From<HeaderMap> for ReadyLines {
    fn from(map: HeaderMap) -> Self {
        let written = |case| {
            let mut bytes = Vec::new();
            let shared = map.iter().filter(|(name, _)| **name != REQUEST_ID);
            shared.for_each(|(name, value)| push_line(name, value, case, &mut bytes));
            push_line(&REQUEST_ID, "", case, &mut bytes);
            bytes.truncate(bytes.len() - b"\r\n".len());
            bytes
        };
        let (title_case, lower_case) = (written(HeaderCase::Preserve), written(HeaderCase::Lower));
        Self { map, title_case, lower_case }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_lines_and_the_map_say_the_same() {
        let lines = [("retry-after", "9"), ("x-request-id", "mark"), ("vary", "Accept")];
        let map: HeaderMap = lines
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .into_iter()
            .collect();
        let ready = || CarriedHeaders::Ready(Rc::new(map.clone().into()), HeaderValue::from_static("7"));
        let written = |case| {
            let mut bytes = Vec::new();
            ready().write(case, &mut bytes);
            String::from_utf8(bytes).unwrap()
        };
        let title_case = "Retry-After: 9\r\nVary: Accept\r\nX-Request-Id: 7\r\n";
        assert_eq!(written(HeaderCase::Preserve), title_case);
        assert_eq!(written(HeaderCase::Lower), title_case.to_lowercase().replace("accept\r", "Accept\r"));
        let mut expected = map.clone();
        expected.insert(REQUEST_ID, HeaderValue::from_static("7"));
        assert_eq!(ready().into_map(), expected);
    }
}
