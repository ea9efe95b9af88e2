//! `tollgate audit list`: the newest changes of all gates that share a store, in one order.

use serde::Serialize;
use serde_json::Value;

use super::super::Exit;
use super::super::admin_api::{OutputFormat, is_shown};
use super::super::sources::ConfigArgs;
use crate::cli::output::{errln, out, outln};
use crate::observe::audit::{LineHash, ReadAuditLine};
use crate::store::{SharedAudit, SharedAuditLine};

pub(super) fn list(config: &ConfigArgs, format: OutputFormat) -> anyhow::Result<Exit> {
    let audit = super::audit_of_store(config.own_sources()?)?;
    match format {
        OutputFormat::Json => {
            let lines: Vec<ListedLine> = audit.lines.iter().map(ListedLine::of).collect();
            outln!("{}", serde_json::to_string_pretty(&lines)?);
        }
        OutputFormat::Text if audit.lines.is_empty() => {
            outln!("no gate has told the store of a change: gates need admin.audit and store.secret");
        }
        OutputFormat::Text => audit.lines.iter().for_each(|line| out!("{}", text(line, &audit))),
    }
    let is_complete = audit.lost.is_empty();
    audit.lost.iter().for_each(|lost| errln!("{}", lost_words(lost)));
    Ok(if is_complete { Exit::Ok } else { Exit::Failed })
}

/// As in "the store has lost changes 3 to 7".
pub(super) fn lost_words((first, last): &(u64, u64)) -> String {
    format!("the store has lost changes {first} to {last}, or they are damaged")
}

/// A line for programs.
#[derive(Serialize)]
struct ListedLine {
    sequence: u64,
    /// Its number among the lines of its gate.
    number: u64,
    hash: String,
    after_gap: bool,
    /// Whether `line` is all of it.
    whole: bool,
    /// `null` for a line that its gate did not finish.
    line: Option<Value>,
}

impl ListedLine {
    fn of(line: &SharedAuditLine) -> Self {
        Self {
            sequence: line.sequence,
            number: line.number,
            hash: LineHash::from(line.hash).to_string(),
            after_gap: line.is_after_gap,
            whole: line.is_whole,
            line: serde_json::from_str(&line.text).ok(),
        }
    }
}

/// A change for people: a line, and what was in force before it and after it.
fn text(line: &SharedAuditLine, audit: &SharedAudit) -> String {
    let mut text = String::new();
    if line.is_after_gap {
        text.push_str(&format!("  before the next line, {} had lost lines\n", audit.gate_of(line.log)));
    }
    let Ok(ReadAuditLine { time, gate, who, from, what, target, why, before, after, failed, .. }) =
        ReadAuditLine::parse(line.text.as_bytes())
    else {
        return format!("{text}{} a line that cannot be read\n", audit.gate_of(line.log));
    };
    let from = from.map(|from| format!(" from {from}")).unwrap_or_default();
    let target = target.map(|target| format!(" {target}")).unwrap_or_default();
    let why = Some(why).filter(|why| !why.is_empty()).map(|why| format!(": {why}")).unwrap_or_default();
    let head = format!("{time} {gate} {who}{from} {what}{target}{why}");
    let failed = failed.map(|failed| format!("failed: {failed}"));
    let value = |name, value: Value| (!value.is_null()).then(|| format!("{name} {value}"));
    let details = [value("before", before), value("after", after), failed];
    text.push_str(&format!("{}\n", shown(&head)));
    for detail in details.into_iter().flatten() {
        text.push_str(&format!("  {}\n", shown(&detail)));
    }
    if !line.is_whole {
        text.push_str("  not all of the line is kept\n");
    }
    text
}

/// What a terminal only shows.
fn shown(text: &str) -> String {
    text.chars().filter(|letter| is_shown(*letter)).collect()
}
