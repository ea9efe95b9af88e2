//! `tollgate doctor`: what is wrong with this set-up, and how to fix it. It changes nothing.
//!
//! `check` judges the text of a configuration; this command looks at the machine around it: ports, files, clock, store,
//! upstreams, limits of the process. For the file of a unit, root looks with the eyes of the unit ([`ServiceUnit`]). For
//! any other file it sees what the user who runs it sees, so run it as the gate's user.

mod certificates;
mod files;
mod listeners;
mod machine;
mod operator;
mod stores;
mod upstreams;

use std::fmt;

use clap::Args;

use super::Exit;
use super::service_unit::{self, ServiceUnit};
use super::sources::{ConfigArgs, counted, load_and_report};
use crate::cli::output::outln;
use crate::config::{Config, Sources};

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// A page of the application that shows the client's address: does it trust X-Forwarded-For?
    #[arg(long, value_name = "PATH")]
    whoami: Option<String>,
}

impl DoctorArgs {
    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        &mut self.config
    }
}

/// What was found in one place.
struct Symptom {
    severity: SymptomSeverity,
    /// What was looked at, as in `listen http://[::]:80`.
    place: String,
    words: String,
    /// How to fix it; empty if nothing is wrong.
    mend: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SymptomSeverity {
    Good,
    /// The gate works, but not as people expect.
    Doubtful,
    /// The gate cannot work like this.
    Bad,
}

impl Symptom {
    fn good(place: impl Into<String>, words: impl Into<String>) -> Self {
        Self::new(SymptomSeverity::Good, place, words, "")
    }

    fn doubtful(place: impl Into<String>, words: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::new(SymptomSeverity::Doubtful, place, words, mend)
    }

    fn bad(place: impl Into<String>, words: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::new(SymptomSeverity::Bad, place, words, mend)
    }

    fn new(
        severity: SymptomSeverity,
        place: impl Into<String>,
        words: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self { severity, place: place.into(), words: words.into(), mend: mend.into() }
    }
}

impl fmt::Display for Symptom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.severity {
            SymptomSeverity::Good => "ok  ",
            SymptomSeverity::Doubtful => "warn",
            SymptomSeverity::Bad => "err ",
        };
        write!(f, "{sign}  {}: {}", self.place, self.words)?;
        match self.mend.as_str() {
            "" => Ok(()),
            _ => write!(f, "\n      fix: {}", self.mend),
        }
    }
}

/// Exits with 1 if something is bad, and with 78 if the configuration is.
pub(super) fn doctor(arguments: &DoctorArgs) -> anyhow::Result<Exit> {
    let sources = arguments.config.sources()?;
    let unit = ServiceUnit::of(&sources);
    let unit = unit.as_ref();
    let sources = match unit {
        Some(unit) => unit.apply_to(sources),
        None => sources,
    };
    let Some(config) = load_and_report(&sources) else { return Ok(Exit::BadConfiguration) };
    let mut found = Vec::new();
    let mut show = |symptoms: Vec<Symptom>| {
        symptoms.iter().for_each(|symptom| outln!("{symptom}"));
        found.extend(symptoms.iter().map(|symptom| symptom.severity));
    };
    show(listeners::look(&config, unit));
    show(listeners::trust(&config));
    show(unit.map_or_else(Vec::new, |unit| faults_of(unit, &sources, &config)));
    show(files::look(&config, &sources, unit));
    show(certificates::look(&config));
    show(machine::descriptors(&config, unit));
    show(upstreams::look(&config, arguments.whoami.as_deref()));
    show(stores::look(&config.store));
    show(operator::look(&config));
    let count = |severity| found.iter().filter(|known| **known == severity).count();
    let (bad, doubtful) = (count(SymptomSeverity::Bad), count(SymptomSeverity::Doubtful));
    let (errors, warnings) = (counted(bad, "error"), counted(doubtful, "warning"));
    outln!("{}: {errors}, {warnings}, {} ok", sources.name, count(SymptomSeverity::Good));
    Ok(if bad > 0 { Exit::Failed } else { Exit::Ok })
}

/// What keeps the unit's gate from starting.
fn faults_of(unit: &ServiceUnit, sources: &Sources, config: &Config) -> Vec<Symptom> {
    let faults = unit.faults(sources, config);
    match faults.is_empty() {
        true => vec![Symptom::good(service_unit::NAME, "its user can read all files of the configuration")],
        false => faults
            .iter()
            .map(|fault| Symptom::bad(service_unit::NAME, fault.to_string(), fault.fix()))
            .collect(),
    }
}
