//! `tollgate init`: writes a first file, with comments and a ladder of limits.
//!
//! It never overwrites a file, and what it writes passes the same check as every file. The sets of limits are TOML
//! files, `presets/limits/*.toml`.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use clap::builder::PossibleValuesParser;

use super::Exit;
use super::sources::report;
use crate::config::preset::named;
use crate::config::values::{ListenUrl, UpstreamUrl};
use crate::config::{Config, Sources, combined, load, worst_cases};
use crate::policy::matcher::Pattern;

#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// The file to write, which must not exist yet; - is standard output
    #[arg(default_value = "config.toml")]
    file: PathBuf,
    /// Where clients connect; may be repeated
    #[arg(long, value_name = "URL", default_value = "http://[::]:8080", value_parser = listen)]
    listen: Vec<String>,
    /// The application; may be repeated
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8081", value_parser = upstream)]
    upstream: Vec<String>,
    /// What is protected, as in 'POST /login'; may be repeated
    #[arg(long = "match", value_name = "PATTERN", default_value = "POST /login", value_parser = pattern)]
    patterns: Vec<String>,
    /// The application, if there is a preset for it, instead of --match: `tollgate presets` lists them
    #[arg(long, value_name = "NAME", conflicts_with = "patterns", value_parser = preset)]
    preset: Option<String>,
    /// The set of limits
    #[arg(
        long,
        value_name = "SET",
        default_value = SETS[0].name,
        value_parser = PossibleValuesParser::new(SETS.map(|set| set.name))
    )]
    limits: String,
    /// Show the sets of limits and what they let through at worst
    #[arg(long, exclusive = true)]
    list: bool,
}

pub(super) fn init(arguments: &InitArgs) -> anyhow::Result<Exit> {
    if arguments.list {
        return list(arguments);
    }
    let text = arguments.text(&arguments.limits);
    let name = arguments.file.display().to_string();
    if load_text(&name, &text).is_none() {
        return Ok(Exit::BadConfiguration);
    }
    if arguments.file == Path::new("-") {
        io::stdout().write_all(text.as_bytes())?;
    } else {
        write_new(&arguments.file, &text)?;
        eprintln!("{name} is written; `tollgate check -c {name}` says what its limits let through");
    }
    Ok(Exit::Ok)
}

/// A ready set of limits.
struct StarterSet {
    name: &'static str,
    text: &'static str,
}

impl StarterSet {
    /// The purpose of the set, which is its first line, and the limits below it.
    fn parts(&self) -> (&'static str, &'static str) {
        let (about, limits) = self.text.split_once("\n\n").unwrap_or_default();
        (about.trim_start_matches("# "), limits)
    }
}

impl InitArgs {
    fn protected(&self) -> String {
        match &self.preset {
            Some(preset) => format!("preset = {}", quoted(preset)),
            None => format!("match = {}", toml_of(&self.patterns)),
        }
    }

    /// The file with one of the sets.
    fn text(&self, set: &str) -> String {
        let limits = SETS.iter().find(|known| known.name == set).map_or("", |set| set.parts().1);
        let values = [
            ("{listen}", toml_of(&self.listen)),
            ("{upstream}", toml_of(&self.upstream)),
            ("{protected}", self.protected()),
            ("{set}", set.to_owned()),
            ("{limits}", limits.to_owned()),
        ];
        let mut text = String::new();
        for line in STARTER.split_inclusive('\n') {
            // One placeholder a line; an inserted value is not searched again.
            match values.iter().find(|(placeholder, _)| line.contains(placeholder)) {
                Some((placeholder, value)) => text.push_str(&line.replacen(placeholder, value, 1)),
                None => text.push_str(line),
            }
        }
        text
    }
}

fn list(arguments: &InitArgs) -> anyhow::Result<Exit> {
    for set in &SETS {
        let Some(config) = load_text(set.name, &arguments.text(set.name)) else { return Ok(Exit::Failed) };
        let mut lines = vec![format!("{:<9}{}", set.name, set.parts().0)];
        lines.extend(worst_cases(&config.policy).iter().map(|(_, words)| format!("  {words}")));
        lines.extend(combined(&config.policy).iter().map(|route| format!("  {route}")));
        writeln!(io::stdout(), "{}\n", lines.join("\n"))?;
    }
    Ok(Exit::Ok)
}

/// The configuration of a text; prints its mistakes and warnings.
fn load_text(name: &str, text: &str) -> Option<Config> {
    let loaded = load(&Sources::from_text(name, text));
    loaded.diagnostics.iter().for_each(report);
    loaded.config
}

/// A single value as a string, several as a list.
fn toml_of(values: &[String]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| quoted(value)).collect();
    match &quoted[..] {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            _ if letter.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(letter))),
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| {
        let name = path.display();
        match error.kind() {
            ErrorKind::AlreadyExists => {
                anyhow!("{name} exists already and is left as it is; name another file, or - to print it")
            }
            _ => anyhow!("cannot write {name}: {error}"),
        }
    })?;
    let written = file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()));
    if written.is_err() {
        // A partial file would block the next attempt. If removing fails, that attempt reports the file.
        let _ = fs::remove_file(path);
    }
    written
}

fn listen(text: &str) -> Result<String, String> {
    text.parse::<ListenUrl>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn upstream(text: &str) -> Result<String, String> {
    text.parse::<UpstreamUrl>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn pattern(text: &str) -> Result<String, String> {
    text.parse::<Pattern>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn preset(text: &str) -> Result<String, String> {
    named(text).map(|preset| preset.name.to_owned()).map_err(|hint| format!("unknown preset: {hint}"))
}

const STARTER: &str = include_str!("../../presets/starter.toml");
/// The first set is the default.
const SETS: [StarterSet; 3] = [
    StarterSet { name: "usual", text: include_str!("../../presets/limits/usual.toml") },
    StarterSet { name: "strict", text: include_str!("../../presets/limits/strict.toml") },
    StarterSet { name: "crowd", text: include_str!("../../presets/limits/crowd.toml") },
];
