//! `tollgate policy push` and `rollback`: what changes the policy of all gates.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;

use super::super::Exit;
use super::super::sources::ConfigArgs;
use super::super::stored_policy::SharedPolicies;
use super::super::test::decide_cases;
use super::super::user_name;
use super::checked::CheckedPolicy;
use super::wait::WaitArgs;
use super::{entry_of, opened};
use crate::cli::output::{errln, outln};
use crate::config::{StoreSettings, StoredPolicy};
use crate::store::{Fleet, FleetError, PolicyEntry, PolicyId, PolicyNote};
use crate::time::Clock;

#[derive(Debug, Args)]
pub(super) struct PushArgs {
    /// The file, or - for standard input
    file: PathBuf,
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// The reason, for the history
    #[arg(short = 'm', long, value_name = "TEXT", default_value = "")]
    comment: String,
    /// Push only if it decides the cases of this file as they say: see `tollgate test`
    #[arg(long, value_name = "CASES")]
    test: Option<PathBuf>,
    /// Also in place of one that cannot be read: it is damaged, or was written under another secret
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    wait: WaitArgs,
}

#[derive(Debug, Args)]
pub(super) struct RollbackArgs {
    /// The version [default: the one before the newest]
    version: Option<u64>,
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// The reason, for the history [default: the version]
    #[arg(short = 'm', long, value_name = "TEXT")]
    comment: Option<String>,
    #[command(flatten)]
    wait: WaitArgs,
}

impl PushArgs {
    pub(super) fn run(&self) -> anyhow::Result<Exit> {
        std::iter::once(&self.file).chain(&self.test).for_each(|file| self.config.demand_own_input(file));
        let CheckedPolicy { text, store } = CheckedPolicy::read(&self.file, &self.config)?;
        let Some((store, config)) = store else { return Ok(refused(Exit::BadConfiguration)) };
        let tested = self.test.as_ref().map(|cases| decide_cases(config, cases)).transpose()?;
        match tested {
            None | Some(Exit::Ok) => push(&store, &text, &self.comment, self.replace, &self.wait),
            Some(exit) => Ok(refused(exit)),
        }
    }
}

impl RollbackArgs {
    pub(super) fn run(&self) -> anyhow::Result<Exit> {
        let own = self.config.own_sources()?;
        let stored = opened(&own)?.run(async |fleet| {
            let head = fleet.head().await?;
            let entry = match (self.version, head.policies()) {
                (None, [.., before, _]) => before,
                (None, _) => bail!("has no earlier policy"),
                (version, _) => entry_of(&head, version)?,
            };
            Ok(StoredPolicy { version: entry.version, text: fleet.policy(entry).await? })
        })?;
        let comment = self.comment.clone().unwrap_or_else(|| format!("back to {}", stored.version));
        let CheckedPolicy { text, store } = CheckedPolicy::of_stored(stored, own, &self.config)?;
        match store {
            Some((store, _)) => push(&store, &text, &comment, false, &self.wait),
            None => Ok(refused(Exit::BadConfiguration)),
        }
    }
}

fn refused(exit: Exit) -> Exit {
    errln!("refused, the policy in the store stays");
    exit
}

fn push(
    store: &StoreSettings,
    text: &str,
    comment: &str,
    replaces: bool,
    wait: &WaitArgs,
) -> anyhow::Result<Exit> {
    let policies = SharedPolicies::open(store)?;
    let (policy, is_new) = policies.run(async |fleet| {
        let note = PolicyNote { at: Clock::system().now(), by: author(), comment: comment.to_owned() };
        if replaces {
            return Ok((replace(fleet, text, note).await?.id(), true));
        }
        let head = fleet.head().await.map_err(with_hint)?;
        let newest = head.newest();
        if let Some(same) = newest.filter(|newest| newest.hash == PolicyEntry::hash_of(text)) {
            return Ok((same.id(), false));
        }
        let entry = fleet.push(text, newest.map(|newest| newest.version), note).await?;
        Ok((entry.id(), true))
    })?;
    let (PolicyId { version, hash }, name) = (&policy, &policies.name);
    match is_new {
        true => outln!("policy {version} ({hash}) is in the store ({name}): gates follow within two seconds"),
        false => outln!("policy {version} in the store ({name}) is the same: nothing to change"),
    }
    wait.run(&policies, &policy)
}

/// Puts it in the place of whatever is there, and says what is lost.
async fn replace(fleet: &Fleet, text: &str, note: PolicyNote) -> anyhow::Result<PolicyEntry> {
    let is_unreadable = match fleet.head().await {
        Ok(head) => matches!(fleet.overrides(&head).await, Err(FleetError::Foreign(_))),
        Err(error) => matches!(error, FleetError::Foreign(_)),
    };
    let entry = fleet.replace(text, note).await?;
    if is_unreadable {
        errln!(
            "tollgate: what could not be read is gone: earlier policies, modes, and bans and exemptions of prefixes"
        );
    }
    Ok(entry)
}

fn with_hint(error: FleetError) -> anyhow::Error {
    match error {
        FleetError::Foreign(_) => {
            anyhow::anyhow!("{error}: `tollgate policy push --replace FILE` takes its place")
        }
        error => error.into(),
    }
}

/// The author of a push: the name of the user id, or of the person who became root by sudo.
fn author() -> String {
    let (user, sudo) = (user_name::own(), std::env::var("SUDO_USER").ok().filter(|name| !name.is_empty()));
    let user = sudo.filter(|_| user == "root").unwrap_or(user);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{user}@{}", host.trim())
}
