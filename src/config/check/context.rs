//! What the checks know: the file as written, what it refers to, and what was checked before.

use std::sync::Arc;

use tollgate_grammar::kind::Checked as _;
use tollgate_grammar::{Findings, SourceText, Spot};

use super::super::Sources;
use super::super::raw::RawFile;
use super::files::Files;
use super::groups::{CheckedGroup, GroupTable, ServiceTable};
use super::lists::NetworkLists;
use super::networks::Networks;
use super::trust::TrustedServices;
use crate::defences::AnswerLimit;
use crate::net::listener::ListenAddress;
use crate::policy::{Limit, Route};
use crate::proxy::endpoint::Endpoint;
use crate::proxy::request::client_addr::ClientSettings;
use crate::proxy::respond::RefuseSettings;

/// What the checks know of a file. What no check has found yet is empty, so their order matters.
pub(super) struct CheckContext<'r> {
    /// The file as written.
    pub(super) raw: &'r RawFile,
    /// The place of what the file lacks.
    pub(super) whole: Spot,
    pub(super) files: Files<'r>,
    pub(super) networks: Networks<'r>,
    pub(super) lists: NetworkLists<'r>,
    /// What `@NAME` stands for in a `trust`.
    pub(super) services: TrustedServices,
    /// Whether every limit only observes, and no route does more than count.
    pub(super) observes: bool,
    /// Whether a program decides by it in its own process.
    pub(super) is_within_a_program: bool,
    pub(super) listen: Vec<ListenAddress>,
    /// `admin.listen`.
    pub(super) admin: Vec<ListenAddress>,
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) groups: GroupTable,
    pub(super) client: ClientSettings,
    pub(super) refuse: RefuseSettings,
    /// The limits, in the order of the file; `None` for one that cannot be built.
    pub(super) limits: Vec<Option<Limit>>,
    /// The limits that count bytes, in the place of each limit of the file.
    pub(super) byte_limits: Vec<Option<AnswerLimit>>,
    /// The routes, in the order of the file; `None` for one that cannot be built.
    pub(super) routes: Vec<Option<Route>>,
}

impl<'r> CheckContext<'r> {
    /// What is known before any check but that of networks, to which many keys refer.
    pub(super) fn new(
        raw: &'r RawFile,
        sources: &'r Sources,
        file: &Arc<SourceText>,
        f: &mut Findings,
    ) -> Self {
        let mut files = Files::of(sources);
        Self {
            raw,
            whole: Spot::whole(file),
            networks: Networks::check(&raw.networks, &sources.addresses, &mut files, f),
            lists: NetworkLists::check(&raw.lists, &mut files, f),
            services: TrustedServices::check(raw, sources.today(), &mut files, f),
            files,
            observes: raw.mode.checked(f).unwrap_or(false),
            is_within_a_program: sources.is_within_a_program,
            listen: Vec::new(),
            admin: Vec::new(),
            endpoints: Vec::new(),
            groups: GroupTable::new(CheckedGroup::default(), ServiceTable::new(&sources.addresses)),
            client: ClientSettings::default(),
            refuse: RefuseSettings::default(),
            limits: Vec::new(),
            byte_limits: Vec::new(),
            routes: Vec::new(),
        }
    }

    /// Whether requests are forwarded: not where only proxies connect, and ask.
    pub(super) fn forwards(&self) -> bool {
        self.raw.listen.is_some() || self.raw.endpoints.is_empty()
    }
}
