//! `tollgate check`: all mistakes, all warnings and the worst case of each limit, alone and combined with the others.
//!
//! It binds nothing and connects to no server, so it runs anywhere. For the file of a unit, root also learns whether the
//! unit's user can read it ([`ServiceUnit`]). With `--probe` it connects to the store, from the
//! machine where it runs; the gate's own machine may differ.

mod privacy;
pub(super) mod probe;
mod sites;

use std::collections::HashMap;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use self::probe::{ProbeReport, probe};

use super::Exit;
use super::service_unit::{ServiceUnit, UnitFault};
use super::sources::{ConfigArgs, counted, report_all};
use crate::cli::output::{errln, outln};
use crate::config::{ALIKE, Config, Included, Loaded, Sources, combined, load, shortened, worst_cases};
use crate::policy::field::Field;

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// The same as -c FILE
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = CheckFormat::Text)]
    format: CheckFormat,
    /// Show the worst case of each limit and route, also of many that are alike
    #[arg(long)]
    worst: bool,
    /// Show mistakes and warnings only
    #[arg(long, short, conflicts_with = "worst")]
    quiet: bool,
    /// Fail on warnings: exit status 1
    #[arg(long)]
    strict: bool,
    /// Show what a gate with this file keeps about people, where, and for how long
    #[arg(long, conflicts_with = "quiet")]
    privacy: bool,
    /// Check the store, too: whether it is reachable, lets the gate in and is set up as it should be
    #[arg(long)]
    probe: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CheckFormat {
    Text,
    Json,
}

impl CheckArgs {
    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        &mut self.config
    }
}

pub(super) fn check(arguments: &CheckArgs) -> anyhow::Result<Exit> {
    let mut config = arguments.config.clone();
    config.add(ConfigArgs::of_file(arguments.file.clone()));
    let sources = config.sources()?;
    let unit = ServiceUnit::of(&sources);
    let sources = match &unit {
        Some(unit) => unit.apply_to(sources),
        None => sources,
    };
    let loaded = load(&sources);
    let faults: Vec<UnitFault> = match (&unit, &loaded.config) {
        (Some(unit), Some(config)) => unit.faults(&sources, config),
        _ => Vec::new(),
    };
    let selected = loaded.config.as_ref().filter(|_| arguments.probe);
    let probed = selected.map(|config| probe(&config.store));
    match arguments.format {
        CheckFormat::Text => {
            report_all(&loaded, &sources.name);
            if let (Some(config), false) = (&loaded.config, arguments.quiet) {
                print_valid(config, &loaded, &sources, arguments.worst);
            }
            let private = loaded.config.as_ref().filter(|_| arguments.privacy);
            private
                .iter()
                .flat_map(|config| privacy::places(config))
                .for_each(|place| outln!("{}", place.text()));
            faults.iter().for_each(|fault| errln!("error: {fault}\n  fix: {}", fault.fix()));
            probed.iter().for_each(print_probed);
        }
        CheckFormat::Json => print_json(&loaded, &faults, probed.as_ref(), arguments.privacy)?,
    }
    Ok(match (&loaded.config, &probed) {
        (None, _) => Exit::BadConfiguration,
        (Some(_), _) if !faults.is_empty() => Exit::Failed,
        (Some(_), Some(probed)) if !probed.is_good() => Exit::Failed,
        (Some(_), _) if arguments.strict && !loaded.diagnostics.is_empty() => Exit::Failed,
        (Some(_), _) => Exit::Ok,
    })
}

/// What a valid configuration means.
fn print_valid(config: &Config, loaded: &Loaded, sources: &Sources, all: bool) {
    let name = &sources.name;
    let limits = worst_cases(&config.policy).into_iter().map(|(_, words)| words).collect();
    let routes = combined(&config.policy).iter().map(ToString::to_string).collect();
    let authenticated =
        config.policy.routes.iter().filter(|route| route.reading.user.iter().any(Field::is_in_authorization));
    let authenticated = authenticated.map(|route| format!("{}: {UNSHARED}", route.name)).collect();
    for lines in [limits, routes, authenticated] {
        let lines = if all { lines } else { alike_as_one(lines) };
        lines.iter().for_each(|line| outln!("{line}"));
    }
    sites::alike(&config.policy).iter().for_each(|line| outln!("{line}"));
    if config.process.observes {
        outln!("mode = \"observe\": every limit only observes, nothing is refused");
    }
    let included = match sources.included.as_ref().map_or(0, Included::count) {
        0 => String::new(),
        count => format!(" with {}", counted(count, "included file")),
    };
    outln!("{name}{included}: valid, {}", counted(loaded.diagnostics.len(), "warning"));
}

