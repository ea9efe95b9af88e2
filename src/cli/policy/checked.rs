//! Checks a policy as the gates will: below the file of this machine if that has `policy = "store"`, alone otherwise.

use std::path::Path;

use anyhow::bail;

use super::super::sources::{ConfigArgs, NoConfiguration, report};
use super::NO_STORE;
use crate::config::{
    Config, Loaded, PolicySource, Sources, StoreSettings, StoredPolicy, load, policy_source, store_of,
};

/// A text that may become the policy, and the store that it goes to.
pub(super) struct CheckedPolicy {
    pub(super) text: String,
    /// With its settings; `None` after a mistake.
    pub(super) store: Option<(StoreSettings, Config)>,
}

impl CheckedPolicy {
    /// Reads and checks a file, and prints its mistakes and warnings.
    ///
    /// # Errors
    /// If the file, or that of this machine, cannot be read.
    pub(super) fn read(file: &Path, config: &ConfigArgs) -> anyhow::Result<Self> {
        let policy = match file == Path::new("-") {
            true => Sources::from_reader("standard input", std::io::stdin()),
            false => Sources::from_file(file),
        };
        let policy = policy.map_err(|error| NoConfiguration::of(&file.display().to_string(), &error))?;
        Self::of(policy, config.own_sources_or_none()?, config)
    }

    /// Checks a text that is in the store already.
    pub(super) fn of_stored(stored: StoredPolicy, own: Sources, config: &ConfigArgs) -> anyhow::Result<Self> {
        let policy = Sources {
            base: own.base.clone(),
            ..Sources::from_text(&format!("policy {}", stored.version), &stored.text)
        };
        Self::of(policy, Some(own), config)
    }

    fn of(policy: Sources, own: Option<Sources>, config: &ConfigArgs) -> anyhow::Result<Self> {
        let text = policy.text.clone();
        let (loaded, store) = match own.as_ref().and_then(|own| Some((own, policy_source(own)?))) {
            Some((own, PolicySource { store, .. })) => {
                let stored = StoredPolicy { version: 0, text: text.clone() };
                (load(&Sources { policy: Some(stored), ..own.clone() }), Some(store))
            }
            None => alone(policy, own.as_ref(), config)?,
        };
        loaded.diagnostics.iter().for_each(report);
        Ok(Self { text, store: store.zip(loaded.config) })
    }
}

/// Checks a text for gates without a file, or whose file is not known here. Returns the store as well: that of this
/// machine's file, or that of the text. The text may leave out `listen`: each gate can set it.
fn alone(
    policy: Sources,
    own: Option<&Sources>,
    config: &ConfigArgs,
) -> anyhow::Result<(Loaded, Option<StoreSettings>)> {
    let policy = config.above(policy);
    let Some(store) = own.and_then(store_of).or_else(|| store_of(&policy)) else {
        bail!(NO_STORE);
    };
    let below = StoredPolicy { version: 0, text: "listen = \"http://[::]:8080\"\n".to_owned() };
    let policy = policy.with_set([("policy".to_owned(), "file".to_owned())]);
    Ok((load(&Sources { policy: Some(below), ..policy.as_policy() }), Some(store)))
}
