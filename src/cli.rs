//! The command line: arguments, exit codes, printing. Data goes to standard output, messages to standard error.

mod admin_api;
mod audit;
mod buckets;
mod check;
mod completions;
mod control;
pub mod demo;
mod doctor;
mod evidence;
mod explain;
mod exposed;
mod fleet;
mod forget;
mod import;
mod init;
mod man;
mod migrate;
mod mode;
mod output;
mod policy;
mod presets;
mod replay;
mod run;
mod schema;
mod service_unit;
mod site;
mod sources;
mod store;
mod stored_policy;
mod test;
mod toml_value;
#[cfg(feature = "top")]
mod top;
mod trust;
mod user_name;

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};

use self::output::errln;
use self::run::RunArgs;
use self::sources::ConfigArgs;
#[cfg(not(feature = "top"))]
use crate::config::features;

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
    after_help = "Without a command the gate runs; on a terminal, add the word `run` or name a file."
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
    /// Decide the requests of a file on a simulated clock; exits with 1 if a decision is not the expected one
    Test(test::TestArgs),
    /// Write a first configuration with a ladder of limits
    Init(init::InitArgs),
    /// Write a configuration from the limits of nginx, HAProxy, fail2ban, Apache or ingress-nginx, with what is lost
    Import(import::ImportArgs),
    /// Add a site to the configuration, list all sites, or report on each by the gate's logs
    Site(site::SiteArgs),
    /// Serve a sign-in form, a gate before it and, if wanted, an attacker, in one process
    Demo(demo::DemoArgs),
    /// List the clients of a running gate, and show, fill, reset or change single buckets
    Buckets(buckets::BucketsArgs),
    /// Put limits of a running gate in observe or enforce mode for a while
    Mode(mode::ModeArgs),
    /// Show the status of a running gate: listeners, connections, store, upstreams, configuration
    Status(control::ControlArgs),
    /// Watch a running gate: who is there, who is refused, and what its limits decide
    #[cfg(feature = "top")]
    Top(top::TopArgs),
    /// Watch a running gate (not in this build)
    #[cfg(not(feature = "top"))]
    #[command(hide = true)]
    Top {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _words: Vec<String>,
    },
    /// Make a running gate read its configuration again; a bad one is shown and refused
    Reload(control::CommandArgs),
    /// Make a running gate finish its requests in flight, then end
    Drain(control::CommandArgs),
    /// Show an auditor what the limits promised, what the logs show, and which controls of standards that meets; exits with 1
    /// if one is not met, or a line is missing
    Evidence(evidence::EvidenceArgs),
    /// Take a person out of a running gate, its store, its snapshot and its logs; exits with 1 if a place was not reached
    Forget(forget::ForgetArgs),
    /// Check the audit log: whether a line was changed, removed, added or moved; list the changes of all gates
    Audit(audit::AuditArgs),
    /// Put one policy for all gates into the store that they share, show it, or go back to an earlier one
    Policy(policy::PolicyArgs),
    /// List the gates that share a store and the policy of each; exits with 1 if one has not taken the newest
    Fleet(fleet::FleetArgs),
    /// Prepare the store that several gates share; changes nothing that is there
    Migrate(migrate::MigrateArgs),
    /// List the presets of known applications, or print one as TOML
    Presets(presets::PresetsArgs),
    /// Find what is wrong with this set-up, and say how to fix it; changes nothing
    Doctor(doctor::DoctorArgs),
    /// Make a filter of a list of exposed passwords, for `exposed` of routes
    Exposed(exposed::ExposedArgs),
    /// Keep the lists of networks of proxies, such as @cloudflare in `trust`
    Trust(trust::TrustArgs),
    /// Print the JSON Schema of the configuration file, for editors
    Schema,
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Write the man pages to a directory
    Man(man::ManArgs),
}

impl CliCommand {
    /// The configuration that the command reads, if it reads one.
    fn config_mut(&mut self) -> Option<&mut ConfigArgs> {
        match self {
            Self::Run(arguments) => Some(arguments.config_mut()),
            Self::Check(arguments) => Some(arguments.config_mut()),
            Self::Explain(arguments) => Some(arguments.config_mut()),
            Self::Replay(arguments) => Some(arguments.config_mut()),
            Self::Test(arguments) => Some(arguments.config_mut()),
            Self::Site(arguments) => Some(arguments.config_mut()),
            Self::Buckets(arguments) => Some(arguments.config_mut()),
            Self::Mode(arguments) => Some(arguments.config_mut()),
            Self::Status(arguments) => Some(arguments.config_mut()),
            Self::Reload(arguments) | Self::Drain(arguments) => Some(arguments.config_mut()),
            Self::Evidence(arguments) => Some(arguments.config_mut()),
            Self::Forget(arguments) => Some(arguments.config_mut()),
            Self::Audit(arguments) => Some(arguments.config_mut()),
            #[cfg(feature = "top")]
            Self::Top(arguments) => Some(arguments.config_mut()),
            #[cfg(not(feature = "top"))]
            Self::Top { .. } => None,
            Self::Policy(arguments) => Some(arguments.config_mut()),
            Self::Fleet(arguments) => Some(arguments.config_mut()),
            Self::Migrate(arguments) => Some(arguments.config_mut()),
            Self::Doctor(arguments) => Some(arguments.config_mut()),
            Self::Trust(arguments) => Some(arguments.config_mut()),
            Self::Init(_) | Self::Import(_) | Self::Demo(_) | Self::Presets(_) | Self::Exposed(_) => None,
            Self::Schema | Self::Completions(_) | Self::Man(_) => None,
        }
    }
}

