//! Fetches the policy of the store for a configuration with `policy = "store"`, or reads the one that the gate kept.

use std::time::Duration;

use anyhow::{Context, bail};

use super::store::{OpenedStore, open};
use crate::cli::output::errln;
use crate::config::{PolicySource, Sources, StoreSettings, StoredPolicy, policy_source};
use crate::store::{Fleet, FleetKeys, PolicyEntry, ReportedGate};
use crate::time::{Clock, Span};

/// The sources with the policy that they name, if they name one. Without a store that answers it is the one that the
/// gate has kept. Without that, [`load`](crate::config::load) reports the mistake.
pub(super) fn with_policy(sources: Sources) -> Sources {
    let Some(origin) = policy_source(&sources) else { return sources };
    let policy = match newest(&origin.store) {
        Ok(Some(policy)) => Some(policy),
        Ok(None) => kept(&origin, "the store has no policy"),
        Err(error) => kept(&origin, &format!("{error:#}")),
    };
    Sources { policy, ..sources }
}

fn kept(PolicySource { copy, .. }: &PolicySource, why: &str) -> Option<StoredPolicy> {
    let kept = std::fs::read_to_string(copy).ok().and_then(|text| StoredPolicy::from_copy(&text));
    match &kept {
        Some(StoredPolicy { version, .. }) => {
            errln!("tollgate: {why}: policy {version} is used, as it was kept in {}", copy.display());
        }
        None => errln!("tollgate: {why}, and none is kept in {}", copy.display()),
    }
    kept
}

fn newest(store: &StoreSettings) -> anyhow::Result<Option<StoredPolicy>> {
    SharedPolicies::open(store)?.run(async |fleet| {
        let head = fleet.head().await?;
        let Some(entry) = head.newest() else { return Ok(None) };
        Ok(Some(StoredPolicy { version: entry.version, text: fleet.policy(entry).await? }))
    })
}

/// The policies in a store.
pub(super) struct SharedPolicies {
    opened: OpenedStore,
    fleet: Fleet,
    /// The scheme of the store, for messages.
    pub(super) name: String,
}

impl SharedPolicies {
    /// Opens the store; no server is asked for that.
    ///
    /// # Errors
    /// If the buckets are in memory, or the address cannot work.
    pub(super) fn open(store: &StoreSettings) -> anyhow::Result<Self> {
        let Some(opened) = open(store)? else {
            bail!("the buckets are in memory: a policy needs `store.url`")
        };
        let keys = FleetKeys::new(&store.names, store.secrets.reveal());
        let (fleet, name) = (opened.fleet(keys), store.address.to_string());
        Ok(Self { opened, fleet, name })
    }

    /// Asks the store, and waits a few seconds at most.
    pub(super) fn run<T>(
        &self,
        requests: impl AsyncFnOnce(&Fleet) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let done = self.opened.wait(TIMEOUT, requests(&self.fleet));
        let late = || format!("no answer within {} s", TIMEOUT.as_secs());
        done.with_context(late).and_then(|done| done).map_err(|error| {
            // One sentence: "the store (redis) cannot be reached: ...".
            anyhow::anyhow!("the store ({}) {error:#}", self.name)
        })
    }

    /// The newest policy, and the gates that have reported.
    ///
    /// # Errors
    /// If the store does not answer.
    pub(super) fn newest_and_gates(&self) -> anyhow::Result<(Option<PolicyEntry>, Vec<ReportedGate>)> {
        self.run(async |fleet| {
            let head = fleet.head().await?;
            Ok((head.newest().cloned(), fleet.gates(Clock::system().now()).await?))
        })
    }

    /// Waits, and keeps the connection to the store alive meanwhile.
    pub(super) fn pause(&self, time: Span) {
        let _: Option<()> = self.opened.wait(time.to_std(), std::future::pending());
    }
}

const TIMEOUT: Duration = Duration::from_secs(5);
