//! The command line: arguments, exit codes, printing. Data goes to standard output, messages to standard error.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is the layer that prints")]

mod admin_api;
mod buckets;
mod check;
mod completions;
mod control;
pub mod demo;
mod explain;
mod init;
mod migrate;
mod presets;
mod run;
mod sources;
mod store;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use self::sources::ConfigArgs;

/// The exit status of the program, for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0.
    Ok,
    /// 1.
    Failed,
    /// 78, as in `sysexits.h`: the configuration is bad.
    BadConfiguration,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Ok => Self::SUCCESS,
            Exit::Failed => Self::FAILURE,
            Exit::BadConfiguration => Self::from(78),
        }
    }
}

#[derive(Debug, Parser)]
#[command(
    name = "tollgate",
    version,
    about = "A reverse proxy that gives sign-in forms exact rate limits by client address",
    after_help = "Without a command the gate runs.",
    args_conflicts_with_subcommands = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<CliCommand>,
    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Run in the foreground
    Run(ConfigArgs),
    /// Show all mistakes, all warnings and each limit's worst case, and with --probe whether the store is good; change
    /// nothing
    Check(check::CheckArgs),
    /// Show what would happen to a request, step by step
    Explain(explain::ExplainArgs),
    /// Write a first configuration with a ladder of limits; never overwrites one
    Init(init::InitArgs),
    /// Serve a sign-in form, a gate before it and, if wanted, an attacker, in one process
    Demo(demo::DemoArgs),
    /// Show, fill, reset or change the buckets of one address or one account, in a running gate
    Buckets(buckets::BucketsArgs),
    /// Show how a running gate is: listeners, connections, store, upstreams, configuration
    Status(control::ControlArgs),
    /// Have a running gate read its configuration again; a bad one is shown and refused
    Reload(control::ControlArgs),
    /// Have a running gate finish what is in flight and end
    Drain(control::ControlArgs),
    /// Prepare the store that several gates share; changes nothing that is there
    Migrate(migrate::MigrateArgs),
    /// List the presets of known applications, or print one as TOML
    Presets(presets::PresetsArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

/// Parses the arguments and runs the command.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Cli::parse();
    let done = match arguments.command {
        None => run::run(&arguments.config),
        Some(CliCommand::Run(config)) => run::run(&config),
        Some(CliCommand::Check(arguments)) => check::check(&arguments),
        Some(CliCommand::Explain(arguments)) => explain::explain(&arguments),
        Some(CliCommand::Init(arguments)) => init::init(&arguments),
        Some(CliCommand::Demo(arguments)) => demo::demo(&arguments),
        Some(CliCommand::Buckets(arguments)) => buckets::buckets(&arguments),
        Some(CliCommand::Status(arguments)) => control::status(&arguments),
        Some(CliCommand::Reload(arguments)) => control::reload(&arguments),
        Some(CliCommand::Drain(arguments)) => control::drain(&arguments),
        Some(CliCommand::Migrate(arguments)) => migrate::migrate(&arguments),
        Some(CliCommand::Presets(arguments)) => presets::presets_of(&arguments),
        Some(CliCommand::Completions(arguments)) => completions::completions(&arguments),
        Some(CliCommand::Other(words)) => unknown(&words),
    };
    match done {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("tollgate: {error:#}");
            let missing = error.is::<sources::NoConfiguration>();
            if missing { Exit::BadConfiguration.into() } else { Exit::Failed.into() }
        }
    }
}

/// Exits with 2, and says whether the command is unknown or not built yet.
fn unknown(words: &[OsString]) -> ! {
    let word = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    let message = match NOT_BUILT.contains(&&*word) {
        true => format!("`tollgate {word}` is not built yet in this version"),
        false => format!("`{word}` is not a command"),
    };
    Cli::command().error(ErrorKind::InvalidSubcommand, message).exit()
}

/// Commands of later versions.
const NOT_BUILT: [&str; 3] = ["replay", "top", "man"];
