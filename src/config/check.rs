//! Turns the file as written into what runs: [`raw::RawFile`] to [`Config`], with every mistake on the way.
//!
//! One module for each topic. After a mistake each module goes on with a stand-in, so that one run reports all
//! mistakes; [`load`](super::load) discards the result if there was any.

mod account_lists;
mod accounts;
mod acme;
mod addresses;
pub(super) mod admin;
mod bindings;
mod buckets;
mod bytes;
mod client_auth;
mod context;
mod cors;
mod defences;
mod directory;
mod dns_hook;
mod endpoints;
mod external_account;
pub(super) mod files;
mod groups;
mod headers;
mod health;
mod hosts;
mod kernel;
mod limit_kinds;
mod limits;
mod list_file;
mod lists;
mod log;
mod methods;
mod monitors;
mod networks;
mod on_demand;
mod pages;
mod passwords;
pub(super) mod policy;
mod rate_parts;
mod rates;
mod routes;
mod secret;
mod settings;
mod shapes;
pub(super) mod store;
mod texts;
mod tls;
mod trust;
mod units;
mod windows;

use std::sync::Arc;

use tollgate_grammar::kind::Checked as _;
use tollgate_grammar::{Findings, SourceText};

use self::context::CheckContext;
use super::preset::Applications;
use super::raw;
use super::{Config, FrontSettings, ProcessSettings, Sources};
use crate::proxy::settings::ProxySettings;

/// The configuration, which is only valid if no mistake was reported.
pub(super) fn check(
    raw: &raw::RawFile,
    applications: &Applications,
    sources: &Sources,
    file: &Arc<SourceText>,
    f: &mut Findings,
) -> Config {
    let mut cx = CheckContext::new(raw, sources, file, f);
    cx.listen = addresses::listen(&cx, f);
    cx.admin = admin::listen(&cx, f);
    cx.groups = addresses::upstreams(&cx, f);
    cx.refuse = settings::refuse(&mut cx, f);
    cx.client = settings::client(&mut cx, f);
    cx.limits = limits::check(&mut cx, f);
    let lookup = defences::lookup(&mut cx, f);
    cx.routes = routes::check(&mut cx, applications, f);
    cx.endpoints = endpoints::check(&cx, f);
    let tls = tls::check(&mut cx, f);
    settings::proxy_protocol(&cx, f);
    let owners = defences::owners(&mut cx, f);
    bindings::check(&mut cx, f);
    hosts::warn(&cx, f);
    accounts::check(&mut cx, f);
    defences::check(&mut cx, f);
    lists::add_rates(&mut cx.limits, &cx.lists);
    let policy = limit_kinds::complete(&mut cx, f);
    let upstream_trust = tls::upstream_trust(&mut cx, &policy, f);
    let proxy = ProxySettings { upstream_trust, ..settings::proxy(&cx, f) };
    settings::bodies(&cx, &policy, proxy.body_memory, f);
    let store = store::check(&raw.store, &mut cx.files, f);
    store::warn(raw, &store, &policy, f);
    let policy = pages::with_pardon(&cx, owners.put_into(policy), f).with_lookup(lookup);
    let (policy_copy, nftables) = (policy::check(&cx, &store, f), kernel::check(&cx, f));
    let operators = admin::operators(&mut cx, &policy, policy_copy.is_none(), f);
    Config {
        front: FrontSettings { redirect: tls::redirect(&cx, f), listen: cx.listen, tls },
        upstreams: cx.groups.targets,
        probes: cx.groups.probes,
        process: ProcessSettings {
            sandbox: raw.sandbox.checked(f).unwrap_or(true),
            observes: cx.observes,
            files: cx.files.read,
            lists: cx.lists.fetched,
            dns: cx.networks.dns(&raw.client, &cx.groups.services, &proxy.resolver, &cx.whole, f),
            trusted_services: cx.services.services(),
            nftables,
            is_watched: raw.reload.checked(f).unwrap_or(false),
            policy_copy,
        },
        client: cx.client,
        policy,
        store,
        refuse: cx.refuse,
        endpoints: cx.endpoints,
        proxy,
        log: log::log(&raw.log, sources.unit_directory("LOGS_DIRECTORY").unwrap_or(&sources.base), f),
        otel: log::otel(&raw.otel, f),
        operators,
    }
}
