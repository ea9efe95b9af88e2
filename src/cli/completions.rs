//! `tollgate completions SHELL`: prints a completion script.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Exit;
use crate::cli::output::out;

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell to write for
    shell: Shell,
}

pub(super) fn completions(arguments: &CompletionsArgs) -> anyhow::Result<Exit> {
    let mut command = super::Cli::command();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "tollgate", &mut script);
    out!("{}", String::from_utf8(script)?);
    Ok(Exit::Ok)
}
