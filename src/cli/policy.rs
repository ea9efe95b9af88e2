//! `tollgate policy`: one policy for all gates, in the store that they share.
//!
//! It talks to the store and not to a gate, so it works from any machine that reaches the store. Gates with
//! `policy = "store"` follow within two seconds.

mod checked;
mod diff;
mod history;
mod push;
mod wait;

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};

pub(super) use self::wait::FRESH;

use super::Exit;
use super::sources::{ConfigArgs, MistakesShown, load_and_report};
use super::stored_policy::SharedPolicies;
use crate::cli::output::out;
use crate::config::{Sources, store_of};
use crate::store::{FleetHead, PolicyEntry};

#[derive(Debug, Args)]
pub(super) struct PolicyArgs {
    #[command(subcommand)]
    action: PolicyAction,
}

#[derive(Debug, Subcommand)]
enum PolicyAction {
    /// Check a file, make it the policy of all gates, and wait until they have tried it
    Push(push::PushArgs),
    /// Print the policy in force, or an earlier one
    Show {
        /// The version [default: the newest]
        version: Option<u64>,
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// List the policies that the store keeps, the newest first
    History {
        #[command(flatten)]
        config: ConfigArgs,
        /// How the list is printed
        #[arg(long, value_enum, default_value_t = history::HistoryFormat::Text)]
        format: history::HistoryFormat,
    },
    /// Make an earlier policy the one of all gates again, and wait until they have tried it
    Rollback(push::RollbackArgs),
    /// Show what a push of a file would change, or what the newest policy changed; exits with 1 if anything
    Diff {
        /// The file [default: compare the newest policy with the one before]
        file: Option<PathBuf>,
        #[command(flatten)]
        config: ConfigArgs,
    },
}

impl PolicyArgs {
    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        match &mut self.action {
            PolicyAction::Push(push) => &mut push.config,
            PolicyAction::Rollback(rollback) => &mut rollback.config,
            PolicyAction::Show { config, .. }
            | PolicyAction::History { config, .. }
            | PolicyAction::Diff { config, .. } => config,
        }
    }
}

pub(super) fn policy(PolicyArgs { action }: &PolicyArgs) -> anyhow::Result<Exit> {
    match action {
        PolicyAction::Push(push) => push.run(),
        PolicyAction::Rollback(rollback) => rollback.run(),
        PolicyAction::Show { version, config } => show(*version, config),
        PolicyAction::History { config, format } => history::history(config, *format),
        PolicyAction::Diff { file, config } => diff::diff(file.as_deref(), config),
    }
}

fn show(version: Option<u64>, config: &ConfigArgs) -> anyhow::Result<Exit> {
    let policies = opened(&config.own_sources()?)?;
    let text = policies.run(async |fleet| {
        let head = fleet.head().await?;
        Ok(fleet.policy(entry_of(&head, version)?).await?)
    })?;
    out!("{text}");
    Ok(Exit::Ok)
}

/// The store of these sources.
///
/// # Errors
/// [`MistakesShown`] if a mistake may be why they name none.
pub(super) fn opened(sources: &Sources) -> anyhow::Result<SharedPolicies> {
    match store_of(sources) {
        Some(store) => SharedPolicies::open(&store),
        None if load_and_report(sources).is_none() => Err(MistakesShown.into()),
        None => bail!(NO_STORE),
    }
}

const NO_STORE: &str =
    "no store that gates share is named: -c FILE names one, and so does TOLLGATE_STORE__URL";

/// A policy of the history.
fn entry_of(head: &FleetHead, version: Option<u64>) -> anyhow::Result<&PolicyEntry> {
    match version {
        None => head.newest().context("has no policy yet: `tollgate policy push FILE` puts one there"),
        Some(version) => head.policy(version).with_context(|| format!("keeps no policy {version}")),
    }
}
