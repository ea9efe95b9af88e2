//! People: arguments, exit codes, printing. Data goes to standard output, messages to standard error.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is the layer that prints")]

mod buckets;
mod check;
mod completions;
mod control;
pub mod demo;
mod explain;
mod gate;
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

/// What the program's end says to scripts.
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
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run in the foreground
    Run(ConfigArgs),
    /// Show all mistakes, all warnings and each limit's worst case, and with --probe whether the store is good; change nothing
    Check(check::Arguments),
    /// Show what would happen to a request, step by step
    Explain(explain::Arguments),
    /// Write a first configuration with a ladder of limits; never overwrites one
    Init(init::Arguments),
    /// Serve a sign-in form, a gate before it and, if wanted, an attacker, in one process
    Demo(demo::Arguments),
    /// Show, fill, reset or change the buckets of one address or one account, in a running gate
    Buckets(buckets::Arguments),
    /// Show how a running gate is: listeners, connections, store, upstreams, configuration
    Status(control::Arguments),
    /// Have a running gate read its configuration again; a bad one is shown and refused
    Reload(control::Arguments),
    /// Have a running gate finish what is in flight and end
    Drain(control::Arguments),
    /// Prepare the store that several gates share; changes nothing that is there
    Migrate(migrate::Arguments),
    /// List the presets of known applications, or print one as TOML
    Presets(presets::Arguments),
    /// Print a completion script for a shell
    Completions(completions::Arguments),
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

/// Parses the arguments and does what they say.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.command {
        None => run::run(&arguments.config),
        Some(Command::Run(config)) => run::run(&config),
        Some(Command::Check(arguments)) => check::check(&arguments),
        Some(Command::Explain(arguments)) => explain::explain(&arguments),
        Some(Command::Init(arguments)) => init::init(&arguments),
        Some(Command::Demo(arguments)) => demo::demo(&arguments),
        Some(Command::Buckets(arguments)) => buckets::buckets(&arguments),
        Some(Command::Status(arguments)) => control::status(&arguments),
        Some(Command::Reload(arguments)) => control::reload(&arguments),
        Some(Command::Drain(arguments)) => control::drain(&arguments),
        Some(Command::Migrate(arguments)) => migrate::migrate(&arguments),
        Some(Command::Presets(arguments)) => presets::presets_of(&arguments),
        Some(Command::Completions(arguments)) => completions::completions(&arguments),
        Some(Command::Other(words)) => unknown(&words),
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

/// Exits with 2 and says whether the command is unknown or only not built yet.
fn unknown(words: &[OsString]) -> ! {
    let word = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    let message = match NOT_BUILT.contains(&&*word) {
        true => format!("`tollgate {word}` is not built yet in this version"),
        false => format!("`{word}` is not a command"),
    };
    Arguments::command().error(ErrorKind::InvalidSubcommand, message).exit()
}

/// Commands of versions to come.
const NOT_BUILT: [&str; 3] = ["replay", "top", "man"];
