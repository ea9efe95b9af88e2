//! Which page a path names.

use http::Uri;

use super::buckets::BucketPath;
use super::clients::ClientsPath;
use super::control::ControlPath;
use super::dashboard::DashboardPath;
use super::dry_run::DryRunPath;
use super::overrides::OverridesPath;

/// What a path names.
pub(super) enum AdminPage {
    Bucket(BucketPath),
    Clients(ClientsPath),
    Control(ControlPath),
    Overrides(OverridesPath),
    DryRun(DryRunPath),
    Dashboard(DashboardPath),
    Events,
    /// Health, metrics, or nothing.
    Open,
}

impl AdminPage {
    pub(super) fn of(uri: &Uri) -> Self {
        let path = uri.path();
        let bucket = || BucketPath::parse(uri).map(Self::Bucket);
        let clients = || ClientsPath::parse(path).map(Self::Clients);
        let control = || ControlPath::parse(path).map(Self::Control);
        let overrides = || OverridesPath::parse(path).map(Self::Overrides);
        let dry_run = || DryRunPath::parse(path).map(Self::DryRun);
        let events = (path == "/api/v1/events").then_some(Self::Events);
        let dashboard = || DashboardPath::parse(path).map(Self::Dashboard);
        let first = bucket().or_else(clients).or_else(control).or_else(overrides).or_else(dry_run);
        first.or(events).or_else(dashboard).unwrap_or(Self::Open)
    }
}
