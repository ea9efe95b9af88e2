//! Turns the file as written into what runs: [`raw::RawFile`] to [`Config`], with every mistake on the way.
//!
//! One module for each topic. After a mistake each module goes on with a stand-in, so that one run reports all
//! mistakes; [`load`](super::load) discards the result if there was any.

mod account_lists;
mod accounts;
mod acme;
mod addresses;
mod admin;
mod attack;
mod bindings;
mod buckets;
mod challenge;
mod client_auth;
mod cors;
mod defences;
mod device;
mod endpoints;
mod escalate;
mod exposed;
pub(super) mod files;
mod geo;
mod groups;
mod headers;
mod hosts;
mod ja4;
mod limit_kinds;
mod limits;
mod log;
mod methods;
mod networks;
mod otel;
mod outcome;
mod pages;
mod passwords;
pub(super) mod policy;
mod rate_parts;
mod rates;
mod routes;
mod second_steps;
mod secret;
mod settings;
mod shapes;
pub(super) mod store;
mod texts;
mod tls;
mod units;
mod windows;

use std::sync::Arc;

use tollgate_grammar::kind::Checked as _;
use tollgate_grammar::{Findings, SourceText, Spot};

use self::files::Files;
use self::networks::Networks;
use self::rates::RateSources;
use super::preset::Applications;
use super::raw;
use super::{Config, Sources};
use crate::policy::Policy;
use crate::proxy::settings::ProxySettings;

/// The configuration, which is only valid if no mistake was reported.
pub(super) fn check(
    raw: &raw::RawFile,
    applications: &Applications,
    sources: &Sources,
    file: &Arc<SourceText>,
    f: &mut Findings,
) -> Config {
    let (whole, mut files) = (Spot::whole(file), Files::of(sources));
    let networks = Networks::check(&raw.networks, &mut files, f);
    let listen = addresses::listen(raw, &whole, f);
    let admin = admin::listen(&raw.admin, &listen, f);
    let mut groups = addresses::upstreams(raw, &[&listen[..], &admin].concat(), &whole, f);
    let refuse = settings::refuse(raw, &mut files, f);
    let client = settings::client(&raw.client, &networks, f);
    let observes = raw.mode.checked(f).unwrap_or(false);
    let mut rates = RateSources::of((sources, &raw.geo), &networks, &mut files);
    let limits = limits::check(&raw.limits, (client.prefixes, observes), &mut rates, f);
    let geo = geo::check(raw, &limits, &mut files, f);
    let mut routes = routes::check(&raw.routes, applications, &mut groups, f);
    let endpoints = endpoints::check(raw, &networks, &[&listen, &admin], (&refuse, &routes), f);
    let tls_settings = tls::check(raw, (&listen, &admin, &endpoints), &limits, &mut files, f);
    settings::proxy_protocol(&raw.proxy, &listen, &client, f);
    let owners = device::check(&raw.device, (sources, client.prefixes, &limits), &mut files, f);
    bindings::check(raw, &mut routes, &limits, &whole, f);
    hosts::warn(&raw.routes, &routes, &groups.targets, f);
    headers::warn_of_dropped(raw, f);
    accounts::check(raw, &mut routes, &limits, f);
    attack::check(raw, &mut routes, &limits, f);
    defences::check(raw, &mut routes, &limits, client.prefixes, &mut files, f);
    let exposed = exposed::check(raw, &mut routes, observes, &mut files, f);
    let (routes, limits) = limit_kinds::complete(&raw.limits, (routes, limits), f);
    let upstream_trust = tls::upstream_trust(raw, (&groups.targets, &routes), &mut files, &whole, f);
    let proxy = ProxySettings { upstream_trust, ..settings::proxy(&raw.proxy, &groups, f) };
    settings::bodies(raw, proxy.body_memory, &routes, &whole, f);
    let store = store::check(&raw.store, &sources.environment, &mut files, f);
    store::warn(raw, &store, (&routes, &limits), f);
    Config {
        redirect: tls::redirect(&raw.tls, &listen, &client, f),
        listen,
        upstreams: groups.targets,
        sandbox: raw.sandbox.checked(f).unwrap_or(true),
        observes,
        client,
        policy: challenge::with_rule(raw, owners.put_into(Policy::new(routes, limits)), &refuse, f)
            .with_exposed(exposed)
            .with_geo(geo),
        policy_copy: policy::check(&raw.policy, (&raw.store, &store), &files, f),
        store,
        refuse,
        endpoints,
        proxy,
        tls: tls_settings,
        otel: otel::check(&raw.otel, f),
        log: log::log(&raw.log, sources.unit_directory("LOGS_DIRECTORY").unwrap_or(&sources.base), f),
        admin,
        admin_token: admin::token(&raw.admin, &sources.environment, &mut files, f),
        is_watched: raw.reload.checked(f).unwrap_or(false),
        files: files.read,
    }
}
