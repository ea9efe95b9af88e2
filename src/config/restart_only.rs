//! Settings that need a restart: sockets, threads, tables of buckets, the streams of the logs.
//!
//! A file that changes one of these is refused as a whole, because half a change is never meant. An invalid value
//! counts as the default, so its key may be reported twice.

use std::collections::HashSet;
use std::hash::Hash;
use std::path::PathBuf;
use std::sync::Arc;

use tollgate_grammar::document::{TomlTable, TomlValue};
use tollgate_grammar::{Findings, SourceText, Spot};

use super::{Config, StoreSettings};
use crate::net::listener::ListenAddress;
use crate::observe::settings::{LogSettings, OtelSettings};
use crate::proxy::endpoint::Endpoint;

/// The settings of a running gate that stay until it ends.
#[derive(Debug, Clone, PartialEq)]
pub struct RestartOnly {
    listen: Vec<ListenAddress>,
    /// With their names.
    endpoints: Vec<(Arc<str>, Vec<ListenAddress>)>,
    admin: Vec<ListenAddress>,
    audit: Option<PathBuf>,
    sandbox: bool,
    /// The table in the kernel.
    nftables: Option<String>,
    /// Whether the policy comes from the store.
    policy_copy: Option<PathBuf>,
    threads: usize,
    store: StoreSettings,
    /// All but `level` and `clients`.
    log: LogSettings,
    otel: Option<OtelSettings>,
}

impl RestartOnly {
    /// The settings of this configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self {
            listen: config.front.listen.clone(),
            endpoints: config.endpoints.iter().map(named_addresses).collect(),
            admin: config.operators.admin.clone(),
            audit: config.operators.audit.clone(),
            sandbox: config.process.sandbox,
            nftables: config.process.nftables.clone(),
            policy_copy: config.process.policy_copy.clone(),
            threads: config.proxy.threads,
            store: config.store.clone(),
            log: config.log.clone(),
            otel: config.otel.clone(),
        }
    }

    /// Reports every key whose value differs in the new file.
    pub(super) fn report_changes(
        &self,
        new: &Self,
        root: &TomlTable,
        file: &Arc<SourceText>,
        f: &mut Findings,
    ) {
        // All fields are named, so that none is forgotten.
        let StoreSettings { address, names, secrets, options, capacity, snapshot } = &self.store;
        let collector =
            |otel: &Option<OtelSettings>| otel.as_ref().map(|otel| (otel.host.clone(), otel.port));
        let exported =
            |otel: &Option<OtelSettings>| otel.as_ref().map(|otel| (otel.sample_ppm, otel.logs)).unzip();
        let ((sample, logs), (new_sample, new_logs)) = (exported(&self.otel), exported(&new.otel));
        let has_both = self.otel.is_some() && new.otel.is_some();
        let LogSettings { format, access, decisions, schema, style, retention, level: _, clients: _ } =
            &self.log;
        for (key, stays) in [
            ("listen", same(&self.listen, &new.listen)),
            ("endpoint", self.endpoints == new.endpoints),
            ("sandbox", self.sandbox == new.sandbox),
            ("kernel.nftables", self.nftables.is_some() == new.nftables.is_some()),
            (
                "kernel.table",
                self.nftables.is_none() || new.nftables.is_none() || self.nftables == new.nftables,
            ),
            ("policy", self.policy_copy.is_some() == new.policy_copy.is_some()),
            ("proxy.threads", self.threads == new.threads),
            ("admin.listen", same(&self.admin, &new.admin)),
            ("admin.audit", self.audit == new.audit),
            ("store.url", *address == new.store.address),
            ("store.prefix", *names == new.store.names),
            ("store.secret", *secrets == new.store.secrets),
            ("store.timeout", options.timeout == new.store.options.timeout),
            ("store.on_error", options.on_error == new.store.options.on_error),
            ("store.arithmetic", options.arithmetic == new.store.options.arithmetic),
            ("store.capacity", *capacity == new.store.capacity),
            ("store.snapshot", *snapshot == new.store.snapshot),
            ("log.format", *format == new.log.format),
            ("log.access", *access == new.log.access),
            ("log.decisions", *decisions == new.log.decisions),
            ("log.schema", *schema == new.log.schema),
            ("log.style", *style == new.log.style),
            ("log.retention", *retention == new.log.retention),
            ("otel.endpoint", collector(&self.otel) == collector(&new.otel)),
            ("otel.sample", !has_both || sample == new_sample),
            ("otel.logs", !has_both || logs == new_logs),
        ] {
            if !stays {
                let spot = spot_of(key, root).unwrap_or_else(|| Spot::whole(file));
                let message = format!("`{key}` cannot change while the gate runs");
                f.error(&spot, message, "restart the gate to change it");
            }
        }
    }
}

fn named_addresses(endpoint: &Endpoint) -> (Arc<str>, Vec<ListenAddress>) {
    (Arc::clone(&endpoint.name), endpoint.listen.clone())
}

