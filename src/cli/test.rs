//! `tollgate test`: decides the cases of a file by a configuration, and compares with what the cases expect.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;

use super::Exit;
use super::sources::{ConfigArgs, counted, load_and_report, report};
use crate::app::cases::CaseRun;
use crate::cli::output::{errln, outln};
use crate::config::cases::load_cases;
use crate::config::{Config, Sources};

#[derive(Debug, Args)]
pub(super) struct TestArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// The cases, in TOML; - is standard input
    #[arg(value_name = "FILE")]
    cases: PathBuf,
}

impl TestArgs {
    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        &mut self.config
    }
}

pub(super) fn test(arguments: &TestArgs) -> anyhow::Result<Exit> {
    arguments.config.demand_own_input(&arguments.cases);
    match load_and_report(&arguments.config.sources()?) {
        Some(config) => decide_cases(config, &arguments.cases),
        None => Ok(Exit::BadConfiguration),
    }
}

/// Decides the cases of a file by this configuration, and prints what differs.
///
/// # Errors
/// If there is not enough address space for the buckets.
pub(super) fn decide_cases(config: Config, file: &Path) -> anyhow::Result<Exit> {
    let read = match file == Path::new("-") {
        true => Sources::from_reader("standard input", io::stdin()),
        false => Sources::from_file(file),
    };
    let Sources { name, text, .. } = match read {
        Ok(sources) => sources,
        Err(error) => {
            errln!("tollgate: cannot read the cases {}: {error}", file.display());
            return Ok(Exit::BadConfiguration);
        }
    };
    let loaded = load_cases(&name, &text, &config.policy);
    loaded.diagnostics.iter().for_each(report);
    let Some(cases) = loaded.cases else {
        errln!("{name}: {}", counted(loaded.diagnostics.len(), "mistake"));
        return Ok(Exit::BadConfiguration);
    };
    let mut run = CaseRun::new(config)?;
    let differences: Vec<String> = cases.iter().flat_map(|case| run.differences(case)).collect();
    differences.iter().for_each(|line| outln!("{line}"));
    errln!("{name}: {}, {}", counted(cases.len(), "case"), counted(differences.len(), "difference"));
    Ok(if differences.is_empty() { Exit::Ok } else { Exit::Failed })
}
