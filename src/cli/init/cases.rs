//! The cases next to a new file: how many attempts of one client pass, that the next one is refused, and that it passes
//! after its wait. The gate's own functions find the numbers.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::InitArgs;
use crate::app::cases::{CaseRun, CaseVerdict};
use crate::cli::output::errln;
use crate::cli::toml_value::quoted;
use crate::config::cases::{TestCase, load_cases};
use crate::config::values::Duration;
use crate::policy::Policy;
use crate::policy::field::Field;

/// The file of cases for a configuration: `config.test.toml` for `config.toml`.
pub(super) fn file_of(path: &Path) -> PathBuf {
    path.with_extension("test.toml")
}

/// Writes the file, unless there is one: it may have cases of the operator. Returns whether it is there.
///
/// # Errors
/// If it cannot be written.
pub(super) fn make(arguments: &InitArgs) -> anyhow::Result<bool> {
    let path = file_of(&arguments.file);
    let Some(text) = text(arguments) else { return Ok(path.exists()) };
    let mut file = match OpenOptions::new().write(true).create_new(true).open(&path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            errln!("{} is there already and stays", path.display());
            return Ok(true);
        }
        opened => opened.with_context(|| format!("cannot write {}", path.display()))?,
    };
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(true)
}

/// The cases; `None` if no request is found that a limit refuses for a while.
fn text(arguments: &InitArgs) -> Option<String> {
    let config = arguments.enforcing()?;
    let path = arguments.example_path();
    let requests = requests(&path, &config.policy);
    let policy = config.policy.clone();
    let mut run = CaseRun::new(config).ok()?;
    let (request, mut case) = requests.into_iter().find_map(|request| {
        let case = case_of(&request, &policy)?;
        matches!(run.decide(&case), CaseVerdict::Admitted(..)).then_some((request, case))
    })?;
    let (mut admitted, mut verdict) = (1, run.decide(&case));
    while matches!(verdict, CaseVerdict::Admitted(..)) {
        admitted += 1;
        verdict = run.decide(&case);
        if admitted > MOST {
            return None;
        }
    }
    let CaseVerdict::Refused(Some(wait), by) = verdict else { return None };
    case.at = wait;
    if !matches!(run.decide(&case), CaseVerdict::Admitted(..)) {
        return None;
    }
    let (wait, by) = (Duration(wait), quoted(by.first()?));
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let (configuration, name) = (name(&arguments.file)?, name(&file_of(&arguments.file))?);
    let is_default = configuration == "config.toml";
    let option = if is_default { String::new() } else { format!(" -c {configuration}") };
    let option = arguments.test_options(&option);
    Some(format!(
        "# Requests, and what the limits decide on them: `tollgate test{option} {name}` exits with 1 if anything differs.\n\
         # All cases share one clock and one set of buckets. Every key of a case: docs/replay.md, \"Cases\".\n\n\
         [[case]]\nname    = \"the attempts that one client has at once\"\n{request}times   = {admitted}\n\
         expect  = \"admit\"\n\n\
         [[case]]\nname    = \"the next one is refused\"\n{request}expect  = \"refuse\"\nby      = {by}\n\
         wait    = \"{wait}\"\n\n\
         [[case]]\nname    = \"after the wait it is admitted\"\nat      = \"{wait}\"\n{request}expect  = \"admit\"\n"
    ))
}

/// Requests that may be attempts, as lines of a case: without fields, and with those of each route.
fn requests(path: &str, policy: &Policy) -> Vec<String> {
    let line = format!("from    = \"203.0.113.7\"\nrequest = {}\n", quoted(&format!("POST {path}")));
    let mut requests = vec![line.clone()];
    for route in &policy.routes {
        let fields = || route.matching.when.iter().chain(&route.reading.user);
        if fields().any(|field| *field == Field::Basic) {
            requests.push(format!("{line}headers = {{ Authorization = \"Basic YWxpY2U6d3Jvbmc=\" }}\n"));
        }
        let names = fields().filter_map(|field| match field {
            Field::Form(name) => Some(format!("{name}=alice")),
            _ => None,
        });
        // A name that comes twice is two accounts to some applications.
        let names: BTreeSet<String> = names.collect();
        if !names.is_empty() {
            let body = names.into_iter().collect::<Vec<_>>().join("&");
            requests.push(format!("{line}body    = {}\n", quoted(&body)));
        }
    }
    requests
}

fn case_of(request: &str, policy: &Policy) -> Option<TestCase> {
    let text = format!("[[case]]\n{request}expect = \"admit\"\n");
    load_cases("", &text, policy).cases?.pop()
}

/// No set of limits lets so many attempts of one client pass at once.
const MOST: u32 = 1000;
