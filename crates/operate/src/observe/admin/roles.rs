//! Which page needs which role: the one table of it.
//!
//! It has a row for each page, so that a new one cannot be forgotten. The OpenAPI document takes the roles from here.

use http::{Method, Uri};

use super::buckets::BucketResource;
use super::clients::ClientsPath;
use super::control::ControlPath;
use super::dashboard::DashboardPath;
use super::dry_run::DryRunPath;
use super::overrides::OverridesPath;
use super::page_path::AdminPage;
use super::token::{OperatorRole, PageNeeds};

impl AdminPage {
    pub(super) fn needs(&self, method: &Method) -> PageNeeds {
        use OperatorRole::{Operate, Read, Unlock};
        let is_get = matches!(*method, Method::GET | Method::HEAD);
        let (role, is_narrowed) = match self {
            Self::Open | Self::OpenApi => (Read, true),
            Self::Dashboard(DashboardPath::Page | DashboardPath::Routes) => (Read, true),
            Self::Dashboard(DashboardPath::History) => (Read, false),
            Self::Events => (Read, false),
            Self::Clients(ClientsPath::Clients | ClientsPath::Rates) => (Read, true),
            Self::Control(ControlPath::Status) => (Read, false),
            Self::Control(ControlPath::Limits) => (Read, true),
            Self::Control(ControlPath::Reload | ControlPath::Drain) => (Operate, false),
            Self::DryRun(DryRunPath::Explain) => (Read, false),
            Self::DryRun(DryRunPath::Check) => (Operate, false),
            Self::Overrides(OverridesPath::Exemptions | OverridesPath::Bans) => (Read, false),
            // One address for at most a day; the page refuses the rest to this role.
            Self::Overrides(OverridesPath::Exemption(_)) => (Unlock, false),
            Self::Overrides(OverridesPath::Ban(_)) => (Operate, false),
            Self::Overrides(OverridesPath::Mode(Some(_))) => (Operate, true),
            Self::Overrides(OverridesPath::Mode(None)) => (Operate, false),
            Self::Forget => (Operate, false),
            Self::Bucket(path) => match path.resource {
                BucketResource::Bucket if is_get => (Read, true),
                BucketResource::Bucket | BucketResource::Credit | BucketResource::Exemption => (Unlock, true),
                BucketResource::Rate | BucketResource::Ban => (Operate, true),
                BucketResource::Addresses => (Operate, false),
            },
        };
        PageNeeds { role, is_narrowed }
    }

    /// What a page of the OpenAPI document needs; `None` if its path is no path.
    pub(super) fn needs_of(method: &str, path: &str) -> Option<PageNeeds> {
        let path = path
            .replace("{prefix}", "203.0.113.9")
            .replace("{key}", "ip:203.0.113.9")
            .replace("{name}", "address");
        let (uri, method) = (format!("/api/v1{path}").parse::<Uri>().ok()?, method.to_uppercase());
        Some(Self::of(&uri).needs(&Method::from_bytes(method.as_bytes()).ok()?))
    }
}
