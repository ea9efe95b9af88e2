//! What the store that gates share keeps of a line of an audit log.

use serde_json::{Value, json};

use super::gate_lines::{NAMES, is_of_gate};
use super::read_line::ReadAuditLine;

/// A line in the form for the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedLineForm {
    /// JSON; empty for a line that is none, as one that a gate did not finish.
    pub text: String,
    /// Whether it is the whole line.
    pub is_whole: bool,
    /// Whether it tells of a change by a person: what a gate tells of itself, of names and of files that a configuration
    /// names would push such changes out of the store.
    pub is_change: bool,
}

impl SharedLineForm {
    /// Of this line, without its line feed.
    #[must_use]
    pub fn of(line: &[u8]) -> Self {
        let Ok(read) = ReadAuditLine::parse(line) else {
            return Self { text: String::new(), is_whole: false, is_change: false };
        };
        // What the watch could not put in force has changed nothing.
        let is_of_watch = read.who == "watch" && read.failed.is_some();
        let is_of_files = read.what == "reload" && (is_of_watch || read.after["changes"].is_string());
        let is_change = !is_of_gate(&read.what) && read.what != NAMES && !is_of_files;
        match std::str::from_utf8(line) {
            Ok(line) if line.len() <= MAX_KEPT => Self { text: line.to_owned(), is_whole: true, is_change },
            _ => Self { text: shortened(read), is_whole: false, is_change },
        }
    }
}

/// The text of a line that was about a person who is forgotten.
#[must_use]
pub fn without_person(text: &str) -> String {
    match ReadAuditLine::parse(text.as_bytes()) {
        Ok(ReadAuditLine { time, gate, who, what, .. }) => {
            json!({ "time": time, "gate": gate, "who": who, "what": what, "forgotten": true }).to_string()
        }
        Err(_) => String::new(),
    }
}

/// The line without what is longest.
fn shortened(read: ReadAuditLine) -> String {
    let line = ReadAuditLine { before: Value::Null, after: Value::Null, ..read };
    let text = serde_json::to_string(&line).unwrap_or_default();
    if text.len() <= MAX_KEPT {
        return text;
    }
    let ReadAuditLine { time, gate, who, what, .. } = line;
    let cut = |text: &str| text.chars().take(MAX_NAME).collect::<String>();
    json!({ "time": cut(&time), "gate": cut(&gate), "who": cut(&who), "what": cut(&what) }).to_string()
}

/// Bytes of a line in the store.
const MAX_KEPT: usize = 8 * 1024;
/// Letters of a name in a line that is too long even without what is in force.
const MAX_NAME: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_kept_whole_unless_it_is_long_and_a_gate_tells_of_itself_elsewhere() {
        let line = r#"{"time":"t","gate":"g","who":"desk","what":"bucket.reset","target":"user:#1","why":"7","before":[1],"after":[2],"previous":"0"}"#;
        let form = SharedLineForm::of(line.as_bytes());
        assert_eq!(form, SharedLineForm { text: line.to_owned(), is_whole: true, is_change: true });
        let long = line.replace("[1]", &format!("\"{}\"", "x".repeat(MAX_KEPT)));
        let form = SharedLineForm::of(long.as_bytes());
        let read: Value = serde_json::from_str(&form.text).unwrap();
        assert_eq!((form.is_whole, form.is_change), (false, true));
        assert_eq!((&read["target"], &read["before"]), (&json!("user:#1"), &Value::Null));
        let wide = long.replace("user:#1", &"y".repeat(MAX_KEPT));
        assert!(SharedLineForm::of(wide.as_bytes()).text.len() < MAX_KEPT);
        for (what, is_change) in [("gate.lines", false), ("names", false), ("stop", true), ("reload", true)] {
            let line = line.replace("bucket.reset", what);
            assert_eq!(SharedLineForm::of(line.as_bytes()).is_change, is_change, "{what}");
        }
        let files =
            line.replace("bucket.reset", "reload").replace("[2]", r#"{"config":"1","changes":"`subnet`"}"#);
        assert!(!SharedLineForm::of(files.as_bytes()).is_change);
        let failed = line.replace("bucket.reset", "reload").replace("\"desk\"", "\"watch\"");
        let failed = failed.replace("[2]", "null").replace("\"previous\"", "\"failed\":\"x\",\"previous\"");
        assert!(!SharedLineForm::of(failed.as_bytes()).is_change);
        assert_eq!(SharedLineForm::of(b"{\"time\":").text, "");
    }

    #[test]
    fn a_forgotten_line_keeps_who_did_what_and_when() {
        let line = r#"{"time":"t","gate":"g","who":"desk","from":"203.0.113.9","what":"bucket.ban","target":"ip:203.0.113.9","why":"his","before":[1]}"#;
        let left: Value = serde_json::from_str(&without_person(line)).unwrap();
        let expected =
            json!({ "time": "t", "gate": "g", "who": "desk", "what": "bucket.ban", "forgotten": true });
        assert_eq!(left, expected);
    }
}
