//! Which page a path names.

use http::{Method, Uri};

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
    Forget,
    Dashboard(DashboardPath),
    Events,
    OpenApi,
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
        let one = match path {
            "/api/v1/events" => Some(Self::Events),
            "/api/v1/forget" => Some(Self::Forget),
            "/api/v1/openapi.json" => Some(Self::OpenApi),
            _ => None,
        };
        let dashboard = || DashboardPath::parse(path).map(Self::Dashboard);
        let first = bucket().or_else(clients).or_else(control).or_else(overrides).or_else(dry_run);
        first.or(one).or_else(dashboard).unwrap_or(Self::Open)
    }

    /// Whether a request of this method may change something.
    pub(super) fn is_change(&self, method: &Method) -> bool {
        let is_get = matches!(*method, Method::GET | Method::HEAD);
        match self {
            Self::Bucket(_) | Self::Control(_) | Self::Overrides(_) | Self::Forget => !is_get,
            // It may exempt the operator who opens it.
            Self::Dashboard(DashboardPath::Page) => is_get,
            Self::Dashboard(_)
            | Self::Clients(_)
            | Self::DryRun(_)
            | Self::Events
            | Self::OpenApi
            | Self::Open => false,
        }
    }
}
