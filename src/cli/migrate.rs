//! `tollgate migrate`: prepares the store of a configuration, or prints the statements that prepare it.
//!
//! Each store brings its own statements. With `--print` it connects to no server, so it works before there is a
//! database, and for a user who may not create tables.

use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::Exit;
use super::sources::{ConfigArgs, load_and_report};
use super::store::open;
use crate::cli::output::{errln, outln};
use crate::config::{Sources, StoreSettings, policy_source};

#[derive(Debug, Args)]
pub(super) struct MigrateArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print the statements to run by hand; connect to no server
    #[arg(long)]
    print: bool,
}

impl MigrateArgs {
    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        &mut self.config
    }
}

pub(super) fn migrate(arguments: &MigrateArgs) -> anyhow::Result<Exit> {
    let Some(store) = store(&arguments.config.own_sources()?) else {
        return Ok(Exit::BadConfiguration);
    };
    let store = &store;
    let Some(opened) = open(store)? else {
        errln!("tollgate: the buckets are in memory: nothing has to be prepared");
        return Ok(Exit::Ok);
    };
    let statements = opened.schema();
    if statements.is_empty() {
        errln!("tollgate: the store ({}) needs nothing: buckets are written when they come", store.address);
    } else if arguments.print {
        statements.iter().for_each(|statement| outln!("{statement}"));
    } else {
        let prepared = opened.call(MIGRATE_TIMEOUT, |store| store.migrate());
        prepared.with_context(|| format!("the store ({})", store.address))?;
        errln!("tollgate: the store ({}) is prepared; what was there is as it was", store.address);
    }
    Ok(Exit::Ok)
}

/// The store of a valid configuration. One that has its policy from the store is asked for no more than that: before
/// the store is prepared, no policy can be in it.
fn store(sources: &Sources) -> Option<StoreSettings> {
    match policy_source(sources) {
        Some(origin) => Some(origin.store),
        None => Some(load_and_report(sources)?.store),
    }
}

/// DynamoDB takes a while to create a table; SQL waits for locks on one.
const MIGRATE_TIMEOUT: Duration = Duration::from_secs(120);
