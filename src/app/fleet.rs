//! Asks the store for what gates share in addition to buckets: the policy and the list of gates, and whether operators changed
//! anything.
//!
//! One question every [`PERIOD`] tells whether anything is new. What follows from it is left to `reload`, which does
//! one thing after the other.

use std::sync::Arc;
use std::time::Duration;

use super::Parts;
use crate::config::StoreSettings;
use crate::store::shared::SharedStore;
use crate::store::{
    Fleet, FleetError, FleetHead, FleetKeys, GateId, GateReport, PolicyEntry, StoreError, StoreHealth,
};
use crate::time::Time;

/// The shared records of this gate's installation.
pub(super) struct FleetLink {
    store: Arc<SharedStore>,
    keys: FleetKeys,
}

impl FleetLink {
    /// `None` if this gate shares its buckets with no other.
    pub(super) fn of(parts: &Parts, settings: &StoreSettings) -> Option<Self> {
        let store = Arc::clone(parts.engine.store().database()?);
        Some(Self { store, keys: FleetKeys::new(&settings.names, settings.secrets.reveal()) })
    }

    /// The store's present time.
    pub(super) fn now(&self) -> Time {
        self.store.now()
    }

    /// How the store does, as far as this gate knows: no question.
    pub(super) fn health(&self) -> StoreHealth {
        self.store.health()
    }

    /// What there is: one question.
    pub(super) async fn head(&self) -> Result<FleetHead, FleetError> {
        self.run(async |fleet: Fleet| fleet.head().await).await
    }

    /// The text of a policy.
    pub(super) async fn policy(&self, entry: PolicyEntry) -> Result<String, FleetError> {
        self.run(move |fleet| async move { fleet.policy(&entry).await }).await
    }

    /// Seals with the newest secret what an older one has sealed.
    pub(super) async fn reseal(&self) -> Result<(), FleetError> {
        if !self.keys.have_older_secret() {
            return Ok(());
        }
        self.run(async |fleet: Fleet| fleet.reseal().await).await?;
        self.run(async |fleet: Fleet| fleet.reseal_audit().await).await
    }

    /// Writes back what the store has lost: the head as last seen, the changes in force, and a policy if its text is known.
    pub(super) async fn restore(
        &self,
        head: FleetHead,
        policy: Option<(PolicyEntry, String)>,
        changes: Vec<u8>,
    ) -> Result<(), FleetError> {
        self.run(move |fleet| async move { fleet.restore(&head, policy.as_slice(), &changes).await }).await
    }

    /// Puts a gate's report in the list of gates.
    pub(super) async fn report(&self, id: GateId, report: GateReport) -> Result<(), FleetError> {
        let now = self.now();
        self.run(move |fleet| async move { fleet.report(id, &report, now).await }).await
    }

    /// Takes a gate out of the list of gates.
    pub(super) async fn sign_off(&self, id: GateId) -> Result<(), FleetError> {
        self.run(move |fleet| async move { fleet.sign_off(id).await }).await
    }

    pub(super) async fn run<T, F>(&self, requests: impl FnOnce(Fleet) -> F) -> Result<T, FleetError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, FleetError>> + Send + 'static,
    {
        let keys = self.keys.clone();
        let on_backend = |backend| requests(Fleet::new(backend, keys));
        let done = self.store.run(self.keys.head(), TIMEOUT, on_backend).await;
        done.unwrap_or_else(|unavailable| Err(StoreError::Unreachable(unavailable.to_string()).into()))
    }
}

/// How often a gate asks: all of them follow within twice that.
pub(super) const PERIOD: Duration = Duration::from_millis(500);
/// For a few questions one after the other.
const TIMEOUT: Duration = Duration::from_secs(2);
