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
mod mode;
mod presets;
mod replay;
mod run;
mod sources;
mod store;
#[cfg(feature = "top")]
mod top;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use self::run::RunArgs;

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
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Run in the foreground
    Run(RunArgs),
    /// Show all mistakes, all warnings and each limit's worst case, and with --probe whether the store is good; change
    /// nothing
    Check(check::CheckArgs),
    /// Show what would happen to a request, step by step
    Explain(explain::ExplainArgs),
    /// Show what the limits would have refused, by access logs
    Replay(replay::ReplayArgs),
    /// Write a first configuration with a ladder of limits; never overwrites one
    Init(init::InitArgs),
    /// Serve a sign-in form, a gate before it and, if wanted, an attacker, in one process
    Demo(demo::DemoArgs),
    /// List the clients of a running gate, and show, fill, reset or change single buckets
    Buckets(buckets::BucketsArgs),
    /// Have limits of a running gate observe or enforce for a while
    Mode(mode::ModeArgs),
    /// Show how a running gate is: listeners, connections, store, upstreams, configuration
    Status(control::ControlArgs),
    /// Watch a running gate: who is there, who is refused, and what its limits decide
    #[cfg(feature = "top")]
    Top(top::TopArgs),
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
        None => run::run(&arguments.run),
        Some(CliCommand::Run(arguments)) => run::run(&arguments),
        Some(CliCommand::Check(arguments)) => check::check(&arguments),
        Some(CliCommand::Explain(arguments)) => explain::explain(&arguments),
        Some(CliCommand::Replay(arguments)) => replay::run(&arguments),
        Some(CliCommand::Init(arguments)) => init::init(&arguments),
        Some(CliCommand::Demo(arguments)) => demo::demo(&arguments),
        Some(CliCommand::Buckets(arguments)) => buckets::buckets(&arguments),
        Some(CliCommand::Mode(arguments)) => mode::mode(&arguments),
        Some(CliCommand::Status(arguments)) => control::status(&arguments),
        #[cfg(feature = "top")]
        Some(CliCommand::Top(arguments)) => top::top(&arguments),
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

/// Exits with 2, and says whether the command is unknown, not built yet or not part of this build.
fn unknown(words: &[OsString]) -> ! {
    let word = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    let message = match &*word {
        // Where the feature is on, clap knows the command.
        "top" => "this build has no live view: build tollgate with the feature `top`".to_owned(),
        later if NOT_BUILT.contains(&later) => format!("`tollgate {later}` is not built yet in this version"),
        other => format!("`{other}` is not a command"),
    };
    usage_error(ErrorKind::InvalidSubcommand, message)
}

/// Exits with 2, and says what is wrong with the arguments.
fn usage_error(kind: ErrorKind, message: impl std::fmt::Display) -> ! {
    Cli::command().error(kind, message).exit()
}

/// Commands of later versions.
const NOT_BUILT: [&str; 1] = ["man"];
