//! `tollgate check`: all mistakes, all warnings and what each limit lets through at worst.

use clap::{Args, ValueEnum};

use super::Exit;
use super::sources::{ConfigArgs, report};
use crate::config::{Diagnostic, Loaded, load, worst_case};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    config: ConfigArgs,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(super) fn check(arguments: &Arguments) -> anyhow::Result<Exit> {
    let sources = arguments.config.sources()?;
    let loaded = load(&sources);
    match arguments.format {
        Format::Text => print_text(&loaded, &sources.name),
        Format::Json => print_json(&loaded)?,
    }
    Ok(if loaded.config.is_some() { Exit::Ok } else { Exit::BadConfiguration })
}

fn print_text(loaded: &Loaded, name: &str) {
    loaded.diagnostics.iter().for_each(report);
    match &loaded.config {
        Some(config) => {
            config.policy.limits.iter().for_each(|limit| println!("{}", worst_case(limit)));
            println!("{name}: good, with {}", counted(loaded.diagnostics.len(), "warning"));
        }
        None => {
            let mistakes = loaded.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
            eprintln!("{name}: {}", counted(mistakes, "mistake"));
        }
    }
}

fn print_json(loaded: &Loaded) -> anyhow::Result<()> {
    let diagnostics: Vec<_> = loaded.diagnostics.iter().map(Diagnostic::to_json).collect();
    let limits = loaded.config.iter().flat_map(|config| &config.policy.limits);
    let worst: Vec<_> = limits
        .map(|limit| serde_json::json!({"limit": &*limit.name, "worst_case": worst_case(limit)}))
        .collect();
    let result =
        serde_json::json!({"ok": loaded.config.is_some(), "diagnostics": diagnostics, "limits": worst});
    println!("{}", serde_json::to_string_pretty(&result)?);
    Ok(())
}

fn counted(count: usize, what: &str) -> String {
    match count {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}
