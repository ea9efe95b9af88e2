//! `tollgate audit verify --fleet`: whether the store has all changes of all gates, and whether a gate's files have all
//! that the store has of them.

use std::collections::HashSet;
use std::path::PathBuf;

use anyhow::Context;

use super::super::Exit;
use super::super::sources::{ConfigArgs, counted};
use super::list::lost_words;
use crate::cli::output::{errln, outln};
use crate::observe::audit::{LineHash, hashes_found};
use crate::observe::timestamp::rfc3339;
use crate::store::{FollowedAuditLog, SharedAudit};
use crate::time::Time;

/// Compares the store with these files; without files only with itself.
pub(super) fn verify_fleet(files: &[PathBuf], config: &ConfigArgs) -> anyhow::Result<Exit> {
    let audit = super::audit_of_store(config.own_sources()?)?;
    outln!("{}", words(&audit));
    let mut faults = faults_of_store(&audit);
    if files.is_empty() {
        outln!("no file was compared: name the files of a gate, or a configuration with admin.audit");
    } else {
        let wanted = audit.hashes().map(LineHash::from).collect();
        let found = hashes_found(files, &wanted).context("an audit log cannot be read")?;
        faults.extend(faults_of_files(&audit, &found));
    }
    faults.iter().for_each(|fault| errln!("{fault}"));
    Ok(if faults.is_empty() { Exit::Ok } else { Exit::Failed })
}

/// What the store has, and of each gate its last line.
fn words(audit: &SharedAudit) -> String {
    let (changes, gates) = (counted(audit.lines.len(), "change"), counted(audit.logs.len(), "gate"));
    let mut text = format!("the store has {changes} of {gates}");
    for FollowedAuditLog { gate, head, lines, at, .. } in &audit.logs {
        let lines = counted(usize::try_from(*lines).unwrap_or(usize::MAX), "line");
        let (at, head) = (rfc3339(Time::from_nanos(*at)), LineHash::from(*head));
        text.push_str(&format!("\n{gate}: {lines} until {at}, last line {head}"));
    }
    text
}

fn faults_of_store(audit: &SharedAudit) -> Vec<String> {
    let mut faults: Vec<String> = audit.lost.iter().map(lost_words).collect();
    for line in &audit.lines {
        let gate = audit.gate_of(line.log);
        if line.is_after_gap {
            faults.push(format!(
                "{gate}: before change {}, its audit log had lost the last line that the store had: lines were removed or \
                 changed, the file is another one, or the older file was compressed too early",
                line.sequence
            ));
        }
        if line.is_whole && LineHash::of(line.text.as_bytes()) != LineHash::from(line.hash) {
            faults.push(format!("{gate}: change {} was altered in the store", line.sequence));
        }
    }
    faults
}

/// What the files lack of the logs that they are about: any line that the store knows tells which.
fn faults_of_files(audit: &SharedAudit, found: &HashSet<LineHash>) -> Vec<String> {
    let is_found = |hash: &[u8; 32]| found.contains(&LineHash::from(*hash));
    let mut faults = Vec::new();
    let mut is_one_known = false;
    for log in &audit.logs {
        let mut lines = audit.lines.iter().filter(|line| line.log == log.id).peekable();
        // Older lines may be in older files.
        while lines.next_if(|line| !is_found(&line.hash)).is_some() {}
        if lines.peek().is_none() && !is_found(&log.head) {
            continue;
        }
        is_one_known = true;
        let missing = lines.filter(|line| !is_found(&line.hash) && line.hash != log.head);
        faults.extend(missing.map(|line| {
            format!(
                "{}: change {} is in none of these files: it was removed or changed",
                log.gate, line.sequence
            )
        }));
        if !is_found(&log.head) {
            faults.push(format!(
                "{}: the last line that the store has, {}, is in none of these files: the end was cut off, or the newest \
                 file is missing",
                log.gate,
                LineHash::from(log.head)
            ));
        }
    }
    if !is_one_known {
        faults.push("the store knows no line of these files".to_owned());
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{AuditLogId, SharedAuditLine};

    /// A store with these lines of one gate.
    fn audit(texts: &[&str]) -> SharedAudit {
        let hash = |text: &str| LineHash::of(text.as_bytes()).into();
        let lines = texts.iter().zip(1..).map(|(text, sequence)| SharedAuditLine {
            sequence,
            log: AuditLogId(1),
            number: sequence,
            hash: hash(text),
            is_after_gap: false,
            is_whole: true,
            text: (*text).to_owned(),
        });
        let log = FollowedAuditLog {
            id: AuditLogId(1),
            gate: "one".to_owned(),
            head: hash(texts[texts.len() - 1]),
            lines: texts.len() as u64,
            at: 0,
        };
        SharedAudit { lines: lines.collect(), logs: vec![log], lost: Vec::new() }
    }

    /// How many faults a file of these lines has.
    fn faults(audit: &SharedAudit, texts: &[&str]) -> usize {
        let found = texts.iter().map(|text| LineHash::of(text.as_bytes())).collect();
        faults_of_files(audit, &found).len()
    }

    #[test]
    fn a_file_has_to_have_what_the_store_has_from_its_first_line_on() {
        let audit = audit(&["a", "b", "c"]);
        for (texts, expected) in [
            (vec!["a", "b", "c"], 0),
            (vec!["b", "c", "d"], 0),
            (vec!["c"], 0),
            (vec!["a", "c"], 1),
            (vec!["a", "b"], 1),
            (vec!["a"], 2),
            (vec!["d"], 1),
            (vec![], 1),
        ] {
            assert_eq!(faults(&audit, &texts), expected, "{texts:?}");
        }
    }

    #[test]
    fn gaps_losses_and_altered_lines_of_the_store_are_faults() {
        let mut audit = audit(&["a", "b", "c"]);
        assert!(faults_of_store(&audit).is_empty());
        audit.lines[1].text = "x".to_owned();
        audit.lines[2].is_after_gap = true;
        audit.lost.push((4, 5));
        assert_eq!(faults_of_store(&audit).len(), 3);
        audit.lines[1].is_whole = false;
        assert_eq!(faults_of_store(&audit).len(), 2, "a line of which not all is kept");
    }
}