const UNSHARED: &str =
    "upstream connections that NTLM or Negotiate authenticated are not shared between clients";

/// Lines as in "shop: at most 10 at once", of which those that differ in their names only become one.
fn alike_as_one(lines: Vec<String>) -> Vec<String> {
    let mut names: HashMap<String, Vec<String>> = HashMap::new();
    let forms: Vec<(String, String)> = lines.into_iter().map(|line| (form(&line), line)).collect();
    for (form, line) in &forms {
        let name = line.split_once(": ").map_or("", |(name, _)| name);
        names.entry(form.clone()).or_default().push(name.to_owned());
    }
    let one = |(form, line): (String, String)| match names.get(&form) {
        Some(alike) if alike.len() < ALIKE => Some(line),
        // The first of them stands for all.
        Some(_) => names.remove(&form).map(|alike| format!("{}: {form}", shortened(&alike))),
        None => None,
    };
    forms.into_iter().filter_map(one).collect()
}

/// The words of a line behind its name, with NAME for a limit that is called like its site.
fn form(line: &str) -> String {
    let (name, words) = line.split_once(": ").unwrap_or(("", line));
    let site = name.split('.').next().unwrap_or(name);
    let rest = |quoted: &'_ str| -> Option<String> {
        let rest = quoted.strip_prefix(site).filter(|_| !site.is_empty())?;
        (rest.is_empty() || rest.starts_with(['-', '_', '.'])).then(|| format!("NAME{rest}"))
    };
    let parts = words.split('`').enumerate().map(|(at, part)| match at % 2 {
        0 => part.to_owned(),
        _ => rest(part).unwrap_or_else(|| part.to_owned()),
    });
    parts.collect::<Vec<_>>().join("`")
}

fn print_probed(probed: &ProbeReport) {
    let store = &probed.store;
    probed.errors.iter().for_each(|error| errln!("error: the store ({store}) {error}"));
    probed.warnings.iter().for_each(|warning| errln!("warning: the store ({store}): {warning}"));
    if probed.is_good() {
        outln!("store ({store}): ok, {}", counted(probed.warnings.len(), "warning"));
    }
}

fn print_json(
    loaded: &Loaded,
    faults: &[UnitFault],
    probed: Option<&ProbeReport>,
    is_private: bool,
) -> anyhow::Result<()> {
    let mut result = loaded.to_json();
    if let Some(config) = loaded.config.as_ref().filter(|_| is_private) {
        result["personal_data"] = serde_json::to_value(privacy::places(config))?;
    }
    if !faults.is_empty() {
        result["ok"] = false.into();
        result["unit"] = faults.iter().map(ToString::to_string).collect();
    }
    if let Some(probed) = probed {
        result["ok"] = (loaded.config.is_some() && faults.is_empty() && probed.is_good()).into();
        result["store"] = probed.to_json();
    }
    outln!("{}", serde_json::to_string_pretty(&result)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_lines_that_differ_in_their_names_only_are_one() {
        let lines =
            |names: &[&str]| names.iter().map(|name| format!("{name}: at most 10")).collect::<Vec<_>>();
        let mut all = lines(&["a", "b", "c", "d"]);
        all.insert(1, "other: at most 3".to_owned());
        assert_eq!(alike_as_one(all), ["a, b, c, d: at most 10", "other: at most 3"]);
        assert_eq!(alike_as_one(lines(&["a", "b", "c"])), lines(&["a", "b", "c"]));
        let many: Vec<String> = (0..1000).map(|number| format!("site{number}: at most 10")).collect();
        let words = "site0, site1, site2, site3, site4, site5, site6, site7 and 992 more: at most 10";
        assert_eq!(alike_as_one(many), [words]);
    }

    #[test]
    fn a_limit_that_is_called_like_its_site_makes_no_line_another_one() {
        let lines = |name: fn(&str) -> String| {
            let line = |site: &&str| format!("{site}.mail: `{}` bounds no client", name(site));
            ["a", "b", "c", "d"].iter().map(line).collect::<Vec<_>>()
        };
        let own = lines(|site| format!("{site}-users"));
        assert_eq!(alike_as_one(own), ["a.mail, b.mail, c.mail, d.mail: `NAME-users` bounds no client"]);
        let shared = lines(|_| "account".to_owned());
        assert_eq!(alike_as_one(shared), ["a.mail, b.mail, c.mail, d.mail: `account` bounds no client"]);
        assert_eq!(alike_as_one(lines(|site| format!("{site}x"))).len(), 4);
    }
}
