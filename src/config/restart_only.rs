//! Settings that need a restart: sockets, threads, tables of buckets, the streams of the logs.
//!
//! A file that changes one of these is refused as a whole, because half a file is nobody's intention. The surprising
//! thing: a key that is wrong is compared as well, by its default, so it may be reported twice.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use super::diagnostic::{Findings, SourceText, Spot};
use super::document::{TomlTable, TomlValue};
use super::{Config, StoreSettings};
use crate::net::listener::ListenAddress;
use crate::observe::settings::LogSettings;

/// The settings of a running gate that stay until it ends.
#[derive(Debug, Clone, PartialEq)]
pub struct RestartOnly {
    listen: Vec<ListenAddress>,
    admin: Vec<ListenAddress>,
    sandbox: bool,
    threads: usize,
    store: StoreSettings,
    /// All but `level` and `clients`.
    log: LogSettings,
}

impl RestartOnly {
    /// Those of this configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self {
            listen: config.listen.clone(),
            admin: config.admin.clone(),
            sandbox: config.sandbox,
            threads: config.proxy.threads,
            store: config.store.clone(),
            log: config.log.clone(),
        }
    }

    /// Names every key whose value is another one in the file that was read again.
    pub(super) fn report_changes(
        &self,
        wanted: &Self,
        root: &TomlTable,
        file: &Arc<SourceText>,
        f: &mut Findings,
    ) {
        for (key, stays) in [
            ("listen", same(&self.listen, &wanted.listen)),
            ("sandbox", self.sandbox == wanted.sandbox),
            ("proxy.threads", self.threads == wanted.threads),
            ("admin.listen", same(&self.admin, &wanted.admin)),
            ("store.url", self.store.address == wanted.store.address),
            ("store.prefix", self.store.names == wanted.store.names),
            ("store.secret", self.store.secret == wanted.store.secret),
            ("store.timeout", self.store.options.timeout == wanted.store.options.timeout),
            ("store.on_error", self.store.options.on_error == wanted.store.options.on_error),
            ("store.capacity", self.store.capacity == wanted.store.capacity),
            ("log.format", self.log.format == wanted.log.format),
            ("log.access", self.log.access == wanted.log.access),
            ("log.style", self.log.style == wanted.log.style),
        ] {
            if !stays {
                let spot = spot_of(key, root).unwrap_or_else(|| Spot::whole(file));
                let message = format!("`{key}` cannot change while the gate runs");
                f.error(&spot, message, "restart the gate to change it");
            }
        }
    }
}

/// The order of addresses says nothing.
fn same<T: Eq + Hash>(one: &[T], other: &[T]) -> bool {
    one.iter().collect::<HashSet<_>>() == other.iter().collect()
}

/// Where a key's value stands; `None` for one that is left out.
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

    /// What is said of this file beside a gate that runs with [`FILE`].
    fn said(text: &str, set: &[(&str, &str)]) -> Vec<String> {
        let running = RestartOnly::of(&load(&Sources::from_text("gate.toml", FILE)).config.unwrap());
        let set = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let loaded = load_again(&Sources::from_text("gate.toml", text).with_set(set), &running);
        assert_eq!(loaded.config.is_none(), !loaded.diagnostics.is_empty());
        loaded.diagnostics.iter().map(|diagnostic| diagnostic.render(false)).collect()
    }

    #[test]
    fn what_can_be_taken_over_is_not_a_mistake() {
        let text = FILE.replace(":8081", ":8082").replace("10/min", "1/h") + "[proxy]\nclient_max = 5\n";
        assert_eq!(said(&text, &[("log.level", "debug")]), [""; 0]);
    }

    #[test]
    fn the_order_of_addresses_is_not_a_change() {
        let turned = FILE.replace(
            "\"http://127.0.0.1:8080\", \"http://[::1]:8080\"",
            "\"http://[::1]:8080\", \"http://127.0.0.1:8080\"",
        );
        assert_eq!(said(&turned, &[]), [""; 0]);
    }

    #[test]
    fn every_key_that_needs_a_restart_is_named_where_it_stands() {
        let text = FILE.replace("http://[::1]:8080", "http://[::1]:9090");
        let said = said(
            &text,
            &[
                ("proxy.threads", "7"),
                ("store.capacity", "5"),
                ("admin.listen", "unix:/run/admin.sock"),
                ("log.format", "json"),
                ("log.access", "access.log"),
                ("log.style", "json"),
                ("sandbox", "off"),
            ],
        );
        assert_eq!(said.len(), 8, "{said:?}");
        assert_eq!(
            said[0],
            "error: `listen` cannot change while the gate runs\n --> gate.toml:1:10\n  |\n\
             1 | listen = [\"http://127.0.0.1:8080\", \"http://[::1]:9090\"]\n  |          \
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ restart the gate to change it\n"
        );
        let others = [
            "admin.listen",
            "log.access",
            "log.format",
            "log.style",
            "proxy.threads",
            "sandbox",
            "store.capacity",
        ];
        for (key, said) in others.iter().zip(&said[1..]) {
            assert!(said.contains(&format!("`{key}`")) && said.contains("restart the gate"), "{said}");
        }
    }

    #[test]
    fn a_key_that_is_left_out_is_named_for_the_file_as_a_whole() {
        let running = RestartOnly::of(
            &load(&Sources::from_text("gate.toml", &format!("{FILE}[store]\ncapacity = 5\n")))
                .config
                .unwrap(),
        );
        let said = load_again(&Sources::from_text("gate.toml", FILE), &running).diagnostics;
        assert_eq!(
            said[0].render(false),
            "error: `store.capacity` cannot change while the gate runs\n--> gate.toml\n = help: restart the gate to \
             change it\n"
        );
    }
}