/// Compares addresses without their order, which means nothing.
fn same<T: Eq + Hash>(one: &[T], other: &[T]) -> bool {
    one.iter().collect::<HashSet<_>>() == other.iter().collect()
}

/// The spot of a key's value; `None` if the key is absent.
fn spot_of(key: &str, root: &TomlTable) -> Option<Spot> {
    match key.split_once('.') {
        None => root.get(key).map(|entry| entry.node.spot.clone()),
        Some((section, key)) => match &root.get(section)?.node.value {
            TomlValue::Table(table) => spot_of(key, table),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Sources, load, load_again};
    use super::*;

    const FILE: &str = "listen = [\"http://127.0.0.1:8080\", \"http://[::1]:8080\"]\n\
                        upstream = \"http://127.0.0.1:8081\"\n\
                        [route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"10/min\"\n";

    /// The diagnostics of this file for a gate that runs with [`FILE`].
    fn diagnostics(text: &str, set: &[(&str, &str)]) -> Vec<String> {
        let running = RestartOnly::of(&load(&Sources::from_text("gate.toml", FILE)).config.unwrap());
        let set = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let loaded = load_again(&Sources::from_text("gate.toml", text).with_set(set), &running);
        assert_eq!(loaded.config.is_none(), !loaded.diagnostics.is_empty());
        loaded.diagnostics.iter().map(|diagnostic| diagnostic.render(false)).collect()
    }

    #[test]
    fn what_can_be_taken_over_is_not_a_mistake() {
        let text = FILE.replace(":8081", ":8082").replace("10/min", "1/h") + "[proxy]\nclient_max = 5\n";
        assert_eq!(diagnostics(&text, &[("log.level", "debug")]), [""; 0]);
    }

    #[test]
    fn the_order_of_addresses_is_not_a_change() {
        let turned = FILE.replace(
            "\"http://127.0.0.1:8080\", \"http://[::1]:8080\"",
            "\"http://[::1]:8080\", \"http://127.0.0.1:8080\"",
        );
        assert_eq!(diagnostics(&turned, &[]), [""; 0]);
    }

    #[test]
    fn every_key_that_needs_a_restart_is_named_where_it_stands() {
        let text = FILE.replace("http://[::1]:8080", "http://[::1]:9090");
        let found = diagnostics(
            &text,
            &[
                ("proxy.threads", "7"),
                ("store.capacity", "5"),
                ("admin.listen", "unix:/run/admin.sock"),
                ("log.format", "json"),
                ("log.access", "access.log"),
                ("log.style", "json"),
                ("log.decisions", "-"),
                ("log.schema", "ocsf"),
                ("log.retention", "30d"),
                ("otel.endpoint", "http://127.0.0.1:4318"),
                ("sandbox", "off"),
            ],
        );
        assert_eq!(found.len(), 12, "{found:?}");
        assert_eq!(
            found[0],
            "error: `listen` cannot change while the gate runs\n --> gate.toml:1:10\n  |\n\
             1 | listen = [\"http://127.0.0.1:8080\", \"http://[::1]:9090\"]\n  |          \
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ restart the gate to change it\n"
        );
        let others = [
            "admin.listen",
            "log.access",
            "log.decisions",
            "log.format",
            "log.retention",
            "log.schema",
            "log.style",
            "otel.endpoint",
            "proxy.threads",
            "sandbox",
            "store.capacity",
        ];
        for (key, found) in others.iter().zip(&found[1..]) {
            assert!(found.contains(&format!("`{key}`")) && found.contains("restart the gate"), "{found}");
        }
    }

    #[test]
    fn every_key_of_the_store_needs_a_restart() {
        let secret = "0123456789abcdef0123456789abcdef";
        for (key, set) in [
            ("store.url", vec![("store.url", "redis://127.0.0.1:1"), ("store.secret", secret)]),
            ("store.prefix", vec![("store.prefix", "other")]),
            ("store.secret", vec![("store.secret", secret)]),
            ("store.timeout", vec![("store.timeout", "70ms")]),
            ("store.on_error", vec![("store.on_error", "deny")]),
            ("store.arithmetic", vec![("store.arithmetic", "gate")]),
            ("store.capacity", vec![("store.capacity", "5")]),
            ("store.snapshot", vec![("store.snapshot", "buckets")]),
        ] {
            let found = diagnostics(FILE, &set);
            let words = format!("`{key}` cannot change while the gate runs");
            assert!(found.iter().any(|diagnostic| diagnostic.contains(&words)), "{key}: {found:?}");
        }
    }

    #[test]
    fn a_key_that_is_left_out_is_named_for_the_file_as_a_whole() {
        let running = RestartOnly::of(
            &load(&Sources::from_text("gate.toml", &format!("{FILE}[store]\ncapacity = 5\n")))
                .config
                .unwrap(),
        );
        let found = load_again(&Sources::from_text("gate.toml", FILE), &running).diagnostics;
        assert_eq!(
            found[0].render(false),
            "error: `store.capacity` cannot change while the gate runs\n--> gate.toml\n = help: restart the gate to \
             change it\n"
        );
    }
}