/// Parses the arguments and runs the command.
#[must_use]
pub fn main() -> ExitCode {
    if std::env::args_os().len() < 2 && std::io::stdout().is_terminal() {
        output::tell(format_args!("{}", Cli::command().render_help().ansi()));
        return ExitCode::from(2);
    }
    let arguments = Cli::try_parse().unwrap_or_else(|error| with_file_hint(error).exit());
    match run_command(with_options_before(arguments)) {
        Ok(exit) => match output::failure() {
            None => exit.into(),
            Some(error) => {
                errln!("tollgate: standard output: {error}");
                Exit::Failed.into()
            }
        },
        Err(error) if error.is::<sources::MistakesShown>() => Exit::BadConfiguration.into(),
        Err(error) => {
            errln!("tollgate: {error:#}");
            let missing = error.is::<sources::NoConfiguration>();
            if missing { Exit::BadConfiguration.into() } else { Exit::Failed.into() }
        }
    }
}

fn run_command(command: CliCommand) -> anyhow::Result<Exit> {
    match command {
        CliCommand::Run(arguments) => run::run(&arguments),
        CliCommand::Check(arguments) => check::check(&arguments),
        CliCommand::Explain(arguments) => explain::explain(&arguments),
        CliCommand::Replay(arguments) => replay::run(&arguments),
        CliCommand::Test(arguments) => test::test(&arguments),
        CliCommand::Init(arguments) => init::init(&arguments),
        CliCommand::Import(arguments) => import::import(&arguments),
        CliCommand::Site(arguments) => site::site(&arguments),
        CliCommand::Demo(arguments) => demo::demo(&arguments),
        CliCommand::Buckets(arguments) => buckets::buckets(&arguments),
        CliCommand::Mode(arguments) => mode::mode(&arguments),
        CliCommand::Status(arguments) => control::status(&arguments),
        #[cfg(feature = "top")]
        CliCommand::Top(arguments) => top::top(&arguments),
        #[cfg(not(feature = "top"))]
        CliCommand::Top { .. } => {
            anyhow::bail!("{}", features::without("top"))
        }
        CliCommand::Reload(arguments) => control::reload(&arguments),
        CliCommand::Drain(arguments) => control::drain(&arguments),
        CliCommand::Evidence(arguments) => evidence::evidence(&arguments),
        CliCommand::Forget(arguments) => forget::forget(&arguments),
        CliCommand::Audit(arguments) => audit::audit(&arguments),
        CliCommand::Policy(arguments) => policy::policy(&arguments),
        CliCommand::Fleet(arguments) => fleet::fleet(&arguments),
        CliCommand::Migrate(arguments) => migrate::migrate(&arguments),
        CliCommand::Presets(arguments) => presets::presets_of(&arguments),
        CliCommand::Doctor(arguments) => doctor::doctor(&arguments),
        CliCommand::Exposed(arguments) => exposed::exposed(&arguments),
        CliCommand::Trust(arguments) => trust::trust(&arguments),
        CliCommand::Schema => schema::schema(),
        CliCommand::Completions(arguments) => completions::completions(&arguments),
        CliCommand::Man(arguments) => man::man(&arguments),
    }
}

/// The command with the options that come before it; without one the gate runs.
fn with_options_before(Cli { command, run }: Cli) -> CliCommand {
    let Some(mut command) = command else { return CliCommand::Run(run) };
    let RunArgs { config, observe } = run;
    match &mut command {
        CliCommand::Run(own) => own.observe |= observe,
        _ if observe => usage_error(ErrorKind::ArgumentConflict, "--observe is an option of `tollgate run`"),
        _ => {}
    }
    match command.config_mut() {
        Some(own) => own.add(config),
        None if config.is_given() => {
            usage_error(
                ErrorKind::ArgumentConflict,
                "this command reads no configuration: leave out -c and --set",
            );
        }
        None => {}
    }
    command
}

/// A file without a command is probably the configuration to run.
fn with_file_hint(mut error: clap::Error) -> clap::Error {
    let is_file = |word: &&String| word.ends_with(".toml") || Path::new(word).is_file();
    let word = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word).filter(is_file),
        _ => None,
    };
    let hint = match (word(ContextKind::InvalidSubcommand), word(ContextKind::InvalidArg)) {
        (Some(file), _) => format!("`tollgate -c {file}` runs the gate with this file"),
        (None, Some(file)) => format!("`-c {file}` names the configuration"),
        (None, None) => return error,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    error
}

/// Exits with 2, and says what is wrong with the arguments.
fn usage_error(kind: ErrorKind, message: impl std::fmt::Display) -> ! {
    Cli::command().error(kind, message).exit()
}
