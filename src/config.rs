//! The file, checked: everything that a gate needs to run, in the types of the layers that use it.

use crate::net::listener::Address;
use crate::observe::settings::LogSettings;
use crate::policy::Policy;
use crate::proxy::client_addr::ClientSettings;
use crate::proxy::respond::RefuseSettings;
use crate::proxy::settings::Settings;
use crate::proxy::upstream::UpstreamAddress;

/// A checked configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where clients connect, at least one.
    pub listen: Vec<Address>,
    /// Groups of upstreams: the first is the default; a route's [`upstream`](crate::policy::Route::upstream) is an
    /// index into this list. No group is empty.
    pub upstreams: Vec<Vec<UpstreamAddress>>,
    /// `[client]`.
    pub client: ClientSettings,
    /// `[route]`, `[limit]` and `[networks]`.
    pub policy: Policy,
    /// `store.capacity`: buckets in memory for each limit, at least 1.
    pub capacity: usize,
    /// `[refuse]`.
    pub refuse: RefuseSettings,
    /// `[proxy]`.
    pub proxy: Settings,
    /// `[log]`.
    pub log: LogSettings,
    /// `admin.listen`.
    pub admin: Vec<Address>,
    /// Files that were read for the policy (`@path` in `[networks]`, pages of `[refuse]`): read again when changed.
    pub files: Vec<std::path::PathBuf>,
}
